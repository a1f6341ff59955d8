// SPDX-License-Identifier: Apache-2.0

//! Gaps: periods of a bag in which messages may be missing because a part of a file could not be read.

use std::collections::VecDeque;

/// A period in which messages may be missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    /// The start and the end, both inclusive.
    from: i64,
    to: i64,
    /// A message is compared with the message of its topic before it if that one is at this time or later. [`i64::MAX`]
    /// if the end of the unreadable part is not known: then only messages of later windows are compared.
    until: i64,
}

impl Gap {
    fn join(self, other: Self) -> Self {
        Self {
            from: self.from.min(other.from),
            to: self.to.max(other.to),
            until: self.until.max(other.until),
        }
    }
}

/// Finds the gaps of a bag. A gap begins after the latest message before the unreadable part of the file, and ends with
/// the next readable message.
#[derive(Debug, Default)]
pub(crate) struct OpenGap {
    open: Option<Gap>,
    latest: Option<i64>,
}

impl OpenGap {
    /// Begins a gap after the latest message. `times` has the times of the first and the last message of the unreadable
    /// part, if they are known.
    pub(crate) fn begin(&mut self, times: Option<(i64, i64)>) {
        let behind = self.latest.map_or(i64::MIN, |latest| latest.saturating_add(1));
        let gap = match times {
            Some((start, end)) => Gap { from: start.min(behind), to: end, until: end.saturating_add(1) },
            None => Gap { from: behind, to: i64::MIN, until: i64::MAX },
        };
        self.open = Some(self.open.map_or(gap, |open| open.join(gap)));
    }

    /// Accepts the time of the next message of the bag. Returns the gap that ends here.
    pub(crate) fn end_at(&mut self, time: i64) -> Option<Gap> {
        self.latest = self.latest.max(Some(time));
        let gap = self.open.take()?;
        Some(Gap { to: gap.to.max(time).max(gap.from), until: gap.until.max(time), ..gap })
    }

    pub(crate) fn finish(&mut self) -> Option<Gap> {
        self.open.take().map(|gap| Gap { to: i64::MAX, until: i64::MAX, ..gap })
    }
}

/// The gaps that a later window can overlap, in the order of the bag.
#[derive(Debug, Default)]
pub(crate) struct Gaps(VecDeque<Gap>);

impl Gaps {
    /// The largest number of separate gaps. Further gaps are merged with the last gap.
    const MAX: usize = 1000;

    pub(crate) fn add(&mut self, gap: Gap) {
        let is_full = self.0.len() >= Self::MAX;
        match self.0.back_mut().filter(|_| is_full) {
            Some(last) => *last = last.join(gap),
            None => self.0.push_back(gap),
        }
    }

    /// Returns whether a gap overlaps the period from `start` to just before `stop`.
    #[inline]
    pub(crate) fn overlaps(&self, start: i64, stop: i64) -> bool {
        self.0.iter().any(|gap| gap.from < stop && gap.to >= start)
    }

    /// Returns whether messages of a topic may be missing between a message at `last` and the next one at `time`.
    #[inline]
    pub(crate) fn separates(&self, last: i64, time: i64) -> bool {
        self.0.iter().any(|gap| gap.from <= time && gap.until > last)
    }

    pub(crate) fn forget_before(&mut self, start: i64) {
        self.0.retain(|gap| gap.to >= start);
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
