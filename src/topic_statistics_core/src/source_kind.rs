// SPDX-License-Identifier: Apache-2.0

//! The kinds of sources, and what each kind can measure.

use std::fmt;

use crate::metric::Metric;

/// The kind of a source: it decides which metrics a source can measure, and so which conditions apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
