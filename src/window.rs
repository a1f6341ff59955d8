// SPDX-License-Identifier: Apache-2.0

//! What a finished window says: plain values between the collectors, which make them, and the messages, which are
//! made of them.

use std::{str::FromStr, time::Duration};

use crate::Totals;

/// A metric of Topic Statistics: what the samples of a window are of.
///
/// [`name`](Self::name) and [`unit`](Self::unit) are what `/statistics` says. The first two are rclcpp's, and the
/// default of every subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Metric {
    /// The age of messages when their callback starts: ROS time, less the header stamp (or the source timestamp, see
    /// [`AgeSource`](crate::AgeSource)). *High*: something on the way is late; the metrics below tell what.
    MessageAge,
    /// The time between the callback starts of a message and the next, on the monotonic clock. *High*: messages come too rarely
    /// or get lost. A high standard deviation: they come in bursts.
    MessagePeriod,
    /// Source timestamp less header stamp: the delay of the driver and of the publisher. NaN on simulated time, which
    /// source timestamps do not follow.
    HeaderToSource,
    /// Received timestamp less source timestamp: the delay of the middleware and the network. *Negative*: the clocks
    /// of two hosts are apart. NaN where the middleware does not report when a message was received (Cyclone DDS).
    SourceToReceive,
    /// Start of the callback's body less received timestamp: the time that the message waited for the executor or the worker.
    /// NaN as for `SourceToReceive`.
    ReceiveToCallback,
    /// Start of the callback's body less source timestamp: the two delays before, and right with every middleware.
    SourceToCallback,
    /// Start of the callback's body (ROS time) less header stamp: the age from end to end.
    HeaderToCallback,
    /// The time that the callback's body takes, start to end; of an async callback, from the first poll to completion.
    CallbackDuration,
    /// The messages missing immediately before each message, of the same publisher: lost, or taken by somebody else.
    /// The [totals](crate::StatsSubscriptionState::totals) tell of losses that were made good by a late message.
    /// NaN if the middleware does not number messages.
    PublicationSeqGap,
    /// The time from the last message to the window's end, on the monotonic clock, one sample a window; NaN if no message came
    /// since the statistics are on. *Grows from window to window*: the topic went silent.
    TimeSinceLastMessage,
    /// The kernel's estimate of how far this host's clock is off, one sample a window; NaN where the kernel says that
    /// the clock is not synchronised. It is published once for all subscriptions of a node that have the same window and
    /// publisher, with the host name as `measurement_source_name`.
    ClockOffset,
    /// The time from one publication of a [`StatsPublisher`](crate::StatsPublisher) to the next, each taken when it is done, on
    /// the monotonic clock. *High*: the node publishes too rarely. Publications that fail are none.
    PublishPeriod,
    /// The time that a publication takes, of a [`StatsPublisher`](crate::StatsPublisher). *High*: the middleware holds the
    /// node up: large messages, a slow reliable reader, a full history.
    PublishDuration,
    /// The time that code takes which a [`StatsTimer`](crate::StatsTimer) times.
    Duration,
    /// How often a [`StatsCounter`](crate::StatsCounter) was counted up in a window, in Hz: average, minimum and maximum are
    /// the window's one frequency, and the sample count is the count.
    Frequency,
}

impl Metric {
    /// Every metric of a subscription, in the order in which the metrics of a window are published.
    pub const ALL: [Self; 11] = [
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
            Self::PublishPeriod => "publish_period",
            Self::PublishDuration => "publish_duration_ms",
            Self::Duration => "duration_ms",
            Self::Frequency => "frequency_hz",
        }
    }

    /// Returns the value of `unit`: `ms`, for milliseconds, `messages`, or `Hz`.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::PublicationSeqGap => "messages",
            Self::Frequency => "Hz",
            _ => "ms",
        }
    }
}

/// A name that no metric of a subscription has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("A subscription has no metric {0:?}: it has to be one of {names}", names = Metric::ALL.map(Metric::name).join(", "))]
pub struct UnknownMetric(pub String);

impl FromStr for Metric {
    type Err = UnknownMetric;

    /// Returns the metric of a subscription with that [`name`](Self::name).
    fn from_str(name: &str) -> Result<Self, UnknownMetric> {
        Self::ALL
            .into_iter()
            .find(|metric| metric.name() == name)
            .ok_or_else(|| UnknownMetric(name.to_owned()))
    }
}

/// The time that a window spans: nanoseconds since the epoch on the system clock, as that is at the window's end. Windows follow
/// each other without a gap; where the clock was stepped, its step is between the stop of one and the start of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The stop of the window before.
    pub start: i64,
    /// The start of the next window.
    pub stop: i64,
}

/// What a window's samples come to.
///
/// All figures but the count are in the unit of the samples, and NaN where nothing could be measured: without a
/// sample, all of them; with one sample, the standard deviation, as StatisticDataPoint.msg has it ("standard
/// deviation is only available when there are two or more data points").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The arithmetic mean.
    pub average: f64,
    /// The smallest sample.
    pub minimum: f64,
    /// The largest sample; right for negative samples too.
    pub maximum: f64,
    /// The standard deviation of the whole population (divided by the count), as in libstatistics_collector.
    pub standard_deviation: f64,
    /// How many samples were accepted.
    pub sample_count: u64,
}

/// What was measured in one window, of a subscription, a publisher, a timer or a counter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WindowStatistics {
    /// The time that the window spans, on the system clock.
    pub window: Window,
    /// How long the window was, on the monotonic clock: right whatever became of the system clock.
    pub length: Duration,
    /// By how many nanoseconds the system clock was set forward (or back, if negative) within the window, or the system was
    /// suspended; None if it was not. Then the ages and delays, which are times of the system clock, are NaN with a sample
    /// count of 0.
    pub clock_step: Option<i64>,
    /// How many messages came, publications were made, times were taken, or how much was counted.
    pub count: u64,
    /// How many of them could be counted only, because the thread that ends the windows was kept from running while it held the
    /// lock. If there are any, the metrics of samples are NaN.
    pub unrecorded: u64,
    /// The metrics that are measured, and what they came to.
    pub metrics: Vec<(Metric, Summary)>,
    /// The messages received and lost from the subscription's creation to the window's stop: of two windows in a row, the
    /// difference is the second one's. None of what is no subscription.
    pub totals: Option<Totals>,
}

impl WindowStatistics {
    /// Returns how often that was in a second, in Hz; NaN if the window has no length.
    pub fn rate(&self) -> f64 {
        if self.length.is_zero() {
            return f64::NAN;
        }
        self.count as f64 / self.length.as_secs_f64()
    }

    /// Returns what a metric came to; None if it is not measured.
    pub fn get(&self, metric: Metric) -> Option<&Summary> {
        self.metrics.iter().find(|(of, _)| *of == metric).map(|(_, summary)| summary)
    }
}

/// When a message passed each point of its way: nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTimes {
    /// The header stamp (ROS time); None if the type has none, or if it is zero.
    pub header: Option<i64>,
    /// The middleware's source timestamp (system time of the publisher's host); None if the middleware does not give
    /// it, or if no metric of the subscription needs it.
    pub source: Option<i64>,
    /// The middleware's received timestamp (system time); None as for the source timestamp.
    pub received: Option<i64>,
    /// The start of the callback's body, on the system clock.
    pub callback: i64,
}
