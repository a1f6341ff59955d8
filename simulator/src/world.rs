// SPDX-License-Identifier: Apache-2.0

//! A world: a node with subscriptions and a timer, its publishers, its network and its clocks.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::CStr,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, PoisonError, Weak,
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use fastrand::Rng;
use rclrs::{MessageInfo, PublisherGid, QoSProfile, RclrsError};
use ros_env::{statistics_msgs::msg::MetricsMessage, topic_statistics_interfaces::msg::MessagesLostEvent};

use crate::{
    check,
    clocks::{HostClocks, NodeClock, MS, S},
    collector::FirstPeriod,
    faults::{Fault, Plan, Tally},
    graph::{PublisherCheck, Request},
    measure::{
        clock::Clock,
        recorder::{ReceivedMessage, Recorder, RunningCallback},
        simulated_time::SimulatedTime,
        source::{Source, SourceHandle, WindowScheduler, WindowedCollector},
        timer::Durations,
        windowed::Windowed,
    },
    options::{AgeSource, TopicStatisticsOptions, TopicStatisticsState},
    oracle::{self, Expected, Received, Settings, Stamp},
    report::{loss_events::LossEvents, Failures, Publish},
    schedule::state::{Action, Schedule},
    shrink::{note, note_fault, History},
    transport::Gid,
    window::{Metric, WindowStatistics},
};

const FAST_DDS: &CStr = c"rmw_fastrtps_cpp";
const CYCLONE_DDS: &CStr = c"rmw_cyclonedds_cpp";

/// Something that happens at a time.
enum Event {
    /// A publisher publishes.
    Publish(usize),
    /// A message arrives at a subscription.
    Arrive { subscription: u64, message: Message },
    /// A callback starts.
    Start(Box<Start>),
    /// A callback ends.
    End { subscription: u64, running: Option<RunningCallback>, epoch: Option<u32>, started: i64 },
    /// The timer measures.
    Time,
    /// The thread of the statistics wakes.
    Wake(u64),
    /// The simulated time is read.
    Refresh,
    /// A fault may be injected.
    Fault,
}

/// A message that was taken, whose callback starts.
struct Start {
    subscription: u64,
    taken: Option<ReceivedMessage>,
    epoch: Option<u32>,
    /// How often stamps had become doubtful, or usable again.
    steps: u32,
    message: Message,
    received: Stamp,
    /// How long the callback takes.
    takes: i64,
}

/// A message on its way.
#[derive(Clone)]
struct Message {
    publisher: Gid,
    number: u64,
    header: Stamp,
    source: Stamp,
}

struct Publisher {
    topic: usize,
    gid: Gid,
    next: u64,
    /// The clock of its host less that of this host; None on this host.
    remote: Option<i64>,
    is_stamped: bool,
    interval: i64,
}

struct Subscription {
    id: u64,
    topic: usize,
    name: String,
    state: TopicStatisticsState,
    period: Option<i64>,
    recorder: Arc<Recorder>,
    oracle: oracle::Subscription,
    source: Arc<Source>,
    handle: SourceHandle,
}

/// What a reader of /statistics has read, and whether it has stopped.
#[derive(Default)]
struct Reader {
    messages: Mutex<Vec<MetricsMessage>>,
    is_stopped: AtomicBool,
}

impl Publish<MetricsMessage> for Reader {
    fn publish(&self, message: MetricsMessage) -> Result<(), RclrsError> {
        lock(&self.messages).push(message);
        match self.is_stopped.load(Ordering::Relaxed) {
            true => Err(RclrsError::AlreadyAddedToWaitSet),
            false => Ok(()),
        }
    }
}

/// A reader of /events/messages_lost.
#[derive(Default)]
struct EventReader(Mutex<Vec<MessagesLostEvent>>);

impl Publish<MessagesLostEvent> for EventReader {
    fn publish(&self, message: MessagesLostEvent) -> Result<(), RclrsError> {
        lock(&self.0).push(message);
        Ok(())
    }
}

/// Keeps the sources whose handles are dropped, until they are removed from the schedule.
#[derive(Default)]
struct Retired(Mutex<Vec<Arc<Source>>>);

impl WindowScheduler for Retired {
    fn set_state(&self, _: &Arc<Source>, _: TopicStatisticsState) {}

