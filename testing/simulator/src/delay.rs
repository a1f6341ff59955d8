// SPDX-License-Identifier: Apache-2.0

//! Delays a thread while it ends a window and holds the lock of the source. During the delay, events happen on other
//! threads.

use std::sync::{
    atomic::{AtomicI64, AtomicU32, Ordering},
    Arc, Mutex,
};

use topic_statistics_core::{
    mutex::lock,
    record::{
        clock::Clock,
        source::{FinishedWindow, WindowedCollector},
    },
    source_kind::SourceKind,
    totals::Totals,
    Metric,
};

use crate::clocks::HostClocks;

/// An action of another thread. Its argument is the monotonic time.
pub type Step = Box<dyn FnOnce(i64) + Send>;

/// The events on other threads while a thread is delayed. All times count from the start of the delay.
pub struct Delay {
    /// The events that happen before the delayed thread reads the clock for the window's stop.
    pub before: Vec<(i64, Step)>,
    /// The time at which the delayed thread reads the clock for the window's stop.
    pub stop: i64,
    /// The events after `stop`.
    pub after: Vec<(i64, Step)>,
    /// The time at which the delayed thread continues.
    pub end: i64,
    /// The events of `after` happen during one reading of the monotonic clock; this is the number of that reading.
    /// Reading 0 is the reading for the window's stop.
    pub at: u32,
}

/// A collector that can delay the end of a window.
pub struct Delayable {
    collector: Arc<dyn WindowedCollector>,
    clocks: Arc<HostClocks>,
    delay: Mutex<Option<Delay>>,
    /// The monotonic time at which the library last began to end a window.
    entered: AtomicI64,
}

impl Delayable {
    pub fn new(collector: Arc<dyn WindowedCollector>, clocks: &Arc<HostClocks>) -> Arc<Self> {
        let (clocks, delay, entered) = (Arc::clone(clocks), Mutex::default(), AtomicI64::new(0));
        Arc::new(Self { collector, clocks, delay, entered })
    }

    pub fn delay_next_end(&self, delay: Delay) {
        *lock(&self.delay) = Some(delay);
    }

    /// Returns whether the next end of a window will be delayed.
    pub fn is_waiting(&self) -> bool {
        lock(&self.delay).is_some()
    }

    /// Returns the monotonic time at which the library last began to end a window.
    pub fn entered(&self) -> i64 {
        self.entered.load(Ordering::Relaxed)
    }
}

impl WindowedCollector for Delayable {
    fn enable(&self, clock: &dyn Clock) -> bool {
        self.collector.enable(clock)
    }

    fn disable(&self) {
        self.collector.disable();
    }

    fn is_enabled(&self) -> bool {
        self.collector.is_enabled()
    }

    fn set_distributions(&self, enabled: bool) {
        self.collector.set_distributions(enabled);
    }

    fn end_window(&self, _clock: &dyn Clock) -> Option<FinishedWindow> {
        let entered = self.clocks.monotonic();
        self.entered.store(entered, Ordering::Relaxed);
        let Self { clocks, delay, .. } = self;
        self.collector.end_window(&DelayedClock { clocks, delay, entered, readings: AtomicU32::new(0) })
    }

    fn totals(&self) -> Option<Totals> {
        self.collector.totals()
    }

    fn kind(&self) -> SourceKind {
        self.collector.kind()
    }

    fn measures(&self, metric: Metric) -> bool {
        self.collector.measures(metric)
    }

    fn is_latched(&self) -> bool {
        self.collector.is_latched()
    }
}

/// A clock that delays its reader. The library reads this clock while the library holds the lock of the source.
struct DelayedClock<'a> {
    clocks: &'a HostClocks,
    delay: &'a Mutex<Option<Delay>>,
    entered: i64,
    readings: AtomicU32,
}

impl DelayedClock<'_> {
    fn pass(&self, steps: Vec<(i64, Step)>, end: i64) {
        for (time, step) in steps {
            self.clocks.set_monotonic(self.entered + time);
            step(self.entered + time);
        }
        self.clocks.set_monotonic(self.entered + end);
    }
}

impl Clock for DelayedClock<'_> {
    fn monotonic(&self) -> i64 {
        let reading = self.readings.fetch_add(1, Ordering::Relaxed);
        let mut delay = lock(self.delay);
        if reading == 0 {
            if let Some(delay) = &mut *delay {
                self.pass(std::mem::take(&mut delay.before), delay.stop);
            }
        }
        if let Some(Delay { after, end, .. }) = delay.take_if(|delay| delay.at == reading) {
            self.pass(after, end);
        }
        self.clocks.monotonic()
    }

    fn system(&self) -> i64 {
        self.clocks.system()
    }

    fn suspended(&self) -> i64 {
        self.clocks.suspended()
    }
}
