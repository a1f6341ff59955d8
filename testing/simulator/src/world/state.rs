// SPDX-License-Identifier: Apache-2.0

//! The state of a world, and its queue of events, which happen one after the other.

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
};

use super::{
    middleware::{Message, Middleware, Publisher},
    readers::{Due, EventReader, Reader, Retired},
    samples::{Running, Taken},
    sources::{Ended, Losses, Scope, Subscription, Waiting},
    warnings::Warnings,
};
use crate::{
    clocks::{HostClocks, NodeClock, MS, S},
    faults::{Fault, Tally},
    oracle::MergedDistributions,
    plan::Plan,
};

pub enum Event {
    Publish(usize),
    Arrive {
        subscription: u64,
        message: Message,
    },
    Start {
        taken: Box<Taken>,
        takes: i64,
    },
    End(Running),
    /// The creation of a subscription returns.
    Created(u64),
    /// The node publishes a message, starts a stopwatch, and counts events.
    Scopes,
    /// The service, client, timer and actions of the node are used.
    Waiting,
    /// A stopwatch's duration ends.
    StopwatchEnd {
        source: Arc<Source>,
        started: i64,
    },
    Wake(u64),
    Refresh,
    Fault,
}

pub struct World {
    pub(super) plan: Plan,
    pub(super) random: Rng,
    pub(super) tally: Tally,
    pub(super) history: Option<History>,
    pub(super) started: Instant,
    pub(super) now: i64,
    pub(super) clocks: Arc<HostClocks>,
    pub(super) simulated: Option<Arc<SimulatedTime>>,
    /// How often in a row the thread that ends windows woke although it had nothing to do.
    pub(super) idle_wakes: u32,
    /// The number of jumps of simulated time, the time of the last jump (`jumped`), and the rate of simulated time
    /// (`ros_rate`, 0 while paused).
    pub(super) jumps: u32,
    pub(super) jumped: Option<i64>,
    pub(super) ros_rate: i64,
    pub(super) events: BTreeMap<(i64, u64), Event>,
    pub(super) next_event: u64,
    /// The number of the latest wake-up of the thread that ends windows. Wake-ups in the queue that have other numbers
    /// are ignored.
    pub(super) wake: u64,
    /// The time until which the thread that ends windows cannot run.
    pub(super) blocked_until: i64,
    pub(super) schedule: Schedule,
    pub(super) enabled: bool,
    pub(super) distributions: bool,
    pub(super) period: i64,
    pub(super) retired: Arc<Retired>,
    pub(super) reader: Arc<Reader>,
    pub(super) event_reader: Arc<EventReader>,
    pub(super) middleware: Middleware,
    pub(super) publishers: Vec<Publisher>,
    pub(super) cut_until: i64,
    pub(super) subscriptions: BTreeMap<u64, Subscription>,
    pub(super) next_subscription: u64,
    pub(super) created: u64,
    pub(super) scopes: Vec<Scope>,
    pub(super) waiting: Vec<Waiting>,
    /// The time at which the executor is free for the next callback.
    pub(super) executor: i64,
    pub(super) due: VecDeque<Due>,
    pub(super) refused: u64,
    pub(super) losses: Losses,
    pub(super) ended: Vec<Ended>,
    /// The merged distributions of all windows, by the source name of the subscription.
    pub(super) distributed: MergedDistributions,
    pub(super) warnings: Warnings,
    pub(super) changed: Vec<Changed>,
    pub(super) windows: u64,
}