    fn remove(&self, source: &Arc<Source>) {
        lock(&self.0).push(Arc::clone(source));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message that has to be published.
struct Due {
    source: Arc<Source>,
    metric: Metric,
    statistics: Arc<WindowStatistics>,
}

/// A simulated world.
pub struct World {
    plan: Plan,
    random: Rng,
    tally: Tally,
    history: Option<History>,
    started: Instant,
    now: i64,
    clocks: Arc<HostClocks>,
    simulated: Option<Arc<SimulatedTime>>,
    /// Of simulated time: how often it has jumped, and how fast it runs; 0 while it is paused.
    jumps: u32,
    jumped: Option<i64>,
    ros_rate: i64,
    events: BTreeMap<(i64, u64), Event>,
    next_event: u64,
    /// The wake-up of the statistics' thread that counts.
    wake: u64,
    schedule: Schedule,
    enabled: bool,
    period: i64,
    retired: Arc<Retired>,
    reader: Arc<Reader>,
    event_reader: Arc<EventReader>,
    due: VecDeque<Due>,
    publishers: Vec<Publisher>,
    subscriptions: BTreeMap<u64, Subscription>,
    next_subscription: u64,
    /// When the executor is free for the next callback.
    executor: i64,
    timer: (Arc<Windowed<Durations>>, Arc<Source>, Vec<f64>, Option<i64>),
    _timer_handle: SourceHandle,
    /// The oracle's sums of subscriptions that were dropped: messages received, by topic and name; losses that were measured, and
    /// messages that arrived late.
    ended: BTreeMap<(usize, String), u64>,
    ended_losses: (u64, u64),
    windows: u64,
    /// The earliest time of the next step of the system clock, and of the next suspend.
    next_step: i64,
    next_suspend: i64,
    error: Option<String>,
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let mut random = Rng::with_seed(plan.seed);
        let clocks = HostClocks::new();
        let now = clocks.monotonic();
        let simulated =
            plan.is_simulated.then(|| Arc::new(SimulatedTime::new(NodeClock(Arc::clone(&clocks)))));
        let period = [S / 10, S / 2, S, 3 * S][random.usize(..4)];
        let loss_events = LossEvents::new("/node".to_owned(), [0.5, 2.0][random.usize(..2)]);
        let schedule = Schedule::new(true, duration(period), random.bool(), loss_events);
        let retired = Arc::new(Retired::default());
        let durations = Arc::new(Windowed::new(Durations::default()));
        let source = Arc::new(Source::new("/node:timer".to_owned(), Arc::clone(&durations) as _, None));
        let timer_handle =
            SourceHandle::new(Arc::clone(&source), Arc::downgrade(&retired) as Weak<dyn WindowScheduler>);
        let mut world = Self {
            random,
            tally: Tally { worlds: 1, ..Tally::default() },
            history: None,
            started: Instant::now(),
            now,
            clocks,
            simulated,
            jumps: 0,
            jumped: None,
            ros_rate: 1,
            events: BTreeMap::new(),
            next_event: 0,
            wake: 0,
            schedule,
            enabled: true,
            period,
            retired,
            reader: Arc::default(),
            event_reader: Arc::default(),
            due: VecDeque::new(),
            publishers: vec![],
            subscriptions: BTreeMap::new(),
            next_subscription: 0,
            executor: now,
            timer: (durations, source, vec![], None),
            _timer_handle: timer_handle,
            ended: BTreeMap::new(),
            ended_losses: (0, 0),
            windows: 0,
            next_step: 0,
            next_suspend: 0,
            error: None,
            plan,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        if self.simulated.is_some() {
            self.clocks.set_ros(1000 * S);
            self.after(0, Event::Refresh);
        }
        let (_, source, ..) = &self.timer;
        let publisher = Some(Arc::clone(&self.reader) as _);
        let now = self.instant(self.now);
        self.schedule.add(source, TopicStatisticsState::NodeDefault, None, publisher, now, &*self.clocks);
        self.timer.3 = Some(self.now);
        for topic in 0..self.plan.subscriptions {
            self.subscribe(topic);
            let crowd = if self.plan.has(Fault::Crowd) { 300 } else { 0 };
            for number in 0..self.plan.publishers + crowd {
                if number >= self.plan.publishers {
                    self.tally.inject(Fault::Crowd);
                }
                self.add_publisher(topic);
            }
        }
        self.after(0, Event::Wake(0));
        self.after(self.period / 3, Event::Fault);
        self.after(self.period / 7, Event::Time);
    }

    fn add_publisher(&mut self, topic: usize) {
        let mut gid = Gid::default();
        gid.iter_mut().for_each(|byte| *byte = self.random.u8(..));
        let is_remote = self.plan.has(Fault::RemoteClock) && self.random.bool();
        if is_remote {
            self.tally.inject(Fault::RemoteClock);
        }
        let remote = is_remote.then(|| self.random.i64(-20 * MS..3600 * S));
        let is_stamped = !(self.plan.has(Fault::Unstamped) && self.random.bool());
        let interval = self.period / self.plan.rate;
        let interval = self.random.i64(interval / 2..=interval * 2);
        let late = if self.plan.has(Fault::LateJoin) && self.random.bool() {
            self.tally.inject(Fault::LateJoin);
            self.random.i64(0..5 * self.period)
        } else {
            self.random.i64(0..100 * MS)
        };
        let index = self.publishers.len();
        self.publishers.push(Publisher { topic, gid, next: 1, remote, is_stamped, interval });
        self.after(late, Event::Publish(index));
    }

    fn subscribe(&mut self, topic: usize) {
        const OPTIONAL: [Metric; 8] = [
            Metric::HeaderToSource,
            Metric::SourceToReceive,
            Metric::ReceiveToCallback,
            Metric::SourceToCallback,
            Metric::HeaderToCallback,
            Metric::CallbackDuration,
            Metric::PublicationSeqGap,
            Metric::TimeSinceLastMessage,
        ];
        let mut metrics = vec![Metric::MessageAge, Metric::MessagePeriod];
        metrics.extend(OPTIONAL.into_iter().filter(|_| self.random.u32(..3) > 0));
        let settings = Settings {
            metrics: metrics.clone(),
            age_source: [AgeSource::HeaderStamp, AgeSource::SourceTimestamp][self.random.usize(..2)],
            first_period: [FirstPeriod::NoSample, FirstPeriod::CarriedOver][self.random.usize(..2)],
            is_simulated: self.simulated.is_some(),
        };
        let options = TopicStatisticsOptions::new()
            .metrics(&metrics)
            .age_source(settings.age_source)
            .first_period(settings.first_period);
        let recorder = Arc::new(Recorder::new(
            &format!("/topic{topic}"),
            &options,
            self.simulated.clone(),
            &*self.clocks,
        ));
        let request = Request {
            topic: format!("/topic{topic}").into(),
            message_type: "sensor_msgs/msg/Imu".into(),
            qos: QoSProfile::topics_default(),
        };
        // Some have the same name as one before.
        let name = format!("/node:/topic{topic}");
        let check = Some(PublisherCheck::new(request));
        let source = Arc::new(Source::new(name.clone(), Arc::clone(&recorder) as _, check));
        let period = (self.random.u32(..4) == 0).then(|| self.random.i64(50 * MS..2 * S));
        let state = [TopicStatisticsState::NodeDefault, TopicStatisticsState::Enable][self.random.usize(..2)];
        let now = self.instant(self.now);
        if metrics.contains(&Metric::PublicationSeqGap) {
            let publisher = self.schedule.needs_loss_publisher().then(|| Arc::clone(&self.event_reader) as _);
            self.schedule.add_loss_events(&source, publisher, now);
        }
        let publisher = Some(Arc::clone(&self.reader) as _);
        self.schedule.add(&source, state, period.map(duration), publisher, now, &*self.clocks);
        let handle = SourceHandle::new(
            Arc::clone(&source),
            Arc::downgrade(&self.retired) as Weak<dyn WindowScheduler>,
        );
        let id = self.next_subscription;
        self.next_subscription += 1;
        let mut oracle = oracle::Subscription::new(settings, self.clocks.offset(), self.clocks.suspended());
        if let Some(jumped) = self.jumped {
            oracle.jump(jumped);
        }
        let subscription = Subscription { id, topic, name, state, period, recorder, oracle, source, handle };
        self.subscriptions.insert(id, subscription);
        self.update_oracles();
    }

    /// Enables and disables the oracles, as the node and the subscriptions ask for.
    fn update_oracles(&mut self) {
        let (now, offset, suspended) = (self.now, self.clocks.offset(), self.clocks.suspended());
        for subscription in self.subscriptions.values_mut() {
            let is_enabled = match subscription.state {
                TopicStatisticsState::Enable => true,
                TopicStatisticsState::Disable => false,
                TopicStatisticsState::NodeDefault => self.enabled,
            };
            match is_enabled {
                true => subscription.oracle.enable(now, offset, suspended),
                false => subscription.oracle.disable(),
            }
        }
        match (self.enabled, self.timer.3) {
            (true, None) => (self.timer.2, self.timer.3) = (vec![], Some(now)),
            (false, _) => self.timer.3 = None,
            _ => {}
        }
    }

    fn instant(&self, now: i64) -> Instant {
        self.started + Duration::from_nanos((now - 1000 * S) as u64)
    }

    fn after(&mut self, time: i64, event: Event) {
        self.at(self.now + time, event);
    }

    fn at(&mut self, time: i64, event: Event) {
        self.next_event += 1;
        self.events.insert((time.max(self.now), self.next_event), event);
    }

    fn set_now(&mut self, now: i64) {
        if self.simulated.is_some() {
            self.clocks.set_ros(self.clocks.ros() + self.ros_rate * (now - self.now));
        }
        self.now = now;
        self.clocks.set_monotonic(now);
    }

    /// Runs the world to its end. Returns what happened, and the first difference from the oracle.
    pub fn run(mut self, history: Option<History>) -> (Tally, Result<(), String>) {
        self.history = history;
        // A world in which everything is dropped or disabled has no windows.
        let end = self.now + self.plan.windows as i64 * self.period;
        while self.windows < self.plan.windows && self.now < end && self.error.is_none() {
            let Some(((time, _), event)) = self.events.pop_first() else { break };
            self.set_now(time);
            self.happen(event);
        }
        if self.error.is_none() {
            self.finish();
        }
        self.tally.windows = self.windows;
        let error = self.error.take().map(|error| {
            let plan = &self.plan;
            format!("window {}, at {} ns: {error}\n  in a world of {plan}", self.windows, self.now - 1000 * S)
        });
        (self.tally, error.map_or(Ok(()), Err))
    }

    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Publish(index) => self.publish(index),
            Event::Arrive { subscription, message } => self.arrive(subscription, message),
            Event::Start(start) => self.start(*start),
            Event::End { subscription, running, epoch, started } => {
                let Some(subscription) = self.subscriptions.get_mut(&subscription) else { return };
                if let Some(running) = running {
                    subscription.recorder.record_end(running, self.now);
                    subscription.oracle.end(epoch, (self.now - started) as f64 / 1e6);
                }
            }
            Event::Time => {
                let milliseconds = self.random.f64() * 1000.0;
                let (durations, _, samples, since) = &mut self.timer;
                durations.record(|| milliseconds);
                if since.is_some() {
                    samples.push(milliseconds);
                }
                let next = self.random.i64(0..self.period / 2);
                self.after(next, Event::Time);
            }
            Event::Wake(number) if number == self.wake => self.end_windows(),
            Event::Wake(_) => {}
            Event::Refresh => {
                if let Some(time) = &self.simulated {
                    time.refresh(self.now);
                }
                self.after(SimulatedTime::INTERVAL.as_nanos() as i64, Event::Refresh);
            }
            Event::Fault => {
                self.inject();
                let next = self.random.i64(self.period / 10..self.period * 2);
                self.after(next, Event::Fault);
            }
        }
    }

