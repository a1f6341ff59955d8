//! When windows end, and how what they say gets published: a thread of its own.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rclrs::{log_warn, Node, NodeState, Promise, Publisher};
use ros_env::statistics_msgs::msg::MetricsMessage;
use tokio::sync::watch;

use crate::{
    compatibility::{publishers_of, IncompatiblePublisher, Request},
    host,
    message::metrics_message,
    options::TopicStatisticsState,
    recorder::Recorder,
    simulated_time::SimulatedTime,
    window::{Metric, WindowStatistics},
};

/// A subscription as the statistics see it.
pub(crate) struct Measured {
    /// The value of `measurement_source_name`.
    pub(crate) source: String,
    pub(crate) recorder: Arc<Recorder>,
    /// What it asks of publishers.
    request: Request,
    /// The publishers that cannot serve it.
    incompatible: Mutex<Vec<IncompatiblePublisher>>,
    /// The last finished window.
    pub(crate) windows: watch::Sender<Option<Arc<WindowStatistics>>>,
    /// Whether the subscription lives. Held while one of its messages is published.
    lives: Mutex<bool>,
}

impl Measured {
    pub(crate) fn new(source: String, recorder: Arc<Recorder>, request: Request) -> Self {
        Self {
            source,
            recorder,
            request,
            incompatible: Mutex::default(),
            windows: watch::channel(None).0,
            lives: Mutex::new(true),
        }
    }

    /// Returns the publishers that cannot serve the subscription, as far as they were seen.
    pub(crate) fn incompatible_publishers(&self) -> Vec<IncompatiblePublisher> {
        lock(&self.incompatible).clone()
    }

    /// Looks which publishers cannot serve the subscription, and warns of those that are new.
    fn check_publishers(&self, node: &NodeState) {
        let Some(publishers) = publishers_of(node, &self.request.topic) else { return };
        let now = self.request.incompatible(publishers);
        let before = std::mem::replace(&mut *lock(&self.incompatible), now.clone());
        for publisher in now.iter().filter(|publisher| !before.contains(publisher)) {
            tracing::warn!("{publisher}");
            log_warn!(node.logger(), "{publisher}");
        }
    }

    /// Ends the statistics of the subscription: nothing of it is published once this has returned.
    pub(crate) fn leave(&self) {
        *lock(&self.lives) = false;
        self.recorder.set_enabled(false);
    }
}

/// The windows of a node's subscriptions.
pub(crate) struct Schedule {
    node: Weak<NodeState>,
    state: Mutex<State>,
    /// Wakes the thread when there is something new for it.
    changed: Condvar,
    simulated: Option<Arc<SimulatedTime>>,
}

struct State {
    /// What the node says.
    enabled: bool,
    publish_period: Duration,
    subscriptions: Vec<Subscribed>,
    /// The windows of all subscriptions with one period end together.
    ends: Vec<WindowEnd>,
    outbox: Outbox,
    /// When to look for publishers that cannot serve a subscription.
    check_publishers: Option<Instant>,
    /// Has the next change of the graph told.
    graph_change: Option<Promise<()>>,
    is_closed: bool,
}

struct Subscribed {
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
    /// rclrs 0.8 tells of a change with every message that comes, too, so this is also how often it is looked at
    /// most.
    const GRAPH_SETTLES: Duration = Duration::from_secs(1);
    /// rclrs tells of changes when they come, and besides with a period, of which there is no need here.
    const GRAPH_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

    pub(crate) fn new(
        node: &Node,
        enabled: bool,
        publish_period: Duration,
        simulated: Option<Arc<SimulatedTime>>,
    ) -> Self {
        let state = State {
            enabled,
            publish_period,
            subscriptions: vec![],
            ends: vec![],
            outbox: Outbox::default(),
            check_publishers: None,
            graph_change: None,
            is_closed: false,
        };
        Self { node: Arc::downgrade(node), state: Mutex::new(state), changed: Condvar::new(), simulated }
    }

