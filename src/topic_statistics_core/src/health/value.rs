// SPDX-License-Identifier: Apache-2.0

//! The value of a quantity in a window, and the rule for a value that was not measured.

use std::fmt;

use crate::{condition::Figure, metric::Metric};

/// The value of a quantity in a window: measured, missing or unknown.
///
/// Only measured and missing values raise or clear a level. Metrics, rates and totals are NaN or `None` if they are
/// unknown. So NaN becomes [`Unknown`](Self::Unknown).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The value was measured, in the [unit](crate::condition::Quantity::unit) of its quantity. The value is not NaN.
    Measured(f64),
    /// The value is missing because something is wrong with the source. A missing value violates every condition.
    Missing(Missing),
    /// The value is unknown. An unknown value neither fulfills nor violates a condition.
    Unknown,
}

/// The reason for a missing value. `Display` writes, for example, `the header stamps are not set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The window had no message.
    Messages,
    /// The publisher does not set the header stamps.
    HeaderStamps,
    /// The node uses simulated time, but there is no `/clock`.
    Clock,
    /// The header stamps are on simulated time, but the node that measures is not, or the other way round.
    OtherClock,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Messages => "there is no message",
            Self::HeaderStamps => "the header stamps are not set",
            Self::Clock => "there is no /clock",
            Self::OtherClock => "the header stamps are on another clock",
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
    /// Returns the value of a metric that has no samples in a window. The window has `messages` messages (`None` if the
    /// number is unknown). The flags are [`unstamped`](crate::WindowStatistics::unstamped),
    /// [`without_clock`](crate::WindowStatistics::without_clock) and
    /// [`other_clock`](crate::WindowStatistics::other_clock) of the window.
    ///
    /// The value is missing in four cases. The source is silent. Or the metric starts at the header stamp, but the
    /// publisher does not set the stamp. Or the metric needs simulated time, but simulated time has not begun. Or the
    /// metric starts at the header stamp, which is on another clock. In all other cases the value is unknown, for
    /// example because the system clock was stepped, samples were lost, a callback still runs, the middleware does not
    /// report the value, or the type has no header. A metric with one sample per window needs no message, so its value
    /// is not missing if the source is silent.
    ///
    /// In a window with one message, the number of periods is known: 0.
    pub fn without_sample(
        metric: Metric,
        figure: Figure,
        messages: Option<u64>,
        [unstamped, without_clock, other_clock]: [bool; 3],
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
        } else if other_clock && metric.starts_at_header_stamp() {
            Self::Missing(Missing::OtherClock)
        } else {
            Self::Unknown
        }
    }

    /// Returns the value; NaN if the value was not measured.
    pub fn or_nan(self) -> f64 {
        match self {
            Self::Measured(value) => value,
            Self::Missing(_) | Self::Unknown => f64::NAN,
        }
    }
}
