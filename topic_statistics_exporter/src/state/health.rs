// SPDX-License-Identifier: Apache-2.0

//! The health of a source, and the number of the source's windows for each level of health.

use std::time::SystemTime;

use topic_statistics_core::health::Level;
use topic_statistics_observe::{
    bounds::Sender,
    ros::wire::{ExpectedLimit, SourceHealth},
};

use super::{budget::Receipt, life::Now};
use crate::model::SourceName;

/// A source and a judge of this source: a node that compares the source's windows with conditions. The judge is the
/// source's node or `topic_monitor`. A source can have both judges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Judged {
    pub source: SourceName,
    /// The name of the node that judges the source, without a namespace.
    pub judge: Box<str>,
}

#[derive(Debug)]
pub struct HealthState {
    pub(super) receipt: Receipt,
    pub level: Level,
    /// Messages per second. The judge measures this rate over as many windows as a reliable rate needs.
    pub rate: Option<f64>,
    /// The limits in the source's conditions, each in the unit of its quantity.
    pub limits: Vec<ExpectedLimit>,
    /// For each level, the number of windows that the judge has given this level since the first status was received.
    windows: [u64; 4],
    /// The counts of windows in the last status, and the sender of that status.
    counted: Option<(Sender, [u64; 4])>,
    /// When the first status was received. The exporter counts windows from this time on.
    pub created: SystemTime,
}

impl HealthState {
    /// The number of time series of a health without its limits: the level, the rate, and the windows for each level.
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

    /// Updates the health from a status. A status contains the counts of all windows that the judge has judged so far.
    /// Only the increase of these counts is added, so no window is counted twice if a status is received repeatedly.
    ///
    /// It is unknown when the judge began to count, so only windows after the first received status are added. After a
    /// restart of the judge, too, only windows after the first received status are added. The judge has restarted if
    /// the status has another sender than the previous status, or if a count is lower than before.
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

    pub fn windows(&self, level: Level) -> u64 {
        self.windows[level as usize]
    }

    pub(super) fn series(limits: &[ExpectedLimit]) -> usize {
        Self::SERIES + limits.len()
    }
}
