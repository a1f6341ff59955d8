// SPDX-License-Identifier: Apache-2.0

//! The schedule of a timer, as rcl stores it.

/// The schedule of a timer: the time at which the timer's next call is due.
///
/// `rcl_timer_call` moves the time of the next call forward by one period before the callback runs. If the new time is
/// still in the past, rcl moves the time forward by as many further periods as necessary. These further periods are
/// skipped. So, until the timer is reset, the due time of each call is the first due time plus a multiple of the
/// period.
#[derive(Clone, Copy, Debug)]
pub struct TimerSchedule {
    /// The period in nanoseconds, above 0.
    period: i64,
    next: Next,
}

/// The time at which the next call is due.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The timer was just created: the first call is due one period after the creation.
    Created,
    Unknown,
    Due(Due),
}

/// The time at which a call is due, with its largest possible error. Both are in nanoseconds on the timer's clock.
#[derive(Clone, Copy, Debug)]
struct Due {
    time: i64,
    error: i64,
}

/// What a timer reports when its callback starts. Times are in nanoseconds on the timer's clock.
#[derive(Clone, Copy, Debug)]
pub struct TimerReading {
    /// The time just before `until_next` is read: the start of the callback.
    pub before: i64,
    /// The time until the next call is due. It may be negative.
    pub until_next: i64,
    /// The time just after `until_next` was read.
    pub after: i64,
    /// The time from the previous call to this call; for the first call, the time since the creation of the timer. 0 if
    /// unknown.
    pub since_last: i64,
}

/// A call of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledCall {
    /// The start of the callback minus the time at which the call was due, in nanoseconds.
    pub lateness: i64,
    /// The number of periods that rcl skips because this call is late.
    pub skipped: u64,
}

impl TimerSchedule {
    /// The largest error of the clock readings if the thread is not preempted.
    const ROUNDING: i64 = 1_000;
    /// The first call is due about one period after the creation. The constant is the largest deviation from that time,
    /// in nanoseconds.
    const FIRST: i64 = 100_000;

    /// Creates the schedule of a timer with this period in nanoseconds; `None` if the period is 0, because such a timer
    /// is always due.
    pub fn new(period: i64) -> Option<Self> {
        (period > 0).then_some(Self { period, next: Next::Created })
    }

    /// Forgets when the next call is due, because from now on this schedule may not get all calls.
    pub fn forget(&mut self) {
        self.next = Next::Unknown;
    }

    /// Accepts a call. Returns `None` if the time at which the call was due is unknown.
    pub fn call(&mut self, reading: TimerReading) -> Option<ScheduledCall> {
        let next = std::mem::replace(&mut self.next, Next::Unknown);
        let error = reading.after.checked_sub(reading.before)?.max(0) / 2;
        let time = reading.before.checked_add(error)?.checked_add(reading.until_next)?;
        let read = Due { time, error: error + Self::ROUNDING };
        if read.error >= self.period / 4 {
            return None;
        }
        self.next = Next::Due(read);
        let due = match next {
            Next::Created => self.first(reading, read)?,
            Next::Due(due) if self.is_same_phase(due, read) => due,
            // The timer was reset at an unknown time, because rcl does not report the time of a reset.
            Next::Due(_) | Next::Unknown => return None,
        };
        let lateness = reading.before.checked_sub(due.time)?;
        if lateness < -(due.error + read.error) {
            return None; // a timer is never called before it is due
        }
        let periods = self.periods(due.time, read.time);
        // The due times of a timer always differ by whole periods. So the due time with the smaller error is kept for
        // the next call.
        let moved = Due { time: due.time.checked_add(periods.checked_mul(self.period)?)?, ..due };
        self.next = Next::Due(if read.error < moved.error { read } else { moved });
        Some(ScheduledCall { lateness, skipped: u64::try_from(periods - 1).ok()? })
    }

    /// Returns whether `read` is later than `due` by a whole number of periods, at least one.
    fn is_same_phase(&self, due: Due, read: Due) -> bool {
        let periods = self.periods(due.time, read.time);
        let expected = i128::from(due.time) + i128::from(periods) * i128::from(self.period);
        periods >= 1 && (expected - i128::from(read.time)).abs() <= i128::from(due.error + read.error)
    }