    fn publish(&mut self, index: usize) {
        let Publisher { topic, gid, remote, is_stamped, interval, .. } = self.publishers[index];
        let burst = if self.plan.has(Fault::Burst) && self.random.u32(..50) == 0 {
            self.tally.inject(Fault::Burst);
            self.random.u32(2..30)
        } else {
            1
        };
        for _ in 0..burst {
            let number = self.publishers[index].next;
            self.publishers[index].next += 1;
            let read = |before: i64| match remote {
                Some(remote) => {
                    Stamp { value: self.clocks.system() - before + remote, read_at: None, jumps: 0 }
                }
                None => {
                    Stamp { value: self.clocks.system() - before, read_at: Some(self.now - before), jumps: 0 }
                }
            };
            // The header is stamped a moment before the message is published.
            let header = match (is_stamped, self.simulated.is_some()) {
                (false, _) => {
                    self.tally.inject(Fault::Unstamped);
                    Stamp::NONE
                }
                (true, false) => read(0),
                (true, true) => Stamp { value: self.clocks.ros(), read_at: None, jumps: self.jumps },
            };
            let source = read(0);
            let message = Message { publisher: gid, number, header, source };
            let ids: Vec<u64> =
                self.subscriptions.values().filter(|of| of.topic == topic).map(|of| of.id).collect();
            for subscription in ids {
                self.send(subscription, &message);
            }
        }
        let jitter = self.random.i64(-(interval / 4)..=interval / 4);
        let crowd = if self.plan.has(Fault::Crowd) { 100 } else { 1 };
        self.after((interval + jitter) * crowd, Event::Publish(index));
    }

