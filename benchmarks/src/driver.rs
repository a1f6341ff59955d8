// SPDX-License-Identifier: Apache-2.0

//! What the benchmarks and the cost tests drive: the code that a subscription runs for a message, without a node.

use std::sync::{atomic::AtomicU64, Arc};

use rclrs::MessageInfo;
use ros_env::sensor_msgs::msg::{rmw, Imu};

use crate::{
    counter::{Count, StatsCounter},
    measured::{self, Recording, Windowed},
    message::metrics_message,
    options::TopicStatisticsOptions,
    probe::Probe,
    recorder::Recorder,
    stamp::StampField,
    timer::{Durations, StatsTimer},
    window::WindowStatistics,
};

/// A measured subscription of Imu, as its callback sees it.
pub struct Measured {
    probe: Probe<Imu>,
    recorder: Arc<Recorder>,
}

impl Measured {
    /// Creates one whose first window starts now.
    pub fn new(options: &TopicStatisticsOptions) -> Self {
        let recorder = Arc::new(Recorder::new("imu", options, None));
        recorder.set_enabled(true);
        let stamp = StampField::find().ok().flatten();
        Self { probe: Probe::new(stamp, Arc::clone(&recorder)), recorder }
    }

    /// Does what is done of a message: as it is taken, as the callback's body starts, and as it ends.
    #[inline]
    pub fn message(&self, message: &rmw::Imu, info: &MessageInfo) {
        let received = self.probe.receive(|| message, info);
        let body = self.probe.start(received);
        self.probe.end(body);
    }

    /// The same with a body that starts at `now`, so that no clock is read.
    #[inline(always)]
    pub fn message_at(&self, message: &rmw::Imu, info: &MessageInfo, now: i64) {
        if let Some(received) = self.probe.receive(|| message, info) {
            self.recorder.record_by(&received, || now);
        }
    }

    /// Ends the window.
    pub fn end_window(&self) -> Option<WindowStatistics> {
        self.recorder.end_window().map(|window| window.statistics)
    }
}

/// Makes the messages that a window is published in; returns their number.
pub fn messages(statistics: &WindowStatistics) -> usize {
    let messages = statistics
        .metrics
        .iter()
        .map(|(metric, summary)| metrics_message("/listener:/imu", *metric, statistics.window, summary));
    messages.map(std::hint::black_box).count()
}

/// Creates a timer that records.
pub fn timer() -> StatsTimer {
    let durations = Arc::new(Windowed::new(Durations::default()));
    durations.set_enabled(true);
    let measured = measured::Measured::new(String::new(), Arc::clone(&durations) as _, None);
    StatsTimer::new(durations, Arc::new(measured))
}

/// Creates a counter.
pub fn counter() -> StatsCounter {
    let count = Arc::new(AtomicU64::new(0));
    let recording = Arc::new(Windowed::new(Count(Arc::clone(&count))));
    StatsCounter::new(count, Arc::new(measured::Measured::new(String::new(), recording, None)))
}

/// Reads the clock as for a message.
#[inline]
pub fn clock() -> i64 {
    crate::clock::monotonic()
}
