// SPDX-License-Identifier: Apache-2.0

//! The bound of the time series, and why something was not added.

/// How many time series there are, at most.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    used: usize,
    max: usize,
}

/// Why something valid was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// The window was counted already.
    Duplicate,
    /// The samples span too many orders of magnitude.
    TooWide,
    /// There are as many time series as there may be.
    BeyondMaxSeries,
}

impl Budget {
    pub fn new(max: usize) -> Self {
        Self { used: 0, max }
    }

    /// Returns how many time series are reserved.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Reserves time series, if enough are left.
    pub fn reserve(&mut self, series: usize) -> Result<(), NotAdded> {
        let used = self.used.saturating_add(series);
        if used > self.max {
            return Err(NotAdded::BeyondMaxSeries);
        }
        self.used = used;
        Ok(())
    }

    pub fn release(&mut self, series: usize) {
        self.used = self.used.saturating_sub(series);
    }
}