    fn send(&mut self, subscription: u64, message: &Message) {
        if self.plan.has(Fault::Loss) && self.random.u32(..20) == 0 {
            self.tally.inject(Fault::Loss);
            return;
        }
        let mut delay = self.random.i64(50_000..500_000);
        if self.plan.has(Fault::Delay) && self.random.u32(..20) == 0 {
            self.tally.inject(Fault::Delay);
            delay += self.random.i64(50 * MS..400 * MS);
        }
        if self.plan.has(Fault::Reorder) && self.random.u32(..20) == 0 {
            self.tally.inject(Fault::Reorder);
            delay += self.random.i64(0..(5 * self.period / self.plan.rate).min(8 * S));
        } else if !self.plan.has(Fault::Delay) && !self.plan.has(Fault::Reorder) {
            delay = 100_000; // in order
        }
        if self.plan.has(Fault::Duplicate) && self.random.u32(..30) == 0 {
            self.tally.inject(Fault::Duplicate);
            let again = self.random.i64(0..50 * MS);
            self.after(delay + again, Event::Arrive { subscription, message: message.clone() });
        }
        self.after(delay, Event::Arrive { subscription, message: message.clone() });
    }

    fn arrive(&mut self, id: u64, message: Message) {
        let received = Stamp { value: self.clocks.system(), read_at: Some(self.now), jumps: 0 };
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        let info = self.info(&message, received);
        let taken = subscription
            .recorder
            .epoch()
            .map(|epoch| subscription.recorder.received_message(epoch, message.header.value, &info));
        let (epoch, steps) = (subscription.oracle.epoch(), subscription.oracle.steps());
        if taken.is_some() != epoch.is_some() {
            self.fail(format!(
                "subscription {id} is enabled: {}, expected {}",
                taken.is_some(),
                epoch.is_some()
            ));
            return;
        }
        let start = self.executor.max(self.now) + self.random.i64(1_000..50_000);
        let mut takes = self.random.i64(1_000..200_000);
        if self.plan.has(Fault::SlowCallback) && self.random.u32(..100) == 0 {
            self.tally.inject(Fault::SlowCallback);
            takes += self.random.i64(50 * MS..700 * MS);
        }
        self.executor = start + takes;
        self.at(
            start,
            Event::Start(Box::new(Start { subscription: id, taken, epoch, steps, message, received, takes })),
        );
    }

