// SPDX-License-Identifier: Apache-2.0

//! Writes the text formats of Prometheus (0.0.4) and OpenMetrics (1.0.0).

use std::{fmt::Write, rc::Rc, time::SystemTime};

use self::Number::{Float, Integer};
use super::writer::{Family, Kind, Labels, SummaryValue, Writer};
use crate::state::{Histogram, QUANTILES};

#[derive(Debug)]
pub struct Text {
    out: String,
    is_open_metrics: bool,
    family: Option<Family>,
    has_header: bool,
}

impl Text {
    /// Returns a writer of OpenMetrics or Prometheus's text format that uses the memory of `buffer`.
    pub fn new(mut buffer: Vec<u8>, is_open_metrics: bool) -> Self {
        buffer.clear();
        let out = String::from_utf8(buffer).unwrap_or_default();
        Self { out, is_open_metrics, family: None, has_header: false }
    }

    /// Writes one time series: the family's name with `suffix`, the labels, and an additional label (`further`).
    fn sample(&mut self, suffix: &str, labels: &str, further: Option<(&str, f64)>, value: Number) {
        let Some(family) = &self.family else { return };
        let out = &mut self.out;
        if !self.has_header {
            self.has_header = true;
            header(out, family, self.is_open_metrics);
        }
        out.push_str(&family.name);
        out.push_str(suffix);
        if !labels.is_empty() || further.is_some() {
            out.push('{');
            out.push_str(labels);
            if let Some((name, bound)) = further {
                out.push_str(if labels.is_empty() { "" } else { "," });
                out.push_str(name);
                out.push_str("=\"");
                match bound.is_finite() {
                    true => out.push_str(ryu::Buffer::new().format_finite(bound)),
                    false => out.push_str("+Inf"),
                }
                out.push('"');
            }
            out.push('}');
        }
        out.push(' ');
        match value {
            Integer(value) => push(out, format_args!("{value}")),
            Float(value) => out.push_str(ryu::Buffer::new().format_finite(value)),
        }
        out.push('\n');
    }
}

/// The value of a time series. An integer is written with all its digits.
enum Number {
    Integer(u64),
    Float(f64),
}

impl Writer for Text {
    const BEGINS_AT_ZERO: bool = true;

    type Labels = Rc<str>;

    fn labels(labels: Labels<'_>) -> Rc<str> {
        let mut text = String::new();
        for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            let separator = if text.is_empty() { "" } else { "," };
            push(&mut text, format_args!("{separator}{name}=\""));
            escape(&mut text, value);
            text.push('"');
        }
        text.into()
    }

    type Output = Vec<u8>;

    fn family(&mut self, family: &Family) {
        self.family = Some(family.clone());
        self.has_header = false;
    }

    fn gauge(&mut self, labels: &Rc<str>, value: f64) {
        self.sample("", labels, None, Float(value));
    }

    // The time of creation is not written, because Prometheus would store it as a second time series.
    fn counter(&mut self, labels: &Rc<str>, value: f64, _created: SystemTime) {
        self.sample("_total", labels, None, Float(value));
    }

    fn summary(&mut self, labels: &Rc<str>, summary: SummaryValue) {
        for (quantile, value) in QUANTILES.iter().zip(summary.quantiles) {
            if let Some(value) = value {
                self.sample("", labels, Some(("quantile", *quantile)), Float(value));
            }
        }
        self.sample("_sum", labels, None, Float(summary.sum));
        self.sample("_count", labels, None, Integer(summary.count));
    }

    /// Writes only the classic buckets, because the text formats have no native histograms.
    fn histogram(&mut self, labels: &Rc<str>, histogram: &Histogram, bounds: &[f64], _created: SystemTime) {
        if bounds.is_empty() {
            return;
        }
        for bound in bounds {
            let count = Integer(histogram.count_up_to(*bound));
            self.sample("_bucket", labels, Some(("le", *bound)), count);
        }
        self.sample("_bucket", labels, Some(("le", f64::INFINITY)), Integer(histogram.count));
        // The sum of a histogram with negative samples is left out, because a negative sample would make the sum fall.
        if histogram.negative.is_empty() {
            self.sample("_sum", labels, None, Float(histogram.sum()));
        }
        self.sample("_count", labels, None, Integer(histogram.count));
    }

    fn finish(mut self) -> Vec<u8> {
        if self.is_open_metrics {
            self.out.push_str("# EOF\n");
        }
        self.out.into_bytes()
    }
}

fn header(out: &mut String, family: &Family, is_open_metrics: bool) {
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

/// Writes the value of a label. Special characters in the value are escaped.
fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // A write to a string cannot fail.
    let _ok = out.write_fmt(arguments);
}