    /// Starts the thread that ends the windows, until the schedule is [closed](Self::close).
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let schedule = Arc::clone(self);
        std::thread::Builder::new().name("topic_stats".to_owned()).spawn(move || schedule.run())
    }

    /// Adds a subscription, whose first window starts now.
    pub(crate) fn add(
        &self,
        measured: &Arc<Measured>,
        state: TopicStatisticsState,
        publish_period: Option<Duration>,
        publisher: Option<Publisher<MetricsMessage>>,
    ) {
        self.change(|schedule| {
            let measured = Arc::downgrade(measured);
            schedule.subscriptions.push(Subscribed { measured, state, publish_period, publisher });
            // In a moment: those of more subscriptions can be looked at together.
            schedule.check_publishers_by(Instant::now() + Duration::from_millis(100));
        });
    }

    /// Asks rclrs to tell of the next change in the graph, once.
    ///
    /// To be told of each would cost something with every message: see [`GRAPH_SETTLES`](Self::GRAPH_SETTLES).
    fn await_graph_change(self: &Arc<Self>, node: &NodeState) -> Promise<()> {
        let schedule = Arc::downgrade(self);
        let mut is_new = true;
        node.notify_on_graph_change_with_period(Self::GRAPH_PERIOD, move || {
            if std::mem::take(&mut is_new) {
                return false; // rclrs asks once without a change
            }
            if let Some(schedule) = schedule.upgrade() {
                schedule.lock().check_publishers_by(Instant::now() + Self::GRAPH_SETTLES);
                schedule.changed.notify_one();
            }
            true
        })
    }

    /// Sets whether a subscription has statistics.
    pub(crate) fn set_state(&self, measured: &Arc<Measured>, state: TopicStatisticsState) {
        self.change(|schedule| {
            let this = Arc::as_ptr(measured);
            for subscribed in schedule.subscriptions.iter_mut().filter(|of| of.measured.as_ptr() == this) {
                subscribed.state = state;
            }
        });
    }

    /// Sets whether subscriptions have statistics that leave it to the node.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.change(|schedule| schedule.enabled = enabled);
    }

    /// Sets how long windows are of subscriptions that leave it to the node.
    ///
    /// The windows that are under way end one new period from now.
    pub(crate) fn set_publish_period(&self, period: Duration) {
        self.change(|schedule| schedule.publish_period = period);
    }

    /// Ends the thread. Windows that are finished are published, those under way are not.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        for measured in state.subscriptions.iter().filter_map(|subscribed| subscribed.measured.upgrade()) {
            measured.recorder.set_enabled(false);
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
            state.end_windows(Instant::now());
            if let Some(next) = state.outbox.next(Instant::now()) {
                drop(state); // publishing takes its time
                next.publish();
                state = self.lock();
                continue;
            }
            if let Some(subscriptions) = state.publishers_due(Instant::now()) {
                drop(state); // the graph is behind locks of the node's
                let mut graph_change = None;
                if let Some(node) = self.node.upgrade() {
                    // First, so that no change is missed in between.
                    graph_change = Some(self.await_graph_change(&node));
                    subscriptions.iter().for_each(|measured| measured.check_publishers(&node));
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
        drop(state);
        rest.into_iter().for_each(Outgoing::publish);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Sees to it that every live subscription is on or off as it should be, and has a window's end before it.
    fn settle(&mut self) {
        self.subscriptions.retain(|subscribed| subscribed.measured.strong_count() > 0);
        let now = Instant::now();
        let mut periods = vec![];
        for subscribed in &self.subscriptions {
            let Some(measured) = subscribed.measured.upgrade() else { continue };
            let enabled = match subscribed.state {
                TopicStatisticsState::Enable => true,
                TopicStatisticsState::Disable => false,
                TopicStatisticsState::NodeDefault => self.enabled,
            };
            measured.recorder.set_enabled(enabled);
            if enabled {
                periods.push(subscribed.publish_period.unwrap_or(self.publish_period));
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
    fn end_windows(&mut self, now: Instant) {
        let Self { publish_period, subscriptions, ends, outbox, .. } = self;
        for WindowEnd { period, at } in ends.iter_mut().filter(|end| end.at <= now) {
            // The host's clock is told of once by each publisher.
            let mut told_clock: Vec<&Publisher<MetricsMessage>> = vec![];
            for subscribed in subscriptions.iter() {
                if subscribed.publish_period.unwrap_or(*publish_period) != *period {
                    continue;
                }
                let Some(measured) = subscribed.measured.upgrade() else { continue };
                let Some(statistics) = measured.recorder.end_window() else { continue };
                let statistics = Arc::new(statistics);
                measured.windows.send_replace(Some(Arc::clone(&statistics)));
                let Some(publisher) = &subscribed.publisher else { continue };
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
            // Where whole periods were missed (the host slept) a longer window is told, not a row of empty ones.
            *at += *period;
            if *at <= now {
                *at = now + *period;
            }
            outbox.pace(*period);
        }
        self.subscriptions.retain(|subscribed| subscribed.measured.strong_count() > 0);
    }

    /// Has the publishers looked at by then.
    fn check_publishers_by(&mut self, time: Instant) {
        self.check_publishers = Some(self.check_publishers.map_or(time, |earlier| earlier.min(time)));
    }

    /// Returns the subscriptions whose publishers are to be looked at, if it is time for that.
    fn publishers_due(&mut self, now: Instant) -> Option<Vec<Arc<Measured>>> {
        self.check_publishers.take_if(|at| *at <= now)?;
        Some(self.subscriptions.iter().filter_map(|subscribed| subscribed.measured.upgrade()).collect())
    }

    /// When there is something to do next.
    fn wake(&self) -> Option<Instant> {
        let ends = self.ends.iter().map(|end| end.at).chain(self.check_publishers);
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
    /// Publishes it, unless the subscription was dropped.
    fn publish(self) {
        let lives = lock(&self.measured.lives);
        if !*lives {
            return;
        }
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks leaves its data half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
