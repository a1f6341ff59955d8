// SPDX-License-Identifier: Apache-2.0

//! A deterministic simulator of a node's statistics, from one seed.
//!
//! A [`world`](world::World) has publishers, a network, callbacks and clocks, and injects [`faults`]. The world drives
//! the core's recorder, collectors, schedule, loss events and totals, with simulated time and without a thread. For
//! each source an [`oracle`] keeps every sample, and computes in the simplest way what the library must publish. After
//! every window, all figures, totals and events are compared. Beside each world, two more worlds are simulated: one
//! with sources of equal [`names`], and one with [`hops`]. The soak test checks the health of real nodes with the same
//! oracle, for the same topics and disturbances (the [`scenario`]).

mod check;
mod clocks;
pub mod day;
mod delay;
mod equal;
pub mod faults;
mod hops;
mod measured;
mod names;
pub mod oracle;
mod plan;
pub mod scenario;
mod shrink;
mod world;

use std::{
    iter,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use faults::Tally;
use plan::Plan;
pub use shrink::shrink;
use world::World;

/// The first failure of a world.
pub struct Failure {
    pub world: u64,
    pub error: String,
    /// Whether the plan (the setup) of the failed world can be made smaller. The worlds of equal names and of hops have
    /// no plan.
    pub can_shrink: bool,
}

impl Failure {
    fn find(seed: u64, world: u64) -> (Tally, Option<Self>) {
        let (mut tally, result) = World::new(Plan::new(seed, world)).run(false);
        let failure = |error, can_shrink| Self { world, error, can_shrink };
        if let Err(error) = result {
            return (tally, Some(failure(error, true)));
        }
        let (windows, result) = names::World::new(seed, world).run();
        tally.named = windows;
        if let Err(error) = result {
            return (tally, Some(failure(error, false)));
        }
        let (of_hops, result) = hops::World::new(seed, world).run();
        tally.add(&of_hops);
        (tally, result.err().map(|error| failure(error, false)))
    }
}

/// Simulates worlds until this number of windows is compared. Returns the sum of the counts, and the failure of the
/// first world that failed.
///
/// The seed and the number of windows decide which worlds are simulated; the number of threads does not.
pub fn simulate(seed: u64, windows: u64, threads: u64) -> (Tally, Option<Failure>) {
    // Worlds run in batches, and only whole batches are counted.
    const BATCH: u64 = 16;
    let mut sum = Tally::default();
    let mut first = 0;
    while sum.windows < windows {
        let next = AtomicU64::new(first);
        let simulate = || {
            let worlds = iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            let worlds = worlds.take_while(|world| *world < first + BATCH);
            worlds.map(|world| (world, Failure::find(seed, world))).collect::<Vec<_>>()
        };
        let mut results: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(simulate)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no world panics")).collect()
        });
        results.sort_by_key(|(world, _)| *world);
        for (_, (tally, failure)) in results {
            sum.add(&tally);
            if failure.is_some() {
                return (sum, failure);
            }
        }
        first += BATCH;
    }
    (sum, None)
}
