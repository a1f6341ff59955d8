// SPDX-License-Identifier: Apache-2.0

//! Metrics, windows and summaries: plain values that the collectors produce and the reports publish.

use std::{fmt, str::FromStr, time::Duration};

use crate::{collector::Distribution, totals::Totals};

/// A metric of Topic Statistics: the quantity that is measured.
///
/// [`name`](Self::name) and [`unit`](Self::unit) are `metrics_source` and `unit` on `/statistics`; `Display` writes the
/// name, and `parse` reads it. The first two metrics are rclcpp's, and the default of every subscription.
///
/// ```
/// # extern crate topic_statistics_core as rclrs_topic_statistics;
/// use rclrs_topic_statistics::Metric;
///
/// let metric: Metric = "publication_seq_gap".parse()?;
/// assert_eq!((metric, metric.unit()), (Metric::PublicationSeqGap, "messages"));
/// assert!(Metric::OF_SUBSCRIPTIONS.contains(&metric));
/// # Ok::<(), rclrs_topic_statistics::UnknownMetric>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Metric {
    /// The age of a message when its callback starts: ROS time less the header stamp (or the source timestamp, see
    /// [`AgeSource`](crate::AgeSource)). *High*: the message was delayed; the metrics below show where.
    MessageAge,
    /// The time between the callback starts of two messages, on the monotonic clock. *High*: messages arrive too rarely
    /// or are lost. A high standard deviation: they arrive in bursts.
    MessagePeriod,
    /// Source timestamp less header stamp: the delay in the driver and the publisher. NaN on simulated time, which
    /// source timestamps do not follow.
    HeaderToSource,
    /// Received timestamp less source timestamp: the delay in the middleware and the network. *Negative*: the clocks of
    /// two hosts differ. NaN where the middleware does not report when a message was received (Cyclone DDS).
    SourceToReceive,
    /// Callback start less received timestamp: how long the message waited for the executor or the worker. NaN where
    /// `SourceToReceive` is.
    ReceiveToCallback,
    /// Callback start less source timestamp: the sum of the two delays before. Available with every middleware.
    SourceToCallback,
    /// Callback start (ROS time) less header stamp: the age from end to end.
    HeaderToCallback,
    /// The duration of the callback; of an async callback, from the first poll to completion.
    CallbackDuration,
    /// The number of messages missing immediately before each message, of the same publisher. A message that arrives
    /// late is subtracted in the [totals](crate::Totals) only. NaN if the middleware does not
    /// number messages.
    PublicationSeqGap,
    /// The time from the last message to the window's end, on the monotonic clock; one sample per window. NaN before
    /// the first message since the statistics were enabled. *Growing from window to window*: the topic is silent.
    TimeSinceLastMessage,
    /// The kernel's estimate of the offset of this host's clock; one sample per window. NaN where the kernel reports
    /// that the clock is not synchronised, and where it does not know the offset: chrony and phc2sys steer the clock
    /// without telling it. It is published once for all subscriptions of a node with the same window and publisher,
    /// with the host name as `measurement_source_name`.
    ClockOffset,
    /// The size of a message in bytes: serialized (CDR) as it is sent, with the encapsulation header of 4 bytes, and on
    /// DDS with the padding to a multiple of 4. That is what `ros2 topic bw` counts. A publisher measures it, too, if
    /// it is in its `TopicStatisticsOptions::metrics`. *High*: messages need much of the network.
    MessageSize,
    /// The time between the ends of two publications of a `MeasuredPublisher`, on the monotonic
    /// clock. *High*: the node publishes too rarely. Publications that fail are not measured.
    PublishPeriod,
    /// The duration of a publication of a `MeasuredPublisher`. *High*: the middleware blocks the
    /// node: large messages, a slow reliable reader, a full history.
    PublishDuration,
    /// The duration of code that a `Stopwatch` measures.
    Duration,
    /// The frequency of a `Counter` in a window, in Hz. Average, minimum and maximum are
    /// this one frequency; the sample count is the count.
    Frequency,
}

