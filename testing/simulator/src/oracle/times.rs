// SPDX-License-Identifier: Apache-2.0

//! The times of windows, and of events in them, on a system clock with steps.

use super::Window;

/// The present window, and the last reading of the system clock's offset.
#[derive(Debug, Default)]
pub struct WindowTimes {
    /// The start on the monotonic clock.
    pub start: i64,
    /// Whether this is the first window since the statistics were enabled.
    pub is_first: bool,
    /// System time minus monotonic time.
    pub offset: i64,
    suspended: i64,
    suspends: Vec<Suspend>,
    /// Whether this window has distributions, and whether the next window has distributions.
    distributions: (bool, bool),
}

/// A suspend that was found at the end of a window. `from` and `to` are the start and the stop of this window; `time`
/// is the suspended time, which the monotonic clock does not count.
#[derive(Debug)]
struct Suspend {
    from: i64,
    to: i64,
    time: i64,
}

/// The earliest and the latest possible value of a system time. They differ if the time may be before or after a
/// suspend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    pub earliest: i64,
    pub latest: i64,
}

impl WindowTimes {
    /// The largest change of the clock offset that is not a step, by docs/reliability.md, in nanoseconds.
    const TOLERANCE: i64 = 10_000;

    pub fn new(offset: i64, suspended: i64) -> Self {
        Self { start: 0, is_first: true, offset, suspended, ..Self::default() }
    }

    /// Starts the first window after the statistics were enabled. Returns the step of the system clock since the end of
    /// the last window.
    pub fn restart(&mut self, now: i64, offset: i64, suspended: i64) -> Option<i64> {
        (self.start, self.is_first, self.distributions.0) = (now, true, self.distributions.1);
        self.observe(now, now, offset, suspended)
    }

    /// Ends the window. Returns a window with its times and the step of the system clock in it, but still without
    /// figures.
    pub fn end(&mut self, now: i64, offset: i64, suspended: i64) -> Window {
        let start = std::mem::replace(&mut self.start, now);
        let is_first = std::mem::replace(&mut self.is_first, false);
        let step = self.observe(start, now, offset, suspended);
        let has_distributions = std::mem::replace(&mut self.distributions.0, self.distributions.1);
        Window {
            start,
            stop: now,
            is_first,
            offset: self.offset,
            step,
            has_distributions,
            ..Window::default()
        }
    }

    /// Sets whether the next window and all later windows have distributions, by docs/distributions.md.
    pub fn set_distributions(&mut self, enabled: bool) {
        self.distributions.1 = enabled;
    }

    fn observe(&mut self, from: i64, to: i64, offset: i64, suspended: i64) -> Option<i64> {
        let step = offset - self.offset;
        if step.abs() <= Self::TOLERANCE {
            return None;
        }
        let time = suspended - self.suspended;
        if time > 0 {
            self.suspends.push(Suspend { from, to, time });
        }
        (self.offset, self.suspended) = (offset, suspended);
        Some(step)
    }

    /// Returns the system time at a monotonic time: computed with the present offset, minus the time for which the host
    /// was suspended since then. If the time is in a window with a suspend, it may be before or after the suspend.
    pub fn system(&self, monotonic: i64) -> Bounds {
        let before = |suspend: &&Suspend| monotonic < suspend.from;
        let perhaps_before = |suspend: &&Suspend| monotonic < suspend.to;
        let sum = |suspends: Vec<&Suspend>| suspends.iter().map(|suspend| suspend.time).sum::<i64>();
        Bounds {
            earliest: monotonic + self.offset - sum(self.suspends.iter().filter(perhaps_before).collect()),
            latest: monotonic + self.offset - sum(self.suspends.iter().filter(before).collect()),
        }
    }
}

impl Bounds {
    pub fn contain(&self, time: i64) -> bool {
        (self.earliest..=self.latest).contains(&time)
    }
}
