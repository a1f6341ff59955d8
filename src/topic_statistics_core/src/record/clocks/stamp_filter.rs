// SPDX-License-Identifier: Apache-2.0

//! A filter for stamps that may be from the system clock before its last step.

use super::clock::{EndedWindow, Step};

/// Finds stamps that may be from the system clock before a step of that clock.
///
/// A message can be stamped before a step and received in a later window. Then the stamp and the callback are on
/// different clocks, and the message has no age. A message is under way for at most [`UNDER_WAY`](Self::UNDER_WAY). So
/// the doubtful stamps are those in the last `UNDER_WAY` before the end of the window with the step, as the clock
/// before the step counted. All other stamps are valid immediately. Stamps from hosts without a step are newer than
/// this range. Stamps of the new clock are in this range only after a small step back, until the clock has passed the
/// range again.
#[derive(Clone, Debug, Default)]
pub(crate) struct StampFilter {
    /// The doubtful stamps of each step, the oldest step first.
    stamps: Vec<DoubtfulStamps>,
}

/// The range of stamps of messages that were under way at a step, in nanoseconds on the system clock.
#[derive(Clone, Copy, Debug)]
struct DoubtfulStamps {
    first: i64,
    last: i64,
    /// The time at which all these messages must have arrived, in nanoseconds on the monotonic clock.
    until: i64,
    /// Whether the messages have arrived. Some arrived messages may not be recorded yet, so the range is kept until the
    /// next step.
    have_expired: bool,
}

impl DoubtfulStamps {
    fn contain(&self, stamp: i64) -> bool {
        (self.first..=self.last).contains(&stamp)
    }
}

impl StampFilter {
    /// How long a message may be under way, in the network and in the middleware's queue, in nanoseconds. A measured
    /// latency cannot replace this constant, because a queue may have grown in the window with the step.
    const UNDER_WAY: i64 = 10_000_000_000;
    /// The largest number of steps within `UNDER_WAY` whose ranges of stamps are stored separately.
    const STEPS: usize = 8;

    /// Ends a window. Returns whether the set of doubtful stamps has changed.
    pub(crate) fn end_window(&mut self, ended: &EndedWindow) -> bool {
        let has_expired = self.expire(ended.stop);
        if let Some(step) = ended.step {
            self.add_step(ended.window.stop.as_nanoseconds(), ended.stop, step);
        }
        has_expired || ended.step.is_some()
    }

    /// Starts the first window, at the time `start` on the monotonic clock. If the system clock `has_stepped` while no
    /// window was open, every stamp may be from the clock before a step.
    pub(crate) fn restart(&mut self, start: i64, has_stepped: bool) {
        self.expire(start);
        if has_stepped {
            self.push(i64::MIN, i64::MAX, start);
        }
    }

    /// Adds a step that was found at the time `stop` on the system clock and at the time `now` on the monotonic clock.
    fn add_step(&mut self, stop: i64, now: i64, step: Step) {
        let before = stop.saturating_sub(step.by);
        // If the host was suspended and its clock was set in the same window, stamps may also be from the time between
        // these two events.
        let stepped = step.by - step.suspended;
        let (earlier, later) = match step.suspended {
            suspended if suspended != 0 && stepped != 0 => (stepped.min(0), stepped.max(suspended)),
            _ => (0, 0),
        };
        let first = before.saturating_add(earlier).saturating_sub(Self::UNDER_WAY);
        self.push(first, before.saturating_add(later), now);
    }

    /// Adds the stamps from `first` to `last`, of messages that are under way at the time `now`.
    fn push(&mut self, first: i64, last: i64, now: i64) {
        self.stamps.retain(|doubtful| !doubtful.have_expired);
        if self.stamps.len() >= Self::STEPS {
            let oldest = self.stamps.remove(0);
            if let Some(next) = self.stamps.first_mut() {
                (next.first, next.last) = (next.first.min(oldest.first), next.last.max(oldest.last));
            }
        }
        self.stamps.push(DoubtfulStamps { first, last, until: now + Self::UNDER_WAY, have_expired: false });
    }

    /// Returns whether a stamp may be from the system clock before a step.
    pub(crate) fn is_doubtful(&self, stamp: i64) -> bool {
        self.stamps.iter().any(|doubtful| !doubtful.have_expired && doubtful.contain(stamp))
    }

    /// As [`is_doubtful`](Self::is_doubtful), for a message that may have arrived before the ranges expired that are
    /// expired now. So the expired ranges that are still kept are checked, too.
    pub(crate) fn was_doubtful(&self, stamp: i64) -> bool {
        self.stamps.iter().any(|doubtful| doubtful.contain(stamp))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stamps.iter().all(|doubtful| doubtful.have_expired)
    }

