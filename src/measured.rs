// SPDX-License-Identifier: Apache-2.0

//! What is measured, as the schedule sees it: a subscription, a publisher, a timer or a counter.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    },
    time::{Duration, Instant},
};

use rclrs::NodeState;
use tokio::sync::watch;

use crate::{
    clock::WindowClock,
    collector::SummaryCollector,
    compatibility::{IncompatiblePublisher, Request},
    contended::{Accept, Contended},
    totals::Totals,
    window::{Metric, Summary, WindowStatistics},
};

/// Something that is measured, for as long as somebody has its handle.
pub(crate) struct Measured {
    /// The value of `measurement_source_name`.
    pub(crate) source: String,
    pub(crate) recording: Arc<dyn Recording>,
    /// What a subscription asks of publishers.
    pub(crate) request: Option<Request>,
    publishers: Mutex<Publishers>,
    /// The last finished window.
    latest: Mutex<Option<Arc<WindowStatistics>>>,
    /// There is a channel once somebody watches: it takes more memory than all else here.
    windows: OnceLock<watch::Sender<Option<Arc<WindowStatistics>>>>,
    has_left: AtomicBool,
    /// Held while one of its messages is published.
    stays: Mutex<()>,
}

/// What is known of the publishers of a subscription's topic.
#[derive(Default)]
struct Publishers {
    /// Those that cannot serve it.
    incompatible: Vec<IncompatiblePublisher>,
    /// How many there were when they were read last.
    read: usize,
    /// Since when there are publishers, and nothing is received.
    silent_since: Option<Instant>,
}

/// What is recorded of something, and read at the end of each window.
pub(crate) trait Recording: Send + Sync {
    /// Turns it on, with a window that starts now and knows of nothing before, or off. Returns whether it was off and is on.
    fn set_enabled(&self, enabled: bool) -> bool;

    /// Returns whether it is on.
    fn is_enabled(&self) -> bool;

    /// Ends the window now and starts the next; None while it is off.
    fn end_window(&self) -> Option<FinishedWindow>;

    /// Returns what was received since the creation; None of what is no subscription.
    fn totals(&self) -> Option<Totals> {
        None
    }
}

/// A window that has ended.
pub(crate) struct FinishedWindow {
    pub(crate) statistics: WindowStatistics,
    /// System time less monotonic time at its end, in nanoseconds.
    pub(crate) clock_offset: i64,
    /// What the node's user should know, each said once.
    pub(crate) warnings: Vec<String>,
}

impl Measured {
    pub(crate) fn new(source: String, recording: Arc<dyn Recording>, request: Option<Request>) -> Self {
        Self {
            source,
            recording,
            request,
            publishers: Mutex::default(),
            latest: Mutex::default(),
            windows: OnceLock::new(),
            has_left: AtomicBool::new(false),
            stays: Mutex::default(),
        }
    }

    /// Returns the last window that was finished.
    pub(crate) fn latest(&self) -> Option<Arc<WindowStatistics>> {
        lock(&self.latest).clone()
    }

