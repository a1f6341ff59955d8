// SPDX-License-Identifier: Apache-2.0

//! Counters whose first increase a scraper sees.

/// A counter whose first increase a scraper sees.
///
/// A scraper subtracts two values of a time series. A counter that appears with a value has no earlier one, and
/// `increase()` is 0. So the first scrape with the counter has 0, and the next one its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstZero {
    count: u64,
    /// The scrapes with it, up to 2.
    scrapes: u8,
}

impl FirstZero {
    pub(super) fn add(&mut self, more: u64) {
        self.count = self.count.saturating_add(more);
    }

    /// A scrape begins.
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

    /// Returns the count, for a report that says since when it counts.
    pub fn count(self) -> u64 {
        self.count
    }
}
