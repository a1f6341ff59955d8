// SPDX-License-Identifier: Apache-2.0

//! A source of statistics: a subscription, a publisher, a timer or a counter, as the schedule sees it.

use std::{
    sync::{Arc, PoisonError, Weak},
    time::Instant,
};

use rclrs::NodeState;

use super::clock::Clock;
use crate::{
    graph::{IncompatiblePublisher, PublisherCheck},
    health::{Health, Names},
    options::TopicStatisticsState,
    sync::{
        atomic::{AtomicBool, Ordering},
        watch, Mutex, MutexGuard, OnceLock,
    },
    totals::{TopicTotals, Totals},
    window::{Distributions, Metric, WindowStatistics},
};

/// A source of statistics, which lives as long as its handle.
pub(crate) struct Source {
    /// The `measurement_source_name`.
    pub(crate) name: Box<str>,
    pub(crate) collector: Arc<dyn WindowedCollector>,
    /// Finds the publishers that cannot serve a subscription; None for other sources.
    publisher_check: Option<PublisherCheck>,
    finished: Mutex<Finished>,
    /// Created for the first watcher: a channel takes more memory than all the rest of a source.
    watched: OnceLock<watch::Sender<Option<Arc<WindowStatistics>>>>,
    is_retired: AtomicBool,
    /// Held while one of its messages is published.
    publishing: Mutex<()>,
}

/// The finished windows of a source.
#[derive(Default)]
struct Finished {
    /// The last one.
    latest: Option<Arc<WindowStatistics>>,
    /// Of all of them, if it is a subscription.
    distributions: Distributions,
    /// Created when the health first changes, or is watched.
    health: Option<Arc<watch::Sender<Health>>>,
}

impl Finished {
    fn health(&mut self) -> &Arc<watch::Sender<Health>> {
        self.health.get_or_insert_with(|| Arc::new(watch::channel(Health::default()).0))
    }
}

/// What collects the samples of a source, window by window.
pub(crate) trait WindowedCollector: Send + Sync {
    /// Enables it, with a window that starts now. Returns whether it was disabled before.
    fn enable(&self, clock: &dyn Clock) -> bool;

    /// Disables it. The window under way is lost.
    fn disable(&self);

    /// Returns whether it is enabled.
    fn is_enabled(&self) -> bool;

    /// Sets whether the windows that start from now on have distributions of their samples.
    fn set_distributions(&self, enabled: bool);

    /// Ends the window now and starts the next one. Returns None while it is disabled.
    fn end_window(&self, clock: &dyn Clock) -> Option<FinishedWindow>;

    /// Returns the messages received and lost since its creation; None unless it collects those of a subscription.
    fn totals(&self) -> Option<Totals> {
        None
    }

    /// Returns the topic of a subscription as the node's code has it; None if it is no subscription.
    fn given_topic(&self) -> Option<&str> {
        None
    }

    /// Returns whether it measures a metric.
    fn measures(&self, metric: Metric) -> bool;
}

/// A window that has ended.
pub(crate) struct FinishedWindow {
    pub(crate) statistics: WindowStatistics,
    /// System time less monotonic time at its end, in nanoseconds.
    pub(crate) clock_offset: i64,
    /// Warnings for the node's log. The collector gives each one once.
    pub(crate) warnings: Vec<String>,
}

/// What ends the windows of sources, as their handles see it.
pub(crate) trait WindowScheduler: Send + Sync {
    /// Sets whether a source has statistics.
    fn set_state(&self, source: &Arc<Source>, state: TopicStatisticsState);

    /// Removes a source that is retired, and keeps its totals.
    fn remove(&self, source: &Arc<Source>);
}

impl Source {
    pub(crate) fn new(
        name: String,
        collector: Arc<dyn WindowedCollector>,
        publisher_check: Option<PublisherCheck>,
    ) -> Self {
        Self {
            name: name.into(),
            collector,
            publisher_check,
            finished: Mutex::default(),
            watched: OnceLock::new(),
            is_retired: AtomicBool::new(false),
            publishing: Mutex::default(),
        }
    }

    /// Returns the last finished window.
    pub(crate) fn latest(&self) -> Option<Arc<WindowStatistics>> {
        lock(&self.finished).latest.clone()
    }

