// SPDX-License-Identifier: Apache-2.0

//! The trait of output formats, which write metric families and their time series.

use std::time::SystemTime;

use crate::state::{Histogram, QUANTILES};

#[derive(Clone, Debug)]
pub struct Family {
    /// The name, with the unit but without the suffix `_total`.
    pub name: String,
    /// The help text: the meaning of the values, and the meaning of a high value.
    pub help: String,
    pub kind: Kind,
    /// The unit, which is also part of the name.
    pub unit: &'static str,
}

/// Returns a family of the exporter. `name` is the family's name without the prefix `topic_statistics_` and the unit.
pub fn family(name: &str, kind: Kind, unit: &'static str, help: &str) -> Family {
    let separator = if unit.is_empty() { "" } else { "_" };
    Family { name: format!("topic_statistics_{name}{separator}{unit}"), help: help.to_owned(), kind, unit }
}

/// Returns a counter of the exporter. See [`family`].
pub fn counter(name: &str, help: &str) -> Family {
    family(name, Kind::Counter, "", help)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    /// The sum and the count of all windows, which never decrease, and the quantiles of the last window.
    Summary,
    Histogram,
}

/// The names and values of labels. A writer leaves out labels with empty values.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

#[derive(Clone, Copy, Debug)]
pub struct SummaryValue {
    pub count: u64,
    pub sum: f64,
    /// The time at which the count and the sum were 0.
    pub created: SystemTime,
    /// The [`QUANTILES`] of the last window. A quantile is `None` if it is unknown.
    pub quantiles: [Option<f64>; QUANTILES.len()],
}

/// A writer of metric families. The families are written one after another, each with its time series.
pub trait Writer {
    /// Whether a counter has to begin with the value 0, because the format does not say when the counter began.
    const BEGINS_AT_ZERO: bool;

    /// Encoded labels. Many time series of a source share the same labels, so labels are encoded only once.
    type Labels: Clone;

    type Output;

    fn labels(labels: Labels<'_>) -> Self::Labels;
    /// Begins a family. If the family gets no time series, it is left out of the output.
    fn family(&mut self, family: &Family);
    fn gauge(&mut self, labels: &Self::Labels, value: f64);
    /// Adds a counter to the current family. The counter was 0 at `created`.
    fn counter(&mut self, labels: &Self::Labels, value: f64, created: SystemTime);
    /// Adds a counter (if `kind` is [`Kind::Counter`]) or a gauge to the current family.
    fn single(&mut self, kind: Kind, labels: &Self::Labels, value: f64, created: SystemTime) {
        match kind {
            Kind::Counter => self.counter(labels, value, created),
            _ => self.gauge(labels, value),
        }
    }
    fn summary(&mut self, labels: &Self::Labels, summary: SummaryValue);
    /// Adds a histogram to the current family. The histogram was empty at `created`. `bounds` is for classic buckets.
    fn histogram(
        &mut self,
        labels: &Self::Labels,
        histogram: &Histogram,
        bounds: &[f64],
        created: SystemTime,
    );
    fn finish(self) -> Self::Output;
}
