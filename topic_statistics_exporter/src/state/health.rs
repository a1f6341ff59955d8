// SPDX-License-Identifier: Apache-2.0

//! The health of a source, and its windows by health.

use std::time::SystemTime;

use topic_statistics_core::health::Level;
use topic_statistics_observe::{bounds::Sender, ros::wire::ExpectedLimit};

use super::{now::Now, receipt::Receipt};
use crate::model::{SourceHealth, SourceName};

/// A source and who judges it: its node, `topic_monitor`, or both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Judged {
    /// The source.
    pub source: SourceName,
    /// The name of the judging node, without its namespace.
    pub judge: Box<str>,
}

/// The health of a source, as one node judges it.
#[derive(Debug)]
pub struct HealthState {
    pub(super) receipt: Receipt,
    /// The last level.
    pub level: Level,
    /// Messages per second, counted over as many windows as that takes.
    pub rate: Option<f64>,
    /// The limits that its conditions set, in the units of their quantities.
    pub limits: Vec<ExpectedLimit>,
    /// The windows judged since the first status, by level.
    windows: [u64; 4],
    /// The judge's own counts in the last status, and who sent it.
    counted: Option<(Sender, [u64; 4])>,
    /// When the first status was received: the windows are counted from then on.
    pub created: SystemTime,
}

impl HealthState {
    /// How many time series it has besides the limits: level, rate, and windows by level.
    const SERIES: usize = 2 + Level::ALL.len();

    pub(super) fn new(receipt: Receipt, now: Now) -> Self {
        Self {
            receipt,
            level: Level::Ok,
            rate: None,
            limits: vec![],
            windows: [0; 4],
            counted: None,
            created: now.system,
        }
    }

    /// Takes what a status says. It has the judge's own count of windows, so no window counts twice, however often and
    /// on whatever topics it is reported.
    ///
    /// The first status of a judge has the windows of an unknown time: only the later ones are added. A judge that
    /// started again is another sender, or counts fewer windows than before.
    pub(super) fn accept(&mut self, health: &SourceHealth, level: Level, sender: Sender, now: Now) {
        if let (Some((before_sender, before)), Some(counts)) = (self.counted, health.windows) {
            let is_later = before.iter().zip(&counts).all(|(before, count)| before <= count);
            if sender == before_sender && is_later {
                for ((windows, before), count) in self.windows.iter_mut().zip(before).zip(counts) {
                    *windows = windows.saturating_add(count - before);
                }
            }
        }
        self.counted = health.windows.map(|counts| (sender, counts));
        (self.level, self.rate) = (level, health.rate);
        self.limits.clone_from(&health.limits);
        self.receipt.last = now.monotonic;
    }

    /// Returns the windows judged to be of that level since the first status.
    pub fn windows(&self, level: Level) -> u64 {
        self.windows[level as usize]
    }

    /// Returns how many time series it is with these limits.
    pub(super) fn series(limits: &[ExpectedLimit]) -> usize {
        Self::SERIES + limits.len()
    }
}
