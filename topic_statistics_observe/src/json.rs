// SPDX-License-Identifier: Apache-2.0

//! The objects of `--json`.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::Instant,
};

use serde::Serialize;
use topic_statistics_core::{
    collector::Distribution,
    health::{Cause, Change, Health},
    Metric, Summary, Timestamp,
};

use crate::{
    overall::Overall,
    recording::RecordedMetric,
    row::{MetricFigures, Publisher, Row, Status, Window},
};

/// Returns the JSON object that describes a window of a topic.
pub fn window<'a>(row: &'a Row, window: &'a Window, now: Instant) -> impl Serialize + 'a {
    let state = match row.status(now) {
        Status::Error | Status::Failed(_) => "error",
        Status::Warned(_) => "warn",
        Status::Stale(_) => "stale",
        Status::Loss(_) => "loss",
        Status::Waiting => "waiting",
        Status::Ok | Status::Good => "good",
    };
    let metric = |metric: &'a MetricFigures| (&*metric.name, MetricLine::new(&metric.unit, metric.figures));
    let last_minute = |metric: Metric| {
        let distribution = row.last_minute.distribution(metric, now)?;
        let line = LastMinuteLine {
            unit: metric.unit(),
            count: distribution.count(),
            min: distribution.minimum(),
            max: distribution.maximum(),
            percentiles: Percentiles::new(&distribution),
        };
        Some((metric.name(), line))
    };
    Line {
        topic: &row.name,
        r#type: row.message_type.as_deref(),
        state,
        problem: row.problem.as_ref().map(|problem| problem.text()),
        health: row.health.as_ref().map(HealthLine::new),
        window_start: window.times.start.as_nanoseconds(),
        window_stop: window.times.stop.as_nanoseconds(),
        clock_step: window.clock_step,
        publishers: row.publisher_count,
        nodes: &row.nodes,
        qos: (!row.qos.is_empty()).then_some(&row.qos),
        rate: window.rate,
        bandwidth: window.bandwidth(),
        received: window.received,
        bytes: window.bytes,
        lost: window.lost,
        out_of_order: window.out_of_order,
        since_last_message: row.silence(now),
        total: Total { received: row.received, lost: row.lost, out_of_order: row.out_of_order },
        metrics: window.metrics.iter().map(metric).collect(),
        last_minute: row.last_minute.metrics(now).filter_map(last_minute).collect(),
        senders: &row.publishers,
    }
}

/// Returns the JSON object that describes a change of a topic's health.
pub fn change<'a>(topic: &'a str, change: &Change) -> impl Serialize + 'a {
    let what = What::Change { from: change.before.name(), to: HealthLine::new(&change.health) };
    Event { topic, what }
}

/// Returns the JSON object that describes a new subscription to a topic.
pub fn resubscribed(row: &Row) -> impl Serialize + '_ {
    let what = What::Resubscribed { r#type: row.message_type.as_deref(), qos: &row.qos };
    Event { topic: &row.name, what }
}

/// Returns the JSON object with the statistics of a topic over a recording.
pub fn overall<'a>(row: &'a Row, overall: &'a Overall) -> impl Serialize + 'a {
    let metric = |metric: &'a RecordedMetric| {
        let percentiles = Some(Percentiles::new(&metric.distribution));
        let line = MetricLine { percentiles, ..MetricLine::new(&metric.unit, metric.figures.summary()) };
        (&*metric.name, line)
    };
    let what = What::Recording(RecordingLine {
        r#type: row.message_type.as_deref(),
        problem: row.problem.as_ref().map(|problem| problem.text()),
        start: overall.times.map(|(start, _)| start),
        stop: overall.times.map(|(_, stop)| stop),
        publishers: row.publisher_count,
        nodes: &row.nodes,
        rate: overall.rate,
        bandwidth: overall.bandwidth(),
        received: row.received,
        bytes: overall.bytes,
        lost: row.lost,
        out_of_order: row.out_of_order,
        unmeasured: overall.unmeasured,
        metrics: overall.metrics.iter().map(metric).collect(),
        senders: &row.publishers,
    });
    Event { topic: &row.name, what }
}

