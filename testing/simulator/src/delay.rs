// SPDX-License-Identifier: Apache-2.0

//! A thread that is delayed while it ends a window, under the lock of the source, and the events meanwhile on other
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

/// Something that another thread does, at a time on the monotonic clock.
pub type Step = Box<dyn FnOnce(i64) + Send>;

/// The events while a thread is delayed. Times are since the start of the delay.
pub struct Hold {
    /// The events before the thread reads the window's stop, and the time of that reading.
    pub before: Vec<(i64, Step)>,
    pub stop: i64,
    /// The later events, and the time at which the thread continues.
    pub after: Vec<(i64, Step)>,
    pub end: i64,
    /// At which reading of the monotonic clock `after` happens: 1 is the next one after the stop's.
    pub at: u32,
}

/// A collector whose ends of windows can be delayed.
pub struct Holdable {
    collector: Arc<dyn WindowedCollector>,
    clocks: Arc<HostClocks>,
    hold: Mutex<Option<Hold>>,
    /// When the last end of a window began, on the monotonic clock.
    entered: AtomicI64,
}

impl Holdable {
    pub fn new(collector: Arc<dyn WindowedCollector>, clocks: &Arc<HostClocks>) -> Arc<Self> {
        let (clocks, hold, entered) = (Arc::clone(clocks), Mutex::default(), AtomicI64::new(0));
        Arc::new(Self { collector, clocks, hold, entered })
    }

    /// Delays the next end of a window.
    pub fn hold(&self, hold: Hold) {
        *lock(&self.hold) = Some(hold);
    }

    /// Returns whether the next end of a window will be delayed.
    pub fn is_waiting(&self) -> bool {
        lock(&self.hold).is_some()
    }

    /// Returns when the last end of a window began, on the monotonic clock.
    pub fn entered(&self) -> i64 {
        self.entered.load(Ordering::Relaxed)
    }
}

impl WindowedCollector for Holdable {
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
        let Self { clocks, hold, .. } = self;
        self.collector.end_window(&HoldingClock { clocks, hold, entered, readings: AtomicU32::new(0) })
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

/// A clock whose reader is delayed. It is read under the lock.
struct HoldingClock<'a> {
    clocks: &'a HostClocks,
    hold: &'a Mutex<Option<Hold>>,
    entered: i64,
    readings: AtomicU32,
}

impl HoldingClock<'_> {
    fn pass(&self, steps: Vec<(i64, Step)>, end: i64) {
        for (time, step) in steps {
            self.clocks.set_monotonic(self.entered + time);
            step(self.entered + time);
        }
        self.clocks.set_monotonic(self.entered + end);
    }
}

impl Clock for HoldingClock<'_> {
    fn monotonic(&self) -> i64 {
        let reading = self.readings.fetch_add(1, Ordering::Relaxed);
        let mut hold = lock(self.hold);
        if reading == 0 {
            if let Some(hold) = &mut *hold {
                self.pass(std::mem::take(&mut hold.before), hold.stop);
            }
        }
        if let Some(Hold { after, end, .. }) = hold.take_if(|hold| hold.at == reading) {
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
