// SPDX-License-Identifier: Apache-2.0

//! Finds a failure in the smallest possible world.

use crate::{faults::Fault, plan::Plan, world::World};

/// Makes the plan of a failed world smaller as long as it still fails. Returns the failure of the smallest plan, with
/// the last events.
pub fn shrink(seed: u64, world: u64) -> String {
    let mut plan = Plan::new(seed, world);
    let fails = |plan: &Plan| World::new(plan.clone()).run(false).1.is_err();
    let mut is_smaller = true;
    while is_smaller {
        is_smaller = false;
        let faults = Fault::ALL.iter().filter(|fault| plan.has(**fault)).map(|fault| plan.without(*fault));
        let mut smaller: Vec<Plan> = faults.collect();
        let sizes = [(plan.subscriptions, plan.publishers), (1, plan.publishers), (plan.subscriptions, 1)];
        for (subscriptions, publishers) in sizes.into_iter().skip(1).filter(|size| *size != sizes[0]) {
            smaller.push(Plan { subscriptions, publishers, ..plan.clone() });
        }
        if plan.is_simulated {
            smaller.push(Plan { is_simulated: false, ..plan.clone() });
        }
        for windows in [plan.windows / 2, plan.windows * 9 / 10] {
            smaller.push(Plan { windows, ..plan.clone() });
        }
        if let Some(found) = smaller.into_iter().find(|smaller| smaller.windows > 0 && fails(smaller)) {
            (plan, is_smaller) = (found, true);
        }
    }
    let (_, result) = World::new(plan).run(true);
    format!("The smallest world found that fails, {}", result.err().unwrap_or_default())
}
