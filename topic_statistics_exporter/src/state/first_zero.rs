// SPDX-License-Identifier: Apache-2.0

//! Counters that are 0 in their first scrape, so that a scraper sees their first increase.

/// A counter that is 0 in its first scrape, so that a scraper sees its first increase.
///
/// Prometheus computes an increase from two values of a time series. If a counter first appears with a value above 0,
/// there is no earlier value, and `increase()` is 0. So the first scrape returns 0, and later scrapes return the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstZero {
    count: u64,
    /// The number of scrapes since the counter was created. After the second scrape, this number stays 2.
    scrapes: u8,
}

impl FirstZero {
    pub(super) fn add(&mut self, more: u64) {
        self.count = self.count.saturating_add(more);
    }

    /// Counts a scrape that begins.
    pub(super) fn begin_scrape(&mut self) {
        self.scrapes = self.scrapes.saturating_add(1).min(2);
    }

    /// Returns the count, or 0 in the first scrape.
    pub fn scraped(self) -> u64 {
        if self.scrapes == 1 {
            0
        } else {
            self.count
        }
    }

    /// Returns the count. This is for an output such as OTLP, which also sends the time when the counter was 0.
    pub fn count(self) -> u64 {
        self.count
    }
}
