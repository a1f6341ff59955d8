// SPDX-License-Identifier: Apache-2.0

//! The health of a source, and its windows by health.

use std::time::{Instant, SystemTime};

use super::now::Now;
use crate::model::{ExpectedLimit, Level, SourceHealth};

/// The health of a source, as its node or topic_monitor judges it.
#[derive(Debug)]
pub struct HealthState {
    /// The last level.
    pub level: Level,
    /// Messages per second, counted over as many windows as that takes.
    pub rate: Option<f64>,
    /// The limits that its conditions set.
    pub limits: Vec<ExpectedLimit>,
    /// The windows received while the level was OK, WARN, ERROR and STALE.
    windows: [u64; 4],
    pub(super) last_received: Instant,
    /// When the first status was received: the windows are counted from then on.
    pub created: SystemTime,
}

impl HealthState {
    /// How many time series it has besides the limits: level, rate, and windows by level.
    const SERIES: usize = 2 + Self::LEVELS.len();
    /// The levels, in the order of the counters.
    pub const LEVELS: [Level; 4] = [Level::Ok, Level::Warn, Level::Error, Level::Stale];

    pub(super) fn new(health: SourceHealth, level: Level, now: Now) -> Self {
        let SourceHealth { rate, limits, .. } = health;
        Self { level, rate, limits, windows: [0; 4], last_received: now.monotonic, created: now.system }
    }

    pub(super) fn accept(&mut self, health: SourceHealth, level: Level, now: Instant) {
        (self.level, self.rate, self.limits, self.last_received) = (level, health.rate, health.limits, now);
    }

    /// Counts a window that is received now.
    pub(super) fn add_window(&mut self) {
        self.windows[self.level as usize] += 1;
    }

    /// Returns the windows received while the level was that.
    pub fn windows(&self, level: Level) -> u64 {
        self.windows[level as usize]
    }

    /// Returns how many time series it is with these limits.
    pub(super) fn series(limits: &[ExpectedLimit]) -> usize {
        Self::SERIES + limits.len()
    }
}