/// Writes a JSON object on one line, in ASCII.
pub fn write_object(to: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut *to, Ascii))?;
    writeln!(to)
}

/// Escapes all characters outside printable ASCII, so that a terminal finds no control characters in the JSON.
struct Ascii;

impl serde_json::ser::Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        for c in fragment.chars() {
            if c == ' ' || c.is_ascii_graphic() {
                write!(to, "{c}")?;
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(to, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// A JSON object that is about a topic, but not about one of its windows.
#[derive(Serialize)]
struct Event<'a> {
    topic: &'a str,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum What<'a> {
    Change { from: &'static str, to: HealthLine },
    Resubscribed { r#type: Option<&'a str>, qos: &'a str },
    Recording(RecordingLine<'a>),
}

/// The health of a topic: whether the topic meets its expectations.
#[derive(Serialize)]
struct HealthLine {
    level: &'static str,
    message: String,
    /// When the first window with this level began, in nanoseconds since the Unix epoch. 0 before the first window.
    since: i64,
    condition: Option<String>,
    value: f64,
}

impl HealthLine {
    fn new(health: &Health) -> Self {
        let (condition, value) = match &health.cause {
            Cause::Condition { condition, value, .. } => (Some(condition.to_string()), *value),
            _ => (None, f64::NAN),
        };
        Self {
            level: health.level.name(),
            message: health.to_string(),
            since: health.since.map_or(0, Timestamp::as_nanoseconds),
            condition,
            value,
        }
    }
}

/// The object of `--json` for a window. docs/topic_monitor.md describes its fields.
#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    r#type: Option<&'a str>,
    state: &'static str,
    problem: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<HealthLine>,
    window_start: i64,
    window_stop: i64,
    clock_step: Option<i64>,
    publishers: Option<usize>,
    nodes: &'a [String],
    qos: Option<&'a str>,
    rate: f64,
    bandwidth: f64,
    received: Option<u64>,
    bytes: Option<u64>,
    lost: Option<u64>,
    out_of_order: Option<u64>,
    since_last_message: f64,
    total: Total,
    metrics: BTreeMap<&'a str, MetricLine<'a>>,
    last_minute: BTreeMap<&'static str, LastMinuteLine>,
    senders: &'a [Publisher],
}

#[derive(Serialize)]
struct Total {
    received: u64,
    lost: Option<u64>,
    out_of_order: Option<u64>,
}

#[derive(Serialize)]
struct MetricLine<'a> {
    unit: &'a str,
    mean: f64,
    min: f64,
    max: f64,
    std_dev: f64,
    count: u64,
    /// `None` if the JSON object has no percentiles.
    #[serde(flatten)]
    percentiles: Option<Percentiles>,
}

impl<'a> MetricLine<'a> {
    fn new(unit: &'a str, summary: Summary) -> Self {
        Self {
            unit,
            mean: summary.average,
            min: summary.minimum,
            max: summary.maximum,
            std_dev: summary.standard_deviation,
            count: summary.sample_count,
            percentiles: None,
        }
    }
}

/// The distribution of a metric in the last minute.
#[derive(Serialize)]
struct LastMinuteLine {
    unit: &'static str,
    count: u64,
    min: f64,
    max: f64,
    #[serde(flatten)]
    percentiles: Percentiles,
}

#[derive(Serialize)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
}

impl Percentiles {
    fn new(distribution: &Distribution) -> Self {
        let [p50, p90, p99, p99_9] = [0.5, 0.9, 0.99, 0.999].map(|quantile| distribution.quantile(quantile));
        Self { p50, p90, p99, p99_9 }
    }
}

#[derive(Serialize)]
struct RecordingLine<'a> {
    r#type: Option<&'a str>,
    problem: Option<&'a str>,
    start: Option<i64>,
    stop: Option<i64>,
    publishers: Option<usize>,
    nodes: &'a [String],
    rate: f64,
    bandwidth: f64,
    received: u64,
    bytes: Option<u64>,
    lost: Option<u64>,
    out_of_order: Option<u64>,
    unmeasured: u64,
    metrics: BTreeMap<&'a str, MetricLine<'a>>,
    senders: &'a [Publisher],
}