impl Metric {
    /// Every metric, in the order in which the metrics of a window are published.
    pub const ALL: &'static [Self] = &[
        Self::MessageAge,
        Self::MessagePeriod,
        Self::HeaderToSource,
        Self::SourceToReceive,
        Self::ReceiveToCallback,
        Self::SourceToCallback,
        Self::HeaderToCallback,
        Self::CallbackDuration,
        Self::PublicationSeqGap,
        Self::TimeSinceLastMessage,
        Self::ClockOffset,
        Self::MessageSize,
        Self::PublishPeriod,
        Self::PublishDuration,
        Self::Duration,
        Self::Frequency,
    ];

    /// Every metric of a subscription, in the same order.
    pub const OF_SUBSCRIPTIONS: &'static [Self] = &[
        Self::MessageAge,
        Self::MessagePeriod,
        Self::HeaderToSource,
        Self::SourceToReceive,
        Self::ReceiveToCallback,
        Self::SourceToCallback,
        Self::HeaderToCallback,
        Self::CallbackDuration,
        Self::PublicationSeqGap,
        Self::TimeSinceLastMessage,
        Self::ClockOffset,
        Self::MessageSize,
    ];

    /// Returns the value of `metrics_source`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MessageAge => "message_age",
            Self::MessagePeriod => "message_period",
            Self::HeaderToSource => "header_to_source_ms",
            Self::SourceToReceive => "source_to_receive_ms",
            Self::ReceiveToCallback => "receive_to_callback_ms",
            Self::SourceToCallback => "source_to_callback_ms",
            Self::HeaderToCallback => "header_to_callback_ms",
            Self::CallbackDuration => "callback_duration_ms",
            Self::PublicationSeqGap => "publication_seq_gap",
            Self::TimeSinceLastMessage => "time_since_last_message_ms",
            Self::ClockOffset => "clock_offset_ms",
            Self::MessageSize => "message_size",
            Self::PublishPeriod => "publish_period",
            Self::PublishDuration => "publish_duration_ms",
            Self::Duration => "duration_ms",
            Self::Frequency => "frequency_hz",
        }
    }

    /// Returns the value of `unit`: `ms`, for milliseconds, `messages`, `bytes`, or `Hz`.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::PublicationSeqGap => "messages",
            Self::MessageSize => "bytes",
            Self::Frequency => "Hz",
            _ => "ms",
        }
    }

    /// Returns whether a window can have more than one sample, so that there is a
    /// [distribution](WindowStatistics::distribution).
    pub const fn has_distribution(self) -> bool {
        !matches!(self, Self::TimeSinceLastMessage | Self::ClockOffset | Self::Frequency)
    }

    /// Returns whether it is not measured without a header stamp. A [`MessageAge`](Self::MessageAge) from the source
    /// timestamp is.
    #[doc(hidden)]
    pub const fn starts_at_header_stamp(self) -> bool {
        matches!(self, Self::MessageAge | Self::HeaderToSource | Self::HeaderToCallback)
    }
}

/// The kind of a source: it decides which metrics a source can measure, and so which conditions apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// A subscription.
    Subscription,
    /// A publisher.
    Publisher,
    /// A stopwatch around any code.
    Stopwatch,
    /// A counter of anything.
    Counter,
}

impl SourceKind {
    /// Returns every metric that a source of this kind can measure.
    pub const fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Subscription => Metric::OF_SUBSCRIPTIONS,
            Self::Publisher => &[Metric::PublishPeriod, Metric::PublishDuration, Metric::MessageSize],
            Self::Stopwatch => &[Metric::Duration],
            Self::Counter => &[Metric::Frequency],
        }
    }

    /// Returns whether a source of this kind can measure a metric.
    pub fn measures(self, metric: Metric) -> bool {
        self.metrics().contains(&metric)
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subscription => "subscription",
            Self::Publisher => "publisher",
            Self::Stopwatch => "stopwatch",
            Self::Counter => "counter",
        })
    }
}

