// SPDX-License-Identifier: Apache-2.0

//! The text formats of Prometheus (0.0.4) and OpenMetrics (1.0.0).

use std::{io::Write, time::SystemTime};

use super::{Family, Histogram, Kind, Labels, SummaryValue, Writer, QUANTILES};

/// Writes text.
#[derive(Debug)]
pub struct Text {
    out: Vec<u8>,
    is_open_metrics: bool,
    family: Option<Family>,
    has_header: bool,
}

impl Text {
    /// Returns a writer of OpenMetrics, or of Prometheus's own format.
    pub fn new(is_open_metrics: bool) -> Self {
        Self { out: vec![], is_open_metrics, family: None, has_header: false }
    }

    /// Writes one time series: the family's name and a suffix, the labels, and the value.
    fn sample(&mut self, suffix: &str, labels: Labels<'_>, quantile: Option<f64>, value: impl Into<Number>) {
        let Some(family) = &self.family else { return };
        let out = &mut self.out;
        if !self.has_header {
            self.has_header = true;
            header(out, family, self.is_open_metrics);
        }
        out.extend_from_slice(family.name.as_bytes());
        out.extend_from_slice(suffix.as_bytes());
        let mut separator = b'{';
        for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            out.push(separator);
            separator = b',';
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"=\"");
            escape(out, value);
            out.push(b'"');
        }
        if let Some(quantile) = quantile {
            out.push(separator);
            separator = b',';
            push(out, format_args!("quantile=\"{quantile}\""));
        }
        if separator == b',' {
            out.push(b'}');
        }
        match value.into() {
            Number::Integer(value) => push(out, format_args!(" {value}\n")),
            // Its shortest form that is the same number.
            Number::Float(value) => push(out, format_args!(" {value:?}\n")),
        }
    }
}

/// A value: whole numbers are written exactly.
enum Number {
    Integer(u64),
    Float(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl Writer for Text {
    const HAS_HISTOGRAMS: bool = false;

    type Output = Vec<u8>;

    fn family(&mut self, family: &Family) {
        self.family = Some(family.clone());
        self.has_header = false;
    }

    fn gauge(&mut self, labels: Labels<'_>, value: f64) {
        self.sample("", labels, None, value);
    }

    // Prometheus would make a second time series of the creation.
    fn counter(&mut self, labels: Labels<'_>, value: f64, _created: SystemTime) {
        self.sample("_total", labels, None, value);
    }

    fn summary(&mut self, labels: Labels<'_>, summary: SummaryValue) {
        for (quantile, value) in QUANTILES.iter().zip(summary.quantiles) {
            if let Some(value) = value {
                self.sample("", labels, Some(*quantile), value);
            }
        }
        self.sample("_sum", labels, None, summary.sum);
        self.sample("_count", labels, None, summary.count);
    }

    fn histogram(&mut self, _labels: Labels<'_>, _histogram: &Histogram, _created: SystemTime) {}

    fn finish(mut self) -> Vec<u8> {
        if self.is_open_metrics {
            self.out.extend_from_slice(b"# EOF\n");
        }
        self.out
    }
}

fn header(out: &mut Vec<u8>, family: &Family, is_open_metrics: bool) {
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Summary => "summary",
        Kind::Histogram => "histogram",
    };
    let suffix = if family.kind == Kind::Counter && !is_open_metrics { "_total" } else { "" };
    let Family { name, help, unit, .. } = family;
    push(out, format_args!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n"));
    if is_open_metrics && !unit.is_empty() {
        push(out, format_args!("# UNIT {name} {unit}\n"));
    }
}

/// Writes the value of a label, which can be any text.
fn escape(out: &mut Vec<u8>, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'"' => out.extend_from_slice(b"\\\""),
            b'\n' => out.extend_from_slice(b"\\n"),
            byte => out.push(byte),
        }
    }
}

fn push(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    // A write to a vector cannot fail.
    let _ok = out.write_fmt(arguments);
}