    fn start(&mut self, start: Start) {
        let Start { subscription: id, taken, epoch, steps, message, received, takes } = start;
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        self.tally.messages += 1;
        let now = self.now;
        let running = taken.and_then(|taken| subscription.recorder.record(&taken, || now));
        let is_numbered = !self.plan.has(Fault::Unnumbered);
        subscription.oracle.receive(
            epoch,
            Received {
                callback: now,
                ros: self.clocks.ros(),
                jumps: self.jumps,
                steps,
                header: message.header,
                source: message.source,
                received: if is_numbered { received } else { Stamp::NONE },
                publisher: message.publisher,
                number: is_numbered.then_some(message.number),
            },
        );
        note(&self.history, || {
            format!(
                "{} ns: subscription {id} receives number {} of {:02x?}",
                now - 1000 * S,
                message.number,
                &message.publisher[..2]
            )
        });
        if self.plan.has(Fault::Panic) && self.random.u32(..50) == 0 {
            self.tally.inject(Fault::Panic);
            return; // its end is never recorded
        }
        self.after(takes, Event::End { subscription: id, running, epoch, started: now });
    }

    fn info(&self, message: &Message, received: Stamp) -> MessageInfo {
        let time = |stamp: Stamp| -> Option<SystemTime> {
            Some(UNIX_EPOCH + Duration::from_nanos(stamp.value as u64))
        };
        let is_numbered = !self.plan.has(Fault::Unnumbered);
        let middleware = if is_numbered { FAST_DDS } else { CYCLONE_DDS };
        let mut data =
            PublisherGid { data: Default::default(), implementation_identifier: std::ptr::null() }.data;
        data.iter_mut().zip(message.publisher).for_each(|(to, from)| *to = from);
        MessageInfo {
            source_timestamp: time(message.source),
            received_timestamp: time(received),
            publication_sequence_number: if is_numbered { message.number } else { u64::MAX },
            reception_sequence_number: u64::MAX,
            publisher_gid: PublisherGid { data, implementation_identifier: middleware.as_ptr() },
        }
    }

