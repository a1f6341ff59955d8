// SPDX-License-Identifier: Apache-2.0

//! A healthy robot's day, judged by the library: `simulator --day HOURS`.
//!
//! Two nodes, one with system time and one with simulated time, have the sources of the [`scenario`](crate::scenario).
//! Each source has the conditions that an operator would write after reading docs/health.md. The library's recorder,
//! schedule and judges process every message. First only [`harmless`] events happen, so any level but OK is a failure.
//! Then [`harmful`] faults are injected one by one: the library must raise a level for each fault, and later clear it,
//! within the times in docs/health.md.

mod disturbances;
mod harmful;
mod harmless;
pub(crate) mod robot;
mod state;

use crate::clocks::S;
use state::Day;

/// Simulates this number of hours. Returns the events as text, or the first false alarm or missed fault.
pub fn run(seed: u64, hours: f64) -> Result<String, String> {
    let mut day = Day::new(seed);
    day.is_disturbed = true;
    day.run_until(day.started + (hours * 3600.0 * S as f64) as i64)?;
    let healthy = day.summary();
    let found = harmful::run(seed).map_err(|error| format!("{error}\n{healthy}"))?;
    Ok(format!("{healthy}\n{found}"))
}
