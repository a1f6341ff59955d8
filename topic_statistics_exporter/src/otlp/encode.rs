// SPDX-License-Identifier: Apache-2.0

//! The state in OTLP: the same families as for Prometheus, by OpenTelemetry's names.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/metrics/data-model/>. What a reader makes of the names for
//! Prometheus, by
//! <https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/>, are the names of `/metrics`.

use std::{
    collections::HashMap,
    mem,
    rc::Rc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{any_value, AnyValue, InstrumentationScope, KeyValue},
    metrics::v1::{
        metric::Data, number_data_point::Value, summary_data_point::ValueAtQuantile, AggregationTemporality,
        ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric, NumberDataPoint, ResourceMetrics,
        ScopeMetrics, Sum, Summary, SummaryDataPoint,
    },
    resource::v1::Resource,
};
use prost::Message;

use super::{environment::Temporality, samples::Samples};
use crate::{
    exposition::{Family, Labels, SummaryValue, Writer},
    state::{Histogram, QUANTILES},
};

/// The largest size of the data points of a request, in bytes. An HTTP server takes 20 MiB and a gRPC server 4 MiB,
/// including names, descriptions and the resource.
const MAX_BYTES: usize = 3 << 20;

/// Makes requests. Each continues the one before.
#[derive(Debug)]
pub struct Encoder {
    resource: Resource,
    temporality: Temporality,
    /// The values of the last report, by family and labels. Empty unless deltas are sent.
    before: HashMap<String, Before>,
    /// When the last report was made.
    last: Option<SystemTime>,
}

/// The values of a time series in the report before.
#[derive(Clone, Debug)]
struct Before {
    created: SystemTime,
    value: Cumulative,
}

#[derive(Clone, Debug)]
enum Cumulative {
    Number(f64),
    Samples(Samples),
}

impl Encoder {
    /// An encoder of a robot's state, with these attributes. Of two with the same name, the last one counts.
    pub fn new(attributes: &[(String, String)], temporality: Temporality) -> Self {
        let mut unique: Vec<KeyValue> = Vec::new();
        for (name, value) in attributes {
            unique.retain(|attribute| attribute.key != *name);
            unique.push(attribute(name, value));
        }
        let resource = Resource { attributes: unique, ..Resource::default() };
        Self { resource, temporality, before: HashMap::new(), last: None }
    }

    /// A report of the present state, which [`write_state`](crate::exposition::write_state) writes to it.
    pub fn report(&mut self, now: SystemTime) -> Report<'_> {
        Report {
            now,

            family: None,
            open: Vec::new(),
            closed: Vec::new(),
            bytes: 0,
            requests: Vec::new(),
            after: HashMap::new(),
            encoder: self,
        }
    }
}

/// Writes one report: one request, or some if it is large.
#[derive(Debug)]
pub struct Report<'a> {
    encoder: &'a mut Encoder,
    now: SystemTime,
    family: Option<Family>,
    /// The metrics of this family.
    open: Vec<Metric>,
    /// Those of the families before it.
    closed: Vec<Metric>,
    /// Of the data points that are no request yet.
    bytes: usize,
    requests: Vec<ExportMetricsServiceRequest>,
    after: HashMap<String, Before>,
}

/// The labels of a time series, as its data points have them, and as the key of its last values.
#[derive(Debug)]
pub struct Attributes {
    values: Vec<KeyValue>,
    key: String,
}