    /// The statistics' thread: does what the schedule returns until it waits.
    fn end_windows(&mut self) {
        while self.error.is_none() {
            match self.schedule.next(self.instant(self.now), &*self.clocks) {
                Action::HandOut(out) => {
                    for (source, statistics) in out.finished {
                        self.check_window(&source, &statistics);
                        self.due.extend(statistics.metrics.iter().map(|(metric, _)| Due {
                            source: Arc::clone(&source),
                            metric: *metric,
                            statistics: Arc::clone(&statistics),
                        }));
                    }
                }
                Action::Publish { event, batch } => {
                    let mut failures = Failures::default();
                    if let Some(event) = event {
                        event.publish(&mut failures);
                        self.check_events();
                    }
                    for message in batch {
                        message.publish(&mut failures);
                    }
                    self.schedule.add_failures(failures);
                    self.check_messages();
                }
                Action::CheckPublishers(_) => self.schedule.add_publisher_check(vec![], None),
                Action::Wait(wake) => {
                    let Some(wake) = wake else { return };
                    let wake = 1000 * S + (wake - self.started).as_nanos() as i64;
                    let late = if self.plan.has(Fault::LateThread) && self.random.u32(..20) == 0 {
                        self.tally.inject(Fault::LateThread);
                        self.random.i64(0..3 * self.period)
                    } else {
                        0
                    };
                    self.wake += 1;
                    self.at(wake + late, Event::Wake(self.wake));
                    return;
                }
                Action::End { .. } => return self.fail("the schedule is closed".to_owned()),
            }
        }
    }

    /// Something has changed, which wakes the statistics' thread.
    fn notify(&mut self) {
        self.wake += 1;
        self.after(0, Event::Wake(self.wake));
    }

    fn check_window(&mut self, source: &Arc<Source>, ours: &WindowStatistics) {
        self.windows += 1;
        let (now, offset, suspended) = (self.now, self.clocks.offset(), self.clocks.suspended());
        if Arc::ptr_eq(source, &self.timer.1) {
            let Some(since) = self.timer.3.replace(now) else {
                return self.fail("the timer is disabled, and has a window".to_owned());
            };
            let samples = std::mem::take(&mut self.timer.2);
            if ours.length.as_nanos() as i64 != now - since || ours.count != samples.len() as u64 {
                return self
                    .fail(format!("timer: {ours:?}, expected {} durations since {since}", samples.len()));
            }
            let result = check::summary(&ours.metrics[0].1, &Expected::Samples(samples), &mut self.tally);
            if let Err(error) = result {
                self.fail(format!("timer: {error}"));
            }
            return;
        }
        let Some(subscription) = self.subscriptions.values_mut().find(|of| Arc::ptr_eq(&of.source, source))
        else {
            return self.fail("a subscription that was dropped has a window".to_owned());
        };
        let id = subscription.id;
        if subscription.oracle.epoch().is_none() {
            return self.fail(format!("subscription {id} is disabled, and has a window"));
        }
        let expected = subscription.oracle.end_window(now, offset, suspended);
        let settings = format!("{:?}", subscription.oracle.settings());
        note(&self.history, || format!("{} ns: window of subscription {id}", now - 1000 * S));
        if let Err(error) = check::window(ours, &expected, &mut self.tally) {
            self.fail(format!(
                "subscription {id}: {error}\n  of {settings}\n  expected {expected:?}\n  ours {ours:?}"
            ));
        }
    }

