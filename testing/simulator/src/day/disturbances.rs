// SPDX-License-Identifier: Apache-2.0

//! The disturbances that leave the topics healthy, and their counts.

use std::{collections::VecDeque, fmt};

use crate::clocks::S;

/// How often each disturbance happened, and the last ones.
#[derive(Default)]
pub struct Disturbances {
    pub counts: [u64; KINDS.len()],
    pub last: VecDeque<String>,
    /// Whether the statistics are turned off now.
    pub is_off: bool,
    /// The stream whose next end of a window is delayed, and the delay.
    pub hold: Option<(usize, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Step,
    Slew,
    Suspend,
    LateThread,
    HeldEnd,
    Jump,
    Restart,
    Period,
    Distributions,
    Off,
}

pub const KINDS: [(Kind, &str); 10] = [
    (Kind::Step, "the system clock is stepped"),
    (Kind::Slew, "the system clock is slewed"),
    (Kind::Suspend, "the host is suspended"),
    (Kind::LateThread, "the thread that ends the windows is late"),
    (Kind::HeldEnd, "that thread is held up under the lock, and messages are only counted"),
    (Kind::Jump, "simulated time jumps"),
    (Kind::Restart, "a publisher restarts"),
    (Kind::Period, "the publish period is set"),
    (Kind::Distributions, "distributions are switched on or off"),
    (Kind::Off, "the statistics are off for some seconds"),
];

impl Disturbances {
    pub fn note(&mut self, kind: Kind, at: i64, text: &str) {
        self.counts[KINDS.iter().position(|(listed, _)| *listed == kind).unwrap_or(0)] += 1;
        self.last.truncate(9);
        self.last.push_front(format!("{:.1} s: {kind:?} {text}", at as f64 / S as f64));
    }

    pub fn last(&self) -> String {
        self.last.iter().map(|text| format!("\n    {text}")).collect()
    }
}

impl fmt::Display for Disturbances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((_, text), count) in KINDS.iter().zip(self.counts) {
            writeln!(f, "{count:>9}  {text}")?;
        }
        Ok(())
    }
}
