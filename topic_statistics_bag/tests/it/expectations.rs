// SPDX-License-Identifier: Apache-2.0

//! The same file of expectations judges the same stream of messages in three places: in a process with a node, in
//! topic_monitor, and in a bag. The test sets the clocks.

use std::{
    process::Command,
    sync::{
        atomic::{AtomicI64, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use topic_statistics_core::{
    expectation_file::ExpectationFile,
    health::{Health, Level, NodeExpectations},
    record::{
        clock::Clock,
        middleware::UNKNOWN,
        options::{SourceDefaults, SourceOptions},
        recorder::{Recorder, RecorderOptions},
        source::{Source, WindowedCollector},
        source_name::SourceNames,
        transport::Delivery,
    },
    schedule::{
        judges::{status, Changed},
        losses::LossEvents,
        state::{Action, Schedule},
    },
    Totals, WindowStatistics,
};
use topic_statistics_observe::{
    expect::Expected,
    row::{row_window, Row},
};

use crate::support::*;

const FILE: &str = "topics: {imu: {warn_unless: age<50ms, error_unless: rate>=50, stale_after: 3}}";

/// The messages on /imu. Each item has a time (s), and the rate (Hz) and age (ms) of the messages from this time on.
const STREAM: [(i64, i64, i64); 7] =
    [(0, 100, 5), (10, 100, 80), (15, 100, 5), (20, 25, 5), (25, 100, 5), (30, 0, 0), (36, 100, 5)];
const END: i64 = 44;

fn messages() -> Vec<Message> {
    let ends = STREAM[1..].iter().map(|part| part.0).chain([END]);
    let parts = STREAM.iter().zip(ends).flat_map(|((from, rate, age), to)| {
        (0..(to - from) * rate).map(move |number| {
            let log = from * S + (2 * number + 1) * S / (2 * rate);
            Message { stamp: START + log - age * MS, ..Message::at(0, log) }
        })
    });
    parts.collect()
}

/// The clocks of a host. They show the time since the start of the stream.
#[derive(Default)]
struct StreamClock(AtomicI64);

impl Clock for StreamClock {
    fn monotonic(&self) -> i64 {
        1000 * S + self.0.load(Ordering::Relaxed)
    }

    fn system(&self) -> i64 {
        START + self.0.load(Ordering::Relaxed)
    }

    fn suspended(&self) -> i64 {
        0
    }
}

/// A process whose node has a subscription, as in the library and in the preloaded library.
struct Process {
    clock: StreamClock,
    started: Instant,
    schedule: Schedule,
    recorder: Arc<Recorder>,
    source: Arc<Source>,
    windows: Vec<Arc<WindowStatistics>>,
    changes: Vec<String>,
    /// The name and the message of the last status on /diagnostics.
    status: (String, String),
}

impl Process {
    fn new(file: &ExpectationFile) -> Self {
        let (clock, started) = (StreamClock::default(), Instant::now());
        let recorder = Arc::new(Recorder::new("/imu", RecorderOptions::new(), None, &clock));
        let name = Arc::<SourceNames>::default().reserve("/listener", "/listener:/imu");
        let source =
            Arc::new(Source::new(name, Arc::clone(&recorder) as _, Some(Box::new("/imu".to_owned()))));
        let losses = LossEvents::new("/listener".to_owned(), 0.0);
        let mut schedule = Schedule::new(SourceDefaults::default(), false, losses);
        schedule.judge_by(NodeExpectations::default(), true);
        let collector = Arc::clone(&recorder) as Arc<dyn WindowedCollector>;
        schedule.add(&collector, SourceOptions::default(), None, started, &clock);
        let expectations = file.source_expectations(source.names(), source.kind());
        schedule.expect(&source, expectations.expect("the file has expectations of the topic"));
        schedule.complete(&source, started);
        let (windows, changes, status) = Default::default();
        Self { clock, started, schedule, recorder, source, windows, changes, status }
    }

    fn receive(&mut self, message: &Message) {
        self.clock.0.store(message.log - START, Ordering::Relaxed);
        let (publisher, number) = ([0; 16], u64::MAX);
        let transport = &UNKNOWN.transport;
        let delivery = Delivery { transport, source: message.publish, received: 0, publisher, number };
        let epoch = self.recorder.epoch().expect("the statistics are enabled");
        let received = self.recorder.received_message(epoch, message.stamp, delivery, || 0);
        let _no_callback = self.recorder.record(&received, || self.clock.monotonic());
    }

    /// Sets the clock to `to`, and does all work of the schedule that is due at this time, such as the end of a window.
    fn pass(&mut self, to: i64) {
        self.clock.0.store(to, Ordering::Relaxed);
        let now = self.started + Duration::from_nanos(to as u64);
        loop {
            match self.schedule.next(now, &self.clock) {
                Action::HandOut(out) => {
                    for (source, window) in out.finished {
                        source.finish(Arc::clone(&window));
                        self.windows.push(window);
                    }
                    for Changed { before, health, .. } in out.changed {
                        self.changes.extend(before.map(|before| text(to, before, &health)));
                    }
                }
                Action::PublishDiagnostics(diagnosed) => {
                    let of_source = status("listener", &self.source, &diagnosed[0].judge);
                    self.status = (of_source.name, of_source.message);
                }
                Action::CheckPublishers(_) => self.schedule.add_publisher_check(vec![], None),
                Action::Wait(_) => return,
                _ => panic!("nothing is published"),
            }
        }
    }
}

fn text(at: i64, before: Level, health: &Health) -> String {
    format!("after {}.0 s, /imu: {before} -> {}: {health}", at / S, health.level)
}

/// Returns the changes that topic_monitor reports if it receives these windows.
fn live(file: ExpectationFile, windows: &[Arc<WindowStatistics>], started: Instant) -> Vec<String> {
    let (mut expected, mut row) = (Expected::new(file, Duration::from_secs(1)), Row::new("/imu"));
    let (mut before, mut changes) = (Totals::default(), vec![]);
    for (window, number) in windows.iter().zip(1..) {
        let ended = started + Duration::from_secs(number);
        row.add_window(row_window(window, &before, ended));
        before = window.totals.unwrap_or_default();
        let judged = expected.judge(&["/imu".to_owned()], &[&row], ended);
        let change = judged.into_iter().find_map(|judged| judged.change);
        changes.extend(change.map(|change| text(number as i64 * S, change.before, &change.health)));
    }
    changes
}

#[test]
fn one_file_judges_one_stream_in_a_process_live_and_in_a_bag() {
    let file = ExpectationFile::parse(FILE).unwrap();
    let mut process = Process::new(&file);
    let mut rest = messages().into_iter().peekable();
    for second in 1..=END {
        while let Some(message) = rest.next_if(|message| message.log < START + second * S) {
            process.receive(&message);
        }
        process.pass(second * S);
    }
    let expected = [
        "after 12.0 s, /imu: OK -> WARN: age 80 ms, expected below 50, since 2 s",
        "after 18.0 s, /imu: WARN -> OK: as expected, since 3 s",
        "after 22.0 s, /imu: OK -> ERROR: rate 25 Hz, expected at least 50, since 2 s",
        "after 28.0 s, /imu: ERROR -> OK: as expected, since 3 s",
        "after 32.0 s, /imu: OK -> ERROR: rate 0 Hz, expected at least 50, since 2 s",
        "after 33.0 s, /imu: ERROR -> STALE: no message any more, since 3 s",
        "after 37.0 s, /imu: STALE -> WARN: messages again, not yet for long enough, since 1 s",
        "after 40.0 s, /imu: WARN -> OK: as expected, since 3 s",
    ];
    assert_eq!(process.changes, expected);
    let [name, message] = ["listener: /imu", "as expected, since 7 s"].map(str::to_owned);
    assert_eq!(process.status, (name, message));

    assert_eq!(live(file, &process.windows, process.started), expected, "live");

    // Another topic continues, so that the bag does not end while /imu is silent.
    let other = (0..END * 10).map(|number| Message::at(1, number * 100 * MS));
    let mut all: Vec<_> = messages().into_iter().chain(other).collect();
    all.sort_by_key(|message| message.log);
    let channels = [Channel::new("/imu", IMU), Channel::new("/other", IMU)];
    let bag = TestFile::new(&mcap(mcap::WriteOptions::new(), &channels, &all));
    let yaml = bag.directory.path().join("robot.yaml");
    std::fs::write(&yaml, FILE).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bag_statistics"));
    let ended =
        command.arg(&bag.path).arg("--topics").args(["/imu", "/other"]).arg("--expect").arg(&yaml).output();
    let errors = String::from_utf8(ended.unwrap().stderr).unwrap();
    let changes: Vec<_> =
        errors.lines().map(|line| line.strip_prefix("bag_statistics: ").unwrap_or(line)).collect();
    assert_eq!(changes, expected, "in the bag");
}
