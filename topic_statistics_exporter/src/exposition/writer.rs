// SPDX-License-Identifier: Apache-2.0

//! What a format writes: metric families and their time series.

use std::time::SystemTime;

use crate::state::{Histogram, QUANTILES};

/// A metric family: all time series with the same name.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name, with the unit, and without `_total`.
    pub name: String,
    /// The meaning, and the meaning of a high value.
    pub help: String,
    /// The kind of its values.
    pub kind: Kind,
    /// The unit, which is also in the name.
    pub unit: &'static str,
}

/// Returns a family of ours, by its name without the namespace and the unit.
pub fn family(name: &str, kind: Kind, unit: &'static str, help: &str) -> Family {
    let separator = if unit.is_empty() { "" } else { "_" };
    Family { name: format!("topic_statistics_{name}{separator}{unit}"), help: help.to_owned(), kind, unit }
}

/// The types of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that only grows.
    Counter,
    /// A value.
    Gauge,
    /// A sum and a count that only grow, and quantiles of the last window.
    Summary,
    /// A histogram that only grows.
    Histogram,
}

/// The names and values of labels. Empty values are left out.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// The values of a summary.
#[derive(Clone, Copy, Debug)]
pub struct SummaryValue {
    /// The number of samples.
    pub count: u64,
    /// The sum of the samples.
    pub sum: f64,
    /// When count and sum were 0.
    pub created: SystemTime,
    /// The [`QUANTILES`] of the last window that are known.
    pub quantiles: [Option<f64>; QUANTILES.len()],
}

/// Writes families, one after the other, and the time series of each.
pub trait Writer {
    /// Whether a counter has to be 0 at first, because a scraper does not read since when it counts.
    const BEGINS_AT_ZERO: bool;

    /// Labels as they are written. A source has the same ones in many time series.
    type Labels: Clone;

    /// The text or bytes written.
    type Output;

    /// Returns labels as they are written.
    fn labels(labels: Labels<'_>) -> Self::Labels;
    /// Begins a family. One without time series is left out.
    fn family(&mut self, family: &Family);
    /// Adds a gauge to the family.
    fn gauge(&mut self, labels: &Self::Labels, value: f64);
    /// Adds a counter, which was 0 at `created`.
    fn counter(&mut self, labels: &Self::Labels, value: f64, created: SystemTime);
    /// Adds a summary.
    fn summary(&mut self, labels: &Self::Labels, summary: SummaryValue);
    /// Adds a histogram, which was empty at `created`, and its classic buckets up to these bounds.
    fn histogram(
        &mut self,
        labels: &Self::Labels,
        histogram: &Histogram,
        bounds: &[f64],
        created: SystemTime,
    );
    /// Ends the last family, and returns what has been written.
    fn finish(self) -> Self::Output;
}