    /// Returns a receiver of the windows as they are finished.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        let latest = lock(&self.latest);
        self.windows.get_or_init(|| watch::channel(latest.clone()).0).subscribe()
    }

    /// Hands a finished window to those who watch, whose wakers run code of others.
    pub(crate) fn finish(&self, window: Arc<WindowStatistics>) {
        let watched = {
            let mut latest = lock(&self.latest);
            *latest = Some(Arc::clone(&window));
            self.windows.get()
        };
        if let Some(windows) = watched {
            windows.send_replace(Some(window));
        }
    }

    /// Returns the publishers that cannot serve the subscription, as far as they were seen.
    pub(crate) fn incompatible_publishers(&self) -> Vec<IncompatiblePublisher> {
        lock(&self.publishers).incompatible.clone()
    }

    /// Looks which publishers cannot serve the subscription, and puts those that are new in `warnings`; returns when to look
    /// again, if something is not sure yet.
    ///
    /// To read a publisher's QoS has rclrs 0.8 log an error for each one whose history DDS does not report, which is all. So
    /// they are read only for a subscription that received nothing for a while although there are publishers, and once for
    /// as many publishers as there are. Of one whose statistics are off nothing is known.
    pub(crate) fn check_publishers(&self, node: &NodeState, warnings: &mut Vec<String>) -> Option<Instant> {
        // Longer than a slow topic takes for a message.
        const PATIENCE: Duration = Duration::from_secs(15);
        let request = self.request.as_ref()?;
        if !self.recording.is_enabled() {
            lock(&self.publishers).silent_since = None;
            return None;
        }
        let count = node.count_publishers(&request.topic).ok()?;
        let has_received = self.recording.totals().is_some_and(|totals| totals.received > 0);
        let mut publishers = lock(&self.publishers);
        if count == 0 {
            *publishers = Publishers::default();
            return None;
        }
        if count == publishers.read || (has_received && publishers.incompatible.is_empty()) {
            return None;
        }
        if publishers.read == 0 {
            let due = *publishers.silent_since.get_or_insert_with(Instant::now) + PATIENCE;
            if Instant::now() < due {
                return Some(due);
            }
        }
        let now = request.incompatible(node.get_publishers_info_by_topic(&request.topic).ok()?);
        let before = std::mem::replace(&mut publishers.incompatible, now);
        publishers.read = count;
        let new = publishers.incompatible.iter().filter(|publisher| !before.contains(publisher));
        warnings.extend(new.map(ToString::to_string));
        None
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

/// The collectors of something that is no subscription: behind a switch and a lock, with the window under way.
pub(crate) struct Windowed<C: Collect> {
    enabled: AtomicBool,
    state: Contended<State<C>>,
}

struct State<C> {
    is_enabled: bool,
    window: WindowClock,
    collectors: C,
    /// Samples of this window that were not recorded.
    unrecorded: u64,
}

/// What is collected in a window.
pub(crate) trait Collect: Send {
    type Sample: Send;

    /// Accepts a sample.
    fn accept(&mut self, sample: &Self::Sample);

    /// Ends a window of that length: returns how much there was of what is counted, and what it came to.
    fn take(&mut self, length: Duration) -> (u64, Vec<(Metric, Summary)>);

    /// Forgets what was before.
    fn clear(&mut self);
}

impl<C: Collect> Accept for State<C> {
    type Sample = C::Sample;

    #[inline]
    fn accept(&mut self, sample: &C::Sample) {
        if self.is_enabled {
            self.collectors.accept(sample);
        }
    }

    fn accept_unrecorded(&mut self, count: u64) {
        if self.is_enabled {
            self.unrecorded += count;
        }
    }
}

impl<C: Collect> Windowed<C> {
    /// Creates it off.
    pub(crate) fn new(collectors: C) -> Self {
        let state = State { is_enabled: false, window: WindowClock::default(), collectors, unrecorded: 0 };
        Self { enabled: AtomicBool::new(false), state: Contended::new(state) }
    }

    /// Returns whether it is on.
    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// Records a sample.
    #[inline]
    pub(crate) fn record(&self, sample: impl FnOnce() -> C::Sample) {
        self.state.record(sample);
    }
}

impl<C: Collect> Recording for Windowed<C> {
    fn set_enabled(&self, enabled: bool) -> bool {
        let mut state = self.state.lock();
        let is_new = enabled && !state.is_enabled;
        if is_new {
            state.window.restart();
            state.collectors.clear();
            state.unrecorded = 0;
        }
        state.is_enabled = enabled;
        self.enabled.store(enabled, Ordering::Relaxed);
        is_new
    }

    fn is_enabled(&self) -> bool {
        self.is_enabled()
    }

    fn end_window(&self) -> Option<FinishedWindow> {
        let mut state = self.state.lock();
        if !state.is_enabled {
            return None;
        }
        let ended = state.window.end();
        let unrecorded = std::mem::take(&mut state.unrecorded);
        let (count, mut metrics) = state.collectors.take(ended.length());
        drop(state);
        if unrecorded > 0 {
            metrics.iter_mut().for_each(|(_, summary)| *summary = single_sample(None));
        }
        let statistics = WindowStatistics {
            window: ended.window,
            length: ended.length(),
            clock_step: ended.step.map(|step| step.by),
            count: count + unrecorded,
            unrecorded,
            metrics,
            totals: None,
        };
        Some(FinishedWindow { statistics, clock_offset: ended.clock_offset(), warnings: vec![] })
    }
}

/// The summary of one sample at most.
pub(crate) fn single_sample(sample: Option<f64>) -> Summary {
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