    /// Marks each range of stamps as expired if all its messages have arrived at the time `now`. Returns whether at
    /// least one range has expired.
    fn expire(&mut self, now: i64) -> bool {
        let mut some_expired = false;
        for doubtful in self.stamps.iter_mut().filter(|doubtful| !doubtful.have_expired) {
            doubtful.have_expired = now > doubtful.until;
            some_expired |= doubtful.have_expired;
        }
        some_expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::test_clock::{MS, S};

    const EPOCH: i64 = 1_790_000_000 * S;

    /// Returns a filter that has seen these steps, which were found at the time `EPOCH` of the new clock.
    fn filter(steps: &[i64]) -> StampFilter {
        after(steps.iter().map(|by| Step { by: *by, suspended: 0 }))
    }

    fn after(steps: impl IntoIterator<Item = Step>) -> StampFilter {
        let mut filter = StampFilter::default();
        steps.into_iter().for_each(|step| filter.add_step(EPOCH, EPOCH, step));
        filter
    }

    #[test]
    fn after_a_step_stamps_of_the_clock_before_it_are_doubtful() {
        let now = EPOCH + 5 * S;
        for (by, stamp, is_doubtful, text) in [
            (3600 * S, now - 3606 * S, true, "the message was under way across the step"),
            (3600 * S, now - 2 * MS, false, "the stamp is from after the step"),
            (3600 * S, now - 3600 * S, false, "the clock of the other host was not stepped"),
            (3600 * S, now + S, false, "the clock of the other host is ahead"),
            (-60 * S, EPOCH + 51 * S, true, "the message was under way across the step"),
            (-60 * S, EPOCH + S, false, "after a large step back, new stamps are valid immediately"),
            (-60 * S, EPOCH + 61 * S, false, "the clock of the other host was not stepped"),
            (-S / 2, EPOCH + S / 2 - MS, true, "the message was under way across the step, or is new"),
            (-S / 2, EPOCH + S / 2 + MS, false, "the clock has passed the range of doubtful stamps again"),
        ] {
            assert_eq!(filter(&[by]).is_doubtful(stamp), is_doubtful, "{by}: {text}");
        }
    }

    #[test]
    fn messages_under_way_across_two_steps_are_doubtful() {
        // The clock steps back by a minute, and then forward by an hour. So a stamp from before both steps is later
        // than the clock was just before the second step, and has to be doubtful, too.
        let stamp = EPOCH + 60 * S - MS;
        assert!(!filter(&[3600 * S]).is_doubtful(stamp));
        let both = filter(&[-60 * S, 3600 * S]);
        assert!(both.is_doubtful(stamp));
        assert!(!both.is_doubtful(EPOCH + S), "the two steps are distinguished");
    }

    #[test]
    fn stamps_between_a_suspend_and_a_step_are_doubtful() {
        for (stepped, slept) in [(400 * S, 700 * S), (-400 * S, 700 * S)] {
            let step = Step { by: stepped + slept, suspended: slept };
            let old = EPOCH - step.by;
            for in_between in [old + stepped, old + slept] {
                assert!(after([step]).is_doubtful(in_between - MS), "{stepped} {slept}");
            }
        }
        // After a suspend without a step of the clock, stamps from the suspended time are valid.
        let filter = after([Step { by: 700 * S, suspended: 700 * S }]);
        let before = EPOCH - 700 * S;
        assert!(filter.is_doubtful(before - MS));
        assert!(!filter.is_doubtful(before + MS) && !filter.is_doubtful(EPOCH - MS));
    }

    #[test]
    fn after_a_step_not_observed_every_stamp_is_doubtful_for_10_s() {
        let mut filter = StampFilter::default();
        filter.restart(5 * S, true);
        let stamps = [0, EPOCH - 3600 * S, EPOCH, EPOCH + 3600 * S];
        assert!(stamps.iter().all(|stamp| filter.is_doubtful(*stamp)));
        assert!(!filter.expire(15 * S) && filter.is_doubtful(EPOCH) && !filter.is_empty());
        assert!(filter.expire(15 * S + 1) && !filter.is_doubtful(EPOCH) && filter.is_empty());
        assert!(!filter.expire(16 * S), "expired already");
    }

    #[test]
    fn more_steps_than_can_be_distinguished_are_merged() {
        let steps: Vec<i64> = (1..=20).map(|number| number * 3600 * S).collect();
        let filter = filter(&steps);
        assert_eq!(filter.stamps.len(), StampFilter::STEPS);
        assert!(steps.iter().all(|by| filter.is_doubtful(EPOCH - by - MS)));
    }
}
