// SPDX-License-Identifier: Apache-2.0

//! Gaps: periods of a bag in which messages may be missing because a part of a file could not be read.

use std::collections::VecDeque;

/// The gaps of a bag: periods in which messages may be missing. The statistics of a window with a gap are unknown.
///
/// A gap begins after the latest message before the unreadable part of the file, and ends with the next readable
/// message.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// The start and end of each finished gap, in the order of the bag.
    closed: VecDeque<(i64, i64)>,
    /// The start of the current gap, which ends with the next message. `None` if there is no current gap.
    open: Option<i64>,
    /// The time of the latest message.
    latest: Option<i64>,
}

impl Gaps {
    /// The largest number of separate gaps. Further gaps are merged with the last gap.
    const MAX: usize = 1000;

    /// Begins a gap after the latest message, or at `start` if `start` is known and earlier.
    pub(crate) fn begin(&mut self, start: Option<i64>) {
        let behind = self.latest.map_or(i64::MIN, |latest| latest.saturating_add(1));
        let from = start.map_or(behind, |start| start.min(behind));
        self.open = Some(self.open.map_or(from, |open| open.min(from)));
    }

    /// Accepts a message with this time. Messages have to be accepted in the order of the bag.
    pub(crate) fn accept(&mut self, time: i64) {
        if let Some(from) = self.open.take() {
            self.close(from, time.max(from));
        }
        self.latest = self.latest.max(Some(time));
    }

    /// Ends the current gap at the end of the bag.
    pub(crate) fn finish(&mut self) {
        if let Some(from) = self.open.take() {
            self.close(from, i64::MAX);
        }
    }

    fn close(&mut self, from: i64, to: i64) {
        let is_full = self.closed.len() >= Self::MAX;
        match self.closed.back_mut().filter(|_| is_full) {
            Some(last) => *last = (last.0.min(from), last.1.max(to)),
            None => self.closed.push_back((from, to)),
        }
    }

    /// Returns whether a gap overlaps the period from `start` to just before `stop`.
    #[inline]
    pub(crate) fn overlaps(&self, start: i64, stop: i64) -> bool {
        self.closed.iter().any(|(from, to)| *from < stop && *to >= start)
    }

    /// Removes the gaps that end before a time.
    pub(crate) fn forget_before(&mut self, start: i64) {
        self.closed.retain(|(_, to)| *to >= start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_between_the_messages_around_it() {
        let mut gaps = Gaps::default();
        gaps.accept(10);
        gaps.accept(20);
        gaps.begin(Some(25));
        gaps.begin(None);
        gaps.accept(30);
        gaps.accept(40);
        let overlaps = |gaps: &Gaps| {
            [(10, 20), (10, 21), (25, 26), (30, 31), (31, 40)].map(|(a, b)| gaps.overlaps(a, b))
        };
        assert_eq!(overlaps(&gaps), [false, false, true, true, false]);
        assert!(gaps.overlaps(21, 22));
        gaps.begin(Some(15));
        gaps.finish();
        assert_eq!(overlaps(&gaps), [true; 5]);
        gaps.forget_before(31);
        assert!(gaps.overlaps(31, 32) && gaps.closed.len() == 1);
    }

    #[test]
    fn their_number_has_a_bound() {
        let mut gaps = Gaps::default();
        for time in 0..10_000 {
            gaps.begin(None);
            gaps.accept(time);
        }
        assert_eq!(gaps.closed.len(), Gaps::MAX);
        assert!(gaps.overlaps(9_999, 10_000) && gaps.overlaps(5_000, 5_001));
    }
}
