// SPDX-License-Identifier: Apache-2.0

//! The state as Prometheus reads it.
//!
//! `families` walks through the state; `text` and `protobuf` write its series. So all formats have the same series.

mod families;
mod protobuf;
mod text;

use std::time::{Instant, SystemTime};

use super::state::{Bucket, Histogram, State, QUANTILES};
pub use families::write_state;

/// A format that scrapers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's text format. It has no native histograms.
    Text,
    /// OpenMetrics's text format. It has no native histograms.
    OpenMetrics,
    /// Prometheus's protobuf format, with native histograms.
    Protobuf,
}

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
    /// Whether [`histogram`](Self::histogram) writes anything.
    const HAS_HISTOGRAMS: bool;
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
    /// Adds a histogram, which was empty at `created`.
    fn histogram(&mut self, labels: &Self::Labels, histogram: &Histogram, created: SystemTime);
    /// Ends the last family, and returns what has been written.
    fn finish(self) -> Self::Output;
}

impl Format {
    /// Returns the format that a scraper prefers, by its Accept header.
    pub fn negotiate(accept: &str) -> Self {
        let mut best = (0.0, Self::Text);
        for range in accept.split(',').take(Self::MAX_RANGES) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let (mut quality, mut is_delimited, mut is_metric_family) = (1.0, false, false);
            for parameter in parts {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                let value = value.trim().trim_matches('"');
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = value.parse().unwrap_or(0.0),
                    "encoding" => is_delimited = value == "delimited",
                    "proto" => is_metric_family = value == "io.prometheus.client.MetricFamily",
                    _ => {}
                }
            }
            let format = match media.to_ascii_lowercase().as_str() {
                "application/vnd.google.protobuf" if is_delimited && is_metric_family => Self::Protobuf,
                "application/openmetrics-text" => Self::OpenMetrics,
                "text/plain" | "text/*" | "*/*" => Self::Text,
                _ => continue,
            };
            if quality > best.0 {
                best = (quality, format);
            }
        }
        best.1
    }

    /// How many media ranges of an Accept header are read.
    const MAX_RANGES: usize = 16;

    /// Returns the Content-Type header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// Returns the state in this format. It overwrites `buffer`.
    pub fn encode(self, state: &State, now: Instant, unix_time: f64, buffer: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Text => write_state(state, now, unix_time, text::Text::new(buffer, false)),
            Self::OpenMetrics => write_state(state, now, unix_time, text::Text::new(buffer, true)),
            Self::Protobuf => write_state(state, now, unix_time, protobuf::Protobuf::new(buffer)),
        }
    }
}

#[cfg(test)]
mod tests;