impl Report<'_> {
    fn end_request(&mut self) {
        self.closed.append(&mut self.open);
        if self.closed.is_empty() {
            return;
        }
        let scope = InstrumentationScope {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let metrics = mem::take(&mut self.closed);
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.encoder.resource.clone());
        let resource_metrics =
            vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
        self.requests.push(ExportMetricsServiceRequest { resource_metrics });
        self.bytes = 0;
    }

    /// The metric that is called as the family and `part`, for one more data point.
    fn metric(&mut self, part: &str, data: Data, point: &impl Message) -> Option<&mut Data> {
        let bytes = point.encoded_len();
        if self.bytes + bytes > MAX_BYTES {
            self.end_request();
        }
        self.bytes += bytes;
        let family = self.family.as_ref()?;
        let name = format!("{}{part}", name(family));
        let index = self.open.iter().position(|metric| metric.name == name).unwrap_or_else(|| {
            let unit = if part == COUNT { "" } else { unit(family) };
            self.open.push(Metric {
                name,
                description: family.help.clone(),
                unit: unit.to_owned(),
                data: Some(data),
                ..Metric::default()
            });
            self.open.len() - 1
        });
        self.open[index].data.as_mut()
    }

    fn sum(&mut self, part: &str, labels: &Attributes, value: f64, created: SystemTime) {
        let (start, before) = self.before(part, labels, created, || Cumulative::Number(value));
        let value = match before {
            Some(Cumulative::Number(before)) => (value - before).max(0.0),
            _ => value,
        };
        let point =
            NumberDataPoint { value: Some(Value::AsDouble(value)), ..self.number(labels, Some(start)) };
        let aggregation_temporality = self.aggregation_temporality();
        let sum = Sum { data_points: Vec::new(), aggregation_temporality, is_monotonic: true };
        if let Some(Data::Sum(sum)) = self.metric(part, Data::Sum(sum), &point) {
            sum.data_points.push(point);
        }
    }

    /// The start of the samples of a time series to send, and its values before that, which are not sent.
    fn before(
        &mut self,
        part: &str,
        labels: &Attributes,
        created: SystemTime,
        value: impl FnOnce() -> Cumulative,
    ) -> (SystemTime, Option<Cumulative>) {
        if self.encoder.temporality == Temporality::Cumulative {
            return (created, None);
        }
        let mut key =
            self.family.as_ref().map_or_else(String::new, |family| format!("{}{part}", family.name));
        key.push_str(&labels.key);
        let before = self.encoder.before.remove(&key).filter(|before| before.created == created);
        self.after.insert(key, Before { created, value: value() });
        match (before, self.encoder.last) {
            (Some(before), Some(last)) => (last, Some(before.value)),
            _ => (created, None),
        }
    }

    fn number(&self, labels: &Attributes, start: Option<SystemTime>) -> NumberDataPoint {
        NumberDataPoint {
            attributes: labels.values.clone(),
            start_time_unix_nano: start.map_or(0, nanoseconds),
            time_unix_nano: self.time(start),
            ..NumberDataPoint::default()
        }
    }

    /// The time of a data point: never before its start, even if the system clock was set back since.
    fn time(&self, start: Option<SystemTime>) -> u64 {
        nanoseconds(start.map_or(self.now, |start| start.max(self.now)))
    }

    fn aggregation_temporality(&self) -> i32 {
        match self.encoder.temporality {
            Temporality::Cumulative => AggregationTemporality::Cumulative.into(),
            Temporality::Delta => AggregationTemporality::Delta.into(),
        }
    }
}

/// The part of a name that says: how many samples.
const COUNT: &str = "_count";

impl Writer for Report<'_> {
    const BEGINS_AT_ZERO: bool = false;

    type Labels = Rc<Attributes>;

    type Output = Vec<ExportMetricsServiceRequest>;

    fn labels(labels: Labels<'_>) -> Rc<Attributes> {
        let labels = labels.iter().filter(|(_, value)| !value.is_empty());
        // No label has a control character.
        let key = labels.clone().flat_map(|(name, value)| ["\0", name, "\0", value]).collect();
        Rc::new(Attributes { values: labels.map(|(name, value)| attribute(name, value)).collect(), key })
    }

    fn family(&mut self, family: &Family) {
        self.closed.append(&mut self.open);
        self.family = Some(family.clone());
    }

    fn gauge(&mut self, labels: &Rc<Attributes>, value: f64) {
        let point = NumberDataPoint { value: Some(Value::AsDouble(value)), ..self.number(labels, None) };
        if let Some(Data::Gauge(gauge)) = self.metric("", Data::Gauge(Gauge::default()), &point) {
            gauge.data_points.push(point);
        }
    }

    fn counter(&mut self, labels: &Rc<Attributes>, value: f64, created: SystemTime) {
        self.sum("", labels, value, created);
    }

    /// A summary of OTLP is cumulative. Its deltas are two sums.
    fn summary(&mut self, labels: &Rc<Attributes>, summary: SummaryValue) {
        if self.encoder.temporality == Temporality::Delta {
            self.sum(COUNT, labels, summary.count as f64, summary.created);
            self.sum("_sum", labels, summary.sum, summary.created);
            return;
        }
        let quantile = |(quantile, value): (&f64, Option<f64>)| {
            value.map(|value| ValueAtQuantile { quantile: *quantile, value })
        };
        let point = SummaryDataPoint {
            attributes: labels.values.clone(),
            start_time_unix_nano: nanoseconds(summary.created),
            time_unix_nano: self.time(Some(summary.created)),
            count: summary.count,
            sum: summary.sum,
            quantile_values: QUANTILES.iter().zip(summary.quantiles).filter_map(quantile).collect(),
            ..SummaryDataPoint::default()
        };
        if let Some(Data::Summary(summary)) = self.metric("", Data::Summary(Summary::default()), &point) {
            summary.data_points.push(point);
        }
    }

    fn histogram(
        &mut self,
        labels: &Rc<Attributes>,
        histogram: &Histogram,
        _bounds: &[f64],
        created: SystemTime,
    ) {
        let samples = Samples::of(histogram);
        let (start, before) = self.before("", labels, created, || Cumulative::Samples(samples.clone()));
        let samples = match before {
            Some(Cumulative::Samples(before)) => samples.since(&before),
            _ => samples,
        };
        let point = ExponentialHistogramDataPoint {
            attributes: labels.values.clone(),
            start_time_unix_nano: nanoseconds(start),
            time_unix_nano: self.time(Some(start)),
            ..samples.data_point()
        };
        let aggregation_temporality = self.aggregation_temporality();
        let histogram = ExponentialHistogram { data_points: Vec::new(), aggregation_temporality };
        if let Some(Data::ExponentialHistogram(histogram)) =
            self.metric("", Data::ExponentialHistogram(histogram), &point)
        {
            histogram.data_points.push(point);
        }
    }

    fn finish(mut self) -> Self::Output {
        self.end_request();
        self.encoder.before = mem::take(&mut self.after);
        self.encoder.last = Some(self.now);
        self.requests
    }
}

