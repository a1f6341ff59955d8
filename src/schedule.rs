//! When windows end, and how what they say gets published: a thread of its own.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rclrs::{log_info, Node, NodeState, Promise, Publisher};
use ros_env::{statistics_msgs::msg::MetricsMessage, topic_statistics_interfaces::msg::MessagesLostEvent};

use crate::{
    compatibility::on_next_graph_change,
    host,
    losses::{self, LossEvents},
    measured::{lock, Measured},
    message::metrics_message,
    options::TopicStatisticsState,
    simulated_time::SimulatedTime,
    table,
    totals::{add_up, TopicTotals},
    window::{Metric, WindowStatistics},
};

/// The windows of what is measured of a node.
pub(crate) struct Schedule {
    node: Weak<NodeState>,
    /// Whether the windows are told in the node's log too.
    logs_table: bool,
    state: Mutex<State>,
    /// Wakes the thread when there is something new for it.
    changed: Condvar,
    simulated: Option<Arc<SimulatedTime>>,
}

struct State {
    /// What the node says.
    enabled: bool,
    publish_period: Duration,
    sources: Vec<Source>,
    /// What came to subscriptions that have ended.
    ended: Vec<TopicTotals>,
    /// All windows with one period end together.
    ends: Vec<WindowEnd>,
    outbox: Outbox,
    /// Tables on their way to the node's log.
    tables: Vec<String>,
    losses: LossEvents,
    /// When to look for publishers that cannot serve a subscription.
    check_publishers: Option<Instant>,
    /// Has the next change of the graph told.
    graph_change: Option<Promise<()>>,
    is_closed: bool,
}

/// Where statistics come from, and where they go.
struct Source {
    measured: Weak<Measured>,
    state: TopicStatisticsState,
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

    pub(crate) fn new(
        node: &Node,
        enabled: bool,
        publish_period: Duration,
        simulated: Option<Arc<SimulatedTime>>,
        logs_table: bool,
        max_event_rate: f64,
    ) -> Self {
        let state = State {
            enabled,
            publish_period,
            sources: vec![],
            ended: vec![],
            ends: vec![],
            outbox: Outbox::default(),
            tables: vec![],
            losses: LossEvents::new(node.fully_qualified_name(), max_event_rate),
            check_publishers: None,
            graph_change: None,
            is_closed: false,
        };
        Self {
            node: Arc::downgrade(node),
            logs_table,
            state: Mutex::new(state),
            changed: Condvar::new(),
            simulated,
        }
    }

