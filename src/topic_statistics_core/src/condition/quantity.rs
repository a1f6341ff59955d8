// SPDX-License-Identifier: Apache-2.0

//! The quantities of conditions.

use super::ConditionProblem;
use crate::{metric::Metric, summary::Summary};

/// The quantity of a condition: a value of a window.
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

/// A figure of a metric's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Figure {
    /// `mean`, `avg`, `average`; the default of a metric without a figure, except [`Metric::Busy`].
    Average,
    /// `min`, `minimum`.
    Minimum,
    /// `max`, `maximum`; the default of [`Metric::Busy`].
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
    /// Returns the unit of its values: `Hz`, `bytes/s`, `bytes`, `%`, that of the [metric](Metric::unit), or none for a
    /// number of samples, messages or publishers.
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

    /// Parses `METRIC[.FIGURE]`. Errors with the wrong part of it.
    pub(super) fn parse(word: &str) -> Result<Self, (&str, ConditionProblem)> {
        let (name, figure) = match word.split_once('.') {
            Some((name, figure)) => (name, Some(figure)),
            None => (word, None),
        };
        let one_value = match name {
            "rate" => Some(Self::Rate),
            "bandwidth" => Some(Self::Bandwidth),
            "received" | "messages" => Some(Self::Received),
            "bytes" => Some(Self::Bytes),
            "lost" => Some(Self::Lost),
            "out_of_order" => Some(Self::OutOfOrder),
            "publishers" => Some(Self::Publishers),
            _ => None,
        };
        match (one_value, figure) {
            (Some(quantity), None) => return Ok(quantity),
            (Some(_), Some(figure)) => {
                let problem = ConditionProblem::NoFigures { name: name.into(), figure: figure.into() };
                return Err((figure, problem));
            }
            (None, _) => {}
        }
        let metric = match name {
            "age" => Some(Metric::MessageAge),
            "period" => Some(Metric::MessagePeriod),
            "gap" => Some(Metric::PublicationSeqGap),
            "silent" | "last" => Some(Metric::TimeSinceLastMessage),
            "skipped" => Some(Metric::SkippedPeriods),
            _ => Metric::ALL
                .iter()
                .copied()
                .find(|metric| metric.name() == name || metric.name().strip_suffix("_ms") == Some(name)),
        };
        let Some(metric) = metric else {
            return Err((name, ConditionProblem::UnknownMetric { name: name.into() }));
        };
        let Some(word) = figure else {
            // `busy<80%` is about each thread: their mean would hide a busy one.
            let default = if metric == Metric::Busy { Figure::Maximum } else { Figure::Average };
            return Ok(Self::Metric(metric, default));
        };
        let Some(figure) = Figure::parse(word) else {
            return Err((word, ConditionProblem::UnknownFigure { figure: word.into() }));
        };
        let needs_samples = figure == Figure::StandardDeviation || figure.quantile().is_some();
        if needs_samples && !metric.has_distribution() {
            return Err((word, ConditionProblem::OneSample { name: name.into(), figure: word.into() }));
        }
        Ok(Self::Metric(metric, figure))
    }
}

impl Figure {
    /// Returns the quantile of a percentile, from 0 to 1; None for the other figures.
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
    pub(crate) fn read(self, summary: &Summary) -> f64 {
        match self {
            Self::Average => summary.average,
            Self::Minimum => summary.minimum,
            Self::Maximum => summary.maximum,
            Self::StandardDeviation => summary.standard_deviation,
            Self::SampleCount => summary.sample_count as f64,
            Self::P50 | Self::P90 | Self::P99 | Self::P99_9 => f64::NAN,
        }
    }

    /// Returns whether it is one sample or the samples' average, in their unit.
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
