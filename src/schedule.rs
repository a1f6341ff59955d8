// SPDX-License-Identifier: Apache-2.0

//! When windows end, and how they get published: a thread of its own.

use std::{
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rclrs::{log_error, log_info, log_warn, Node, NodeState, Promise, Publisher};
use ros_env::{statistics_msgs::msg::MetricsMessage, topic_statistics_interfaces::msg::MessagesLostEvent};

use crate::{
    compatibility::on_next_graph_change,
    losses::{self, LossEvents},
    measured::{lock, Measured},
    options::TopicStatisticsState,
    outbox::{Failures, Outbox, Outgoing},
    simulated_time::SimulatedTime,
    table,
    totals::{add_up, TopicTotals},
    totals_file,
    window::{Metric, WindowStatistics},
};

/// The windows of what is measured of a node.
pub(crate) struct Schedule {
    node: Weak<NodeState>,
    node_name: String,
    /// Whether the windows are in the node's log too.
    logs_table: bool,
    totals_file: Option<PathBuf>,
    state: Mutex<State>,
    /// Wakes the thread when there is something new for it, and whoever waits for the thread's end.
    changed: Condvar,
    simulated: Option<Arc<SimulatedTime>>,
}

struct State {
    /// What the node says.
    enabled: bool,
    publish_period: Duration,
    sources: Vec<Source>,
    /// The totals of subscriptions that have ended.
    ended: Vec<TopicTotals>,
    /// All windows with one period end together.
    ends: Vec<WindowEnd>,
    outbox: Outbox,
    /// What waits until the state is unlocked: windows for those who watch, lines for the node's log.
    finished: Vec<(Arc<Measured>, Arc<WindowStatistics>)>,
    tables: Vec<String>,
    warnings: Vec<String>,
    failures: Failures,
    /// Of what was warned that is warned of once for the whole node.
    reported: Reported,
    losses: LossEvents,
    /// When to look for publishers that cannot serve a subscription.
    check_publishers: Option<Instant>,
    /// Has the next change of the graph told.
    graph_change: Option<Promise<()>>,
    is_closed: bool,
    /// Whether the thread has ended.
    has_ended: bool,
}

/// What was warned of.
#[derive(Default)]
struct Reported {
    /// The offset of the system clock from the monotonic one after its last step, in nanoseconds.
    clock_offset: Option<i64>,
    /// When publications that failed were reported last.
    failures: Option<Instant>,
    has_discarded_windows: bool,
    has_forgotten_totals: bool,
}

/// Where statistics come from, and where they go.
struct Source {
    measured: Weak<Measured>,
    state: TopicStatisticsState,
    /// When a first whole window is over.
    first_end: Option<Instant>,
    /// None: as the node says.
    publish_period: Option<Duration>,
    /// None: nothing is published.
    publisher: Option<Publisher<MetricsMessage>>,
}

/// When the next windows of one length end.
struct WindowEnd {
    period: Duration,
    at: Instant,
}

impl Schedule {
    /// How long after a change the graph is looked at: by then it has settled, and publishers have the names of their nodes.
    /// This is also how often it is looked at most.
    const GRAPH_SETTLES: Duration = Duration::from_secs(1);
    /// How long what waits is published after the end is asked for.
    const DRAIN: Duration = Duration::from_millis(300);
    /// How long the thread's end is waited for: somebody is dropping the statistics.
    const END: Duration = Duration::from_millis(900);
    /// The most totals of subscriptions that have ended, by their names.
    const ENDED: usize = 1000;

    pub(crate) fn new(
        node: &Node,
        enabled: bool,
        publish_period: Duration,
        simulated: Option<Arc<SimulatedTime>>,
        logs_table: bool,
        max_event_rate: f64,
        totals_file: Option<PathBuf>,
    ) -> Self {
        let state = State {
            enabled,
            publish_period,
            sources: vec![],
            ended: vec![],
            ends: vec![],
            outbox: Outbox::default(),
            finished: vec![],
            tables: vec![],
            warnings: vec![],
            failures: Failures::default(),
            reported: Reported::default(),
            losses: LossEvents::new(node.fully_qualified_name(), max_event_rate),
            check_publishers: None,
            graph_change: None,
            is_closed: false,
            has_ended: false,
        };
        Self {
            node: Arc::downgrade(node),
            node_name: node.fully_qualified_name(),
            logs_table,
            totals_file,
            state: Mutex::new(state),
            changed: Condvar::new(),
            simulated,
        }
    }

    /// Starts the thread that ends the windows, until the schedule is [closed](Self::close).
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let schedule = Arc::clone(self);
        std::thread::Builder::new().name("topic_stats".to_owned()).spawn(move || {
            let ran = std::panic::catch_unwind(AssertUnwindSafe(|| schedule.run()));
            if ran.is_err() {
                schedule.close();
                schedule.log_error(&format!(
                    "The thread that publishes the topic statistics of {} panicked; there are no more of them",
                    schedule.node_name
                ));
            }
            if let Some(path) = &schedule.totals_file {
                schedule.write_totals(path);
            }
            schedule.lock().has_ended = true;
            schedule.changed.notify_all();
        })
    }

    /// Waits until the thread has ended, but not for long; not at all on the thread itself, where a waker drops the statistics.
    pub(crate) fn wait_for_end(&self, thread: JoinHandle<()>) {
        if std::thread::current().id() == thread.thread().id() {
            return;
        }
        let deadline = Instant::now() + Self::END;
        let mut state = self.lock();
        while !state.has_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                self.log_error(&format!(
                    "The topic statistics of {} did not end in time: what is left of them is not published, and the file of \
                     totals is written later, if at all",
                    self.node_name
                ));
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        let _ended = thread.join();
    }

    fn write_totals(&self, path: &std::path::Path) {
        if let Err(source) = totals_file::write(path, &self.node_name, &self.totals()) {
            let node = self.node_name.clone();
            self.log_error(
                &crate::StatisticsError::TotalsFile { node, path: path.to_owned(), source }.to_string(),
            );
        }
    }

    /// Logs an error, in the node's log and by `tracing`.
    fn log_error(&self, text: &str) {
        tracing::error!("{text}");
        if let Some(node) = self.node.upgrade() {
            log_error!(node.logger(), "{text}");
        }
    }

    /// Adds something that is measured, whose first window starts now.
    pub(crate) fn add(
        &self,
        measured: &Arc<Measured>,
        state: TopicStatisticsState,
        publish_period: Option<Duration>,
        publisher: Option<Publisher<MetricsMessage>>,
    ) {
        self.change(|schedule| {
            let measured = Arc::downgrade(measured);
            let first_end = None;
            schedule.sources.push(Source { measured, state, first_end, publish_period, publisher });
        });
    }

    /// Announces what the subscription loses, by the publisher that `create` returns if there is none yet.
    ///
    /// Errors as `create` does; nothing is announced then.
    pub(crate) fn announce_losses<E>(
        &self,
        measured: &Arc<Measured>,
        create: impl FnOnce() -> Result<Publisher<MessagesLostEvent>, E>,
    ) -> Result<(), E> {
        // The publisher is created while no lock is held; should two be, one is dropped.
        let lacks_publisher = self.lock().losses.lacks_publisher();
        let publisher = if lacks_publisher { Some(create()?) } else { None };
        self.change(|schedule| schedule.losses.follow(measured, publisher));
        Ok(())
    }

    /// Keeps what came to a subscription that ends.
    pub(crate) fn retire(&self, measured: &Measured) {
        let Some(totals) = TopicTotals::of(measured) else { return };
        let mut state = self.lock();
        add_up(&mut state.ended, totals);
        if state.ended.len() > Self::ENDED {
            let forgotten = state.ended.remove(0);
            if !std::mem::replace(&mut state.reported.has_forgotten_totals, true) {
                state.warnings.push(format!(
                    "More than {} subscriptions of different names have ended: the totals of {} and of others are no longer \
                     reported",
                    Self::ENDED,
                    forgotten.source_name
                ));
                self.changed.notify_all();
            }
        }
    }

    /// Returns the totals of each subscription, and of those that have ended.
    pub(crate) fn totals(&self) -> Vec<TopicTotals> {
        let state = self.lock();
        let live = state.sources.iter().filter_map(|source| source.measured.upgrade());
        let live = live.filter(|measured| !measured.has_left());
        live.filter_map(|measured| TopicTotals::of(&measured)).chain(state.ended.iter().cloned()).collect()
    }

    /// Has the publishers looked at after the next change in the graph.
    fn await_graph_change(self: &Arc<Self>, node: &NodeState) -> Promise<()> {
        let schedule = Arc::downgrade(self);
        on_next_graph_change(node, move || {
            if let Some(schedule) = schedule.upgrade() {
                schedule.lock().check_publishers_by(Instant::now() + Self::GRAPH_SETTLES);
                schedule.changed.notify_all();
            }
        })
    }

    /// Sets whether something has statistics.
    pub(crate) fn set_state(&self, measured: &Arc<Measured>, state: TopicStatisticsState) {
        self.change(|schedule| {
            let this = Arc::as_ptr(measured);
            for source in schedule.sources.iter_mut().filter(|of| of.measured.as_ptr() == this) {
                source.state = state;
            }
        });
    }

    /// Sets whether what leaves it to the node has statistics.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.change(|schedule| schedule.enabled = enabled);
    }

    /// Sets how long windows are of what leaves it to the node.
    ///
    /// The windows that are under way end one new period from now.
    pub(crate) fn set_publish_period(&self, period: Duration) {
        self.change(|schedule| schedule.publish_period = period);
    }

    /// Ends the thread, for good. Windows that are finished are published, those under way are not.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        for measured in state.sources.iter().filter_map(|source| source.measured.upgrade()) {
            measured.recording.set_enabled(false);
        }
        self.changed.notify_all();
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.settle();
        self.changed.notify_all();
    }

    fn run(self: &Arc<Self>) {
        let mut state = self.lock();
        while !state.is_closed {
            state.end_windows(Instant::now(), self.logs_table);
            if state.has_something_to_hand_out() {
                let mut out = state.take_what_to_hand_out();
                drop(state); // wakers run code of others, and logging publishes
                out.hand_out(self);
                state = self.lock();
                continue;
            }
            let event = state.losses.next(Instant::now());
            let batch = state.outbox.next_batch(Instant::now());
            if event.is_some() || !batch.is_empty() {
                let mut failures = std::mem::take(&mut state.failures);
                drop(state); // publishing takes its time
                if let Some((event, publisher)) = event {
                    losses::publish(event, &publisher, &mut failures);
                }
                batch.into_iter().for_each(|message| message.publish(&mut failures));
                state = self.lock();
                state.failures = failures;
                continue;
            }
            if let Some(measured) = state.publishers_due(Instant::now()) {
                drop(state); // the graph is behind locks of the node's
                let (mut graph_change, mut again, mut warnings) = (None, None, vec![]);
                if let Some(node) = self.node.upgrade() {
                    // First, so that no change is missed in between.
                    graph_change = Some(self.await_graph_change(&node));
                    let later = measured
                        .iter()
                        .filter_map(|measured| measured.check_publishers(&node, &mut warnings));
                    again = later.min();
                }
                state = self.lock();
                state.graph_change = graph_change;
                state.warnings.append(&mut warnings);
                if let Some(again) = again {
                    state.check_publishers_by(again);
                }
                continue;
            }
            let mut wake = state.wake();
            if let Some(time) = &self.simulated {
                time.look();
                let look = Instant::now() + SimulatedTime::LOOK_EVERY;
                wake = Some(wake.map_or(look, |wake| wake.min(look)));
            }
            state = match wake {
                Some(wake) => {
                    let wait = wake.saturating_duration_since(Instant::now());
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let deadline = Instant::now() + Self::DRAIN;
        let (messages, _no_more) = (state.outbox.take(), state.graph_change.take());
        let (mut out, last_losses) = (state.take_what_to_hand_out(), state.losses.rest());
        drop(state);
        let mut failures = Failures::default();
        // Losses first, which are of the whole time.
        if let Some((event, publisher)) = last_losses {
            losses::publish(event, &publisher, &mut failures);
        }
        let mut messages = messages.into_iter();
        for message in messages.by_ref() {
            message.publish(&mut failures);
            if Instant::now() >= deadline {
                break;
            }
        }
        if messages.len() > 0 {
            out.warnings.push(format!(
                "{} messages of topic statistics were not published: the end did not wait for them",
                messages.len()
            ));
        }
        out.warnings.extend(failures.take());
        out.hand_out(self);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Sees to it that everything that lives is on or off as it should be, and has a window's end before it. What is closed stays
    /// off.
    fn settle(&mut self) {
        if self.is_closed {
            return;
        }
        self.sources.retain(|source| source.measured.strong_count() > 0);
        let (mut periods, mut is_new) = (vec![], false);
        for source in &mut self.sources {
            let Some(measured) = source.measured.upgrade() else { continue };
            let enabled = match source.state {
                TopicStatisticsState::Enable => true,
                TopicStatisticsState::Disable => false,
                TopicStatisticsState::NodeDefault => self.enabled,
            };
            let enabled = enabled && !measured.has_left();
            let period = source.publish_period.unwrap_or(self.publish_period);
            let first_end = Instant::now() + period;
            if measured.recording.set_enabled(enabled) {
                source.first_end = Some(first_end);
                is_new |= measured.request.is_some();
            } else if let Some(end) = &mut source.first_end {
                *end = first_end.min(*end); // where the period has become shorter
            }
            if enabled {
                periods.push(period);
            }
        }
        self.ends.retain(|end| periods.contains(&end.period));
        let now = Instant::now();
        if is_new {
            // In a moment: those of more subscriptions can be looked at together.
            self.check_publishers_by(now + Duration::from_millis(100));
        }
        for period in periods {
            if self.ends.iter().all(|end| end.period != period) {
                self.ends.push(WindowEnd { period, at: now + period });
            }
        }
    }

    /// Ends the windows whose time has come, and puts them in the outbox.
    fn end_windows(&mut self, now: Instant, logs_table: bool) {
        let Self { publish_period, sources, ends, outbox, finished, tables, warnings, reported, .. } = self;
        let mut has_ended = false;
        for WindowEnd { period, at } in ends.iter_mut().filter(|end| end.at <= now) {
            has_ended = true;
            // The host's clock offset is reported once by each publisher.
            let mut reported_clock_offset: Vec<&Publisher<MetricsMessage>> = vec![];
            let mut rows = vec![];
            for source in sources.iter_mut() {
                if source.publish_period.unwrap_or(*publish_period) != *period {
                    continue;
                }
                // A first window that would be shorter than the others is joined with the next.
                if source.first_end.is_some_and(|first_end| first_end > *at) {
                    continue;
                }
                source.first_end = None;
                let Some(measured) = source.measured.upgrade() else { continue };
                let Some(window) = measured.recording.end_window() else { continue };
                let statistics = Arc::new(window.statistics);
                warnings.extend(window.warnings);
                if let Some(step) = statistics.clock_step {
                    warnings.extend(reported.clock_step(step, window.clock_offset));
                }
                if logs_table {
                    rows.push(table::Row::new(&measured.source, &statistics));
                }
                finished.push((Arc::clone(&measured), Arc::clone(&statistics)));
                let Some(publisher) = &source.publisher else { continue };
                for (index, (metric, _)) in statistics.metrics.iter().enumerate() {
                    if *metric == Metric::ClockOffset {
                        if reported_clock_offset.iter().any(|of| Arc::ptr_eq(of, publisher)) {
                            continue;
                        }
                        reported_clock_offset.push(publisher);
                    }
                    outbox.push(Outgoing {
                        measured: Arc::clone(&measured),
                        publisher: Arc::clone(publisher),
                        statistics: Arc::clone(&statistics),
                        metric: index,
                    });
                }
            }
            if !rows.is_empty() {
                tables.push(table::render(*period, &rows));
            }
            // Where whole periods were missed (the host slept) there is a longer window, not a row of empty ones.
            *at += *period;
            if *at <= now {
                *at = now + *period;
            }
            outbox.pace(*period);
        }
        if !has_ended {
            return;
        }
        if outbox.discarded() > 0 && !std::mem::replace(&mut reported.has_discarded_windows, true) {
            warnings.push(format!(
                "Windows of topic statistics are discarded, the oldest first: more than {} messages wait to be published. \
                 Longer windows or fewer metrics are fewer messages; a reader that is stopped holds them up",
                Outbox::BOUND
            ));
        }
        if !self.failures.is_empty() && reported.may_report_failures(now) {
            warnings.extend(self.failures.take());
        }
        self.sources.retain(|source| source.measured.strong_count() > 0);
    }

    fn has_something_to_hand_out(&self) -> bool {
        !(self.finished.is_empty() && self.tables.is_empty() && self.warnings.is_empty())
    }

    fn take_what_to_hand_out(&mut self) -> HandOut {
        HandOut {
            finished: std::mem::take(&mut self.finished),
            tables: std::mem::take(&mut self.tables),
            warnings: std::mem::take(&mut self.warnings),
        }
    }

    /// Has the publishers looked at by then.
    fn check_publishers_by(&mut self, time: Instant) {
        self.check_publishers = Some(self.check_publishers.map_or(time, |earlier| earlier.min(time)));
    }

    /// Returns what has publishers that are to be looked at, if it is time for that.
    fn publishers_due(&mut self, now: Instant) -> Option<Vec<Arc<Measured>>> {
        self.check_publishers.take_if(|at| *at <= now)?;
        Some(self.sources.iter().filter_map(|source| source.measured.upgrade()).collect())
    }

    /// When there is something to do next.
    fn wake(&self) -> Option<Instant> {
        let ends = self.ends.iter().map(|end| end.at).chain(self.check_publishers).chain(self.losses.wake());
        ends.chain(self.outbox.wake()).min()
    }
}

impl Reported {
    /// Returns the warning of a step of the system clock, after which the clock has that offset from the monotonic one, unless
    /// another source has seen the same step.
    fn clock_step(&mut self, step: i64, offset: i64) -> Option<String> {
        // Each source reads the offset by itself, a little differently.
        const SAME: u64 = 50_000;
        let before = self.clock_offset.replace(offset);
        let is_new = before.is_none_or(|before| offset.abs_diff(before) > SAME);
        is_new.then(|| {
            let seconds = step as f64 * 1e-9;
            format!("The system clock was stepped by {seconds:+.6} s: the ages in this window are NaN")
        })
    }

    /// Returns whether to warn of failures, which is once a second at most.
    fn may_report_failures(&mut self, now: Instant) -> bool {
        const EVERY: Duration = Duration::from_secs(1);
        let may = self.failures.is_none_or(|last| now.saturating_duration_since(last) >= EVERY);
        if may {
            self.failures = Some(now);
        }
        may
    }
}

/// What others get of the end of windows.
struct HandOut {
    finished: Vec<(Arc<Measured>, Arc<WindowStatistics>)>,
    tables: Vec<String>,
    warnings: Vec<String>,
}

impl HandOut {
    /// Hands it out. This runs code of others, so nothing may be locked.
    fn hand_out(&mut self, schedule: &Schedule) {
        for (measured, statistics) in self.finished.drain(..) {
            measured.finish(statistics);
        }
        let Some(node) = schedule.node.upgrade() else { return };
        self.tables.iter().for_each(|table| log_info!(node.logger(), "{table}"));
        for warning in &self.warnings {
            tracing::warn!("{warning}");
            log_warn!(node.logger(), "{warning}");
        }
    }
}
