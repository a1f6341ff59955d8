// SPDX-License-Identifier: Apache-2.0

//! The thread that ends a node's windows and publishes them.

use std::{
    fs::File,
    panic::AssertUnwindSafe,
    sync::{Arc, PoisonError, Weak},
    time::{Duration, Instant},
};

use super::{
    judges::{Changed, Diagnosed},
    losses::{Event, PublishLosses},
    outbox::{Failures, Outgoing, PublishError, WindowPublisher},
    state::{Action, HandOut, Schedule},
};
use crate::{
    condition::Condition,
    escape::Escaped,
    health::{Expectations, Health, Level, NodeExpectations},
    mutex::lock,
    record::{
        clock::{Clock, HostClock},
        options::{SourceDefaults, SourceOptions, StatisticsState},
        simulated_time::SimulatedTime,
        source::{Source, SourceHandle, WindowScheduler, WindowedCollector},
    },
    sync::{
        catch_unwind, now, sleep,
        thread::{self, JoinHandle},
        Condvar, Mutex, MutexGuard,
    },
    totals::TopicTotals,
};

/// Drives the [`Schedule`] of a node on a separate thread.
pub struct Scheduler {
    node_name: String,
    reports: Box<dyn Reports>,
    state: Mutex<State>,
    /// Wakes the scheduler's thread when the schedule changes. It also wakes a thread that waits for the end of the
    /// scheduler's thread.
    changed: Condvar,
    simulated: Option<Arc<SimulatedTime>>,
}

/// The outputs of a node, in addition to the publishers of its windows and losses. No lock is held while these
/// functions are called.
pub trait Reports: Send + Sync {
    /// Writes a text to the log.
    fn log(&self, severity: Severity, text: &str);

    /// Writes a change of a source's health to the log. The default implementation writes it like any text.
    fn log_health(&self, severity: Severity, text: &str) {
        self.log(severity, text);
    }

    /// Publishes the health of these sources. Does nothing if the node does not publish health. Returns the error of
    /// the middleware if this fails.
    fn publish_health(&self, diagnosed: &[&Diagnosed]) -> Result<(), PublishError>;
}

/// The severity of a text in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A table of windows, only for the node's log.
    Table,
    /// The level of a source is OK again.
    Info,
    /// A problem that the user of the node should look at.
    Warn,
    /// A part of the statistics does not work.
    Error,
}

/// A source that is being created. Its samples are already recorded. If this value is dropped before the source is
/// complete, the source is removed and leaves no totals.
#[must_use]
pub struct NewSource {
    scheduler: Arc<Scheduler>,
    /// The collector of the source; `None` when the source is complete.
    collector: Option<Arc<dyn WindowedCollector>>,
}

impl Drop for NewSource {
    fn drop(&mut self) {
        if let Some(collector) = self.collector.take() {
            self.scheduler.change(|schedule, _| schedule.abandon(&collector));
        }
    }
}

impl NewSource {
    /// Completes the source. `source` has the collector that was added before. Returns the handle of the source.
    pub fn complete(mut self, source: Arc<Source>) -> SourceHandle {
        self.collector = None;
        self.scheduler.change(|schedule, now| schedule.complete(&source, now));
        let scheduler = Arc::downgrade(&self.scheduler) as Weak<dyn WindowScheduler>;
        SourceHandle::new(source, scheduler)
    }
}

struct State {
    schedule: Schedule,
    thread: Progress,
}

/// The progress of the scheduler's thread.
#[derive(Clone, Copy, PartialEq)]
enum Progress {
    Running,
    /// The statistics have ended. The file of totals was written, but it may not be on the disk yet.
    HasWritten,
    HasEnded,
}

impl Scheduler {
    /// How long waiting messages are still published after the scheduler was closed.
    const DRAIN: Duration = Duration::from_millis(300);
    /// How long the publishers live after their last message. When a DDS publisher ends, DDS discards messages that a
    /// reader has not received yet, and rclrs 0.8 cannot wait for acknowledgments.
    const LINGER: Duration = Duration::from_millis(100);
    /// How long to wait for the end of the scheduler's thread. During this time, the thread that drops the statistics
    /// is blocked.
    const END: Duration = Duration::from_millis(900);

