// SPDX-License-Identifier: Apache-2.0

//! A world begins, its events happen one after the other, and it ends.

use topic_statistics_core::record::simulated_time::SimulatedTime;

use super::state::{Event, World};
use crate::{
    clocks::S,
    faults::{Fault, Tally},
    history::History,
};

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

    fn happen(&mut self, event: Event) {
        match event {
            Event::Publish(index) => self.publish(index),
            Event::Arrive { subscription, message } => self.arrive(subscription, message),
            Event::Start { taken, takes } => self.start(*taken, takes),
            Event::End(running) => self.end(running),
            Event::Created(id) => self.complete(id),
            Event::Scopes => self.run_scopes(),
            Event::Waiting => self.run_waiting(),
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
