// SPDX-License-Identifier: Apache-2.0

//! Encodes the exporter's state in the formats that Prometheus reads.
//!
//! The module `families` goes through the state and passes each time series to a `Writer` (a trait in the module
//! `writer`). The modules `text` and `protobuf` implement this trait. So all formats have the same time series.

mod families;
mod health;
mod metric_families;
mod protobuf;
mod text;
mod writer;

use std::time::Instant;

use crate::state::State;
pub use families::write_state;
pub use writer::{Family, Labels, SummaryValue, Writer};

/// A format that a scraper can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's text format, which has no native histograms.
    Text,
    /// OpenMetrics's text format, which has no native histograms.
    OpenMetrics,
    /// Prometheus's protobuf format, with native histograms.
    Protobuf,
}

impl Format {
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

    /// The largest number of media ranges that are read from an Accept header.
    const MAX_RANGES: usize = 16;

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// Returns the state in this format. The memory of `buffer` is used for the result, and its old content is
    /// overwritten. `unix_time` is the Unix time of `now`, in seconds.
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
