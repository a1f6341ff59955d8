// SPDX-License-Identifier: Apache-2.0

//! A source of statistics, such as a subscription or a timer, with the interface that the scheduler needs.

use std::{
    sync::{Arc, PoisonError, Weak},
    time::{Duration, Instant},
};

use super::source_name::UniqueName;
use crate::{
    distributions::Distributions,
    health::{Health, Level, Names},
    incompatible::IncompatiblePublisher,
    metric::Metric,
    mutex::lock,
    record::{clocks::clock::Clock, sources::options::StatisticsState},
    source_kind::SourceKind,
    sync::{
        atomic::{AtomicBool, Ordering},
        now, watch, Condvar, Mutex, OnceLock,
    },
    totals::{TopicTotals, Totals},
    window::WindowStatistics,
};

/// A source of statistics. A source lives as long as its handle.
pub struct Source {
    /// The `measurement_source_name`.
    pub name: UniqueName,
    /// The collector of the source's samples.
    pub collector: Arc<dyn WindowedCollector>,
    /// `None` if the source has no topic and no service: a stopwatch, a counter or a timer.
    endpoint: Option<Box<dyn Endpoint>>,
    finished: Mutex<Finished>,
    /// The channel to the watchers of windows. It is created for the first watcher, because it takes more memory than
    /// all other fields.
    watched: OnceLock<watch::Sender<Option<Arc<WindowStatistics>>>>,
    is_retired: AtomicBool,
    /// The number of statistics messages about this source that are being published now.
    publishing: Mutex<u32>,
    published: Condvar,
}

#[derive(Default)]
struct Finished {
    latest: Option<Arc<WindowStatistics>>,
    /// The sum of the distributions of all windows; empty if the source is not a subscription.
    distributions: Distributions,
    /// The health of the source. `None` before the first window. After that, `None` if the source has no expectations
    /// and nobody watches its health.
    health: Option<Box<SourceHealth>>,
}

#[derive(Default)]
struct SourceHealth {
    /// The health after the last window.
    present: Health,
    /// The channel to the watchers of the health; `None` before the first watcher.
    watched: Option<Arc<watch::Sender<Health>>>,
}

/// The topic or service of a source. The endpoint of a subscription also finds the publishers that cannot serve it.
pub trait Endpoint: Send + Sync {
    /// Returns the resolved name of the topic or the service.
    fn topic(&self) -> &str;

    /// Returns the topic or service name as it is written in the node's code; `None` for a subscription.
    fn given(&self) -> Option<&str> {
        None
    }

    /// Returns the publishers that the last check found to be incompatible.
    fn incompatible(&self) -> Vec<IncompatiblePublisher> {
        vec![]
    }

    /// Restarts the time to wait before the next check of the publishers. Called while the statistics are disabled,
    /// because then it is unknown whether messages arrive.
    fn restart(&self) {}

    /// Checks the publishers, and appends a warning for each new publisher that cannot serve the subscription. Returns
    /// the time of the next check; `None` if no check is necessary.
    fn run(&self, _has_received: bool, _now: Instant, _warnings: &mut Vec<String>) -> Option<Instant> {
        None
    }
}

/// The endpoint of a subscription whose publishers are not checked.
impl Endpoint for String {
    fn topic(&self) -> &str {
        self
    }
}

/// The endpoint of a publisher (its topic), or of a service or a client (its service).
struct NamedEndpoint {
    topic: String,
    given: String,
}

impl Endpoint for NamedEndpoint {
    fn topic(&self) -> &str {
        &self.topic
    }

    fn given(&self) -> Option<&str> {
        Some(&self.given)
    }
}

/// Collects the samples of a source, window by window.
pub trait WindowedCollector: Send + Sync {
    /// Enables the collector, with a window that starts now. Returns whether the collector was disabled before.
    fn enable(&self, clock: &dyn Clock) -> bool;

    /// Disables the collector. The current window is discarded.
    fn disable(&self);

    /// Returns whether the collector is enabled.
    fn is_enabled(&self) -> bool;

    /// Sets whether the windows that start after this call have distributions of their samples.
    fn set_distributions(&self, enabled: bool);

