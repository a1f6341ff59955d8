// SPDX-License-Identifier: Apache-2.0

//! The setup of a world.

use std::fmt;

use fastrand::Rng;

use crate::faults::Fault;

/// The setup of a world. It follows from the seed and the number of the world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the world's random numbers.
    pub seed: u64,
    /// If bit n is set, fault n of [`Fault::ALL`] is injected.
    pub faults: u64,
    pub subscriptions: usize,
    /// The number of publishers of each topic.
    pub publishers: usize,
    /// The approximate number of messages of a publisher in a window.
    pub rate: i64,
    /// The number of windows after which the world ends.
    pub windows: u64,
    /// Whether the node runs on simulated time.
    pub is_simulated: bool,
}

impl Plan {
    pub fn new(seed: u64, world: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ world.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut faults = 0;
        for (bit, fault) in Fault::ALL.iter().enumerate() {
            // Each world has only some of the faults, because with fewer faults the oracle knows more figures exactly.
            let one_in = match fault {
                Fault::Crowd | Fault::Unnumbered | Fault::UnknownMiddleware => 12,
                _ => 3,
            };
            faults |= u64::from(random.u32(..one_in) == 0) << bit;
        }
        Self {
            seed: random.u64(..),
            faults,
            subscriptions: random.usize(1..4),
            publishers: random.usize(1..4),
            rate: [1, 3, 10, 30][random.usize(..4)],
            windows: 200,
            is_simulated: random.u32(..4) == 0,
        }
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.faults >> (fault as u32) & 1 == 1
    }

    pub fn without(&self, fault: Fault) -> Self {
        Self { faults: self.faults & !(1 << (fault as u32)), ..self.clone() }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subscriptions, publishers, rate, windows, is_simulated, .. } = self;
        let faults: Vec<_> =
            Fault::ALL.iter().filter(|fault| self.has(**fault)).map(|fault| fault.text()).collect();
        write!(
            f,
            "{subscriptions} subscriptions, {publishers} publishers of each topic, about {rate} messages a window, \
             {windows} windows, simulated time: {is_simulated}; faults: {}",
            if faults.is_empty() { "none".to_owned() } else { faults.join(", ") }
        )
    }
}
