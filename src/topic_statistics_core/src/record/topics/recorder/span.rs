// SPDX-License-Identifier: Apache-2.0

//! The time from a subscription's first message to its last message.

use std::time::Duration;

use crate::record::clocks::clock::{duration, Step, SystemClock};

/// The times of a message in nanoseconds; 0 if unknown. The callback is on the monotonic clock, the other times are on
/// the system clock.
#[derive(Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) header: i64,
    pub(super) source: i64,
    pub(super) received: i64,
    pub(super) callback: i64,
}

/// The time from a subscription's first message to its last message, without the time in which the subscription's
/// statistics were disabled.
///
/// The recording of a message changes only `last`. All other fields change with the first message of an epoch, and at
/// the end of windows. (An epoch here lasts from the enabling to the disabling of the statistics.) Times of the current
/// epoch are on the monotonic clock, times of earlier epochs are on the system clock.
#[derive(Default)]
pub(super) struct Span {
    pub(super) last: Times,
    /// The start of the first message's callback, on the system clock.
    pub(super) first: Option<i64>,
    /// The start of the callback of this epoch's first message, on the monotonic clock.
    first_of_epoch: Option<i64>,
    /// The start of the last message's callback, on the system clock. It is set only if this message is of an earlier
    /// epoch, or was received before a suspend in this epoch.
    last_before: Option<i64>,
    /// The marks of the message whose callback started at the time `marks_of`. The marks are ignored if this message is
    /// no longer the last one.
    marks: Marks,
    marks_of: i64,
    epochs: u64,
    /// The sum, over all earlier epochs, of the time from the epoch's first message to its last message, in
    /// nanoseconds.
    before: i64,
    /// Whether messages before the first or after the last measured message of an epoch were counted but not measured.
    is_unknown: bool,
}

/// Rare properties of the last message, which are not stored with each message.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks {
    /// Whether the host was suspended after the window of the message. Then the message's time on the system clock is
    /// kept in `last_before`.
    is_before_suspend: bool,
    /// Whether later messages were counted but not measured.
    pub(super) has_later: bool,
    pub(super) is_intra_process: bool,
}

impl Span {
    /// Extends the span to the start of a message's callback, which is at `now` on the system clock. Returns whether
    /// this message is the latest one.
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
            // The message is recorded late, because its thread was preempted. So it is earlier than the first recorded
            // message.
            *first = callback;
            if self.epochs == 1 {
                self.first = Some(now);
            }
        }
        false
    }

    /// Records that messages after the last message were counted but not measured.
    pub(super) fn mark_unmeasured(&mut self) {
        self.is_unknown |= self.first_of_epoch.is_none();
        self.mark_last(|marks| marks.has_later = true);
    }

    /// Records that the message whose callback started at the time `callback` was passed on within the process. This
    /// matters only for the last message.
    pub(super) fn mark_intra_process(&mut self, callback: i64) {
        if callback == self.last.callback {
            self.mark_last(|marks| marks.is_intra_process = true);
        }
    }

    /// Ends the epoch, because the statistics are disabled. `system` is the system clock as it was last read.
    pub(super) fn end_epoch(&mut self, system: SystemClock) {
        self.last_before = self.last_message(system);
        if let Some(first) = self.first_of_epoch.take() {
            self.before += self.last.callback - first;
            self.is_unknown |= self.marks().has_later;
        }
    }

    /// Corrects the times of messages that were received before a step of the system clock. The part of the step that
    /// is due to a suspend is not corrected, because the suspended time has really passed.
    pub(super) fn correct(&mut self, step: Step) {
        let correction = step.by - step.suspended;
        for time in [&mut self.first, &mut self.last_before].into_iter().flatten() {
            *time = time.saturating_add(correction);
        }
    }

    /// Keeps the time of the last message if it was received before the window that started at `start`. The host was
    /// suspended in that window, so a conversion of the message's monotonic time with the new offset would give a time
    /// that is too late by the suspended time. `system` is the system clock after the step.
    pub(super) fn keep_before_suspend(&mut self, start: i64, step: Step, system: SystemClock) {
        let Some(callback) = self.last_callback().filter(|last| *last < start) else { return };
        if !self.marks().is_before_suspend {
            self.last_before = Some(system.at(callback).saturating_sub(step.by));
            self.mark_last(|marks| marks.is_before_suspend = true);
        }
    }

    /// Returns the start of the last message's callback on the monotonic clock; `None` before the first message of this
    /// epoch.
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

    pub(super) fn active(&self) -> Duration {
        duration(self.before + self.first_of_epoch.map_or(0, |first| self.last.callback - first))
    }

    /// Returns the number of intervals between `received` messages in the time from the first message to the last;
    /// `None` if the number is unknown.
    pub(super) fn intervals(&self, received: u64) -> Option<u64> {
        let has_later = self.first_of_epoch.is_some() && self.marks().has_later;
        (!self.is_unknown && !has_later).then(|| received.saturating_sub(self.epochs))
    }

    pub(super) fn marks(&self) -> Marks {
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
