// SPDX-License-Identifier: Apache-2.0

//! Finished windows: plain values that the scheduler produces and publishes.

use std::{sync::Arc, time::Duration};

use crate::{
    collector::Distribution,
    distributions::Distributions,
    executor::ExecutorWindow,
    metric::Metric,
    summary::Summary,
    timestamp::{ClockStep, Timestamp},
    totals::Totals,
};

/// The start and the stop of a window in system time. Both are monotonic times plus the offset that the system clock
/// has at the window's end. Windows follow each other without a gap, unless the system clock was stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The start of the window, which is the stop of the previous window.
    pub start: Timestamp,
    /// The stop of the window, which is the start of the next window.
    pub stop: Timestamp,
}

impl Window {
    /// Creates a window.
    pub const fn new(start: Timestamp, stop: Timestamp) -> Self {
        Self { start, stop }
    }

    /// Creates a window from nanoseconds since the Unix epoch.
    pub const fn from_nanoseconds(start: i64, stop: i64) -> Self {
        Self::new(Timestamp::from_nanoseconds(start), Timestamp::from_nanoseconds(stop))
    }
}

/// The statistics of one window of a source.
///
/// ```
/// # extern crate topic_statistics_core as rclrs_topic_statistics;
/// use rclrs_topic_statistics::{Metric, WindowStatistics};
///
/// /// Whether a message was older than 50 ms; `None` if no age was measured.
/// fn is_late(window: &WindowStatistics) -> Option<bool> {
///     let ages = window.get(Metric::MessageAge)?;
///     (ages.sample_count > 0).then_some(ages.maximum > 50.0)
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WindowStatistics {
    /// The start and the stop of the window, on the system clock.
    pub window: Window,
    /// The length of the window on the monotonic clock. A step of the system clock does not change the length.
    pub length: Duration,
    /// The step of the system clock in the window; `None` if the clock was not stepped. A suspend of the host also
    /// counts as a step. In a window with a step, the metrics that compare times with the system clock (ages and
    /// delays) are NaN with a sample count of 0.
    pub clock_step: Option<ClockStep>,
    /// The number of messages, publications, requests, calls, goals or durations, or the value of the counter. For an
    /// executor, the number of runs. Each callback, each task and each take of a message is a run, even if the take
    /// found no message.
    pub count: u64,
    /// Whether the count is exact. The count is not exact if messages were only counted, and not measured, while this
    /// window or the previous window ended, because some of these messages may belong to the other window. If the count
    /// is not exact, the [rate](Self::rate) is NaN.
    pub is_count_known: bool,
    /// The number of messages that were counted but not measured, because the thread that ends the windows was
    /// preempted while it held the lock. If the number is not 0, the metrics that have samples are NaN.
    pub unrecorded: u64,
    /// Whether the last message of the window had a header stamp of zero, which means that its publisher does not set
    /// the stamp. False if ages start at the source timestamp, or if the type has no header.
    pub unstamped: bool,
    /// Whether the last message of the window had a header stamp, but no age, because the node uses simulated time and
    /// no `/clock` was received. False if ages start at the source timestamp, or if the type has no header.
    pub without_clock: bool,
    /// Whether the last message of the window had a header stamp, but no age, because only one of the stamp and the ROS
    /// time of the node is on simulated time, which means before the year 2000. Simulated time that starts later cannot
    /// be distinguished from the system clock. False if ages start at the source timestamp, if the type has no header,
    /// or if the system clock was stepped in the window.
    pub other_clock: bool,
    /// Whether messages of the window were published before the subscription matched their publisher. Such messages are
    /// the history of transient local publishers. In a window with history, the [rate](Self::rate) and the periods are
    /// NaN.
    pub has_history: bool,
    /// The metrics that are measured, and their summaries.
    pub metrics: Vec<(Metric, Summary)>,
    #[doc(hidden)] // see `distribution`
    pub distributions: Distributions,
    /// The messages received and lost from the subscription's creation to the window's stop. Subtract the totals of the
    /// previous window to get the numbers of this window. `None` for sources that are not subscriptions.
    pub totals: Option<Totals>,
    /// What the threads of an executor ran; `None` for sources of other kinds.
    pub executor: Option<Arc<ExecutorWindow>>,
}

#[doc(hidden)] // for code outside this crate that has its own sources
impl WindowStatistics {
    /// Creates a window without a clock step, history, or other special case.
    pub fn new(window: Window, length: Duration, count: u64, metrics: Vec<(Metric, Summary)>) -> Self {
        Self {
            window,
            length,
            clock_step: None,
            count,
            is_count_known: true,
            unrecorded: 0,
            unstamped: false,
            without_clock: false,
            other_clock: false,
            has_history: false,
            metrics,
            distributions: Distributions::default(),
            totals: None,
            executor: None,
        }
    }
}

impl WindowStatistics {
    /// Returns the count per second, in Hz. NaN if the count is unknown, if the window has history of transient local
    /// publishers, or if the window has no length.
    pub fn rate(&self) -> f64 {
        if self.length.is_zero() || !self.is_count_known || self.has_history {
            return f64::NAN;
        }
        self.count as f64 / self.length.as_secs_f64()
    }

    /// Returns the bytes per second of the messages or publications, as [`Metric::MessageSize`] counts the bytes; 0 if
    /// the window has no messages. NaN if the size is not measured, if the size of a message or the count is unknown,
    /// or if the window has no length.
    pub fn bandwidth(&self) -> f64 {
        match self.get(Metric::MessageSize) {
            Some(sizes) if sizes.sample_count == self.count => {
                let average = if self.count == 0 { 0.0 } else { sizes.average };
                average * self.rate()
            }
            _ => f64::NAN,
        }
    }

    /// Returns the summary of a metric; `None` if the metric is not measured.
    pub fn get(&self, metric: Metric) -> Option<&Summary> {
        self.metrics.iter().find(|(measured, _)| *measured == metric).map(|(_, summary)| summary)
    }

    /// Returns the distribution of a metric's samples. The samples are the same as in the metric's summary.
    ///
    /// `None` if there is no sample, if the metric has at most one sample per window, or if
    /// `StatisticsOptions::distributions` was not enabled when the window started.
    pub fn distribution(&self, metric: Metric) -> Option<&Distribution> {
        self.distributions.get(metric)
    }
}

/// The times of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageTimes {
    /// The header stamp (ROS time); `None` if the type has no header stamp, or if the stamp is zero.
    pub header: Option<Timestamp>,
    /// The middleware's source timestamp (system time of the publisher's host); `None` if the middleware does not
    /// report the timestamp, or if no metric of the subscription needs it.
    pub source: Option<Timestamp>,
    /// The middleware's received timestamp (system time); `None` if the middleware does not report the timestamp, or if
    /// no metric of the subscription needs it.
    pub received: Option<Timestamp>,
    /// The start of the message's callback, on the system clock.
    pub callback: Timestamp,
}
