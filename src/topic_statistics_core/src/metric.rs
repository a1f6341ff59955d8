// SPDX-License-Identifier: Apache-2.0

//! The metrics of Topic Statistics, with their names and units.

use std::{fmt, str::FromStr};

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
    /// [distribution](crate::WindowStatistics::distribution).
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