    /// Ends the current window now and starts the next window. Returns `None` if the collector is disabled.
    fn end_window(&self, clock: &dyn Clock) -> Option<FinishedWindow>;

    /// Returns the messages received and lost since the creation; `None` if the source is not a subscription.
    fn totals(&self) -> Option<Totals> {
        None
    }

    /// Returns the topic name of a subscription as it is written in the node's code; `None` for other sources.
    fn given_topic(&self) -> Option<&str> {
        None
    }

    /// Returns the kind of the source.
    fn kind(&self) -> SourceKind;

    /// Returns whether the source is a transient local subscription, whose publishers may publish only once.
    fn is_latched(&self) -> bool {
        false
    }

    /// Returns whether the source could measure a metric if the metric were enabled.
    fn can_measure(&self, metric: Metric) -> bool {
        self.kind().measures(metric)
    }

    /// Returns whether the source measures a metric.
    fn measures(&self, metric: Metric) -> bool;
}

/// A window that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct FinishedWindow {
    /// The statistics of the window.
    pub statistics: WindowStatistics,
    /// The system time minus the monotonic time at the window's end, in nanoseconds.
    pub clock_offset: i64,
    /// Warnings for the node's log. The collector reports each warning only once.
    pub warnings: Vec<String>,
}

/// Ends the windows of sources. The handles of sources use this interface.
pub trait WindowScheduler: Send + Sync {
    /// Sets whether a source has statistics.
    fn set_state(&self, source: &Arc<Source>, state: StatisticsState);

    /// Removes a source whose handle was dropped, and keeps its totals.
    fn remove(&self, source: &Arc<Source>);
}

impl Source {
    /// If a publication is under way, the drop of a handle waits for it, but at most for this time, because a
    /// middleware may block for minutes.
    const RETIREMENT: Duration = Duration::from_millis(500);

    /// Creates a source. With an `endpoint`, the source is a subscription.
    pub fn new(
        name: impl Into<UniqueName>,
        collector: Arc<dyn WindowedCollector>,
        endpoint: Option<Box<dyn Endpoint>>,
    ) -> Self {
        Self {
            name: name.into(),
            collector,
            endpoint,
            finished: Mutex::default(),
            watched: OnceLock::new(),
            is_retired: AtomicBool::new(false),
            publishing: Mutex::default(),
            published: Condvar::new(),
        }
    }

    /// Makes this source the source of a publisher of the topic `topic`, or of a service or a client with the name
    /// `topic`.
    pub fn of_topic(mut self, topic: String, given: &str) -> Self {
        self.endpoint = Some(Box::new(NamedEndpoint { topic, given: given.to_owned() }));
        self
    }