/// The distributions of the samples of one window or of several, for each metric that has one. The default has none.
///
/// A subscription without distributions has a few of these, so an empty one is as small as a pointer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distributions(Option<Box<List>>);

#[derive(Clone, Debug, Default, PartialEq)]
struct List(Vec<(Metric, Distribution)>);

impl Distributions {
    /// Returns empty distributions for the metrics that have one.
    pub fn new(metrics: &[Metric]) -> Self {
        let metrics = metrics.iter().filter(|metric| metric.has_distribution());
        let mut list = Vec::with_capacity(metrics.clone().count()); // a distribution is large
        list.extend(metrics.map(|metric| (*metric, Distribution::default())));
        Self::from(list)
    }

    fn from(list: Vec<(Metric, Distribution)>) -> Self {
        Self((!list.is_empty()).then(|| Box::new(List(list))))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Accepts a sample of a metric, if it has a distribution.
    #[inline]
    pub fn accept(&mut self, metric: Metric, sample: f64) {
        let Some(list) = &mut self.0 else { return };
        if let Some((_, distribution)) = list.0.iter_mut().find(|(of, _)| *of == metric) {
            distribution.accept(sample);
        }
    }

    /// Adds the samples of `later`.
    pub fn merge(&mut self, later: &Self) {
        if later.is_empty() {
            return;
        }
        let list = &mut self.0.get_or_insert_default().0;
        for (metric, distribution) in later.iter() {
            match list.iter_mut().find(|(of, _)| *of == metric) {
                // There is room for a sample per nanosecond in 292 years.
                Some((_, sum)) => drop(sum.merge(distribution)),
                None => {
                    list.reserve_exact(1);
                    list.push((metric, distribution.clone()));
                }
            }
        }
        list.sort_by_key(|(metric, _)| *metric);
    }

    /// Returns each metric with its distribution.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, &Distribution)> {
        self.0.iter().flat_map(|list| list.0.iter().map(|(metric, distribution)| (*metric, distribution)))
    }

    /// Returns the distribution of a metric.
    pub fn get(&self, metric: Metric) -> Option<&Distribution> {
        self.iter().find(|(of, _)| *of == metric).map(|(_, distribution)| distribution)
    }

    /// Ends a window with these metrics. A metric without samples, or with discarded samples, has no distribution.
    pub fn of_window(self, metrics: &[(Metric, Summary)]) -> Self {
        let mut list = self.0.map(|list| list.0).unwrap_or_default();
        list.retain(|(of, distribution)| {
            let summary = metrics.iter().find(|(metric, _)| metric == of).map(|(_, summary)| summary);
            let count = summary.map_or(0, |summary| summary.sample_count);
            debug_assert!(count == 0 || count == distribution.count(), "{of}: not the samples of the window");
            count > 0
        });
        list.shrink_to_fit();
        Self::from(list)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the names of metrics, separated by commas.
pub fn names(metrics: &[Metric]) -> String {
    metrics.iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ")
}

/// A name that no metric has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no metric {0:?}: the metrics are {names}", names = names(Metric::ALL))]
pub struct UnknownMetric(pub String);

impl FromStr for Metric {
    type Err = UnknownMetric;

    /// Returns the metric with that [`name`](Self::name).
    fn from_str(name: &str) -> Result<Self, UnknownMetric> {
        Self::ALL
            .iter()
            .copied()
            .find(|metric| metric.name() == name)
            .ok_or_else(|| UnknownMetric(name.to_owned()))
    }
}

/// The start and stop of a window: nanoseconds since the epoch on the system clock, as it is at the window's end.
/// Windows follow each other without a gap, except for a step of the system clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The stop of the window before.
    pub start: i64,
    /// The start of the next window.
    pub stop: i64,
}

/// The summary of a window's samples. The default has no samples.
///
/// All figures except the count are in the unit of the samples. They are NaN if nothing was measured: all of them
/// without a sample; the standard deviation with one sample, as defined by StatisticDataPoint.msg ("standard deviation
/// is only available when there are two or more data points").
///
/// ```
/// # extern crate topic_statistics_core as rclrs_topic_statistics;
/// use rclrs_topic_statistics::Summary;
///
/// fn range(summary: &Summary) -> Option<f64> {
///     (summary.sample_count > 0).then_some(summary.maximum - summary.minimum)
/// }
/// assert_eq!(range(&Summary::default()), None); // nothing was measured: each figure is NaN
/// assert!(Summary::default().average.is_nan());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The arithmetic mean.
    pub average: f64,
    /// The smallest sample.
    pub minimum: f64,
    /// The largest sample, which may be negative.
    pub maximum: f64,
    /// The standard deviation of the population (divided by the count), as in libstatistics_collector.
    pub standard_deviation: f64,
    /// The number of samples.
    pub sample_count: u64,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            average: f64::NAN,
            minimum: f64::NAN,
            maximum: f64::NAN,
            standard_deviation: f64::NAN,
            sample_count: 0,
        }
    }
}

