//! What is measured, as the schedule sees it: a subscription, a publisher, a timer or a counter.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    time::{Duration, Instant},
};

use rclrs::{log_warn, NodeState};
use tokio::sync::watch;

use crate::{
    collector::SummaryCollector,
    compatibility::{publishers_of, IncompatiblePublisher, Request},
    host::system_time,
    lock::{Lock, LockGuard},
    totals::Totals,
    window::{Metric, Summary, Window, WindowStatistics},
};

/// Something that is measured, for as long as somebody has its handle.
pub(crate) struct Measured {
    /// The value of `measurement_source_name`.
    pub(crate) source: String,
    pub(crate) recording: Arc<dyn Recording>,
    /// What a subscription asks of publishers.
    pub(crate) request: Option<Request>,
    /// The publishers that cannot serve it.
    incompatible: Mutex<Vec<IncompatiblePublisher>>,
    /// The last finished window.
    pub(crate) windows: watch::Sender<Option<Arc<WindowStatistics>>>,
    has_left: AtomicBool,
    /// Held while one of its messages is published.
    stays: Mutex<()>,
}

/// What is recorded of something, and read at the end of each window.
pub(crate) trait Recording: Send + Sync {
    /// Turns it on, with a window that starts now and knows of nothing before, or off.
    fn set_enabled(&self, enabled: bool);

    /// Ends the window now and starts the next; None while it is off.
    fn end_window(&self) -> Option<WindowStatistics>;

    /// Returns what came since the creation; None of what is no subscription.
    fn totals(&self) -> Option<Totals> {
        None
    }
}

impl Measured {
    pub(crate) fn new(source: String, recording: Arc<dyn Recording>, request: Option<Request>) -> Self {
        Self {
            source,
            recording,
            request,
            incompatible: Mutex::default(),
            windows: watch::channel(None).0,
            has_left: AtomicBool::new(false),
            stays: Mutex::default(),
        }
    }

    /// Returns the last window that was finished.
    pub(crate) fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.windows.borrow().clone()
    }

    /// Returns the publishers that cannot serve the subscription, as far as they were seen.
    pub(crate) fn incompatible_publishers(&self) -> Vec<IncompatiblePublisher> {
        lock(&self.incompatible).clone()
    }

    /// Looks which publishers cannot serve the subscription, and warns of those that are new.
    pub(crate) fn check_publishers(&self, node: &NodeState) {
        let Some(request) = &self.request else { return };
        let Some(publishers) = publishers_of(node, &request.topic) else { return };
        let now = request.incompatible(publishers);
        let before = std::mem::replace(&mut *lock(&self.incompatible), now.clone());
        for publisher in now.iter().filter(|publisher| !before.contains(publisher)) {
            tracing::warn!("{publisher}");
            log_warn!(node.logger(), "{publisher}");
        }
    }

    /// Returns whether its handle is gone.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Returns what keeps it from leaving, so that a message of it can be published; None if it has left.
    pub(crate) fn stay(&self) -> Option<MutexGuard<'_, ()>> {
        let stays = lock(&self.stays);
        (!self.has_left()).then_some(stays)
    }

    /// Ends its statistics: nothing of it is published once this has returned.
    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
        self.recording.set_enabled(false);
        drop(lock(&self.stays)); // the message that is on its way goes first
    }
}

/// The collectors of something that is no subscription: behind a switch and a lock, with the start of their window.
pub(crate) struct Windowed<C> {
    enabled: AtomicBool,
    state: Lock<State<C>>,
}

struct State<C> {
    /// On the system clock, as the messages tell it, and on the one that is never stepped.
    start: i64,
    began: Instant,
    collectors: C,
}

/// What is collected in a window.
pub(crate) trait Collect: Send {
    /// Ends a window of that length: returns how much there was of what is counted, and what it came to.
    fn take(&mut self, length: Duration) -> (u64, Vec<(Metric, Summary)>);

    /// Forgets what was before.
    fn clear(&mut self);
}

impl<C> Windowed<C> {
    /// Creates it off.
    pub(crate) fn new(collectors: C) -> Self {
        let state = State { start: 0, began: Instant::now(), collectors };
        Self { enabled: AtomicBool::new(false), state: Lock::new(state) }
    }

    /// Returns whether it is on.
    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// Records something.
    #[inline]
    pub(crate) fn record(&self, record: impl FnOnce(&mut C)) {
        let mut state: LockGuard<'_, State<C>> = self.state.lock();
        record(&mut state.collectors);
    }
}

impl<C: Collect> Recording for Windowed<C> {
    fn set_enabled(&self, enabled: bool) {
        let mut state = self.state.lock();
        if enabled && !self.is_enabled() {
            (state.start, state.began) = (system_time(), Instant::now());
            state.collectors.clear();
        }
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    fn end_window(&self) -> Option<WindowStatistics> {
        let mut state = self.state.lock();
        if !self.is_enabled() {
            return None;
        }
        let (stop, ended) = (system_time(), Instant::now());
        let start = std::mem::replace(&mut state.start, stop);
        let length = ended - std::mem::replace(&mut state.began, ended);
        let (count, metrics) = state.collectors.take(length);
        Some(WindowStatistics { window: Window { start, stop }, count, metrics, totals: None })
    }
}

/// The summary of one sample at most.
pub(crate) fn one(sample: Option<f64>) -> Summary {
    let mut collector = SummaryCollector::default();
    if let Some(sample) = sample {
        collector.accept(sample);
    }
    collector.summary()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks leaves its data half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