    /// Returns the last finished window.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        lock(&self.finished).latest.clone()
    }

    /// Returns a receiver of finished windows. Its first value is the last finished window; `None` if no window has
    /// finished.
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        let finished = lock(&self.finished);
        self.watched.get_or_init(|| watch::channel(finished.latest.clone()).0).subscribe()
    }

    /// Sends a finished window to the watchers. The wakers of the watchers run the code of other crates, so the caller
    /// must not hold a lock.
    pub fn finish(&self, window: Arc<WindowStatistics>) {
        let mut finished = lock(&self.finished);
        finished.latest = Some(Arc::clone(&window));
        let watched = self.watched.get();
        drop(finished);
        if let Some(watched) = watched {
            watched.send_replace(Some(window));
        }
    }

    /// Returns a receiver of the source's health, with the present health as its first value.
    pub fn health(&self) -> watch::Receiver<Health> {
        let mut finished = lock(&self.finished);
        let SourceHealth { present, watched } = &mut **finished.health.get_or_insert_default();
        let sender = watched.get_or_insert_with(|| Arc::new(watch::channel(Health::default()).0));
        replace_silently(sender, present.clone());
        sender.subscribe()
    }

    /// Sets the health of the source. If `is_change` is true, the watchers are woken. The wakers of the watchers run
    /// the code of other crates, so the caller must not hold a lock.
    pub fn set_health(&self, health: Health, is_change: bool) {
        let mut finished = lock(&self.finished);
        let SourceHealth { present, watched } = &mut **finished.health.get_or_insert_default();
        *present = health.clone();
        let Some(sender) = watched.clone() else { return };
        drop(finished);
        // If `is_change` is false, no watcher is woken. The health in the channel is replaced only if it has no window
        // yet, or if its level is OK and its cause is another one. Otherwise the channel keeps the health of the last
        // change, because a slow receiver may not have read this health yet.
        let is_well_otherwise = |received: &Health| {
            received.window.is_none() || received.level == Level::Ok && received.cause != health.cause
        };
        if is_change {
            sender.send_replace(health);
        } else if is_well_otherwise(&sender.borrow()) {
            replace_silently(&sender, health);
        }
    }

    /// Returns the names that a condition can use to select this source.
    pub fn names(&self) -> Names<'_> {
        let topic = self.endpoint.as_deref().map(Endpoint::topic);
        let given =
            self.endpoint.as_deref().and_then(Endpoint::given).or_else(|| self.collector.given_topic());
        Names { source: &self.name, plain_source: self.name.plain(), topic, given }
    }

    /// Returns the kind of this source.
    pub fn kind(&self) -> SourceKind {
        self.collector.kind()
    }

    /// Returns whether this source is a subscription.
    pub fn is_subscription(&self) -> bool {
        self.kind() == SourceKind::Subscription
    }

    /// Returns the topic of a subscription; `None` for other sources.
    pub fn topic(&self) -> Option<&str> {
        self.subscription().map(Endpoint::topic)
    }

    fn subscription(&self) -> Option<&dyn Endpoint> {
        self.endpoint.as_deref().filter(|endpoint| endpoint.given().is_none())
    }

    /// Returns the totals of a subscription; `None` for other sources.
    pub fn totals(&self) -> Option<TopicTotals> {
        Some(TopicTotals {
            topic_name: self.topic()?.to_owned(),
            source_name: self.name.to_string(),
            totals: self.collector.totals()?,
            distributions: lock(&self.finished).distributions.clone(),
        })
    }

    /// Adds the distributions of a finished window to the totals of a subscription.
    pub fn add_distributions(&self, window: &WindowStatistics) {
        if self.is_subscription() && !window.distributions.is_empty() {
            lock(&self.finished).distributions.merge(&window.distributions);
        }
    }

    /// Returns the publishers that cannot serve this subscription, as the last check found.
    pub fn incompatible_publishers(&self) -> Vec<IncompatiblePublisher> {
        self.subscription().map(|check| check.incompatible()).unwrap_or_default()
    }

    /// Checks the publishers of a subscription with [`Endpoint::run`].
    pub fn check_publishers(&self, now: Instant, warnings: &mut Vec<String>) -> Option<Instant> {
        let check = self.subscription()?;
        if !self.collector.is_enabled() {
            check.restart();
            return None;
        }
        let has_received = self.collector.totals().is_some_and(|totals| totals.received > 0);
        check.run(has_received, now, warnings)
    }

    /// Returns whether the handle of this source was dropped.
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }

    /// Returns a guard that delays the retirement of this source; `None` if the source's handle was dropped.
    pub fn publishing_guard(&self) -> Option<PublishingGuard<'_>> {
        let mut publishing = lock(&self.publishing);
        if self.is_retired() {
            return None;
        }
        *publishing += 1;
        Some(PublishingGuard(self))
    }

    /// Ends the statistics of this source, and frees its name for another source. Afterwards, no statistics message
    /// about this source is published, except if the middleware blocks a publication for longer than
    /// [`RETIREMENT`](Self::RETIREMENT).
    fn retire(&self) {
        self.is_retired.store(true, Ordering::Release);
        self.collector.disable();
        let deadline = now() + Self::RETIREMENT;
        let mut publishing = lock(&self.publishing);
        while *publishing > 0 {
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                break;
            }
            publishing =
                self.published.wait_timeout(publishing, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(publishing);
        self.name.release();
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if !self.is_retired() {
            self.name.release(); // no handle will free the name
        }
    }
}

/// A guard that delays the retirement of a source.
#[derive(Debug)]
pub struct PublishingGuard<'a>(&'a Source);

impl Drop for PublishingGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.publishing) -= 1;
        self.0.published.notify_all();
    }
}

