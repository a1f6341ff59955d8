// SPDX-License-Identifier: Apache-2.0

//! Finished windows: plain values that the schedule produces and the reports publish.

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

/// The start and stop of a window, on the system clock, as it is at the window's end. Windows follow each other without
/// a gap, except for a step of the system clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The stop of the window before.
    pub start: Timestamp,
    /// The start of the next window.
    pub stop: Timestamp,
}

impl Window {
    /// Creates a window.
    pub const fn new(start: Timestamp, stop: Timestamp) -> Self {
        Self { start, stop }
    }

    /// Creates a window from nanoseconds since the epoch.
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
    /// The start and stop of the window, on the system clock.
    pub window: Window,
    /// The length of the window on the monotonic clock. A step of the system clock does not change it.
    pub length: Duration,
    /// The step of the system clock in the window; a suspend counts as a step. None if there was no step. In a window
    /// with a step, the metrics that compare times with the system clock (ages and delays) are NaN with a sample count
    /// of 0.
    pub clock_step: Option<ClockStep>,
    /// The number of messages, publications, requests, calls or durations, the value of the counter, or what an
    /// executor ran: each callback, task and take, also a take without a message.
    pub count: u64,
    /// Whether the count is exact. It is not if messages could only be counted while this window or the one before it
    /// ended: some of them may belong to the other window. Then the [rate](Self::rate) is NaN.
    pub is_count_known: bool,
    /// Messages counted but not measured, because the thread that ends the windows was preempted while it held the
    /// lock. If there are any, the metrics of samples are NaN.
    pub unrecorded: u64,
    /// Whether the last message of the window had a header stamp of zero: its publisher does not set it. False if ages
    /// start at the source timestamp, and for types without a header.
    pub unstamped: bool,
    /// Whether the last message of the window had a header stamp, and no age because the node uses simulated time and
    /// there is no `/clock`. False if ages start at the source timestamp, and for types without a header.
    pub without_clock: bool,
    /// Whether messages of the window were published before the subscription matched their publisher: the history of
    /// transient local publishers. Then the [rate](Self::rate) and the periods are NaN.
    pub has_history: bool,
    /// The metrics that are measured, and their summaries.
    pub metrics: Vec<(Metric, Summary)>,
    #[doc(hidden)] // see `distribution`
    pub distributions: Distributions,
    /// The messages received and lost from the subscription's creation to the window's stop. The difference to the
    /// window before is this window's. None for other sources than subscriptions.
    pub totals: Option<Totals>,
    /// What the threads of an executor ran. None for other sources.
    pub executor: Option<Arc<ExecutorWindow>>,
}

#[doc(hidden)] // for other sources than those of this crate
impl WindowStatistics {
    /// Creates a window in which nothing was unusual.
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
            has_history: false,
            metrics,
            distributions: Distributions::default(),
            totals: None,
            executor: None,
        }
    }
}

impl WindowStatistics {
    /// Returns the count per second, in Hz; NaN if the count is unknown, if the window has history of transient local
    /// publishers, and if it has no length.
    pub fn rate(&self) -> f64 {
        if self.length.is_zero() || !self.is_count_known || self.has_history {
            return f64::NAN;
        }
        self.count as f64 / self.length.as_secs_f64()
    }

    /// Returns the bytes per second of the messages or publications, as [`Metric::MessageSize`] counts them; 0 in
    /// silence. NaN if that is not measured, if the size of a message or the count is unknown, and if the window has no
    /// length.
    pub fn bandwidth(&self) -> f64 {
        match self.get(Metric::MessageSize) {
            Some(sizes) if sizes.sample_count == self.count => {
                let average = if self.count == 0 { 0.0 } else { sizes.average };
                average * self.rate()
            }
            _ => f64::NAN,
        }
    }

    /// Returns the summary of a metric; None if it is not measured.
    pub fn get(&self, metric: Metric) -> Option<&Summary> {
        self.metrics.iter().find(|(measured, _)| *measured == metric).map(|(_, summary)| summary)
    }

    /// Returns the distribution of a metric's samples, the same samples as its summary's.
    ///
    /// None without a sample, if the metric has at most one sample per window, and unless
    /// `StatisticsOptions::distributions` were enabled when the
    /// window started.
    pub fn distribution(&self, metric: Metric) -> Option<&Distribution> {
        self.distributions.get(metric)
    }
}

/// The times of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageTimes {
    /// The header stamp (ROS time); None if the type has none, or if it is zero.
    pub header: Option<Timestamp>,
    /// The middleware's source timestamp (system time of the publisher's host); None if the middleware does not report
    /// it, or if no metric of the subscription needs it.
    pub source: Option<Timestamp>,
    /// The middleware's received timestamp (system time); None as for the source timestamp.
    pub received: Option<Timestamp>,
    /// The start of the callback, on the system clock.
    pub callback: Timestamp,
}