/// The statistics of one window of a subscription, a publisher, a stopwatch or a counter.
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
    /// The step of the system clock in the window, in nanoseconds: positive forward, negative back; a suspend counts as
    /// a step. None if there was no step. In a window with a step, the metrics that compare times with the system clock
    /// (ages and delays) are NaN with a sample count of 0.
    pub clock_step: Option<i64>,
    /// The number of messages, publications or durations, or the value of the counter.
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
    /// The metrics that are measured, and their summaries.
    pub metrics: Vec<(Metric, Summary)>,
    #[doc(hidden)] // see `distribution`
    pub distributions: Distributions,
    /// The messages received and lost from the subscription's creation to the window's stop. The difference to the
    /// window before is this window's. None for publishers, stopwatches and counters.
    pub totals: Option<Totals>,
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
            metrics,
            distributions: Distributions::default(),
            totals: None,
        }
    }
}

impl WindowStatistics {
    /// Returns the count per second, in Hz; NaN if the count is unknown, and if the window has no length.
    pub fn rate(&self) -> f64 {
        if self.length.is_zero() || !self.is_count_known {
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
        self.metrics.iter().find(|(of, _)| *of == metric).map(|(_, summary)| summary)
    }

    /// Returns the distribution of a metric's samples, the same samples as its summary's.
    ///
    /// None without a sample, if the metric has at most one sample per window, and unless
    /// `TopicStatisticsOptions::distributions` were enabled when the
    /// window started.
    pub fn distribution(&self, metric: Metric) -> Option<&Distribution> {
        self.distributions.get(metric)
    }
}

/// The times of a message, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageTimes {
    /// The header stamp (ROS time); None if the type has none, or if it is zero.
    pub header: Option<i64>,
    /// The middleware's source timestamp (system time of the publisher's host); None if the middleware does not report
    /// it, or if no metric of the subscription needs it.
    pub source: Option<i64>,
    /// The middleware's received timestamp (system time); None as for the source timestamp.
    pub received: Option<i64>,
    /// The start of the callback, on the system clock.
    pub callback: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_parsed_from_its_name_and_displayed_as_it() {
        for metric in Metric::ALL {
            assert_eq!(metric.to_string().parse(), Ok(*metric));
        }
        let unknown = "message_jitter".parse::<Metric>().unwrap_err().to_string();
        assert!(unknown.contains("\"message_jitter\"") && unknown.contains("frequency_hz"), "{unknown}");
    }

    #[test]
    fn the_metrics_of_a_subscription_are_the_first_of_all() {
        assert!(Metric::ALL.starts_with(Metric::OF_SUBSCRIPTIONS));
        assert!(Metric::ALL.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
    }
}
