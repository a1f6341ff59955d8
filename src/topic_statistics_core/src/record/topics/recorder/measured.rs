// SPDX-License-Identifier: Apache-2.0

//! What is measured of the messages, and what that needs of each.

use super::options::{AgeSource, RecorderOptions};
use crate::{collector::FirstPeriod, metric::Metric, metric_set::MetricSet};

/// What is measured of a subscription's messages.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    pub(super) metrics: MetricSet,
    /// Whether the node runs on simulated time.
    pub(super) is_simulated: bool,
    pub(super) age_source: AgeSource,
    pub(super) first_period: FirstPeriod,
    /// Whether publishers deliver their history at matching.
    pub(super) is_transient_local: bool,
}

impl Measured {
    /// The metrics of where an age arises.
    const DELAYS: MetricSet = MetricSet::of(&[
        Metric::HeaderToSource,
        Metric::SourceToReceive,
        Metric::ReceiveToCallback,
        Metric::SourceToCallback,
        Metric::HeaderToCallback,
        Metric::CallbackDuration,
    ]);

    /// The metrics that need the time at which a message arrived on this host.
    const OF_RECEPTION: MetricSet = MetricSet::of(&[Metric::SourceToReceive, Metric::ReceiveToCallback]);

    pub(super) fn new(options: RecorderOptions, is_simulated: bool) -> Self {
        let RecorderOptions { metrics, age_source, first_period, is_transient_local } = options;
        Self { metrics, is_simulated, age_source, first_period, is_transient_local }
    }

    /// Returns whether a metric of where an age arises is measured.
    pub(super) fn has_delays(self) -> bool {
        self.metrics.intersects(Self::DELAYS)
    }

    /// Returns whether losses are measured.
    pub(super) fn has_losses(self) -> bool {
        self.metrics.contains(Metric::PublicationSeqGap)
    }

    /// Returns whether sizes are measured.
    pub(super) fn has_sizes(self) -> bool {
        self.metrics.contains(Metric::MessageSize)
    }

    /// Returns whether a message needs more than rclcpp's two metrics on the system clock.
    pub(super) fn needs_details(self) -> bool {
        self.needs_transport() || self.has_sizes() || self.is_simulated
    }

    /// Returns whether a message needs the middleware's report.
    pub(super) fn needs_transport(self) -> bool {
        self.has_delays()
            || self.has_losses()
            || self.is_transient_local
            || self.age_source == AgeSource::SourceTimestamp
    }

    /// Returns whether a message needs the time at which it arrived on this host.
    pub(super) fn needs_reception_time(self) -> bool {
        self.metrics.intersects(Self::OF_RECEPTION)
    }

    /// Returns whether a message needs the end of its callback.
    #[inline]
    pub(super) fn needs_callback_end(self) -> bool {
        self.metrics.contains(Metric::CallbackDuration)
    }

    /// Returns whether header stamps are compared with ROS time.
    pub(super) fn needs_header_stamp(self) -> bool {
        self.metrics.contains(Metric::HeaderToCallback)
            || self.metrics.contains(Metric::MessageAge) && self.age_source == AgeSource::HeaderStamp
    }
}