/// The last events of a world, and the last injected faults, for the report of a failure.
#[derive(Default)]
pub struct History {
    events: VecDeque<String>,
    faults: VecDeque<String>,
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
            middleware: Middleware::new(&plan, &mut random),
            tally: Tally { worlds: 1, ..Tally::default() },
            history: None,
            started: Instant::now(),
            now,
            clocks,
            simulated,
            idle_wakes: 0,
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
            waiting: vec![],
            executor: now,
            due: VecDeque::new(),
            refused: 0,
            losses: Losses::new(event_rate),
            ended: vec![],
            distributed: MergedDistributions::new(),
            warnings: Warnings::default(),
            changed: vec![],
            windows: 0,
            random,
            plan,
        };
        world.schedule.judge_by(NodeExpectations::default(), false);
        world.populate();
        world
    }

    pub fn instant(&self, now: i64) -> Instant {
        self.started + duration(now - 1000 * S)
    }

    /// Returns the time that a thread reads before it changes the schedule. The thread may be delayed between the
    /// reading and the change.
    pub fn instant_of_change(&mut self) -> Instant {
        let delay = if self.happens(Fault::DelayedChange, 4) { self.random.i64(0..20 * MS) } else { 0 };
        self.instant((self.now - delay).max(1000 * S))
    }

    /// Returns whether a fault happens now, and counts it. A fault of the plan happens once in `one_in` calls on
    /// average.
    pub fn happens(&mut self, fault: Fault, one_in: u32) -> bool {
        let happens = self.plan.has(fault) && self.random.u32(..one_in) == 0;
        self.tally.inject_times(fault, u64::from(happens));
        happens
    }

    pub fn after(&mut self, time: i64, event: Event) {
        self.at(self.now + time, event);
    }

    pub fn at(&mut self, time: i64, event: Event) {
        self.next_event += 1;
        self.events.insert((time.max(self.now), self.next_event), event);
    }

    pub fn set_now(&mut self, now: i64) {
        if self.simulated.is_some() {
            self.clocks.set_ros(self.clocks.ros() + self.ros_rate * (now - self.now));
        }
        self.now = now;
        self.clocks.set_monotonic(now);
    }

    /// Sets `now` to the time of the monotonic clock: the present event has advanced this clock.
    pub fn pass(&mut self) {
        self.set_now(self.clocks.monotonic());
    }

    pub fn note(&mut self, event: impl FnOnce() -> String) {
        if let Some(history) = &mut self.history {
            push(&mut history.events, event());
        }
    }

    pub fn note_fault(&mut self, fault: Fault) {
        let (now, offset) = (self.now - 1000 * S, self.clocks.offset() - 1_790_000_000 * S);
        if let Some(history) = &mut self.history {
            push(&mut history.faults, format!("{now} ns: {}, offset {offset}", fault.text()));
        }
    }
}

fn push(events: &mut VecDeque<String>, event: String) {
    events.truncate(14);
    events.push_front(event);
}

pub fn duration(nanoseconds: i64) -> Duration {
    Duration::from_nanos(nanoseconds as u64)
}

impl World {
    pub fn populate(&mut self) {
        if self.simulated.is_some() {
            self.clocks.set_ros(1000 * S);
            self.after(0, Event::Refresh);
        }
        self.add_scopes();
        self.add_waiting();
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
        self.after(self.period / 5, Event::Waiting);
    }

    /// Runs the world to its end. Returns the counts, and the first difference from the oracle, with the last events if
    /// `has_history` is true.
    pub fn run(mut self, has_history: bool) -> (Tally, Result<(), String>) {
        self.history = has_history.then(History::default);
        let lived = self.live();
        self.tally.windows = self.windows;
        let result = lived.map_err(|error| {
            let History { events, faults } = self.history.take().unwrap_or_default();
            let history = events.iter().rev().chain(faults.iter().rev());
            let history: String = history.map(|event| format!("\n  {event}")).collect();
            let (windows, now, plan) = (self.windows, self.now - 1000 * S, &self.plan);
            format!("window {windows}, at {now} ns: {error}\n  in a world of {plan}{history}")
        });
        (self.tally, result)
    }

    fn live(&mut self) -> Result<(), String> {
        // Without this end, a world in which everything is dropped or disabled would run for ever.
        let end = self.now + self.plan.windows as i64 * self.period;
        while self.windows < self.plan.windows && self.now < end {
            let Some(((time, _), event)) = self.events.pop_first() else { break };
            // An event is late if an earlier event lasted beyond the time of this event.
            self.set_now(time.max(self.now));
            self.happen(event)?;
        }
        self.finish()
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Publish(index) => self.publish(index),
            Event::Arrive { subscription, message } => self.arrive(subscription, message)?,
            Event::Start { taken, takes } => self.start(*taken, takes)?,
            Event::End(running) => self.end(running),
            Event::Created(id) => self.complete(id),
            Event::Scopes => self.run_scopes()?,
            Event::Waiting => self.run_waiting()?,
            Event::StopwatchEnd { source, started } => self.end_stopwatch(&source, started),
            Event::Wake(number) if number == self.wake => self.run_thread()?,
            Event::Wake(_) => {}
            Event::Refresh => {
                if let Some(time) = &self.simulated {
                    time.refresh(self.now);
                }
                self.after(SimulatedTime::INTERVAL.as_nanos() as i64, Event::Refresh);
            }
            Event::Fault => {
                self.inject()?;
                let next = self.random.i64(self.period / 10..self.period * 2);
                self.after(next, Event::Fault);
            }
        }
        Ok(())
    }
}