    /// Compares published messages with the windows that were finished, in their order.
    fn check_messages(&mut self) {
        let messages = std::mem::take(&mut *lock(&self.reader.messages));
        for message in messages {
            if self.reader.is_stopped.load(Ordering::Relaxed) {
                self.tally.inject(Fault::StoppedReader);
            }
            let due = loop {
                match self.due.pop_front() {
                    // Nothing is published of a source after its handle was dropped.
                    Some(due) if due.source.is_retired() => {}
                    Some(due) => break due,
                    None => return self.fail(format!("a message that is of no window: {message:?}")),
                }
            };
            let summary = due.statistics.get(due.metric).copied().unwrap_or_default();
            let figures = [
                summary.average,
                summary.maximum,
                summary.minimum,
                summary.sample_count as f64,
                summary.standard_deviation,
            ];
            let has_figures = message
                .statistics
                .iter()
                .zip(figures)
                .all(|(point, figure)| check::is_same(point.data, figure, 1.0));
            let nanoseconds = |time: &ros_env::builtin_interfaces::msg::Time| {
                i64::from(time.sec) * S + i64::from(time.nanosec)
            };
            if message.measurement_source_name != *due.source.name
                || message.metrics_source != due.metric.name()
                || nanoseconds(&message.window_stop) != due.statistics.window.stop
                || !has_figures
            {
                return self
                    .fail(format!("message {message:?}, expected {} of {:?}", due.metric, due.statistics));
            }
        }
    }

    /// No event has more than was lost.
    fn check_events(&mut self) {
        let Some((published, lost, late)) = self.losses() else { return };
        if published > lost + late {
            self.fail(format!("events have {published} losses, of {lost} and {late} that arrived late"));
        }
    }

    /// Returns the sums of losses that were published as events, of all losses, and of messages that arrived late, of
    /// subscriptions that measure them; None if losses are unknown.
    fn losses(&self) -> Option<(u64, u64, u64)> {
        let events = lock(&self.event_reader.0);
        let published =
            events.iter().flat_map(|event| &event.messages_lost_statistics).map(|of| of.messages_lost).sum();
        if self.plan.has(Fault::Crowd) || self.plan.has(Fault::Unnumbered) {
            return None;
        }
        let live = self.subscriptions.values().map(|of| (of.oracle.lost(), of.oracle.out_of_order()));
        let (mut lost, mut late) = self.ended_losses;
        for (of_lost, of_late) in live {
            lost += of_lost.unwrap_or(0);
            late += of_late;
        }
        Some((published, lost, late))
    }