/// OpenTelemetry's name of a family: with a dot after the namespace, and without the unit, which is a field of its own.
fn name(family: &Family) -> String {
    let name = match unit(family) {
        // A reader gives them no place in a name.
        "" | "{message}" => &family.name,
        _ => family.name.strip_suffix(family.unit).map_or(&*family.name, |name| name.trim_end_matches('_')),
    };
    name.replacen("topic_statistics_", "topic_statistics.", 1)
}

/// The unit of a family in UCUM's notation.
fn unit(family: &Family) -> &'static str {
    match family.unit {
        "seconds" => "s",
        "bytes" => "By",
        "hertz" => "Hz",
        "messages" => "{message}",
        _ => "",
    }
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: name.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since: Duration = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Instant};

    use rclrs_topic_statistics::Metric as Known;

    use super::*;
    use crate::{
        exposition::{write_state, Format},
        model::{
            Diagnostic, DiagnosticName, Figures, Level, Losses, MetricName, MetricWindow, Received,
            SourceName, Window,
        },
        state::{Limits, Now, PushCounts, State},
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn window(source: &str, metric: Known, stop: i64) -> Received {
        let figure = Some(0.002);
        let figures = Figures { mean: figure, min: figure, max: figure, std_dev: Some(0.0), count: 50 };
        Received::Window(MetricWindow {
            source: SourceName::new(source),
            metric: MetricName::Known(metric),
            window: Window { start: stop - 1_000_000_000, stop },
            figures,
        })
    }

    fn report(encoder: &mut Encoder, state: &State, now: SystemTime) -> Vec<ExportMetricsServiceRequest> {
        write_state(state, Instant::now(), 0.0, encoder.report(now))
    }

    fn metrics(requests: &[ExportMetricsServiceRequest]) -> impl Iterator<Item = &Metric> {
        let resources = requests.iter().flat_map(|request| &request.resource_metrics);
        resources.flat_map(|resource| &resource.scope_metrics).flat_map(|scope| &scope.metrics)
    }

    /// Start and time (s since `start`), and the value, of each point of a sum.
    fn sums(requests: &[ExportMetricsServiceRequest], name: &str, start: SystemTime) -> Vec<(f64, f64, f64)> {
        let since = |time: u64| ((time as f64 - nanoseconds(start) as f64) / 1e9).round();
        let sum = |metric: &Metric| match &metric.data {
            Some(Data::Sum(sum)) if metric.name.contains(name) => sum.data_points.clone(),
            _ => vec![],
        };
        let points = metrics(requests).flat_map(sum).map(|point| {
            let Some(Value::AsDouble(value)) = point.value else { panic!("{point:?}") };
            (since(point.start_time_unix_nano), since(point.time_unix_nano), value)
        });
        points.collect()
    }

    #[test]
    fn each_sum_begins_at_its_source_or_where_the_last_report_ended() {
        let start = Now::read();
        let at = |seconds: u32| Now {
            monotonic: start.monotonic + seconds * SECOND,
            system: start.system + seconds * SECOND,
        };
        for (temporality, expected) in [
            (Temporality::Delta, [(0.0, 2.0, 50.0), (2.0, 4.0, 100.0), (4.0, 5.0, 0.0), (89.0, 100.0, 50.0)]),
            (
                Temporality::Cumulative,
                [(0.0, 2.0, 50.0), (0.0, 4.0, 150.0), (0.0, 5.0, 150.0), (89.0, 100.0, 50.0)],
            ),
        ] {
            let mut encoder = Encoder::new(&[], temporality);
            let mut state = State::new(Limits::default(), start);
            let mut seen = vec![];
            // From 5 s to 90 s the source is away.
            for (time, stops) in
                [(1, 1..2), (2, 2..2), (3, 3..5), (4, 0..0), (5, 0..0), (90, 90..91), (100, 0..0)]
            {
                state.expire(at(time).monotonic);
                for stop in stops {
                    state.accept(Ok(window("/a:/b", Known::MessageAge, stop * 1_000_000_000)), at(time));
                }
                if [2, 4, 5, 100].contains(&time) {
                    let requests = report(&mut encoder, &state, at(time).system);
                    seen.extend(sums(&requests, "topic_statistics.messages_received", start.system));
                }
            }
            assert_eq!(seen, expected);
            // No time lies before its start if the clock is set back.
            let requests = report(&mut encoder, &state, start.system - 3600 * SECOND);
            assert!(sums(&requests, "", start.system).iter().all(|(start, time, _)| time >= start));
        }
    }

    #[test]
    fn a_scrape_takes_nothing_from_a_report() {
        let start = Now::read();
        let mut state = State::new(Limits::default(), start);
        let source = SourceName::new("/a:/b");
        state.accept(Ok(Received::Losses(Losses { source, lost: 5 })), start);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let pairs = [pair("a", "1"), pair("b", "2"), pair("a", "3")];
        let mut encoder = Encoder::new(&pairs, Temporality::Cumulative);
        assert_eq!(encoder.resource.attributes, [attribute("b", "2"), attribute("a", "3")]);
        for _ in 0..2 {
            let requests = report(&mut encoder, &state, start.system);
            assert_eq!(sums(&requests, "messages_reported_lost", start.system)[0].2, 5.0);
            state.begin_scrape();
        }
    }

    /// A server of gRPC takes 4 MiB, unless it is told otherwise.
    #[test]
    fn a_large_report_is_some_requests_that_a_collector_takes() {
        let now = Now::read();
        let mut state = State::new(Limits::default(), now);
        let long = "ü".repeat(240);
        for source in 0..1500 {
            let name = format!("/{long}{source}:/{long}{source}");
            state.accept(Ok(window(&name, Known::MessageAge, 1)), now);
        }
        let requests = report(&mut Encoder::new(&[], Temporality::Cumulative), &state, now.system);
        let sizes: Vec<usize> = requests.iter().map(Message::encoded_len).collect();
        let (last, full) = sizes.split_last().unwrap();
        assert!(full.len() >= 2, "{sizes:?}");
        assert!(full.iter().all(|size| (2 << 20..4 << 20).contains(size)) && *last < 4 << 20, "{sizes:?}");
        assert_eq!(sums(&requests, "messages_received", now.system).len(), 1500);
    }

    /// A metric's name after OpenTelemetry's rules for Prometheus.
    fn translated(metric: &Metric) -> String {
        let unit = match metric.unit.as_str() {
            "s" => "_seconds",
            "By" => "_bytes",
            "Hz" => "_hertz",
            // Annotations in braces have no part in a name.
            "" | "{message}" => "",
            unit => panic!("{unit}"),
        };
        let total = if matches!(metric.data, Some(Data::Sum(_))) { "_total" } else { "" };
        format!("{}{unit}{total}", metric.name.replace('.', "_"))
    }

    #[test]
    fn names_become_those_of_the_pull_side() {
        let now = Now::read();
        let mut state = State::new(Limits::default(), now);
        for metric in Known::ALL {
            state.accept(Ok(window("/a:/b", *metric, 1)), now);
        }
        let source = SourceName::new("/a:/b");
        state.accept(Ok(Received::Losses(Losses { source, lost: 1 })), now);
        let name = DiagnosticName { name: "a".into(), hardware_id: "b".into() };
        state.accept(Ok(Received::Diagnostic(Diagnostic { name, level: Level::Ok, health: None })), now);
        state.set_push(PushCounts::default());
        let text = String::from_utf8(Format::Text.encode(&state, now.monotonic, 0.0, vec![])).unwrap();
        let pulled = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .map(str::to_owned);
        let requests = report(&mut Encoder::new(&[], Temporality::Cumulative), &state, now.system);
        let pushed: BTreeSet<String> = metrics(&requests).map(translated).collect();
        assert_eq!(pushed, pulled.collect::<BTreeSet<_>>());
        assert!(metrics(&requests)
            .all(|metric| metric.name.starts_with("topic_statistics.") && !metric.description.is_empty()));
        assert!(pushed.contains("topic_statistics_message_age_mean_seconds"));
    }
}