    /// Returns how many periods `later` is after `earlier`, rounded to a whole number.
    fn periods(&self, earlier: i64, later: i64) -> i64 {
        later.saturating_sub(earlier).saturating_add(self.period / 2).div_euclid(self.period)
    }

    /// Returns the time at which the first call was due: one period after the creation. `None` if the timer was reset
    /// since its creation.
    fn first(&self, reading: TimerReading, read: Due) -> Option<Due> {
        let due = reading.before.checked_sub(reading.since_last)?.checked_add(self.period)?;
        let periods = self.periods(due, read.time);
        let time = read.time.checked_sub(periods.checked_mul(self.period)?)?;
        let is_near = time.abs_diff(due) <= Self::FIRST.unsigned_abs();
        (reading.since_last > 0 && periods >= 1 && is_near).then_some(Due { time, ..read })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: i64 = 1_000_000;
    const PERIOD: i64 = 10 * MS;

    /// A simulated timer that behaves like a timer with `rcl_timer_call` and `rcl_timer_reset`.
    struct Timer {
        last: i64,
        next: i64,
    }

    impl Timer {
        fn reset(&mut self, now: i64) {
            self.next = now + PERIOD;
        }

        /// Calls the timer at `now`. The callback starts a little later. The callback reads the clock twice, and
        /// `width` passes between the two readings.
        fn call(&mut self, now: i64, width: i64) -> (TimerReading, ScheduledCall) {
            let (due, since_last) = (self.next, now - self.last);
            self.last = now;
            self.next += PERIOD;
            while self.next < now {
                self.next += PERIOD;
            }
            let before = now + 300;
            let until_next = self.next - (before + width / 3);
            let skipped = ((self.next - due) / PERIOD - 1) as u64;
            let call = ScheduledCall { lateness: before - due, skipped };
            (TimerReading { before, until_next, after: before + width, since_last }, call)
        }
    }

    #[test]
    fn a_schedule_that_cannot_be_known_is_not_guessed() {
        assert!(TimerSchedule::new(0).is_none());
        let mut schedule = TimerSchedule::new(PERIOD).unwrap();
        let reading = TimerReading { before: 0, until_next: PERIOD, after: 100, since_last: 0 };
        assert_eq!(schedule.call(reading), None, "neither the creation nor an earlier call is known");
        let mut timer = Timer { last: 0, next: PERIOD };
        let mut call = |schedule: &mut TimerSchedule, now, width| schedule.call(timer.call(now, width).0);
        let mut schedule = TimerSchedule::new(PERIOD).unwrap();
        assert!(call(&mut schedule, PERIOD, 100).is_some());
        assert_eq!(call(&mut schedule, 2 * PERIOD, 6 * MS), None, "the thread was preempted");
        assert_eq!(call(&mut schedule, 3 * PERIOD, 100), None, "the due time of this call is unknown, too");
        assert!(call(&mut schedule, 4 * PERIOD, 100).is_some());
        schedule.forget();
        assert_eq!(call(&mut schedule, 9 * PERIOD + MS, 100), None, "calls in between may be missed");
        let late = call(&mut schedule, 10 * PERIOD + PERIOD / 2, 100).unwrap();
        assert_eq!((late.lateness / 1_000, late.skipped), (PERIOD / 2 / 1_000, 0));
    }

    proptest! {
        /// For any delays and resets, the lateness and the skipped periods must be equal to the values of the simulated
        /// rcl.
        #[test]
        fn lateness_and_skipped_periods_are_those_of_rcl(
            steps in proptest::collection::vec((0..80 * MS, 0..20_000_i64, 0..20_u32), 1..100),
        ) {
            let mut timer = Timer { last: 5, next: 5 + PERIOD };
            let mut schedule = TimerSchedule::new(PERIOD).unwrap();
            for (late, width, reset) in steps {
                if reset == 0 {
                    // The reset is not near a whole number of periods after the call was due, because a reset near such
                    // a time could not be detected.
                    timer.reset(timer.next + PERIOD / 4 + late % (PERIOD / 2));
                }
                let now = timer.next + late;
                let (reading, expected) = timer.call(now, width);
                let call = schedule.call(reading);
                prop_assert_eq!(call.is_none(), reset == 0);
                let Some(call) = call else { continue };
                prop_assert_eq!(call.skipped, expected.skipped);
                prop_assert!((call.lateness - expected.lateness).abs() <= 42_000, "{:?} {:?}", call, expected);
            }
        }
    }
}
