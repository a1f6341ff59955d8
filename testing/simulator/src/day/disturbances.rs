// SPDX-License-Identifier: Apache-2.0

//! Counts the disturbances, such as lost messages and clock steps, that the simulator causes in the simulated day of a
//! robot.

use std::{collections::VecDeque, fmt};

use crate::{
    clocks::S,
    scenario::{Disturbance, Kind, DISTURBANCES},
};

/// The number of disturbances of each kind, and the texts of the last disturbances.
#[derive(Default)]
pub struct Disturbances {
    pub counts: [u64; DISTURBANCES.len()],
    pub last: VecDeque<String>,
    pub is_off: bool,
}

impl Disturbances {
    pub fn note(&mut self, kind: Kind, at: i64, text: &str) {
        self.counts[DISTURBANCES.iter().position(|listed| listed.kind == kind).unwrap_or(0)] += 1;
        self.last.truncate(9);
        self.last.push_front(format!("{:.1} s: {kind:?} {text}", at as f64 / S as f64));
    }

    pub fn last(&self) -> String {
        self.last.iter().map(|text| format!("\n    {text}")).collect()
    }
}

impl fmt::Display for Disturbances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (Disturbance { text, .. }, count) in
            DISTURBANCES.iter().zip(self.counts).filter(|(one, _)| one.is_simulated)
        {
            writeln!(f, "{count:>9}  {text}")?;
        }
        Ok(())
    }
}