    /// Starts the thread that ends the windows, until the schedule is [closed](Self::close).
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let schedule = Arc::clone(self);
        std::thread::Builder::new().name("topic_stats".to_owned()).spawn(move || schedule.run())
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
            if measured.request.is_some() {
                // In a moment: those of more subscriptions can be looked at together.
                schedule.check_publishers_by(Instant::now() + Duration::from_millis(100));
            }
            let measured = Arc::downgrade(measured);
            schedule.sources.push(Source { measured, state, publish_period, publisher });
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
        let mut state = self.lock();
        if let Some(totals) = TopicTotals::of(measured) {
            add_up(&mut state.ended, totals);
        }
    }

    /// Returns what came to each subscription since the creation, and to those that have ended.
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
                schedule.changed.notify_one();
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

    /// Ends the thread. Windows that are finished are published, those under way are not.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        for measured in state.sources.iter().filter_map(|source| source.measured.upgrade()) {
            measured.recording.set_enabled(false);
        }
        self.changed.notify_one();
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.settle();
        self.changed.notify_one();
    }

    fn run(self: &Arc<Self>) {
        let mut state = self.lock();
        while !state.is_closed {
            state.end_windows(Instant::now(), self.logs_table);
            if !state.tables.is_empty() {
                let tables = std::mem::take(&mut state.tables);
                drop(state); // logging publishes, too
                if let Some(node) = self.node.upgrade() {
                    tables.iter().for_each(|table| log_info!(node.logger(), "{table}"));
                }
                state = self.lock();
                continue;
            }
            if let Some((event, publisher)) = state.losses.next(Instant::now()) {
                drop(state);
                losses::publish(event, &publisher);
                state = self.lock();
                continue;
            }
            if let Some(next) = state.outbox.next(Instant::now()) {
                drop(state); // publishing takes its time
                next.publish();
                state = self.lock();
                continue;
            }
            if let Some(measured) = state.publishers_due(Instant::now()) {
                drop(state); // the graph is behind locks of the node's
                let mut graph_change = None;
                if let Some(node) = self.node.upgrade() {
                    // First, so that no change is missed in between.
                    graph_change = Some(self.await_graph_change(&node));
                    measured.iter().for_each(|measured| measured.check_publishers(&node));
                }
                state = self.lock();
                state.graph_change = graph_change;
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
        let (rest, _no_more) = (std::mem::take(&mut state.outbox.messages), state.graph_change.take());
        let last_losses = state.losses.rest();
        drop(state);
        rest.into_iter().for_each(Outgoing::publish);
        if let Some((event, publisher)) = last_losses {
            losses::publish(event, &publisher);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Sees to it that everything that lives is on or off as it should be, and has a window's end before it.
    fn settle(&mut self) {
        self.sources.retain(|source| source.measured.strong_count() > 0);
        let now = Instant::now();
        let mut periods = vec![];
        for source in &self.sources {
            let Some(measured) = source.measured.upgrade() else { continue };
            let enabled = match source.state {
                TopicStatisticsState::Enable => true,
                TopicStatisticsState::Disable => false,
                TopicStatisticsState::NodeDefault => self.enabled,
            };
            let enabled = enabled && !measured.has_left();
            measured.recording.set_enabled(enabled);
            if enabled {
                periods.push(source.publish_period.unwrap_or(self.publish_period));
            }
        }
        self.ends.retain(|end| periods.contains(&end.period));
        for period in periods {
            if self.ends.iter().all(|end| end.period != period) {
                self.ends.push(WindowEnd { period, at: now + period });
            }
        }
    }

    /// Ends the windows whose time has come, and puts what they say in the outbox.
    fn end_windows(&mut self, now: Instant, logs_table: bool) {
        let Self { publish_period, sources, ends, outbox, tables, .. } = self;
        for WindowEnd { period, at } in ends.iter_mut().filter(|end| end.at <= now) {
            // The host's clock is told of once by each publisher.
            let mut told_clock: Vec<&Publisher<MetricsMessage>> = vec![];
            let mut rows = vec![];
            for source in sources.iter() {
                if source.publish_period.unwrap_or(*publish_period) != *period {
                    continue;
                }
                let Some(measured) = source.measured.upgrade() else { continue };
                let Some(statistics) = measured.recording.end_window() else { continue };
                let statistics = Arc::new(statistics);
                if logs_table {
                    rows.push(table::Row::new(&measured.source, &statistics));
                }
                measured.windows.send_replace(Some(Arc::clone(&statistics)));
                let Some(publisher) = &source.publisher else { continue };
                for (index, (metric, _)) in statistics.metrics.iter().enumerate() {
                    if *metric == Metric::ClockOffset {
                        if told_clock.iter().any(|told| Arc::ptr_eq(told, publisher)) {
                            continue;
                        }
                        told_clock.push(publisher);
                    }
                    outbox.messages.push_back(Outgoing {
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
            // Where whole periods were missed (the host slept) a longer window is told, not a row of empty ones.
            *at += *period;
            if *at <= now {
                *at = now + *period;
            }
            outbox.pace(*period);
        }
        self.sources.retain(|source| source.measured.strong_count() > 0);
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
        ends.chain((!self.outbox.messages.is_empty()).then_some(self.outbox.not_before)).min()
    }
}

/// Finished windows on their way to the publishers.
///
/// The messages of a window's end do not go at once but in small batches, so that a reader of them needs no deep
/// queue.
struct Outbox {
    messages: VecDeque<Outgoing>,
    /// How many of a batch are left.
    batch: usize,
    /// When the next batch may go.
    not_before: Instant,
    /// The time from batch to batch.
    gap: Duration,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { messages: VecDeque::new(), batch: 0, not_before: Instant::now(), gap: Duration::ZERO }
    }
}

impl Outbox {
    /// Half of what a reader with the usual depth of 10 has room for.
    const BATCH: usize = 5;
    /// Longer than a reader takes for a batch, rclpy's too.
    const GAP: Duration = Duration::from_millis(10);

    /// Chooses the gap so that the messages that wait now are gone by the middle of a window of this length.
    fn pace(&mut self, period: Duration) {
        let batches = self.messages.len().div_ceil(Self::BATCH).max(1);
        self.gap = Self::GAP.min(period / 2 / u32::try_from(batches).unwrap_or(u32::MAX));
    }

    /// Takes the next message, if its time has come.
    fn next(&mut self, now: Instant) -> Option<Outgoing> {
        if self.batch == 0 {
            if now < self.not_before || self.messages.is_empty() {
                return None;
            }
            (self.batch, self.not_before) = (Self::BATCH, now + self.gap);
        }
        let next = self.messages.pop_front();
        self.batch = if next.is_some() { self.batch - 1 } else { 0 };
        next
    }
}

/// One metric of a finished window.
struct Outgoing {
    measured: Arc<Measured>,
    publisher: Publisher<MetricsMessage>,
    statistics: Arc<WindowStatistics>,
    metric: usize,
}

impl Outgoing {
    /// Publishes it, unless what was measured is gone.
    fn publish(self) {
        let Some(_stays) = self.measured.stay() else { return };
        let (metric, summary) = &self.statistics.metrics[self.metric];
        let host;
        let source = match metric {
            Metric::ClockOffset => {
                host = host::name();
                &host
            }
            _ => &self.measured.source,
        };
        let message = metrics_message(source, *metric, self.statistics.window, summary);
        if let Err(error) = self.publisher.publish(message) {
            tracing::warn!("The {} of {source} could not be published: {error}", metric.name());
        }
    }
}
