// SPDX-License-Identifier: Apache-2.0

/// Counts lost, late and duplicate messages of a topic by the publication sequence numbers of the topic's publishers.
///
/// Publishers are distinguished by `Gid`, the middleware's identifier. A publisher that restarts has a new identifier.
/// At most [`PUBLISHERS`](Self::PUBLISHERS) publishers are followed, so memory is bounded. A further publisher replaces
/// the followed publisher with the longest silence. From then on, the totals are unknown.
///
/// Numbers are compared as serial numbers (RFC 1982): one number is later than another if it is ahead of the other by
/// less than half of all numbers. 0 follows `u64::MAX - 1`, because `u64::MAX` means "not supported" in rmw.
///
/// ```
/// use topic_statistics_core::collector::{Sequence, SequenceTracker};
///
/// let mut tracker = SequenceTracker::default();
/// assert_eq!(tracker.accept("camera", 17, 0), Sequence::First);
/// assert_eq!(tracker.accept("camera", 18, 1), Sequence::Next { gap: 0 });
/// assert_eq!(tracker.accept("camera", 21, 2), Sequence::Next { gap: 2 });
/// assert_eq!(tracker.totals().lost, Some(2));
/// assert_eq!(tracker.accept("camera", 19, 3), Sequence::Late);
/// assert_eq!(tracker.totals().lost, Some(1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct SequenceTracker<Gid> {
    publishers: Vec<FollowedPublisher<Gid>>,
    /// The index in `publishers` of the publisher of the last message.
    last: usize,
    /// The number of accepted messages. Each publisher stores the value that this number had at its last message. The
    /// smallest stored value shows which publisher has been silent for longest.
    messages: u64,
    publishers_seen: u64,
    /// The number of messages lost; [`UNKNOWN`] once a `u64` had no room for the number.
    lost: u64,
    out_of_order: u64,
    duplicates: u64,
    has_numbers: bool,
    has_messages_without: bool,
    has_lost_track: bool,
    /// How often a publisher was replaced. If a replaced publisher sends again, its earlier losses are not counted.
    evictions: u32,
}

/// The losses of the publishers that are followed. The difference between two values of this type is exact if no
/// publisher was replaced between the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    pub(crate) lost: u64,
    pub(crate) out_of_order: u64,
    pub(crate) evictions: u32,
}

/// What a message's sequence number says about the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// The message is the first of its publisher. Messages sent before the first message are not counted as lost.
    First,
    /// The number is later than all earlier numbers of the publisher.
    Next {
        /// The number of messages missing immediately before this message.
        gap: u64,
    },
    /// The number is before the latest number, and was not received yet. If the number is among the publisher's last 64
    /// numbers (the latest and the 63 before it), the losses are reduced by one. Otherwise the message may have been
    /// received before: the message counts as late, and the losses stay the same.
    Late,
    /// The number was received before, and is among the last 64 numbers of its publisher.
    Duplicate,
    /// The message has no number: the middleware does not support sequence numbers.
    Unsupported,
}

/// The totals of all accepted messages.
///
/// The first three totals are `None` before the first numbered message, and after a message without a number. Once a
/// topic has had more publishers than the collector can follow, all totals are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceTotals {
    /// Messages lost. The total is also `None` if it overflows. An overflow needs sequence numbers that no real
    /// publisher reaches.
    pub lost: Option<u64>,
    /// Messages received after a later message of the same publisher.
    pub out_of_order: Option<u64>,
    /// Messages received more than once.
    pub duplicates: Option<u64>,
    /// Publishers from which messages were received. A publisher that restarts is counted again.
    pub publishers_seen: Option<u64>,
}

