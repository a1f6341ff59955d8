// SPDX-License-Identifier: Apache-2.0

//! The robot and its host: time passes, messages arrive, windows end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use topic_statistics_core::{
    health::{Health, Level, NodeExpectations},
    record::{clock::Clock, options::SourceDefaults, simulated_time::SimulatedTime},
    schedule::{
        losses::LossEvents,
        state::{Action, Schedule},
    },
};

use super::{disturbances::Disturbances, robot::Stream};
use crate::{
    clocks::{HostClocks, NodeClock, S},
    scenario::ROBOT,
};

pub struct Day {
    pub random: Rng,
    pub clocks: Arc<HostClocks>,
    pub started: i64,
    pub instant: Instant,
    pub now: i64,
    pub nodes: [Node; 2],
    pub streams: Vec<Stream>,
    pub simulated: Arc<SimulatedTime>,
    pub next_refresh: i64,
    /// The last step of the system clock.
    pub stepped: Change,
    /// The last jump of simulated time.
    pub jumped: Change,
    pub is_disturbed: bool,
    pub next_harmless: i64,
    pub harmless: Disturbances,
    pub alarms: Vec<Alarm>,
    pub windows: u64,
    pub messages: u64,
}

/// The schedule of a node, and the time at which its thread wakes.
pub struct Node {
    pub schedule: Schedule,
    pub wake: i64,
    pub period: i64,
}

/// When a clock was set last, and by how many nanoseconds.
#[derive(Clone, Copy, Default)]
pub struct Change {
    pub at: i64,
    pub by: i64,
}

pub struct Alarm {
    pub source: String,
    pub before: Level,
    pub health: Health,
    pub at: i64,
}

impl Alarm {
    pub fn text(&self, since: i64) -> String {
        let Self { source, before, health, at } = self;
        let seconds = (at - since) as f64 / S as f64;
        format!("after {seconds:.1} s {source} is {} (was {before}): {health}", health.level)
    }
}

impl Change {
    /// Returns what to add to the present offset of the clock to get its offset at the time `at`.
    pub fn correction(self, at: i64) -> i64 {
        if at < self.at {
            -self.by
        } else {
            0
        }
    }
}

impl Day {
    pub fn new(seed: u64) -> Self {
        let random = Rng::with_seed(seed);
        let clocks = HostClocks::new();
        let now = clocks.monotonic();
        clocks.set_ros(5000 * S);
        let simulated = Arc::new(SimulatedTime::new(NodeClock(Arc::clone(&clocks))));
        let nodes = ["/robot", "/simulated"].map(|name| {
            let events = LossEvents::new(name.to_owned(), 0.0);
            let mut schedule = Schedule::new(SourceDefaults::default(), false, events);
            schedule.judge_by(NodeExpectations::default(), false);
            Node { schedule, wake: now, period: S }
        });
        let mut day = Self {
            random,
            clocks,
            started: now,
            instant: Instant::now(),
            now,
            nodes,
            streams: vec![],
            simulated,
            next_refresh: now,
            stepped: Change::default(),
            jumped: Change::default(),
            is_disturbed: false,
            next_harmless: now + 30 * S,
            harmless: Disturbances::default(),
            alarms: vec![],
            windows: 0,
            messages: 0,
        };
        for row in ROBOT {
            let node = &mut day.nodes[usize::from(row.is_simulated)].schedule;
            let at = day.instant;
            let time = row.is_simulated.then(|| Arc::clone(&day.simulated));
            let stream = Stream::new(
                row,
                node,
                time,
                &day.clocks,
                at,
                now + day.random.i64(S..if row.history > 0 { 9 * S } else { 4 * S }),
            );
            day.streams.push(stream);
        }
        (0..2).for_each(|node| day.run_thread(node));
        day
    }

    /// Simulates until `end` on the monotonic clock. Errors at the first false alarm.
    pub fn run_until(&mut self, end: i64) -> Result<(), String> {
        loop {
            let stream = (0..self.streams.len()).min_by_key(|index| self.streams[*index].next).unwrap_or(0);
            let node = usize::from(self.nodes[1].wake < self.nodes[0].wake);
            let next_message = self.streams[stream].next;
            let next_harmless = if self.is_disturbed { self.next_harmless } else { i64::MAX };
            let ending =
                (0..self.streams.len()).min_by_key(|index| self.streams[*index].callback_ends()).unwrap_or(0);
            let next_end = self.streams[ending].callback_ends();
            let next_of_node = self.nodes[node].wake.min(self.next_refresh).min(next_harmless);
            let next = next_message.min(next_end).min(next_of_node);
            if next >= end {
                return Ok(());
            }
            self.set_now(next.max(self.now));
            if next == next_end {
                self.streams[ending].end_callback();
            } else if next == next_message {
                self.receive(stream);
            } else if next == self.nodes[node].wake {
                self.run_thread(node);
                self.check()?;
            } else if next == self.next_refresh {
                self.simulated.refresh(self.now);
                self.next_refresh = self.now + SimulatedTime::INTERVAL.as_nanos() as i64;
            } else {
                self.disturb();
            }
        }
    }

    pub fn set_now(&mut self, now: i64) {
        self.clocks.set_ros(self.clocks.ros() + now - self.now);
        self.clocks.set_monotonic(now);
        self.now = now;
    }

    /// Errors if a level other than OK was raised without a fault.
    pub fn check(&mut self) -> Result<(), String> {
        let alarm = self.alarms.first().filter(|_| self.is_disturbed);
        alarm.map_or(Ok(()), |alarm| {
            let (alarm, disturbances) = (alarm.text(self.started), self.harmless.last());
            Err(format!("a false alarm: {alarm}\n  the last disturbances: {disturbances}"))
        })
    }

    pub fn at(&self) -> Instant {
        self.instant + Duration::from_nanos((self.now - self.started) as u64)
    }

    /// Receives the next message of a source, and plans the arrival of the message after it.
    fn receive(&mut self, stream: usize) {
        self.messages += 1;
        let stream = &mut self.streams[stream];
        let (time, change) = match stream.row.is_simulated {
            true => (self.clocks.ros() - self.now, self.jumped),
            false => (self.clocks.offset(), self.stepped),
        };
        stream.receive(&mut self.random, self.now, |sent| sent + time + change.correction(sent));
    }

    pub fn run_thread(&mut self, node: usize) {
        loop {
            match self.nodes[node].schedule.next(self.at(), &*self.clocks) {
                Action::HandOut(out) => {
                    self.windows += out.finished.len() as u64;
                    out.finished.into_iter().for_each(|(source, window)| source.finish(window));
                    for changed in out.changed {
                        let Some(before) = changed.before else { continue };
                        let (source, at) = (changed.source.name.to_string(), self.now);
                        self.alarms.push(Alarm { source, before, health: changed.health, at });
                    }
                }
                Action::Publish { .. } | Action::PublishDiagnostics(_) => {}
                Action::CheckPublishers(_) => {
                    self.nodes[node].schedule.add_publisher_check(vec![], None);
                }
                Action::Wait(wake) => {
                    let wake = wake.map_or(self.now + S, |wake| {
                        self.started + wake.saturating_duration_since(self.instant).as_nanos() as i64
                    });
                    self.nodes[node].wake = wake.max(self.now);
                    return;
                }
                Action::End { .. } => return,
            }
        }
    }

    pub fn summary(&self) -> String {
        format!(
            "{:.2} hours of {} sources, {} messages, {} windows: no false alarm\n{}",
            (self.now - self.started) as f64 / S as f64 / 3600.0,
            self.streams.len(),
            self.messages,
            self.windows,
            self.harmless
        )
    }
}
