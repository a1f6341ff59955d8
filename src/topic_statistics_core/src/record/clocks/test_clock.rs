// SPDX-License-Identifier: Apache-2.0

//! The clocks of a test. The time changes only when the test changes it.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use super::clock::Clock;
use crate::record::sources::source::WindowedCollector;

pub(crate) const MS: i64 = 1_000_000;
pub(crate) const S: i64 = 1000 * MS;

/// Returns a function that reads the monotonic clock: `milliseconds` after the start of the test.
pub(crate) fn at(milliseconds: i64) -> impl Fn() -> i64 {
    move || TestClock::START + milliseconds * MS
}

/// Clocks of a test. The system clock starts at [`EPOCH`](Self::EPOCH).
pub(crate) struct TestClock {
    started: Instant,
    /// The monotonic time since the start of the test, in nanoseconds.
    passed: AtomicI64,
    stepped: AtomicI64,
    suspended: AtomicI64,
    /// The time that passes before each reading of the monotonic clock, as if the thread were preempted.
    pub(crate) held_up: AtomicI64,
}

impl TestClock {
    /// The system time at the start of the test.
    pub(crate) const EPOCH: i64 = 1_790_000_000 * S;
    const START: i64 = 1000 * S;

    pub(crate) fn new() -> Self {
        let [passed, stepped, suspended, held_up] = [const { AtomicI64::new(0) }; 4];
        Self { started: Instant::now(), passed, stepped, suspended, held_up }
    }

    /// Enables a collector and starts its first window now. The change from the host's clock to this clock looks like a
    /// step to the collector. Nevertheless, no stamp is doubtful, because the step is 11 s ago.
    pub(crate) fn enable(collector: &dyn WindowedCollector) -> Self {
        let clock = Self::new();
        clock.set(-11 * S);
        assert!(collector.enable(&clock));
        clock.set(0);
        assert!(collector.end_window(&clock).is_some());
        clock
    }

    /// Lets `time` nanoseconds pass. Returns the monotonic time after that.
    pub(crate) fn pass(&self, time: i64) -> i64 {
        self.set(self.passed() + time)
    }

    /// Sets the time since the start of the test. Returns the monotonic time.
    pub(crate) fn set(&self, passed: i64) -> i64 {
        self.passed.store(passed, Ordering::Relaxed);
        Self::START + passed
    }

    pub(crate) fn step(&self, by: i64) {
        self.stepped.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn suspend(&self, time: i64) {
        self.step(time);
        self.suspended.fetch_add(time, Ordering::Relaxed);
    }

    pub(crate) fn passed(&self) -> i64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Returns the present time as an `Instant`, which the scheduler's functions expect.
    pub(crate) fn now(&self) -> Instant {
        self.started + Duration::from_nanos(self.passed() as u64)
    }
}

impl Clock for TestClock {
    fn monotonic(&self) -> i64 {
        self.pass(self.held_up.load(Ordering::Relaxed))
    }

    fn system(&self) -> i64 {
        Self::EPOCH + self.monotonic() - Self::START + self.stepped.load(Ordering::Relaxed)
    }

    fn suspended(&self) -> i64 {
        self.suspended.load(Ordering::Relaxed)
    }
}

/// A clock that delays its reader before one of the readings: `reading` is the number of this reading, counted from 0.
/// During the delay, `meanwhile` runs.
pub(crate) struct HeldUp<'a, F> {
    clock: &'a TestClock,
    reading: i64,
    meanwhile: F,
    readings: AtomicI64,
}

impl<'a, F: Fn() + Send + Sync> HeldUp<'a, F> {
    pub(crate) fn new(clock: &'a TestClock, reading: i64, meanwhile: F) -> Self {
        Self { clock, reading, meanwhile, readings: AtomicI64::new(0) }
    }
}

impl<F: Fn() + Send + Sync> Clock for HeldUp<'_, F> {
    fn monotonic(&self) -> i64 {
        if self.readings.fetch_add(1, Ordering::Relaxed) == self.reading {
            (self.meanwhile)();
        }
        self.clock.monotonic()
    }

    fn system(&self) -> i64 {
        self.clock.system()
    }

    fn suspended(&self) -> i64 {
        self.clock.suspended()
    }
}