/// The part of a source's handle that is the same for all kinds of sources. The drop of the handle retires the source.
pub struct SourceHandle {
    source: Arc<Source>,
    /// This field is dropped after `source`, because the drop of the last keeper may end the scheduler's thread.
    keeper: Arc<Keeper>,
}

/// What the handles of several sources share: the scheduler of their windows, and an object that they keep alive.
pub struct Keeper {
    scheduler: Weak<dyn WindowScheduler>,
    _kept: Option<Arc<dyn Send + Sync>>,
}

impl Keeper {
    /// Creates a keeper that keeps `kept` alive.
    pub fn new(scheduler: Weak<dyn WindowScheduler>, kept: Arc<dyn Send + Sync>) -> Arc<Self> {
        Arc::new(Self { scheduler, _kept: Some(kept) })
    }
}

impl SourceHandle {
    /// Creates the handle of a source. `scheduler` ends the windows of the source.
    pub fn new(source: Arc<Source>, scheduler: Weak<dyn WindowScheduler>) -> Self {
        Self { source, keeper: Arc::new(Keeper { scheduler, _kept: None }) }
    }

    /// Returns this handle with the given keeper, which must have the same scheduler as the handle.
    pub fn keeping(mut self, keeper: &Arc<Keeper>) -> Self {
        self.keeper = Arc::clone(keeper);
        self
    }

    /// Sets whether the source has statistics. Does nothing if the scheduler was dropped.
    pub fn set_state(&self, state: StatisticsState) {
        if let Some(scheduler) = self.keeper.scheduler.upgrade() {
            scheduler.set_state(&self.source, state);
        }
    }
}

impl std::ops::Deref for SourceHandle {
    type Target = Source;

    fn deref(&self) -> &Source {
        &self.source
    }
}

impl Drop for SourceHandle {
    fn drop(&mut self) {
        self.source.retire();
        if let Some(scheduler) = self.keeper.scheduler.upgrade() {
            scheduler.remove(&self.source);
        }
    }
}

/// Replaces the health without waking any receiver.
fn replace_silently(sender: &watch::Sender<Health>, health: Health) {
    sender.send_if_modified(|present| {
        *present = health;
        false
    });
}

opaque_debug!(Source, SourceHandle, Keeper);

#[cfg(all(test, topic_statistics_loom))]
mod models;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::{
        health::Cause,
        record::{code::Durations, windowed::Windowed},
        window::Window,
    };

    #[test]
    fn a_watcher_is_not_woken_by_a_health_with_another_reason() {
        let source = Source::new("stopwatch".to_owned(), Arc::new(Windowed::new(Durations::default())), None);
        let early = source.health();
        let window = Some(Window::from_nanoseconds(0, 1));
        source.set_health(Health { window, ..Health::default() }, false); // the first window changes only the window
        assert_eq!((early.borrow().window, &early.borrow().cause), (window, &Cause::NoMessageYet));
        source.set_health(Health { window, cause: Cause::AsExpected, ..Health::default() }, false);
        assert_eq!(early.borrow().cause, Cause::AsExpected);
        assert!(!early.has_changed().unwrap());
    }

    #[test]
    fn dropping_a_handle_waits_for_a_publication_with_a_limit() {
        let durations = Arc::new(Windowed::new(Durations::default()));
        let source = Arc::new(Source::new("stopwatch".to_owned(), durations, None));
        let (started, begins) = mpsc::channel();
        let (unblock, blocked) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let publishing = Arc::clone(&source);
            let publishes = scope.spawn(move || {
                let _guard = publishing.publishing_guard().unwrap();
                started.send(()).unwrap();
                blocked.recv_timeout(Duration::from_secs(60)) // a publication that blocks, like a Zenoh `put`
            });
            begins.recv().unwrap();
            let before = Instant::now();
            source.retire();
            let waited = before.elapsed();
            assert!(waited >= Source::RETIREMENT && waited < Duration::from_secs(30), "{waited:?}");
            assert!(source.publishing_guard().is_none(), "nothing is published after the drop");
            unblock.send(()).unwrap();
            publishes.join().unwrap().unwrap();
        });
        let before = Instant::now();
        source.retire();
        assert!(before.elapsed() < Source::RETIREMENT, "nothing is being published");
    }
}
