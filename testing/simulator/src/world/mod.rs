// SPDX-License-Identifier: Apache-2.0

//! A world: a node with its sources of statistics, publishers, a network, an executor and clocks. It has one queue of
//! events, and no thread.

mod deliveries;
mod executor;
mod inject;
mod losses;
mod network;
mod node;
pub mod readers;
mod scopes;
mod thread;
mod warnings;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use topic_statistics_core::{
    health::NodeExpectations,
    record::{clock::Clock, options::SourceDefaults, simulated_time::SimulatedTime, source::Source},
    schedule::{judges::Changed, losses::LossEvents, state::Schedule},
    Metric,
};

use crate::{
    check::Merged,
    clocks::{HostClocks, NodeClock, S},
    faults::{Fault, Tally},
    plan::Plan,
    shrink::History,
};
use executor::{Running, Taken};
use losses::Losses;
use network::{Message, Middleware, Publisher};
use node::{Ended, Subscription};
use readers::{EventReader, Reader, Retired};
use scopes::Scope;
use thread::Due;
use warnings::Warnings;

/// Something that happens at a time.
enum Event {
    /// A publisher publishes.
    Publish(usize),
    /// A message arrives at a subscription.
    Arrive { subscription: u64, message: Message },
    /// A callback starts.
    Start { taken: Box<Taken>, takes: i64 },
    /// A callback ends.
    End(Running),
    /// The creation of a subscription returns.
    Created(u64),
    /// The node publishes, times and counts.
    Scopes,
    /// A stopwatch's duration ends.
    StopwatchEnd { source: Arc<Source>, started: i64 },
    /// The thread of the statistics wakes.
    Wake(u64),
    /// The simulated time is read.
    Refresh,
    /// A fault may be injected.
    Fault,
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
    /// Of simulated time: how often it has jumped, when it jumped last, and how fast it runs; 0 while it is paused.
    jumps: u32,
    jumped: Option<i64>,
    ros_rate: i64,
    events: BTreeMap<(i64, u64), Event>,
    next_event: u64,
    /// The wake-up of the statistics' thread that counts, and until when it cannot run.
    wake: u64,
    blocked_until: i64,
    schedule: Schedule,
    enabled: bool,
    distributions: bool,
    period: i64,
    retired: Arc<Retired>,
    reader: Arc<Reader>,
    event_reader: Arc<EventReader>,
    middleware: Middleware,
    publishers: Vec<Publisher>,
    /// Until then the network is cut.
    cut_until: i64,
    subscriptions: BTreeMap<u64, Subscription>,
    next_subscription: u64,
    /// How many subscriptions were created.
    created: u64,
    scopes: Vec<Scope>,
    /// When the executor is free for the next callback.
    executor: i64,
    /// Messages that have to be published, in their order.
    due: VecDeque<Due>,
    /// How many messages the reader has refused.
    refused: u64,
    losses: Losses,
    ended: Vec<Ended>,
    /// The distributions of all windows of the subscriptions of each name.
    distributed: BTreeMap<(String, Metric), Merged>,
    /// How many times many names were used.
    names: u64,
    warnings: Warnings,
    /// The health of sources after windows that are not compared yet.
    changed: Vec<Changed>,
    windows: u64,
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
        let event_rate = [0.5, 2.0][random.usize(..2)];
        let loss_events = LossEvents::new("/node".to_owned(), event_rate);
        let distributions = random.bool();
        let mut defaults = SourceDefaults::default();
        (defaults.publish_period, defaults.distributions) = (duration(period), distributions);
        let mut world = Self {
            schedule: Schedule::new(defaults, random.bool(), loss_events),
            distributions,
            middleware: Middleware::of(&plan, &mut random),
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
            blocked_until: 0,
            enabled: true,
            period,
            retired: Arc::default(),
            reader: Arc::default(),
            event_reader: Arc::default(),
            publishers: vec![],
            cut_until: 0,
            subscriptions: BTreeMap::new(),
            next_subscription: 0,
            created: 0,
            scopes: vec![],
            executor: now,
            due: VecDeque::new(),
            refused: 0,
            losses: Losses::new(event_rate),
            ended: vec![],
            distributed: BTreeMap::new(),
            names: 0,
            warnings: Warnings::default(),
            changed: vec![],
            windows: 0,
            error: None,
            random,
            plan,
        };
        world.schedule.judge_by(NodeExpectations::default(), false);
        world.populate();
        world
    }

    fn populate(&mut self) {
        if self.simulated.is_some() {
            self.clocks.set_ros(1000 * S);
            self.after(0, Event::Refresh);
        }
        self.add_scopes();
        for topic in 0..self.plan.subscriptions {
            self.subscribe(topic);
            let crowd = if self.plan.has(Fault::Crowd) { 300 } else { 0 };
            self.tally.inject_times(Fault::Crowd, crowd);
            for _ in 0..self.plan.publishers as u64 + crowd {
                self.add_publisher(topic);
            }
        }
        self.update_oracles();
        self.after(0, Event::Wake(0));
        self.after(self.period / 3, Event::Fault);
        self.after(self.period / 7, Event::Scopes);
    }

    fn instant(&self, now: i64) -> Instant {
        self.started + duration(now - 1000 * S)
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

    /// The events have taken the time by which the monotonic clock is ahead.
    fn pass(&mut self) {
        self.set_now(self.clocks.monotonic());
    }

    /// Runs the world to its end. Returns the counts, and the first difference from the oracle.
    pub fn run(mut self, history: Option<History>) -> (Tally, Result<(), String>) {
        self.history = history;
        // A world in which everything is dropped or disabled has no windows.
        let end = self.now + self.plan.windows as i64 * self.period;
        while self.windows < self.plan.windows && self.now < end && self.error.is_none() {
            let Some(((time, _), event)) = self.events.pop_first() else { break };
            // It is later if something else has taken its time.
            self.set_now(time.max(self.now));
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
            Event::Start { taken, takes } => self.start(*taken, takes),
            Event::End(running) => self.end(running),
            Event::Created(id) => self.complete(id),
            Event::Scopes => self.run_scopes(),
            Event::StopwatchEnd { source, started } => self.end_stopwatch(&source, started),
            Event::Wake(number) if number == self.wake => self.run_thread(),
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
}

fn duration(nanoseconds: i64) -> Duration {
    Duration::from_nanos(nanoseconds as u64)
}
