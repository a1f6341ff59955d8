// SPDX-License-Identifier: Apache-2.0

//! A day in the life of a healthy robot, judged: `simulator --day HOURS`.
//!
//! A node on system time and one on simulated time have the sources of the [`scenario`](crate::scenario), each with the
//! conditions that an operator writes for it by docs/health.md. Every message goes through the library's recorder, its
//! windows through schedule and judges. Meanwhile [`harmless`] events leave the topics healthy: any level but OK is a
//! failure. Then [`harmful`] faults are injected one by one: each has to raise its level within the time of
//! docs/health.md, and to be cleared after it has ended.

mod disturbances;
mod harmful;
mod harmless;
pub(crate) mod robot;
mod state;

use crate::clocks::S;
use state::Day;

/// Runs the hours. Returns the events as text, or the first false alarm or missed fault.
pub fn run(seed: u64, hours: f64) -> Result<String, String> {
    let mut day = Day::new(seed);
    day.is_disturbed = true;
    day.run_until(day.started + (hours * 3600.0 * S as f64) as i64)?;
    let healthy = day.summary();
    let found = harmful::run(seed).map_err(|error| format!("{error}\n{healthy}"))?;
    Ok(format!("{healthy}\n{found}"))
}
