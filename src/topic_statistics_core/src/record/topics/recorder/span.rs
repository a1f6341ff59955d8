// SPDX-License-Identifier: Apache-2.0

//! The time from a subscription's first message to its last one.

use std::time::Duration;

use crate::record::clocks::clock::{duration, Step, SystemClock};

/// The times of a message in nanoseconds, on the system clock except for the callback; 0 if unknown.
#[derive(Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) header: i64,
    pub(super) source: i64,
    pub(super) received: i64,
    /// On the monotonic clock.
    pub(super) callback: i64,
}

/// The time from a subscription's first message to its last one, without the time in which its statistics were
/// disabled.
///
/// A message writes `last` only. Everything else changes with the first message of an epoch, and at the end of windows.
/// Times of this epoch are on the monotonic clock, times of the epochs before on the system clock.
#[derive(Default)]
pub(super) struct Span {
    /// The last message.
    pub(super) last: Times,
    /// The start of the first message's callback, on the system clock.
    first: Option<i64>,
    /// The start of the callback of this epoch's first message, on the monotonic clock.
    first_of_epoch: Option<i64>,
    /// The last message of the epochs before, or of this one before a suspend, on the system clock.
    last_before: Option<i64>,
    /// The marks of the last message, valid while its callback is at this time.
    marks: Marks,
    marks_of: i64,
    /// The number of epochs with messages.
    epochs: u64,
    /// The time from the first message to the last, of the epochs before.
    before: i64,
    /// Whether messages were counted but not measured before the first or after the last message of an epoch: then the
    /// time from first to last is unknown.
    is_unknown: bool,
}

/// The marks of the last message. (They are rare, so they are not in each message.)
#[derive(Clone, Copy, Default)]
struct Marks {
    /// Whether the host was suspended after its window: its time on the system clock is kept.
    is_before_suspend: bool,
    /// Whether later messages were counted but not measured.
    has_later: bool,
}

impl Span {
    /// Extends it to the start of a message's callback, at `now` on the system clock. Returns whether it is the latest one.
    pub(super) fn extend(&mut self, callback: i64, now: i64) -> bool {
        let Some(first) = &mut self.first_of_epoch else {
            self.first_of_epoch = Some(callback);
            self.epochs += 1;
            self.first.get_or_insert(now);
            self.last.callback = callback;
            return true;
        };
        if callback >= self.last.callback {
            self.last.callback = callback;
            return true;
        }
        if callback < *first {
            // By less than a thread was preempted.
            *first = callback;
            if self.epochs == 1 {
                self.first = Some(now);
            }
        }
        false
    }

    /// Marks that messages after the last one were counted but not measured.
    pub(super) fn mark_unmeasured(&mut self) {
        self.is_unknown |= self.first_of_epoch.is_none();
        self.mark_last(|marks| marks.has_later = true);
    }

    /// Ends the epoch. `system`: the system clock as read last.
    pub(super) fn end_epoch(&mut self, system: SystemClock) {
        self.last_before = self.last_message(system);
        if let Some(first) = self.first_of_epoch.take() {
            self.before += self.last.callback - first;
            self.is_unknown |= self.marks().has_later;
        }
    }

    /// Corrects the times of messages that were received before a step of the system clock.
    pub(super) fn correct(&mut self, step: Step) {
        // They were wrong by the correction of the clock; the time of a suspend did pass.
        let correction = step.by - step.suspended;
        for time in [&mut self.first, &mut self.last_before].into_iter().flatten() {
            *time = time.saturating_add(correction);
        }
    }

    /// Keeps the time of the last message, if it was before the window that started at `start`. The host was suspended
    /// in that window: on the monotonic clock the message would be later by the suspended time. `system`: the system
    /// clock after the step.
    pub(super) fn keep_before_suspend(&mut self, start: i64, step: Step, system: SystemClock) {
        let Some(callback) = self.last_callback().filter(|last| *last < start) else { return };
        if !self.marks().is_before_suspend {
            // The system clock before the step.
            self.last_before = Some(system.at(callback).saturating_sub(step.by));
            self.mark_last(|marks| marks.is_before_suspend = true);
        }
    }

    /// Returns the start of the first message's callback, on the system clock.
    pub(super) fn first(&self) -> Option<i64> {
        self.first
    }

    /// Returns the start of the last message's callback on the monotonic clock; None before this epoch's first message.
    pub(super) fn last_callback(&self) -> Option<i64> {
        self.first_of_epoch.map(|_| self.last.callback)
    }

    /// Returns the start of the last message's callback on the system clock.
    pub(super) fn last_message(&self, system: SystemClock) -> Option<i64> {
        match self.last_callback() {
            Some(callback) if !self.marks().is_before_suspend => Some(system.at(callback)),
            _ => self.last_before,
        }
    }

    /// Returns whether messages after the last one were counted but not measured.
    pub(super) fn has_later(&self) -> bool {
        self.marks().has_later
    }

    /// Returns the time from the first message to the last.
    pub(super) fn active(&self) -> Duration {
        duration(self.before + self.first_of_epoch.map_or(0, |first| self.last.callback - first))
    }

    /// Returns the number of intervals between `received` messages in that time; None if unknown.
    pub(super) fn intervals(&self, received: u64) -> Option<u64> {
        let has_later = self.first_of_epoch.is_some() && self.has_later();
        (!self.is_unknown && !has_later).then(|| received.saturating_sub(self.epochs))
    }

    fn marks(&self) -> Marks {
        match self.marks_of == self.last.callback {
            true => self.marks,
            false => Marks::default(),
        }
    }

    fn mark_last(&mut self, mark: impl FnOnce(&mut Marks)) {
        (self.marks, self.marks_of) = (self.marks(), self.last.callback);
        mark(&mut self.marks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::test_clock::{TestClock, S};

    #[test]
    fn the_time_in_which_the_statistics_are_disabled_does_not_count() {
        let (mut span, system) = (Span::default(), SystemClock::now(&TestClock::new()));
        for epoch in [0, 100 * S] {
            (1..=3).for_each(|second| assert!(span.extend(epoch + second * S, second)));
            span.end_epoch(system);
        }
        assert_eq!((span.active(), span.intervals(6)), (Duration::from_secs(4), Some(4)));
    }

    #[test]
    fn an_earlier_message_moves_the_start_and_is_not_the_last_one() {
        let mut span = Span::default();
        assert!(span.extend(2 * S, 20) && !span.extend(S, 10) && span.extend(3 * S, 30));
        assert_eq!(
            (span.first(), span.last_callback(), span.active()),
            (Some(10), Some(3 * S), Duration::from_secs(2))
        );
    }

    #[test]
    fn the_intervals_are_unknown_until_a_message_is_measured_again() {
        let mut span = Span::default();
        span.extend(S, 0);
        span.mark_unmeasured();
        assert!(span.has_later() && span.intervals(3).is_none());
        span.extend(2 * S, 0);
        assert_eq!((span.has_later(), span.intervals(4)), (false, Some(3)));
        let mut never_known = Span::default();
        never_known.mark_unmeasured();
        never_known.extend(S, 0);
        assert_eq!(never_known.intervals(2), None);
    }
}
