// SPDX-License-Identifier: Apache-2.0

//! Gaps: periods of a bag in which messages may be missing because a part of a file could not be read.

use std::collections::VecDeque;

/// Finds the gaps of a bag. A gap begins after the latest message before the unreadable part of the file, and ends with
/// the next readable message.
#[derive(Debug, Default)]
pub(crate) struct OpenGap {
    open: Option<i64>,
    latest: Option<i64>,
}

impl OpenGap {
    /// Begins a gap after the latest message, or at `start` if `start` is known and earlier.
    pub(crate) fn begin(&mut self, start: Option<i64>) {
        let behind = self.latest.map_or(i64::MIN, |latest| latest.saturating_add(1));
        let from = start.map_or(behind, |start| start.min(behind));
        self.open = Some(self.open.map_or(from, |open| open.min(from)));
    }

    /// Accepts the time of the next message of the bag. Returns the start and the end of the gap that ends here.
    pub(crate) fn end_at(&mut self, time: i64) -> Option<(i64, i64)> {
        self.latest = self.latest.max(Some(time));
        self.open.take().map(|from| (from, time.max(from)))
    }

    pub(crate) fn finish(&mut self) -> Option<(i64, i64)> {
        self.open.take().map(|from| (from, i64::MAX))
    }
}

/// The start and end of each gap that a later window can overlap, in the order of the bag.
#[derive(Debug, Default)]
pub(crate) struct Gaps(VecDeque<(i64, i64)>);

impl Gaps {
    /// The largest number of separate gaps. Further gaps are merged with the last gap.
    const MAX: usize = 1000;

    pub(crate) fn add(&mut self, (from, to): (i64, i64)) {
        let is_full = self.0.len() >= Self::MAX;
        match self.0.back_mut().filter(|_| is_full) {
            Some(last) => *last = (last.0.min(from), last.1.max(to)),
            None => self.0.push_back((from, to)),
        }
    }

    /// Returns whether a gap overlaps the period from `start` to just before `stop`.
    #[inline]
    pub(crate) fn overlaps(&self, start: i64, stop: i64) -> bool {
        self.0.iter().any(|(from, to)| *from < stop && *to >= start)
    }

    pub(crate) fn forget_before(&mut self, start: i64) {
        self.0.retain(|(_, to)| *to >= start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_number_has_a_bound() {
        let (mut gap, mut gaps) = (OpenGap::default(), Gaps::default());
        for time in 0..10_000 {
            gap.begin(None);
            gap.end_at(time).into_iter().for_each(|gap| gaps.add(gap));
        }
        assert_eq!(gaps.0.len(), Gaps::MAX);
        assert!(gaps.overlaps(9_999, 10_000) && gaps.overlaps(5_000, 5_001));
    }
}
