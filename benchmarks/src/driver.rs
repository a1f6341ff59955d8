// SPDX-License-Identifier: Apache-2.0

use std::{
    sync::{atomic::AtomicU64, Arc, Weak},
    time::Instant,
};

use rclrs::MessageInfo;
use ros_env::sensor_msgs::msg::Imu;
use rosidl_runtime_rs::Message;

use crate::{
    health::{Expectations, NodeExpectations},
    judges::Judges,
    measure::{
        clock::{monotonic, HostClock},
        counter::{Count, StatsCounter},
        probe::Probe,
        recorder::Recorder,
        size::SerializedSize,
        source::{Source, SourceHandle, WindowScheduler, WindowedCollector},
        stamp::StampField,
        timer::{Durations, StatsTimer},
        windowed::Windowed,
    },
    options::{TopicStatisticsOptions, TopicStatisticsState},
    report::{
        diagnostics::{self, NodeNames},
        message::metrics_message,
    },
    window::WindowStatistics,
};

/// A subscription with statistics: the code that runs in its callback.
pub struct MeasuredSubscription<T: Message = Imu> {
    probe: Probe<T>,
    recorder: Arc<Recorder>,
}

impl MeasuredSubscription {
    /// Creates a subscription to Imu. Its first window starts now.
    pub fn new(options: &TopicStatisticsOptions) -> Self {
        Self::of(options)
    }
}

impl<T: Message> MeasuredSubscription<T> {
    /// Creates a subscription. Its first window starts now.
    pub fn of(options: &TopicStatisticsOptions) -> Self {
        let recorder = Arc::new(Recorder::new("topic", options, None, &HostClock));
        recorder.set_distributions(options.has_distributions());
        recorder.enable(&HostClock);
        let stamp = StampField::find().ok().flatten();
        let size = SerializedSize::of_received().ok().map(Box::new);
        Self { probe: Probe::new(stamp, size, Arc::clone(&recorder)), recorder }
    }

    /// Runs all code for a message: when it is taken, when its callback starts, and when its callback ends.
    #[inline]
    pub fn message(&self, message: &T::RmwMsg, info: &MessageInfo) {
        let received = self.probe.receive(|| message, info);
        let callback = self.probe.start(received);
        self.probe.end(callback);
    }

    /// Runs the code for a message whose callback starts at `now`. Reads no clock.
    #[inline(always)]
    pub fn message_at(&self, message: &T::RmwMsg, info: &MessageInfo, now: i64) {
        if let Some(received) = self.probe.receive(|| message, info) {
            self.recorder.record_start(&received, || now);
        }
    }

    /// Ends the window.
    pub fn end_window(&self) -> Option<WindowStatistics> {
        self.recorder.end_window(&HostClock).map(|window| window.statistics)
    }
}

/// Creates the messages of a window. Returns their number.
pub fn messages(statistics: &WindowStatistics) -> usize {
    let messages = statistics
        .metrics
        .iter()
        .map(|(metric, summary)| metrics_message("/listener:/imu", *metric, statistics.window, summary));
    messages.map(std::hint::black_box).count()
}

/// Subscriptions of which something is expected.
pub struct JudgedSubscriptions {
    judges: Judges,
    sources: Vec<Arc<Source>>,
    recorder: Arc<Recorder>,
}

impl JudgedSubscriptions {
    /// Creates so many, with the same conditions for WARN.
    pub fn new(count: usize, conditions: &str) -> Self {
        let recorder = Arc::new(Recorder::new("topic", &TopicStatisticsOptions::new(), None, &HostClock));
        recorder.enable(&HostClock);
        let mut judges = Judges::new(NodeExpectations::default(), true);
        let source = |number: usize| {
            let name = format!("/listener:/imu_{number}");
            let source = Arc::new(Source::new(name, Arc::clone(&recorder) as _, None));
            judges.expect(&source, Expectations::new().warn_unless(conditions.parse().expect("conditions")));
            judges.update(&source);
            source
        };
        let sources = (0..count).map(source).collect();
        Self { judges, sources, recorder }
    }

    /// Judges a window of each.
    pub fn judge(&mut self, window: &WindowStatistics) {
        let now = Instant::now();
        self.sources.iter().for_each(|source| self.judges.judge(source, window, now));
    }

    /// Creates the statuses of all, if they are due. Returns their number.
    pub fn statuses(&mut self, now: Instant) -> usize {
        let [name, fully_qualified, hardware_id] = ["listener", "/listener", "none"].map(str::to_owned);
        let node = NodeNames { name, fully_qualified, hardware_id };
        let diagnosed = self.judges.next(now).unwrap_or_default();
        let statuses = diagnosed.iter().map(|of| diagnostics::status(&node, &of.source, &of.judge));
        statuses.map(std::hint::black_box).count()
    }
}

/// Creates an enabled timer.
pub fn timer() -> StatsTimer {
    let durations = Arc::new(Windowed::new(Durations::default()));
    durations.enable(&HostClock);
    StatsTimer::new(handle(Arc::clone(&durations) as _), durations)
}

/// Creates a counter.
pub fn counter() -> StatsCounter {
    let count = Arc::new(AtomicU64::new(0));
    StatsCounter::new(handle(Arc::new(Windowed::new(Count(Arc::clone(&count))))), count)
}

fn handle(collector: Arc<dyn WindowedCollector>) -> SourceHandle {
    SourceHandle::new(Arc::new(Source::new(String::new(), collector, None)), Weak::<NoScheduler>::new())
}

/// A scheduler that ends no windows.
struct NoScheduler;

impl WindowScheduler for NoScheduler {
    fn set_state(&self, _: &Arc<Source>, _: TopicStatisticsState) {}

    fn remove(&self, _: &Arc<Source>) {}
}

/// Reads the clock as a message does.
#[inline]
pub fn clock() -> i64 {
    monotonic()
}
