// SPDX-License-Identifier: Apache-2.0

//! The sources of the robot: their recorders and their messages.

use std::{
    sync::{Arc, Weak},
    time::Instant,
};

use fastrand::Rng;
use topic_statistics_core::{
    collector::FirstPeriod,
    condition::Conditions,
    health::Expectations,
    record::{
        options::SourceOptions,
        recorder::{Recorder, RecorderOptions, RunningCallback},
        simulated_time::SimulatedTime,
        source::{Source, SourceHandle},
        transport::{Delivery, ReceivedTimestamp, Transport},
    },
    schedule::state::Schedule,
    source_kind::SourceKind,
    Metric,
};

use crate::{
    clocks::{HostClocks, MS, S},
    measured::Measured,
    oracle::publisher_gid,
    scenario::{Row, BURST},
    world::readers::Retired,
};

pub struct Stream {
    /// The present properties of the source. A fault changes them.
    pub row: Row,
    pub next: i64,
    /// The fraction of messages that are lost.
    pub lost: f64,
    pub is_stamped: bool,
    /// For each publisher: its number, and the number of messages that it has sent.
    publishers: Vec<(u64, u64)>,
    next_publisher: u64,
    left_of_burst: u32,
    left_of_history: u32,
    measured: Measured,
    /// The running callback, and the time at which it ends.
    running: Option<(RunningCallback, i64)>,
    _handle: SourceHandle,
}

/// A middleware that reports everything, as Fast DDS does.
const FAST_DDS: &Transport = &Transport {
    name: "rmw_fastrtps_cpp",
    received: ReceivedTimestamp::Reception,
    has_sequence_numbers: true,
};

/// Returns what Fast DDS reports with a message that arrives without delay.
pub fn delivery(publisher: u64, number: u64, source: i64) -> Delivery {
    Delivery { transport: FAST_DDS, source, received: source, publisher: publisher_gid(publisher), number }
}

impl Stream {
    pub fn new(
        row: &Row,
        schedule: &mut Schedule,
        time: Option<Arc<SimulatedTime>>,
        clocks: &HostClocks,
        at: Instant,
        first: i64,
    ) -> Self {
        let name = format!("/node:{}", row.name);
        let conditions = |text: &str, tight: &str| match [text, tight].join(" ").trim() {
            "" => Conditions::from_iter([]),
            text => text.parse().unwrap_or_else(|error| panic!("{error}")),
        };
        let [warn, error] = row.tight;
        let expected = Expectations::new()
            .warn_unless(conditions(row.warn_unless, warn))
            .error_unless(conditions(row.error_unless, error));
        let recorder = || {
            let mut metrics = vec![Metric::MessageAge, Metric::MessagePeriod];
            metrics.extend(expected.metrics());
            let options = RecorderOptions::new().metrics(metrics).transient_local(row.history > 0);
            let recorder = Recorder::new(row.name, options, time, clocks);
            if !row.has_header {
                recorder.accept_no_header();
            }
            recorder
        };
        let (collector, measured) = Measured::new(row.kind, FirstPeriod::NoSample, recorder);
        let check = (row.kind == SourceKind::Subscription).then(|| Box::new(row.name.to_owned()) as _);
        let source = Arc::new(Source::new(name, collector, check));
        schedule.add(&source.collector, SourceOptions::default(), None, at, clocks);
        schedule.expect(&source, expected);
        schedule.complete(&source, at);
        let publishers = (0..row.publishers).map(|number| (number, 0)).collect();
        Self {
            row: *row,
            _handle: SourceHandle::new(source, Weak::<Retired>::new()),
            next: first,
            lost: 0.0,
            is_stamped: true,
            publishers,
            next_publisher: row.publishers,
            left_of_burst: 0,
            left_of_history: row.history,
            measured,
            running: None,
        }
    }

    /// Replaces a publisher by a new one, which delivers its history.
    pub fn restart_publisher(&mut self, random: &mut Rng, now: i64) {
        let index = random.usize(..self.publishers.len());
        self.publishers[index] = (self.next_publisher, 0);
        self.next_publisher += 1;
        if self.row.history > 0 {
            self.left_of_history = self.row.history;
            self.next = now + random.i64(MS..S);
        }
    }

    /// Receives the message that arrives now, unless it is lost, and plans the arrival of the next message. `clock`
    /// converts a monotonic time into the time of the sender's clock.
    pub fn receive(&mut self, random: &mut Rng, now: i64, clock: impl Fn(i64) -> i64) {
        let arrives = self.next;
        // The messages of the history were published earlier than they are delivered: `kept` is this additional age of
        // the message.
        let kept = i64::from(self.left_of_history.saturating_sub(1)) * self.row.period;
        self.left_of_history = self.left_of_history.saturating_sub(1);
        self.next += match (self.row.period, self.left_of_burst) {
            _ if self.left_of_history > 0 => MS,
            (BURST, 0) => {
                self.left_of_burst = 19;
                random.i64(20 * S..50 * S)
            }
            (BURST, _) => {
                self.left_of_burst -= 1;
                20 * MS
            }
            // The periods have a jitter of 3 %.
            (period, _) => period - period / 33 + random.i64(0..=2 * (period / 33)),
        };
        let Measured::Messages(recorder) = &self.measured else {
            return self.measured.record(now, self.row.takes, self.row.size, 1);
        };
        let index = random.usize(..self.publishers.len());
        let (publisher, number) = &mut self.publishers[index];
        *number += 1;
        if self.lost > 0.0 && random.f64() < self.lost {
            return;
        }
        let age = kept + self.row.age - self.row.age / 4 + random.i64(0..=self.row.age / 2);
        let header = if self.row.has_header && self.is_stamped { clock(arrives - age) } else { 0 };
        let info = delivery(*publisher, *number, clock(arrives - age / 2));
        let Some(epoch) = recorder.epoch() else { return };
        let message = recorder.received_message(epoch, header, info, || self.row.size);
        if let Some((running, ends)) = self.running.take() {
            recorder.record_end(running, ends.min(now));
        }
        let running = recorder.record(&message, || now);
        self.running = running.map(|running| (running, now + self.row.takes));
    }

    pub fn callback_ends(&self) -> i64 {
        self.running.as_ref().map_or(i64::MAX, |(_, ends)| *ends)
    }

    pub fn end_callback(&mut self) {
        if let (Measured::Messages(recorder), Some((running, ends))) = (&self.measured, self.running.take()) {
            recorder.record_end(running, ends);
        }
    }
}
