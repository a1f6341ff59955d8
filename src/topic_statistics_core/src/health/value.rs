// SPDX-License-Identifier: Apache-2.0

//! The value of a quantity in a window: the one rule.

use std::fmt;

use crate::{condition::Figure, metric::Metric};

/// The value of a quantity in a window: one of three.
///
/// Only the first two raise or clear a level. NaN becomes [`Unknown`](Self::Unknown): the metrics, rates and totals are
/// NaN or `None` wherever they are not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The value, in the [unit](crate::condition::Quantity::unit) of its quantity. It is not NaN.
    Measured(f64),
    /// There is no value because something is wrong with the source. It violates every condition.
    Missing(Missing),
    /// Unknown: neither fulfils a condition nor violates it.
    Unknown,
}

/// Why a value is missing. `Display`: `the header stamps are not set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// There was no message.
    Messages,
    /// The publisher does not set the header stamps.
    HeaderStamps,
    /// The node uses simulated time, and there is no `/clock`.
    Clock,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Messages => "there is no message",
            Self::HeaderStamps => "the header stamps are not set",
            Self::Clock => "there is no /clock",
        })
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        match value.is_nan() {
            true => Self::Unknown,
            false => Self::Measured(value),
        }
    }
}

impl From<Option<u64>> for Value {
    fn from(count: Option<u64>) -> Self {
        count.map_or(Self::Unknown, |count| Self::Measured(count as f64))
    }
}

impl Value {
    /// Returns the value of a metric without samples in a window. The window has `messages` messages (`None`: unknown),
    /// and is [`unstamped`](crate::WindowStatistics::unstamped) or
    /// [`without_clock`](crate::WindowStatistics::without_clock) or neither.
    ///
    /// It is missing in three cases: in silence; if it starts at the header stamp and the publisher does not set it;
    /// and if it needs simulated time and that has not begun. Otherwise it is unknown: the system clock was stepped,
    /// samples were lost, a callback still runs, the middleware does not report it, or the type has no header. A metric
    /// with one sample per window does not need a message, so silence is no reason there.
    ///
    /// The number of periods is measured in a window of one message: 0.
    pub fn without_sample(
        metric: Metric,
        figure: Figure,
        messages: Option<u64>,
        unstamped: bool,
        without_clock: bool,
    ) -> Self {
        if metric.is_period() && figure == Figure::SampleCount && messages == Some(1) {
            return Self::Measured(0.0);
        }
        if messages == Some(0) && metric.has_distribution() {
            Self::Missing(Missing::Messages)
        } else if unstamped && metric.starts_at_header_stamp() {
            Self::Missing(Missing::HeaderStamps)
        } else if without_clock && matches!(metric, Metric::MessageAge | Metric::HeaderToCallback) {
            Self::Missing(Missing::Clock)
        } else {
            Self::Unknown
        }
    }

    /// Returns the value; NaN if it was not measured.
    pub fn or_nan(self) -> f64 {
        match self {
            Self::Measured(value) => value,
            Self::Missing(_) | Self::Unknown => f64::NAN,
        }
    }
}