    /// Creates a scheduler for the node with this fully qualified name. [`start`](Self::start) starts the scheduler's
    /// thread.
    pub fn new(
        node_name: String,
        reports: Box<dyn Reports>,
        schedule: Schedule,
        simulated: Option<Arc<SimulatedTime>>,
    ) -> Self {
        let state = State { schedule, thread: Progress::Running };
        Self { node_name, reports, state: Mutex::new(state), changed: Condvar::new(), simulated }
    }

    /// Starts the thread. The thread runs until the scheduler is [closed](Self::close). Then the thread calls `at_end`,
    /// and finally waits until the file that `at_end` returns is on the disk.
    pub fn start(
        self: &Arc<Self>,
        at_end: impl FnOnce(&Self) -> Option<File> + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let scheduler = Arc::clone(self);
        thread::Builder::new().name("topic_stats".to_owned()).spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| scheduler.run()));
            if result.is_err() {
                scheduler.close();
                scheduler.log_error(&format!(
                    "The thread that publishes the topic statistics of {} panicked; the statistics have ended",
                    scheduler.node_name
                ));
            }
            let file = at_end(&scheduler);
            scheduler.set_progress(Progress::HasWritten);
            if let Some(Err(error)) = file.map(|file| file.sync_all()) {
                scheduler.log_error(&format!(
                    "The file of totals of {} may not be on the disk: {error}",
                    scheduler.node_name
                ));
            }
            scheduler.set_progress(Progress::HasEnded);
        })
    }

    /// Waits for the end of the thread, with a time limit. Returns immediately if it is called on the scheduler's
    /// thread itself. This happens if a waker, which runs on the scheduler's thread, drops the statistics.
    pub fn wait_for_end(&self, thread: JoinHandle<()>) {
        if thread::current().id() == thread.thread().id() {
            return;
        }
        let deadline = now() + Self::END;
        let mut state = self.lock();
        while state.thread != Progress::HasEnded {
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                // On a busy disk, it may take seconds until the file is on the disk. This function does not wait so
                // long, because the kernel writes the file even after this process has ended.
                if state.thread == Progress::HasWritten {
                    return;
                }
                drop(state);
                self.log_error(&format!(
                    "The topic statistics of {} did not end in time: the remaining messages are not published, \
                     and the file of totals is written later or not at all",
                    self.node_name
                ));
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        let _ended = thread.join();
    }

    fn set_progress(&self, progress: Progress) {
        self.lock().thread = progress;
        self.changed.notify_all();
    }

    /// Returns the fully qualified name of the node.
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// Writes an error to the log.
    pub fn log_error(&self, text: &str) {
        self.reports.log(Severity::Error, text);
    }

    /// Adds the collector of a source that is being created. If the source's statistics are enabled, its first window
    /// starts now.
    pub fn add(
        self: &Arc<Self>,
        collector: Arc<dyn WindowedCollector>,
        options: SourceOptions,
        publisher: Option<WindowPublisher>,
    ) -> NewSource {
        self.change(|schedule, now| schedule.add(&collector, options, publisher, now, &HostClock));
        NewSource { scheduler: Arc::clone(self), collector: Some(collector) }
    }

    /// Publishes the losses of a subscription as events from now on. If loss events have no publisher yet, `create`
    /// creates the publisher.
    ///
    /// Returns the error of `create` if `create` fails.
    pub fn add_loss_events<E>(
        &self,
        source: &Arc<Source>,
        create: impl FnOnce() -> Result<Arc<dyn PublishLosses>, E>,
    ) -> Result<(), E> {
        // The publisher is created while no lock is held. If two threads create a publisher, one of the publishers is
        // dropped.
        let needs_publisher = self.lock().schedule.needs_loss_publisher();
        let publisher = if needs_publisher { Some(create()?) } else { None };
        self.change(|schedule, now| schedule.add_loss_events(source, publisher, now));
        Ok(())
    }

    /// Sets the expectations from a source's own options. Call this before the source is
    /// [complete](NewSource::complete).
    pub fn expect(&self, source: &Arc<Source>, own: Expectations) {
        self.change(|schedule, _| schedule.expect(source, own));
    }

    /// Returns what the node expects of its sources.
    pub fn expectations(&self) -> NodeExpectations {
        self.lock().schedule.expectations().clone()
    }

    /// Sets the conditions for a level. They apply to the sources whose own options have no expectations.
    pub fn set_conditions(&self, level: Level, conditions: Vec<Condition>) {
        self.change(|schedule, _| schedule.set_conditions(level, conditions));
    }

    /// Returns an error with the reason if one of these conditions needs a metric that its source does not measure.
    pub fn check_measured(&self, conditions: &[Condition]) -> Result<(), String> {
        self.lock().schedule.check_measured(conditions)
    }

    /// Returns the totals of each subscription, and the totals of ended subscriptions.
    pub fn totals(&self) -> Vec<TopicTotals> {
        self.lock().schedule.totals()
    }

    /// Returns the default options, for sources that do not set an option.
    pub fn defaults(&self) -> SourceDefaults {
        self.lock().schedule.defaults()
    }

    /// Changes the default options; see [`Schedule::change_defaults`].
    pub fn change_defaults(&self, change: impl FnOnce(&mut SourceDefaults)) {
        self.change(|schedule, now| schedule.change_defaults(change, now, &HostClock));
    }

    /// Ends the thread permanently. Finished windows are still published, but current windows are not.
    pub fn close(&self) {
        self.change(|schedule, _| schedule.close());
    }

    fn change(&self, change: impl FnOnce(&mut Schedule, Instant)) {
        change(&mut self.lock().schedule, now());
        self.changed.notify_all();
    }

    fn run(self: &Arc<Self>) {
        let mut published = None;
        let mut state = self.lock();
        loop {
            match state.schedule.next(now(), &HostClock) {
                Action::HandOut(out) => {
                    drop(state); // no lock may be held here: watchers run foreign code, and logging publishes
                    self.hand_out(out);
                    state = self.lock();
                }
                Action::Publish { event, batch } => {
                    drop(state); // publishing may block, so no lock is held
                    let failures = publish(event, batch);
                    published = Some(now());
                    state = self.lock();
                    state.schedule.add_failures(failures);
                }
                Action::PublishDiagnostics(diagnosed) => {
                    drop(state); // publishing may block, so no lock is held
                    let failures = self.publish_diagnostics(diagnosed);
                    published = Some(now());
                    state = self.lock();
                    state.schedule.add_failures(failures);
                }
                Action::CheckPublishers(sources) => {
                    drop(state); // the check takes locks of the ROS graph, so no other lock is held
                    let (again, warnings) = self.check_publishers(&sources);
                    drop(sources);
                    state = self.lock();
                    state.schedule.add_publisher_check(warnings, again);
                }
                Action::Wait(wake) => state = self.wait(state, wake),
                Action::End { event, messages, rest } => {
                    drop(state);
                    return self.drain(event, messages, rest, published);
                }
            }
        }
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, mut wake: Option<Instant>) -> MutexGuard<'a, State> {
        let now = now();
        if let Some(time) = &self.simulated {
            time.refresh(HostClock.monotonic());
            let refresh = now + SimulatedTime::INTERVAL;
            wake = Some(wake.map_or(refresh, |wake| wake.min(refresh)));
        }
        match wake {
            Some(wake) => {
                let wait = wake.saturating_duration_since(now);
                self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Looks for publishers that cannot serve these subscriptions. Returns the time of the next check, and warnings.
    fn check_publishers(&self, sources: &[Arc<Source>]) -> (Option<Instant>, Vec<String>) {
        let (now, mut warnings) = (now(), vec![]);
        let again = sources.iter().filter_map(|source| source.check_publishers(now, &mut warnings)).min();
        (again, warnings)
    }

    /// Publishes the health of these sources, except sources whose handle was dropped.
    fn publish_diagnostics(&self, diagnosed: Vec<Diagnosed>) -> Failures {
        let mut failures = Failures::default();
        let with_guards =
            diagnosed.iter().filter_map(|judged| Some((judged, judged.source.publishing_guard()?)));
        let (diagnosed, _guards): (Vec<_>, Vec<_>) = with_guards.unzip();
        if diagnosed.is_empty() {
            return failures; // all sources are disabled or dropped
        }
        if let Err(error) = self.reports.publish_health(&diagnosed) {
            failures.add(|| error.to_string());
        }
        failures
    }

    /// Publishes as many of the last messages as possible in [`DRAIN`](Self::DRAIN). Returns after readers had time to
    /// receive the messages.
    fn drain(
        &self,
        event: Option<Event>,
        messages: Vec<Outgoing>,
        mut rest: HandOut,
        mut published: Option<Instant>,
    ) {
        let deadline = now() + Self::DRAIN;
        let mut failures = Failures::default();
        // The loss event is published first: it contains all unpublished losses, and the remaining time may be too
        // short for all messages.
        if let Some(event) = &event {
            event.publish(&mut failures);
            published = Some(now());
        }
        let mut waiting = messages.iter();
        for message in waiting.by_ref() {
            message.publish(&mut failures);
            published = Some(now());
            if now() >= deadline {
                break;
            }
        }
        if waiting.len() > 0 {
            rest.warnings.push(format!(
                "{} messages of topic statistics were not published: there was no time left at the end",
                waiting.len()
            ));
        }
        rest.warnings.extend(failures.take());
        self.hand_out(rest);
        if let Some(published) = published {
            sleep((published + Self::LINGER).saturating_duration_since(now()));
        }
        // If nothing else owns the publishers of the event and the messages, this line ends these publishers.
        drop((event, messages));
    }

    /// Gives finished windows to their watchers, and writes tables, warnings and changes of health to the node's log.
    /// The caller must not hold a lock.
    fn hand_out(&self, out: HandOut) {
        for (source, statistics) in out.finished {
            source.finish(statistics);
        }
        for Changed { source, is_change, before, health } in out.changed {
            if let Some(before) = before {
                self.log_change(&source, before, &health);
            }
            source.set_health(health, is_change);
        }
        out.tables.iter().for_each(|table| self.reports.log(Severity::Table, table));
        out.warnings.iter().for_each(|warning| self.reports.log(Severity::Warn, warning));
    }

    fn log_change(&self, source: &Source, before: Level, health: &Health) {
        let severity = match health.level {
            Level::Ok => Severity::Info,
            Level::Warn | Level::Stale => Severity::Warn,
            Level::Error => Severity::Error,
        };
        let text = format!("{} is {} (was {before}): {health}", Escaped(&source.name), health.level);
        self.reports.log_health(severity, &text);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl WindowScheduler for Scheduler {
    fn set_state(&self, source: &Arc<Source>, state: StatisticsState) {
        self.change(|schedule, now| schedule.set_state(source, state, now, &HostClock));
    }

    fn remove(&self, source: &Arc<Source>) {
        if self.lock().schedule.remove(source) {
            self.changed.notify_all();
        }
    }
}

fn publish(event: Option<Event>, batch: Vec<Outgoing>) -> Failures {
    let mut failures = Failures::default();
    if let Some(event) = event {
        event.publish(&mut failures);
    }
    batch.iter().for_each(|message| message.publish(&mut failures));
    failures
}

opaque_debug!(Scheduler, NewSource);

#[cfg(all(test, topic_statistics_loom))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{code::Durations, windowed::Windowed},
        schedule::losses::LossEvents,
    };

    struct NoReports;

    impl Reports for NoReports {
        fn log(&self, _: Severity, text: &str) {
            panic!("{text}");
        }

        fn publish_health(&self, _: &[&Diagnosed]) -> Result<(), PublishError> {
            Ok(())
        }
    }

    #[test]
    fn a_source_whose_creation_fails_leaves_the_schedule() {
        let losses = LossEvents::new("/node".to_owned(), 1.0);
        let schedule = Schedule::new(SourceDefaults::default(), false, losses);
        let scheduler = Arc::new(Scheduler::new("/node".to_owned(), Box::new(NoReports), schedule, None));
        let collector = Arc::new(Windowed::new(Durations::default()));
        let new = scheduler.add(Arc::clone(&collector) as _, SourceOptions::default(), None);
        assert!(collector.is_enabled());
        drop(new);
        assert!(!collector.is_enabled());
        scheduler.change_defaults(|defaults| defaults.enabled = true);
        assert!(!collector.is_enabled(), "the source is removed");
    }
}
