// SPDX-License-Identifier: Apache-2.0

//! The quantities of conditions.

use super::error::{quoted, unknown_metric, Wrong};
use crate::{metric::Metric, summary::Summary};

/// The quantity that a condition is about: a value of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantity {
    /// Messages per second.
    Rate,
    /// The bytes of the messages received, per second.
    Bandwidth,
    /// Messages received.
    Received,
    /// The bytes of the messages received.
    Bytes,
    /// Messages lost.
    Lost,
    /// Messages received out of order.
    OutOfOrder,
    /// Publishers of the topic.
    Publishers,
    /// A figure of a metric.
    Metric(Metric, Figure),
}

/// A figure that summarizes the samples of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Figure {
    /// `mean`, `avg`, `average`: the default figure of every metric except [`Metric::Busy`].
    Average,
    /// `min`, `minimum`.
    Minimum,
    /// `max`, `maximum`: the default figure of [`Metric::Busy`].
    Maximum,
    /// `std`, `stddev`, `std_dev`.
    StandardDeviation,
    /// `count`: the number of samples.
    SampleCount,
    /// `p50`: the median.
    P50,
    /// `p90`.
    P90,
    /// `p99`.
    P99,
    /// `p999`, `p99.9`, `p99_9`.
    P99_9,
}

impl Quantity {
    /// Returns the unit of the quantity's values: `Hz`, `bytes/s`, `bytes`, `%`, or the unit of the
    /// [metric](Metric::unit). The unit is empty for a number of samples, messages or publishers.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate => "Hz",
            Self::Bandwidth => "bytes/s",
            Self::Bytes => "bytes",
            Self::Metric(_, Figure::SampleCount)
            | Self::Received
            | Self::Lost
            | Self::OutOfOrder
            | Self::Publishers => "",
            Self::Metric(metric, _) => metric.unit(),
        }
    }

    /// Parses `METRIC[.FIGURE]`. Returns an error with the wrong part of the word.
    pub(super) fn parse(word: &str) -> Result<Self, Wrong<'_>> {
        let (name, figure) = match word.split_once('.') {
            Some((name, figure)) => (name, Some(figure)),
            None => (word, None),
        };
        let quantity = Self::named(name).ok_or_else(|| (name, unknown_metric(name)))?;
        let Some(word) = figure else { return Ok(quantity) };
        let Self::Metric(metric, _) = quantity else {
            let problem = "is one value per window and has no figure";
            return Err((word, format!("{} {problem} {}", quoted(name), quoted(word))));
        };
        let Some(figure) = Figure::parse(word) else {
            let figures = "mean, min, max, std, count, p50, p90, p99, p999";
            let problem = format!("there is no figure {}; it has to be one of {figures}", quoted(word));
            return Err((word, problem));
        };
        let needs_samples = figure == Figure::StandardDeviation || figure.quantile().is_some();
        if needs_samples && !metric.has_distribution() {
            let problem = "has one sample per window, and that has no";
            return Err((word, format!("{} {problem} {}", quoted(name), quoted(word))));
        }
        Ok(Self::Metric(metric, figure))
    }

    /// Returns the quantity with the given name. A metric gets its default figure. `None` if no quantity has this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let metric = match name {
            "rate" => return Some(Self::Rate),
            "bandwidth" => return Some(Self::Bandwidth),
            "received" | "messages" => return Some(Self::Received),
            "bytes" => return Some(Self::Bytes),
            "lost" => return Some(Self::Lost),
            "out_of_order" => return Some(Self::OutOfOrder),
            "publishers" => return Some(Self::Publishers),
            "age" => Metric::MessageAge,
            "period" => Metric::MessagePeriod,
            "gap" => Metric::PublicationSeqGap,
            "silent" | "last" => Metric::TimeSinceLastMessage,
            "skipped" => Metric::SkippedPeriods,
            _ => *Metric::ALL
                .iter()
                .find(|metric| metric.name() == name || metric.name().strip_suffix("_ms") == Some(name))?,
        };
        // The condition `busy<80%` has to hold for each thread, so the figure is the maximum. The mean of all threads
        // would hide a busy thread.
        let figure = if metric == Metric::Busy { Figure::Maximum } else { Figure::Average };
        Some(Self::Metric(metric, figure))
    }
}

impl Figure {
    /// Returns the quantile of a percentile, from 0 to 1; `None` for the other figures.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P99_9 => Some(0.999),
            _ => None,
        }
    }

    /// Returns this figure of a summary; NaN for a percentile, which a summary does not have.
    #[doc(hidden)] // for code outside this crate that compares windows with expectations
    pub fn read(self, summary: &Summary) -> f64 {
        match self {
            Self::Average => summary.average,
            Self::Minimum => summary.minimum,
            Self::Maximum => summary.maximum,
            Self::StandardDeviation => summary.standard_deviation,
            Self::SampleCount => summary.sample_count as f64,
            Self::P50 | Self::P90 | Self::P99 | Self::P99_9 => f64::NAN,
        }
    }

    /// Returns whether this figure is a sample, a percentile or the average of the samples. Such a figure is a value in
    /// the range of the samples.
    pub(crate) fn is_of_samples(self) -> bool {
        !matches!(self, Self::StandardDeviation | Self::SampleCount)
    }

    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "mean" | "avg" | "average" => Self::Average,
            "min" | "minimum" => Self::Minimum,
            "max" | "maximum" => Self::Maximum,
            "std" | "stddev" | "std_dev" => Self::StandardDeviation,
            "count" => Self::SampleCount,
            "p50" => Self::P50,
            "p90" => Self::P90,
            "p99" => Self::P99,
            "p999" | "p99.9" | "p99_9" => Self::P99_9,
            _ => return None,
        })
    }
}