    fn inject(&mut self) {
        let fault = Fault::ALL[self.random.usize(..Fault::ALL.len())];
        if !self.plan.has(fault) {
            return;
        }
        let now = self.instant(self.now);
        match fault {
            // Two steps in one window cannot be told from one: docs/reliability.md.
            Fault::Step if self.now < self.next_step => return,
            Fault::Step => {
                self.next_step = self.now + 5 * S + 5 * self.period;
                let sizes = [20 * MS, 500 * MS, 60 * S, 3600 * S];
                let largest = sizes[self.random.usize(..4)];
                let size = self.random.i64(5 * MS..largest);
                self.clocks.step(if self.random.bool() { size } else { -size });
                self.subscriptions.values_mut().for_each(|of| of.oracle.step(self.now));
            }
            Fault::Suspend if self.now < self.next_suspend => return,
            Fault::Suspend => {
                self.next_suspend = self.now + 5 * S + 5 * self.period;
                let time = self.random.i64(S..3600 * S);
                self.clocks.suspend(time);
                self.subscriptions.values_mut().for_each(|of| of.oracle.step(self.now));
            }
            Fault::Jump if self.simulated.is_some() => {
                let size = self.random.i64(30 * S..3600 * S);
                let back = self.random.bool() && self.clocks.ros() > size;
                self.clocks.set_ros(self.clocks.ros() + if back { -size } else { size });
                self.jumps += 1;
                self.jumped = Some(self.now);
                self.subscriptions.values_mut().for_each(|of| of.oracle.jump(self.now));
                if let Some(time) = &self.simulated {
                    time.refresh(self.now);
                }
            }
            Fault::Pause if self.simulated.is_some() => self.ros_rate = 1 - self.ros_rate,
            Fault::Switch => {
                if self.random.bool() {
                    self.enabled = !self.enabled;
                    self.schedule.set_enabled(self.enabled, now, &*self.clocks);
                } else if let Some(subscription) = self.any_subscription() {
                    let states = [
                        TopicStatisticsState::Enable,
                        TopicStatisticsState::Disable,
                        TopicStatisticsState::NodeDefault,
                    ];
                    let state = states[self.random.usize(..3)];
                    let Some(subscription) = self.subscriptions.get_mut(&subscription) else { return };
                    subscription.state = state;
                    self.schedule.set_state(&subscription.source, state, now, &*self.clocks);
                }
                self.update_oracles();
                self.notify();
            }
            Fault::Period => {
                self.period = self.random.i64(50 * MS..2 * S);
                self.schedule.set_publish_period(duration(self.period), now, &*self.clocks);
                self.notify();
            }
            Fault::Drop => {
                let Some(id) = self.any_subscription() else { return };
                self.drop_subscription(id);
            }
            Fault::Create if self.subscriptions.len() < 5 => {
                let topic = self.random.usize(..self.plan.subscriptions);
                self.subscribe(topic);
                self.notify();
            }
            Fault::Restart => {
                let index = self.random.usize(..self.publishers.len());
                self.publishers[index].next = 1;
                self.publishers[index].gid.iter_mut().for_each(|byte| *byte = self.random.u8(..));
            }
            Fault::StoppedReader => {
                self.reader.is_stopped.fetch_xor(true, Ordering::Relaxed);
                return;
            }
            _ => return,
        }
        let offset = self.clocks.offset() - 1_790_000_000 * S;
        note_fault(&self.history, || {
            format!("{} ns: {}, offset {offset}", self.now - 1000 * S, fault.text())
        });
        self.tally.inject(fault);
    }

    fn any_subscription(&mut self) -> Option<u64> {
        let ids: Vec<u64> = self.subscriptions.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.random.usize(..ids.len())])
    }

    fn drop_subscription(&mut self, id: u64) {
        let Some(subscription) = self.subscriptions.remove(&id) else { return };
        let Subscription { topic, name, oracle, handle, .. } = subscription;
        drop(handle);
        let totals = oracle.totals();
        *self.ended.entry((topic, name)).or_default() += totals.received;
        self.ended_losses.0 += totals.lost.unwrap_or(0);
        self.ended_losses.1 += oracle.out_of_order();
        for source in std::mem::take(&mut *lock(&self.retired.0)) {
            self.schedule.remove(&source);
        }
    }

    /// Ends the node: what is left is published, and everything adds up.
    fn finish(&mut self) {
        self.reader.is_stopped.store(false, Ordering::Relaxed);
        let totals = self.schedule.totals();
        let live: Vec<_> = self.subscriptions.values().map(|of| (of.topic, of.oracle.totals())).collect();
        for ((topic, name), received) in &self.ended {
            let ours =
                totals.iter().filter(|of| of.source_name == *name).map(|of| of.totals.received).sum::<u64>();
            let others =
                live.iter().filter(|(of, _)| of == topic).map(|(_, totals)| totals.received).sum::<u64>();
            if ours != received + others {
                return self
                    .fail(format!("totals of {name}: {ours} received, expected {received} + {others}"));
            }
        }
        self.schedule.close();
        let Action::End { event, messages, .. } = self.schedule.next(self.instant(self.now), &*self.clocks)
        else {
            return self.fail("a closed schedule does not end".to_owned());
        };
        let mut failures = Failures::default();
        if let Some(event) = event {
            event.publish(&mut failures);
        }
        messages.into_iter().for_each(|message| message.publish(&mut failures));
        self.check_messages();
        if self.due.iter().any(|due| !due.source.is_retired()) {
            return self.fail(format!("{} messages were never published", self.due.len()));
        }
        let Some((published, lost, late)) = self.losses() else { return };
        if published < lost || published > lost + late {
            self.fail(format!(
                "events have {published} losses in all, expected {lost} and up to {late} that arrived late"
            ));
        }
    }
}

fn duration(nanoseconds: i64) -> Duration {
    Duration::from_nanos(nanoseconds as u64)
}
