// SPDX-License-Identifier: Apache-2.0

use std::sync::{atomic::AtomicU64, Arc, Weak};

use rclrs::MessageInfo;
use ros_env::sensor_msgs::msg::Imu;
use rosidl_runtime_rs::Message;

use crate::{
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
    report::message::metrics_message,
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