/// A publisher that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedPublisher<Gid> {
    /// The identifier that the middleware gives the publisher.
    pub gid: Gid,
    /// Messages received, including duplicates.
    pub received: u64,
    /// The time of the last message, in nanoseconds.
    pub last_heard: i64,
    /// The value of `SequenceTracker::messages` when this publisher's last message was accepted.
    last_message: u64,
    /// The number of messages lost; [`UNKNOWN`] once a `u64` had no room for the number.
    lost: u64,
    out_of_order: u64,
    /// Whether the messages of this publisher are numbered.
    is_numbered: bool,
    /// The latest sequence number of the publisher.
    number: u64,
    /// Bit n stands for the sequence number `number - n`. The bit is set if a message with this number was received.
    seen: u64,
    /// The count of all sequence numbers from the publisher's first number to its latest number.
    span: u64,
    /// Whether the next message counts as the first message of this publisher.
    is_paused: bool,
}

impl<Gid: Copy + Eq> SequenceTracker<Gid> {
    /// The largest number of publishers that are followed.
    pub const PUBLISHERS: usize = 256;

    /// Accepts a message of a publisher, received at `now` (nanoseconds on any clock). The number `u64::MAX` means that
    /// the message is not numbered.
    #[inline]
    pub fn accept(&mut self, gid: Gid, number: u64, now: i64) -> Sequence {
        self.messages += 1;
        if number == u64::MAX {
            self.has_messages_without = true;
        } else {
            self.has_numbers = true;
        }
        if self.publishers.get(self.last).is_none_or(|publisher| publisher.gid != gid) {
            match self.publishers.iter().position(|publisher| publisher.gid == gid) {
                Some(index) => self.last = index,
                None => return self.follow(gid, number, now),
            }
        }
        let publisher = &mut self.publishers[self.last];
        publisher.received += 1;
        (publisher.last_heard, publisher.last_message) = (now, self.messages);
        let lost = publisher.lost;
        let sequence = publisher.add_number(number);
        if self.lost != UNKNOWN {
            // The total includes the losses that this publisher had before this message (`lost`). These losses are
            // replaced by the losses after this message.
            self.lost = (self.lost - lost).saturating_add(publisher.lost);
        }
        match sequence {
            Sequence::Late => self.out_of_order += 1,
            Sequence::Duplicate => self.duplicates += 1,
            _ => {}
        }
        sequence
    }

    /// Records that messages with unknown numbers were received. From then on, the totals are unknown.
    pub fn lose_track(&mut self) {
        self.has_lost_track = true;
    }

    /// Returns whether messages with unknown numbers were received: then every publisher's losses are unknown.
    pub(crate) fn has_lost_track(&self) -> bool {
        self.has_lost_track
    }

    /// Corrects the publishers' times of last messages after the host was suspended: moves each time before `start`
    /// back by the duration `by` of the suspend, because the monotonic clock does not count this duration.
    pub(crate) fn put_back(&mut self, start: i64, by: i64) {
        for publisher in self.publishers.iter_mut().filter(|publisher| publisher.last_heard < start) {
            publisher.last_heard = publisher.last_heard.saturating_sub(by);
        }
    }

    /// Returns whether the topic had more publishers than are followed.
    pub fn has_evicted(&self) -> bool {
        self.evictions > 0
    }

    pub(crate) fn evictions(&self) -> u32 {
        self.evictions
    }

    /// Returns the losses of the publishers that are followed; `None` if messages were not numbered or not measured.
    pub(crate) fn followed(&self) -> Option<Followed> {
        let is_known =
            self.has_numbers && !self.has_messages_without && !self.has_lost_track && self.lost != UNKNOWN;
        let Self { lost, out_of_order, evictions, .. } = *self;
        is_known.then_some(Followed { lost, out_of_order, evictions })
    }

    /// Makes the next message of each publisher count as its first message. Messages sent before that message are not
    /// counted as lost.
    pub fn pause(&mut self) {
        self.publishers.iter_mut().for_each(|publisher| publisher.is_paused = true);
    }

    /// Makes the next message of one publisher count as the publisher's first message.
    pub(crate) fn pause_publisher(&mut self, gid: Gid) {
        if let Some(publisher) = self.publishers.iter_mut().find(|publisher| publisher.gid == gid) {
            publisher.is_paused = true;
        }
    }

