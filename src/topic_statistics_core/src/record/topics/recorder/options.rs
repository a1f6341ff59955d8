// SPDX-License-Identifier: Apache-2.0

//! What is measured of a subscription's messages.

use std::borrow::Borrow;

use crate::{collector::FirstPeriod, metric::Metric, metric_set::MetricSet};

/// The time at which [`Metric::MessageAge`] starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgeSource {
    /// The header stamp: the time of the measurement. The age is in ROS time.
    #[default]
    HeaderStamp,
    /// The middleware's source timestamp: the time of publication, as in rclcpp from Jazzy on. Types without a header
    /// have it, too. The age is in system time, which source timestamps are of even on simulated time.
    SourceTimestamp,
}

/// What is measured of a subscription's messages.
#[derive(Clone, Debug)]
#[must_use]
pub struct RecorderOptions {
    pub(super) metrics: MetricSet,
    pub(super) age_source: AgeSource,
    pub(super) first_period: FirstPeriod,
    pub(super) is_transient_local: bool,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self {
            metrics: MetricSet::of(&[Metric::MessageAge, Metric::MessagePeriod]),
            age_source: AgeSource::default(),
            first_period: FirstPeriod::default(),
            is_transient_local: false,
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

    /// Sets whether the subscription is transient local: then publishers deliver their history at matching, which has
    /// no rate and no period. Default: no.
    pub fn transient_local(self, is_transient_local: bool) -> Self {
        Self { is_transient_local, ..self }
    }
}