    /// Returns a receiver of finished windows.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        let finished = lock(&self.finished);
        self.watched.get_or_init(|| watch::channel(finished.latest.clone()).0).subscribe()
    }

    /// Gives a finished window to the watchers. Their wakers run foreign code, so nothing may be locked.
    pub(crate) fn finish(&self, window: Arc<WindowStatistics>) {
        let watched = {
            let mut finished = lock(&self.finished);
            finished.latest = Some(Arc::clone(&window));
            self.watched.get()
        };
        if let Some(watched) = watched {
            watched.send_replace(Some(window));
        }
    }

    /// Returns a receiver of its health.
    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        lock(&self.finished).health().subscribe()
    }

    /// Gives its health to the watchers. Their wakers run foreign code, so nothing may be locked.
    pub(crate) fn set_health(&self, health: Health) {
        let sender = Arc::clone(lock(&self.finished).health());
        sender.send_replace(health);
    }

    /// Returns the names by which conditions can be about it.
    pub(crate) fn names(&self) -> Names<'_> {
        Names { source: &self.name, topic: self.topic(), given: self.collector.given_topic() }
    }

    /// Returns the topic of a subscription; None for other sources.
    pub(crate) fn topic(&self) -> Option<&str> {
        Some(self.publisher_check.as_ref()?.topic())
    }

    /// Returns the totals of a subscription; None for other sources.
    pub(crate) fn totals(&self) -> Option<TopicTotals> {
        Some(TopicTotals {
            topic_name: self.topic()?.to_owned(),
            source_name: self.name.to_string(),
            totals: self.collector.totals()?,
            distributions: lock(&self.finished).distributions.clone(),
        })
    }

    /// Adds the distributions of a finished window to those of a subscription since its creation.
    pub(crate) fn add_distributions(&self, of: &WindowStatistics) {
        if self.topic().is_some() && !of.distributions.is_empty() {
            lock(&self.finished).distributions.merge(&of.distributions);
        }
    }

    /// Returns the publishers that were found not to serve the subscription.
    pub(crate) fn incompatible_publishers(&self) -> Vec<IncompatiblePublisher> {
        self.publisher_check.as_ref().map(PublisherCheck::incompatible).unwrap_or_default()
    }

    /// Looks for publishers that cannot serve the subscription, and appends a warning for each new one. Returns when to check
    /// again, if it is too early to know.
    pub(crate) fn check_publishers(
        &self,
        node: &NodeState,
        now: Instant,
        warnings: &mut Vec<String>,
    ) -> Option<Instant> {
        let check = self.publisher_check.as_ref()?;
        if !self.collector.is_enabled() {
            check.restart();
            return None;
        }
        let has_received = self.collector.totals().is_some_and(|totals| totals.received > 0);
        check.run(node, has_received, now, warnings)
    }

    /// Returns whether its handle is dropped.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }

    /// Returns a guard that holds back the retirement while a message of the source is published; None if it is retired.
    pub(crate) fn publishing_guard(&self) -> Option<MutexGuard<'_, ()>> {
        let guard = lock(&self.publishing);
        (!self.is_retired()).then_some(guard)
    }

    /// Ends its statistics. No message of it is published after this returns.
    fn retire(&self) {
        self.is_retired.store(true, Ordering::Release);
        self.collector.disable();
        drop(lock(&self.publishing)); // waits for the message that is being published
    }
}

/// The part that all handles of sources have in common. Dropping it retires the source.
pub(crate) struct SourceHandle {
    source: Arc<Source>,
    scheduler: Weak<dyn WindowScheduler>,
}

impl SourceHandle {
    pub(crate) fn new(source: Arc<Source>, scheduler: Weak<dyn WindowScheduler>) -> Self {
        Self { source, scheduler }
    }

    /// Sets whether the source has statistics; does nothing once the scheduler is dropped.
    pub(crate) fn set_state(&self, state: TopicStatisticsState) {
        if let Some(scheduler) = self.scheduler.upgrade() {
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
        if let Some(scheduler) = self.scheduler.upgrade() {
            scheduler.remove(&self.source);
        }
    }
}

/// Locks a mutex whose data no panic leaves half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(loom)]
pub(crate) mod models;