    /// Returns whether the late message with the number `number` reduced the losses by one. The number belongs to the
    /// publisher of the last accepted message.
    pub(crate) fn is_taken_back(&self, number: u64) -> bool {
        let publisher = self.publishers.get(self.last);
        publisher.is_some_and(|publisher| publisher.can_take_back(steps(number, publisher.number)))
    }

    /// Returns the totals of all messages so far.
    pub fn totals(&self) -> SequenceTotals {
        let is_complete = !self.has_evicted() && !self.has_lost_track;
        let is_known = self.has_numbers && !self.has_messages_without && is_complete;
        SequenceTotals {
            lost: is_known.then_some(self.lost).filter(|lost| *lost != UNKNOWN),
            out_of_order: is_known.then_some(self.out_of_order),
            duplicates: is_known.then_some(self.duplicates),
            publishers_seen: is_complete.then_some(self.publishers_seen),
        }
    }

    /// Returns the publishers that are followed, in no particular order.
    pub fn publishers(&self) -> &[FollowedPublisher<Gid>] {
        &self.publishers
    }

    fn follow(&mut self, gid: Gid, number: u64, now: i64) -> Sequence {
        self.publishers_seen += 1;
        let is_numbered = number != u64::MAX;
        let publisher = FollowedPublisher {
            gid,
            received: 1,
            last_heard: now,
            last_message: self.messages,
            lost: 0,
            out_of_order: 0,
            is_numbered,
            number,
            seen: 1,
            span: 1,
            is_paused: false,
        };
        if self.publishers.len() < Self::PUBLISHERS {
            self.last = self.publishers.len();
            self.publishers.push(publisher);
        } else {
            self.evictions = self.evictions.saturating_add(1);
            let silent = self.publishers.iter().enumerate().min_by_key(|(_, other)| other.last_message);
            self.last = silent.map_or(0, |(index, _)| index);
            self.publishers[self.last] = publisher;
        }
        if is_numbered {
            Sequence::First
        } else {
            Sequence::Unsupported
        }
    }
}

impl<Gid> FollowedPublisher<Gid> {
    /// Returns the number of messages lost; `None` if the publisher's messages are not numbered, or if a `u64` has no
    /// room for the number.
    pub fn lost(&self) -> Option<u64> {
        self.is_numbered.then_some(self.lost).filter(|lost| *lost != UNKNOWN)
    }

    /// Returns the number of messages received after a later message; `None` if the publisher's messages are not
    /// numbered.
    pub fn out_of_order(&self) -> Option<u64> {
        self.is_numbered.then_some(self.out_of_order)
    }

    fn add_number(&mut self, number: u64) -> Sequence {
        if number == u64::MAX || !self.is_numbered {
            self.is_numbered = false;
            return Sequence::Unsupported;
        }
        if self.is_paused {
            (self.number, self.seen, self.span, self.is_paused) = (number, 1, 1, false);
            return Sequence::First;
        }
        let ahead = steps(self.number, number);
        if ahead == 0 {
            Sequence::Duplicate
        } else if ahead <= u64::MAX / 2 {
            self.number = number;
            self.seen =
                u32::try_from(ahead).ok().and_then(|bits| self.seen.checked_shl(bits)).unwrap_or(0) | 1;
            self.span = self.span.saturating_add(ahead);
            let gap = ahead - 1;
            self.lost = self.lost.saturating_add(gap);
            Sequence::Next { gap }
        } else {
            self.add_late(steps(number, self.number))
        }
    }

    /// Returns whether `seen` has a bit for the number that is `behind` numbers before the publisher's latest number.
    fn can_take_back(&self, behind: u64) -> bool {
        behind < self.span && behind < u64::from(u64::BITS)
    }

