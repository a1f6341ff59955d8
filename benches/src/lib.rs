// SPDX-License-Identifier: Apache-2.0

//! The code that runs for each message, callable without a node, for the benchmarks and the cost tests.

#![allow(missing_docs, missing_debug_implementations)] // the crate has no users outside of this folder

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant, UNIX_EPOCH},
};

use rclrs::{MessageInfo, PublisherGid};
use rclrs_topic_statistics::{
    testing::{self, metrics_message, status, NodeNames, Probe},
    Counter, StatisticsState, Stopwatch, WindowStatistics,
};
use ros_env::sensor_msgs::msg::{rmw, Imu};
use rosidl_runtime_rs::Message;
use topic_statistics_core::{
    health::{Expectations, NodeExpectations},
    record::{
        clock::HostClock,
        code::{Count, Durations},
        recorder::Recorder,
        source::{Source, SourceHandle, WindowScheduler, WindowedCollector},
        windowed::Windowed,
    },
    schedule::judges::{Judges, SourceJudge},
};

/// Reads the clock that the library reads for each message.
pub use topic_statistics_core::record::clock::monotonic as clock;
pub use topic_statistics_core::{collector, record::recorder::RecorderOptions, Metric};

/// The statistics of one subscription: the code that runs before and after the user's callback.
pub struct InstrumentedCallback<T: Message = Imu> {
    probe: Probe<T>,
    recorder: Arc<Recorder>,
}

impl InstrumentedCallback {
    /// Creates the statistics of a subscription to Imu. The first window starts now.
    pub fn new(options: &RecorderOptions) -> Self {
        Self::with_type(options, false)
    }
}

impl<T: Message> InstrumentedCallback<T> {
    /// Creates the statistics of a subscription, with or without distributions. The first window starts now.
    pub fn with_type(options: &RecorderOptions, has_distributions: bool) -> Self {
        let recorder = Arc::new(Recorder::new("topic", *options, None, &HostClock));
        recorder.set_distributions(has_distributions);
        recorder.enable(&HostClock);
        Self { probe: testing::probe(Arc::clone(&recorder)), recorder }
    }

    /// Runs all code of the statistics for a message: when it is taken, and when its callback starts and ends.
    #[inline]
    pub fn message(&self, message: &T::RmwMsg, info: &MessageInfo) {
        let received = self.probe.receive(|| message, info);
        let callback = self.probe.start(received);
        self.probe.end(callback);
    }

    /// Runs the code for a message whose callback starts at `now`. No clock is read.
    #[inline(always)]
    pub fn message_at(&self, message: &T::RmwMsg, info: &MessageInfo, now: i64) {
        if let Some(received) = self.probe.receive(|| message, info) {
            self.recorder.record_start(&received, || now);
        }
    }

    pub fn end_window(&self) -> Option<WindowStatistics> {
        self.recorder.end_window(&HostClock).map(|window| window.statistics)
    }
}

/// Returns a message with a stamp, and the message info that the middleware would report.
pub fn message() -> (rmw::Imu, MessageInfo) {
    let mut message = rmw::Imu::default();
    message.header.stamp.sec = 1_790_000_000;
    let stamp = UNIX_EPOCH + Duration::from_secs(1_790_000_000);
    let info = MessageInfo {
        source_timestamp: Some(stamp + Duration::from_micros(100)),
        received_timestamp: Some(stamp + Duration::from_micros(200)),
        publication_sequence_number: 1,
        reception_sequence_number: u64::MAX,
        publisher_gid: PublisherGid { data: Default::default(), implementation_identifier: std::ptr::null() },
    };
    (message, info)
}

/// Creates the statistics messages that a node publishes for a window. Returns the number of these messages.
pub fn messages(statistics: &WindowStatistics) -> usize {
    let messages = statistics
        .metrics
        .iter()
        .map(|(metric, summary)| metrics_message("/listener:/imu", *metric, statistics.window, summary));
    messages.map(std::hint::black_box).count()
}

pub struct JudgedSubscriptions {
    judges: Judges,
    sources: Vec<(Arc<Source>, SourceJudge)>,
}

impl JudgedSubscriptions {
    /// Creates `count` subscriptions. All have these `conditions`; a violated condition gives the health WARN.
    pub fn new(count: usize, conditions: &str) -> Self {
        let recorder = Arc::new(Recorder::new("topic", RecorderOptions::new(), None, &HostClock));
        recorder.enable(&HostClock);
        let mut judges = Judges::new(NodeExpectations::default(), true);
        let source = |number: usize| {
            let name = format!("/listener:/imu_{number}");
            let source = Arc::new(Source::new(name, Arc::clone(&recorder) as _, None));
            let mut judge = SourceJudge::default();
            judge.expect(Expectations::new().warn_unless(conditions.parse().expect("conditions")));
            judges.update(&source, &mut judge);
            (source, judge)
        };
        let sources = (0..count).map(source).collect();
        Self { judges, sources }
    }

    pub fn judge(&mut self, window: &WindowStatistics) {
        let now = Instant::now();
        for (source, judge) in &mut self.sources {
            self.judges.judge(source, judge, window, now);
        }
    }

    /// If the statuses for `/diagnostics` are due, creates the statuses of all subscriptions. Returns their number.
    pub fn statuses(&mut self, now: Instant) -> usize {
        let [name, hardware_id] = ["listener", "none"].map(str::to_owned);
        let node = NodeNames { name, hardware_id };
        if !self.judges.start_diagnostics(now) {
            return 0;
        }
        let diagnosed = self.sources.iter().filter_map(|(source, judge)| judge.diagnose(source));
        let diagnosed: Vec<_> = diagnosed.collect();
        let statuses = diagnosed.iter().map(|judged| status(&node, &judged.source, &judged.judge));
        statuses.map(std::hint::black_box).count()
    }
}

pub fn stopwatch() -> Stopwatch {
    let durations = Arc::new(Windowed::new(Durations::default()));
    durations.enable(&HostClock);
    testing::stopwatch(handle(Arc::clone(&durations) as _), durations)
}

pub fn counter() -> Counter {
    let count = Count::default();
    testing::counter(handle(Arc::new(Windowed::new(count.clone()))), count)
}

fn handle(collector: Arc<dyn WindowedCollector>) -> SourceHandle {
    SourceHandle::new(Arc::new(Source::new(String::new(), collector, None)), Weak::<NoScheduler>::new())
}

/// A scheduler that never ends a window.
struct NoScheduler;

impl WindowScheduler for NoScheduler {
    fn set_state(&self, _: &Arc<Source>, _: StatisticsState) {}

    fn remove(&self, _: &Arc<Source>) {}
}

/// Returns the bytes of this process's heap that are in use.
pub fn heap() -> usize {
    // SAFETY: mallinfo2 has no arguments and returns a struct of numbers.
    let heap = unsafe { libc::mallinfo2() };
    heap.uordblks + heap.hblkhd
}
