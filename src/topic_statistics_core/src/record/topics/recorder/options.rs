// SPDX-License-Identifier: Apache-2.0

//! The options of a subscription's recorder, and the data of each message that the metrics need.

use std::borrow::Borrow;

use crate::{collector::FirstPeriod, metric::Metric, metric_set::MetricSet};

/// The time at which [`Metric::MessageAge`] starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgeSource {
    /// The header stamp: the time of the measurement. The age is in ROS time.
    #[default]
    HeaderStamp,
    /// The middleware's source timestamp: the time of publication, as in rclcpp from Jazzy on. Messages whose type has
    /// no header have a source timestamp, too. The age is in system time, because source timestamps are in system time
    /// even if the node uses simulated time.
    SourceTimestamp,
}

/// The options of a recorder. They say what is measured of a subscription's messages.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct RecorderOptions {
    pub(super) metrics: MetricSet,
    pub(super) age_source: AgeSource,
    pub(super) first_period: FirstPeriod,
    /// Whether publishers deliver their history when the subscription matches them.
    pub(super) is_transient_local: bool,
    /// Whether the node uses simulated time. The recorder sets this field.
    pub(super) is_simulated: bool,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self {
            metrics: MetricSet::of(&[Metric::MessageAge, Metric::MessagePeriod]),
            age_source: AgeSource::default(),
            first_period: FirstPeriod::default(),
            is_transient_local: false,
            is_simulated: false,
        }
    }
}

impl RecorderOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the metrics. Default: [`Metric::MessageAge`] and [`Metric::MessagePeriod`].
    pub fn metrics(self, metrics: impl IntoIterator<Item = impl Borrow<Metric>>) -> Self {
        Self { metrics: metrics.into_iter().collect(), ..self }
    }

    /// Sets the time at which the age starts. Default: [`AgeSource::HeaderStamp`].
    pub fn age_source(self, source: AgeSource) -> Self {
        Self { age_source: source, ..self }
    }

    /// Sets whether the first message of a window has a period. Default: [`FirstPeriod::NoSample`].
    pub fn first_period(self, first: FirstPeriod) -> Self {
        Self { first_period: first, ..self }
    }

    /// Sets whether the subscription is transient local. Then publishers deliver their history when the subscription
    /// matches them. The rate and the periods do not include history. Default: false.
    pub fn transient_local(self, is_transient_local: bool) -> Self {
        Self { is_transient_local, ..self }
    }

    /// The delays before the callback: parts of the time from the header stamp to the callback, or sums of such parts.
    const DELAYS: MetricSet = MetricSet::of(&[
        Metric::HeaderToSource,
        Metric::SourceToReceive,
        Metric::ReceiveToCallback,
        Metric::SourceToCallback,
        Metric::HeaderToCallback,
    ]);

    const OF_RECEPTION: MetricSet = MetricSet::of(&[Metric::SourceToReceive, Metric::ReceiveToCallback]);

    pub(super) fn has_delays(self) -> bool {
        self.metrics.intersects(Self::DELAYS) || self.needs_callback_end()
    }

    pub(super) fn has_losses(self) -> bool {
        self.metrics.contains(Metric::PublicationSeqGap)
    }

    pub(super) fn has_sizes(self) -> bool {
        self.metrics.contains(Metric::MessageSize)
    }

    /// Returns whether the metrics need more data of a message than its header stamp.
    pub(super) fn needs_details(self) -> bool {
        self.needs_transport() || self.has_sizes() || self.is_simulated
    }

    pub(super) fn needs_transport(self) -> bool {
        self.metrics.intersects(Self::DELAYS)
            || self.has_losses()
            || self.is_transient_local
            || self.age_source == AgeSource::SourceTimestamp
    }

    /// Returns whether the metrics need the time at which a message arrived on this host.
    pub(super) fn needs_reception_time(self) -> bool {
        self.metrics.intersects(Self::OF_RECEPTION)
    }

    #[inline]
    pub(super) fn needs_callback_end(self) -> bool {
        self.metrics.contains(Metric::CallbackDuration)
    }

    /// Returns whether the metrics compare header stamps with ROS time.
    pub(super) fn needs_header_stamp(self) -> bool {
        self.metrics.contains(Metric::HeaderToCallback)
            || self.metrics.contains(Metric::MessageAge) && self.age_source == AgeSource::HeaderStamp
    }
}