    /// Adds a message whose number is `behind` numbers before the publisher's latest number.
    fn add_late(&mut self, behind: u64) -> Sequence {
        if self.can_take_back(behind) {
            let bit = 1 << behind;
            if self.seen & bit != 0 {
                return Sequence::Duplicate;
            }
            self.seen |= bit;
            if self.lost != UNKNOWN {
                self.lost -= 1;
            }
        }
        self.out_of_order += 1;
        Sequence::Late
    }
}

/// Stands for a number of losses that is too large for a `u64`.
const UNKNOWN: u64 = u64::MAX;

/// Returns how many numbers `to` is ahead of `from`. `u64::MAX` is left out of the count, because it is not a sequence
/// number.
pub(crate) fn steps(from: u64, to: u64) -> u64 {
    match to >= from {
        true => to - from,
        false => u64::MAX - from + to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_forward_is_that_many_messages_lost() {
        for (numbers, expected, text) in [
            (&[1, 2, 3][..], 0, "none"),
            (&[1, 5, 6, 8], 4, "two gaps"),
            (&[1_000_000, 1_000_001], 0, "the first number may be any number"),
            (&[5, 6, 6, 5, 7], 0, "numbers at or below the last number"),
            (&[5, 4, 3, 6], 0, "numbers before the first number"),
            (&[1, 65, 2], 62, "the latest possible number that reduces the losses"),
            (&[1, 66, 2], 64, "64 numbers late"),
            (&[1, 100, 101, 102, 37], 98, "65 numbers late"),
            (&[u64::MAX - 2, u64::MAX - 1, 0, 1], 0, "the numbers wrap around"),
            (&[u64::MAX - 1, 2], 2, "a gap where the numbers wrap around"),
            (&[u64::MAX - 1, 2, 0], 1, "a late number where the numbers wrap around"),
            (&[0, 1, u64::MAX - 1, 2], 0, "a number before the first one, where the numbers wrap around"),
        ] {
            let mut tracker = SequenceTracker::default();
            for number in numbers {
                tracker.accept((), *number, 0);
            }
            assert_eq!(tracker.totals().lost, Some(expected), "{text}: {numbers:?}");
        }
    }

    #[test]
    fn a_late_message_takes_its_loss_back_a_duplicate_does_not() {
        let mut tracker = SequenceTracker::default();
        let sequences = [1, 4, 2, 2, 4].map(|number| tracker.accept((), number, 0));
        let [.., fills, again, twice] = sequences;
        assert_eq!((fills, again, twice), (Sequence::Late, Sequence::Duplicate, Sequence::Duplicate));
        let totals = tracker.totals();
        assert_eq!((totals.lost, totals.out_of_order, totals.duplicates), (Some(1), Some(1), Some(2)));
    }

    #[test]
    fn a_repetition_64_numbers_late_or_more_is_out_of_order() {
        for (behind, duplicates, out_of_order) in [(63, 1, 0), (64, 0, 1), (99, 0, 1)] {
            let mut tracker = SequenceTracker::default();
            for number in (1..=100).chain([100 - behind]) {
                tracker.accept((), number, 0);
            }
            let totals = tracker.totals();
            assert_eq!((totals.duplicates, totals.out_of_order), (Some(duplicates), Some(out_of_order)));
            assert_eq!(totals.lost, Some(0));
        }
    }

    #[test]
    fn losses_without_room_are_unknown_and_never_wrong() {
        const HALF: u64 = u64::MAX / 2;
        let mut tracker = SequenceTracker::default();
        for (gid, number) in [("one", 0), ("one", HALF), ("other", 0), ("other", HALF)] {
            tracker.accept(gid, number, 0);
        }
        assert_eq!(tracker.totals().lost, Some(2 * (HALF - 1)));
        assert_eq!(tracker.accept("one", 2 * HALF - 10, 0), Sequence::Next { gap: HALF - 11 });
        assert_eq!(tracker.totals().lost, None, "the losses of both publishers have no room");
        assert_eq!(tracker.publishers()[0].lost(), Some(2 * HALF - 12));
        assert_eq!(tracker.accept("one", 20, 0), Sequence::Next { gap: 30 });
        assert_eq!(tracker.publishers()[0].lost(), None, "the losses of one publisher have no room");
        tracker.accept("one", 19, 0);
        assert_eq!(
            (tracker.publishers()[0].lost(), tracker.totals().lost),
            (None, None),
            "a late message does not make the losses known"
        );
        assert_eq!(tracker.publishers()[1].lost(), Some(HALF - 1));
        assert_eq!(tracker.totals().out_of_order, Some(1));
    }

    #[test]
    fn a_suspend_puts_back_what_was_heard_before_its_window() {
        let mut tracker = SequenceTracker::default();
        for (gid, now) in [("before", 99), ("at the start", 100), ("after", 101)] {
            tracker.accept(gid, 1, now);
        }
        tracker.put_back(100, 30);
        let heard: Vec<i64> = tracker.publishers().iter().map(|publisher| publisher.last_heard).collect();
        assert_eq!(heard, [69, 100, 101]);
    }

    #[test]
    fn what_is_sent_in_a_pause_is_no_loss() {
        let mut tracker = SequenceTracker::default();
        tracker.accept((), 1, 0);
        tracker.accept((), 3, 0);
        tracker.pause();
        assert_eq!(tracker.accept((), 50, 0), Sequence::First);
        assert_eq!(tracker.accept((), 2, 0), Sequence::Late, "2 is before the pause");
        assert!(!tracker.has_messages_without);
        let totals = tracker.totals();
        assert_eq!((totals.lost, totals.publishers_seen), (Some(1), Some(1)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn of_too_many_publishers_the_one_silent_longest_makes_room() {
        const MOST: u64 = SequenceTracker::<u64>::PUBLISHERS as u64;
        let mut tracker = SequenceTracker::default();
        for gid in 0..MOST {
            // The times decrease, as after steps back of the clock. Nevertheless the tracker has to find the publisher
            // with the longest silence.
            tracker.accept(gid, 1, -(gid as i64));
        }
        tracker.accept(0, 2, i64::MIN);
        assert_eq!(tracker.totals().publishers_seen, Some(MOST));
        tracker.accept(MOST, 1, 0);
        assert_eq!(tracker.totals(), SequenceTotals::default(), "the totals are unknown from now on");
        assert!(tracker.has_evicted());
        assert_eq!(tracker.publishers().len() as u64, MOST);
        assert!(tracker.publishers().iter().all(|publisher| publisher.gid != 1), "1 was silent longest");
        assert_eq!(tracker.accept(0, 4, 66), Sequence::Next { gap: 1 });
        assert_eq!(tracker.accept(1, 9, 67), Sequence::First, "a replaced publisher starts again");
    }

    #[test]
    fn losses_are_unknown_from_the_first_message_without_a_number() {
        let mut tracker = SequenceTracker::default();
        assert_eq!(tracker.totals().lost, None, "no message was received yet");
        tracker.accept("mixed", 1, 0);
        assert_eq!(tracker.totals().lost, Some(0));
        for number in [u64::MAX, 5, 2] {
            assert_eq!(tracker.accept("mixed", number, 2), Sequence::Unsupported, "{number}");
        }
        for (number, now) in [(u64::MAX, 1), (7, 3)] {
            assert_eq!(tracker.accept("first without", number, now), Sequence::Unsupported);
        }
        assert!(tracker.has_messages_without);
        let totals = tracker.totals();
        assert_eq!((totals.lost, totals.out_of_order, totals.duplicates), (None, None, None));
        assert_eq!(totals.publishers_seen, Some(2), "the publishers are distinguished");
        for (publisher, expected) in
            tracker.publishers().iter().zip([("mixed", 4, 2), ("first without", 2, 3)])
        {
            assert_eq!((publisher.gid, publisher.received, publisher.last_heard), expected);
            assert_eq!((publisher.lost(), publisher.out_of_order()), (None, None), "{}", publisher.gid);
        }
    }
}
