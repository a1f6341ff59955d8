// SPDX-License-Identifier: Apache-2.0

//! Encodes the state in OTLP: the same metric families as for Prometheus, with names in OpenTelemetry's form.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/metrics/data-model/>. The names at `/metrics` are the OTLP names,
//! translated by the rules of
//! <https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/>.

use std::{
    mem,
    rc::Rc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{any_value, AnyValue, InstrumentationScope, KeyValue},
    metrics::v1::{
        exponential_histogram_data_point::Buckets, metric::Data, number_data_point::Value,
        summary_data_point::ValueAtQuantile, AggregationTemporality, ExponentialHistogram,
        ExponentialHistogramDataPoint, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
        Summary, SummaryDataPoint,
    },
    resource::v1::Resource,
};
use prost::Message;

use crate::{
    exposition::{Family, Labels, SummaryValue, Writer},
    state::{Bucket, Histogram, QUANTILES},
};

/// The largest size of the data points of a request, in bytes. A collector accepts HTTP requests up to 20 MiB. But the
/// collector may forward a request to a gRPC server, which accepts only 4 MiB. These 4 MiB also include names,
/// descriptions and the resource.
const MAX_BYTES: usize = 3 << 20;

/// Returns a resource with these attributes. If several attributes have the same name, the last of them is used.
pub fn resource(attributes: &[(String, String)]) -> Resource {
    let mut unique: Vec<KeyValue> = Vec::new();
    for (name, value) in attributes {
        unique.retain(|attribute| attribute.key != *name);
        unique.push(attribute(name, value));
    }
    Resource { attributes: unique, ..Resource::default() }
}

/// Sums and histograms are cumulative: they include all samples since their start. So if a request is lost, the next
/// request contains the samples of the lost request, and only the resolution in time is lower.
const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// A writer of one report of the state. A large report is split into several requests.
#[derive(Debug)]
pub struct Report<'a> {
    resource: &'a Resource,
    now: SystemTime,
    family: Option<Family>,
    /// The metric of the current family.
    open: Option<Metric>,
    /// The metrics of the previous families, except those that are already in a finished request.
    closed: Vec<Metric>,
    /// The size of the data points that are not in a finished request yet, in bytes.
    bytes: usize,
    requests: Vec<ExportMetricsServiceRequest>,
}

impl<'a> Report<'a> {
    /// Returns an empty report. [`write_state`](crate::exposition::write_state) writes the state to the report.
    pub fn new(resource: &'a Resource, now: SystemTime) -> Self {
        let (closed, requests) = (Vec::new(), Vec::new());
        Self { resource, now, family: None, open: None, closed, bytes: 0, requests }
    }

    fn end_request(&mut self) {
        self.closed.extend(self.open.take());
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
        let resource = Some(self.resource.clone());
        let resource_metrics =
            vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
        self.requests.push(ExportMetricsServiceRequest { resource_metrics });
        self.bytes = 0;
    }

    /// Returns the data of the current family's metric, to which the caller adds `point`. Begins a new request if the
    /// point would make the request too large.
    fn metric(&mut self, data: Data, point: &impl Message) -> Option<&mut Data> {
        let bytes = point.encoded_len();
        if self.bytes + bytes > MAX_BYTES {
            self.end_request();
        }
        self.bytes += bytes;
        let family = self.family.as_ref()?;
        let metric = self.open.get_or_insert_with(|| Metric {
            name: name(family),
            description: family.help.clone(),
            unit: unit(family).to_owned(),
            data: Some(data),
            ..Metric::default()
        });
        metric.data.as_mut()
    }

    fn number(&self, labels: &[KeyValue], value: f64, start: Option<SystemTime>) -> NumberDataPoint {
        NumberDataPoint {
            value: Some(Value::AsDouble(value)),
            attributes: labels.to_vec(),
            start_time_unix_nano: start.map_or(0, nanoseconds),
            time_unix_nano: self.time(start),
            ..NumberDataPoint::default()
        }
    }

    /// Returns the time of a data point. This time is never before the start of the data point, even if the clock was
    /// set back.
    fn time(&self, start: Option<SystemTime>) -> u64 {
        nanoseconds(start.map_or(self.now, |start| start.max(self.now)))
    }
}

impl Writer for Report<'_> {
    const BEGINS_AT_ZERO: bool = false;

    type Labels = Rc<Vec<KeyValue>>;

    type Output = Vec<ExportMetricsServiceRequest>;

    fn labels(labels: Labels<'_>) -> Self::Labels {
        let labels = labels.iter().filter(|(_, value)| !value.is_empty());
        Rc::new(labels.map(|(name, value)| attribute(name, value)).collect())
    }

    fn family(&mut self, family: &Family) {
        self.closed.extend(self.open.take());
        self.family = Some(family.clone());
    }

    fn gauge(&mut self, labels: &Self::Labels, value: f64) {
        let point = self.number(labels, value, None);
        if let Some(Data::Gauge(gauge)) = self.metric(Data::Gauge(Gauge::default()), &point) {
            gauge.data_points.push(point);
        }
    }

    fn counter(&mut self, labels: &Self::Labels, value: f64, created: SystemTime) {
        let point = self.number(labels, value, Some(created));
        let sum = Sum { data_points: Vec::new(), aggregation_temporality: CUMULATIVE, is_monotonic: true };
        if let Some(Data::Sum(sum)) = self.metric(Data::Sum(sum), &point) {
            sum.data_points.push(point);
        }
    }

    fn summary(&mut self, labels: &Self::Labels, summary: SummaryValue) {
        let quantile = |(quantile, value): (&f64, Option<f64>)| {
            value.map(|value| ValueAtQuantile { quantile: *quantile, value })
        };
        let point = SummaryDataPoint {
            attributes: labels.to_vec(),
            start_time_unix_nano: nanoseconds(summary.created),
            time_unix_nano: self.time(Some(summary.created)),
            count: summary.count,
            sum: summary.sum,
            quantile_values: QUANTILES.iter().zip(summary.quantiles).filter_map(quantile).collect(),
            ..SummaryDataPoint::default()
        };
        if let Some(Data::Summary(summary)) = self.metric(Data::Summary(Summary::default()), &point) {
            summary.data_points.push(point);
        }
    }

    fn histogram(
        &mut self,
        labels: &Self::Labels,
        histogram: &Histogram,
        _bounds: &[f64],
        created: SystemTime,
    ) {
        let point = ExponentialHistogramDataPoint {
            attributes: labels.to_vec(),
            start_time_unix_nano: nanoseconds(created),
            time_unix_nano: self.time(Some(created)),
            ..data_point(histogram)
        };
        let histogram = ExponentialHistogram { data_points: Vec::new(), aggregation_temporality: CUMULATIVE };
        if let Some(Data::ExponentialHistogram(histogram)) =
            self.metric(Data::ExponentialHistogram(histogram), &point)
        {
            histogram.data_points.push(point);
        }
    }

    fn finish(mut self) -> Self::Output {
        self.end_request();
        self.requests
    }
}

/// Returns OpenTelemetry's name of a family. The name has a dot after `topic_statistics`. The name does not contain the
/// unit, because OTLP has a separate field for the unit.
fn name(family: &Family) -> String {
    let name = match unit(family) {
        // OpenTelemetry's translation to Prometheus does not add these units to a name, so the name of the family does
        // not end with them.
        "" | "{message}" => &family.name,
        _ => family.name.strip_suffix(family.unit).map_or(&*family.name, |name| name.trim_end_matches('_')),
    };
    name.replacen("topic_statistics_", "topic_statistics.", 1)
}

/// Returns the unit of a family in the notation of UCUM (Unified Code for Units of Measure).
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

/// The largest number of buckets for each sign. All receivers accept this number, the default of OpenTelemetry's SDKs.
const MAX_BUCKETS: i64 = 160;

/// Returns a data point with all samples of a histogram. Its attributes and times are not set.
///
/// Buckets are joined in pairs until [`MAX_BUCKETS`] consecutive buckets are enough for all samples.
fn data_point(histogram: &Histogram) -> ExponentialHistogramDataPoint {
    let shift = i64::from(histogram.shift());
    let sides = [&histogram.positive, &histogram.negative];
    let joined = sides.iter().map(|side| joined_scales(side, shift)).max().unwrap_or_default();
    let [positive, negative] =
        sides.map(|side| Some(buckets(side, shift, joined)).filter(|_| !side.is_empty()));
    ExponentialHistogramDataPoint {
        count: histogram.count,
        // OTLP requires that a histogram with negative samples has no sum.
        sum: negative.is_none().then(|| histogram.sum()),
        scale: histogram.scale - joined as i32,
        zero_count: histogram.zero_count,
        positive,
        negative,
        ..ExponentialHistogramDataPoint::default()
    }
}

/// Returns how many times the buckets of one sign have to be joined in pairs. The index of a bucket plus `shift` is the
/// index of this bucket in the base unit.
fn joined_scales(side: &[Bucket], shift: i64) -> u32 {
    let (Some((first, _)), Some((last, _))) = (side.first(), side.last()) else { return 0 };
    let [first, last] = [first, last].map(|index| i64::from(*index) + shift);
    let fits = |joined: &u32| (last >> joined) - (first >> joined) < MAX_BUCKETS;
    (0..u32::BITS).find(fits).unwrap_or(u32::BITS)
}

fn buckets(side: &[Bucket], shift: i64, joined: u32) -> Buckets {
    let index = |index: &i32| (i64::from(*index) + shift) >> joined;
    let offset = side.first().map_or(0, |(first, _)| index(first));
    let mut counts = Vec::new();
    for (bucket, count) in side {
        let place = usize::try_from(index(bucket) - offset).unwrap_or_default();
        counts.resize(counts.len().max(place + 1), 0);
        counts[place] += count;
    }
    Buckets { offset: offset as i32, bucket_counts: counts }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Instant};

    use proptest::prelude::*;
    use rclrs_topic_statistics::Metric as Known;
    use topic_statistics_observe::ros::{
        testing::{message, status, FIGURES},
        wire::{Diagnostic, Losses, MetricWindow},
    };

    use super::*;
    use crate::{
        exposition::{write_state, Format},
        model::Received,
        state::{Limits, Now, PushCounts, State},
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns a window of one second that ends at `stop` (s), with 50 samples.
    fn window(source: &str, metric: Known, stop: i32) -> Received {
        let message = message(source, metric.name(), metric.unit(), stop, FIGURES);
        MetricWindow::new(&message).unwrap().into()
    }

    fn losses() -> Received {
        Losses { node: "/a".to_owned(), topic: "/b".to_owned(), lost: 5 }.into()
    }

    fn report(state: &State, now: SystemTime) -> Vec<ExportMetricsServiceRequest> {
        write_state(state, Instant::now(), 0.0, Report::new(&resource(&[]), now))
    }

    fn metrics(requests: &[ExportMetricsServiceRequest]) -> impl Iterator<Item = &Metric> {
        let resources = requests.iter().flat_map(|request| &request.resource_metrics);
        resources.flat_map(|resource| &resource.scope_metrics).flat_map(|scope| &scope.metrics)
    }

    /// Returns the start time, the time (both in seconds after `start`) and the value of each data point of a sum.
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
    fn sums_begin_with_their_source_and_scrapes_take_nothing() {
        let start = Now::read();
        let at = |seconds: u32| Now {
            monotonic: start.monotonic + seconds * SECOND,
            system: start.system + seconds * SECOND,
        };
        let mut state = State::new(Limits::default(), start);
        // The source publishes nothing from 5 s to 90 s.
        for (time, stops, expected) in [
            (1, 1..2, (0.0, 1.0, 50.0)),
            (3, 3..5, (0.0, 3.0, 150.0)),
            (5, 0..0, (0.0, 5.0, 150.0)),
            (90, 90..91, (89.0, 90.0, 50.0)),
        ] {
            state.expire(at(time).monotonic);
            for stop in stops {
                state.accept(Ok(window("/a:/b", Known::MessageAge, stop)), at(time));
            }
            let requests = report(&state, at(time).system);
            assert_eq!(sums(&requests, "messages_received", start.system), [expected]);
        }
        state.accept(Ok(losses()), at(90));
        for _ in 0..2 {
            // If the clock is set back, the time of a data point is still not before its start time.
            let requests = report(&state, start.system - 3600 * SECOND);
            assert!(sums(&requests, "", start.system).iter().all(|(start, time, _)| time >= start));
            assert_eq!(sums(&requests, "messages_reported_lost", start.system)[0].2, 5.0);
            state.begin_scrape();
        }
    }

    /// The test fails if a request is larger than 4 MiB. A collector may forward a request to a gRPC server, which
    /// accepts only 4 MiB.
    #[test]
    fn a_large_report_is_several_requests() {
        let now = Now::read();
        let mut state = State::new(Limits::default(), now);
        let long = "ü".repeat(180);
        for source in 0..2000 {
            let name = format!("/{long}{source}:/{long}{source}");
            state.accept(Ok(window(&name, Known::MessageAge, 1)), now);
        }
        let requests = report(&state, now.system);
        let sizes: Vec<usize> = requests.iter().map(Message::encoded_len).collect();
        let (last, full) = sizes.split_last().unwrap();
        assert!(full.len() >= 2, "{sizes:?}");
        assert!(full.iter().all(|size| (2 << 20..4 << 20).contains(size)) && *last < 4 << 20, "{sizes:?}");
        assert_eq!(sums(&requests, "messages_received", now.system).len(), 2000);
    }

    /// Returns a metric's name in Prometheus, by OpenTelemetry's translation rules. These rules ignore units in braces.
    fn translated(metric: &Metric) -> String {
        let units = [("s", "_seconds"), ("By", "_bytes"), ("Hz", "_hertz"), ("", ""), ("{message}", "")];
        let (_, unit) = units.iter().find(|(unit, _)| metric.unit == *unit).unwrap();
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
        state.accept(Ok(losses()), now);
        state.accept(Ok(Diagnostic::new(&status("a", 0, &[])).unwrap().into()), now);
        state.push = Some(PushCounts::default());
        let text = String::from_utf8(Format::Text.encode(&state, now.monotonic, 0.0, vec![])).unwrap();
        let pulled: BTreeSet<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .map(str::to_owned)
            .collect();
        let requests = report(&state, now.system);
        assert_eq!(metrics(&requests).map(translated).collect::<BTreeSet<_>>(), pulled);
        let mut metrics = metrics(&requests);
        assert!(metrics
            .all(|metric| metric.name.starts_with("topic_statistics.") && !metric.description.is_empty()));
        assert!(pulled.contains("topic_statistics_message_age_mean_seconds"));
    }

    #[test]
    fn the_last_of_two_equal_attributes_counts() {
        let pairs = [("a", "1"), ("b", "2"), ("a", "3")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(resource(&pairs).attributes, [attribute("b", "2"), attribute("a", "3")]);
    }

    #[test]
    fn the_161st_bucket_halves_the_resolution() {
        for (first, last, joined) in [(0, 159, 0), (0, 160, 1), (0, 318, 1), (-1, 319, 2), (0, 320, 2)] {
            assert_eq!(joined_scales(&[(first, 1), (last, 1)], 0), joined, "{first} to {last}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn joined_buckets_have_all_samples_in_their_places(
            counts in prop::collection::btree_map(-3000..3000_i32, 1..9_u64, 0..40),
            shift in -400..400_i64,
        ) {
            let side: Vec<_> = counts.into_iter().collect();
            let joined = joined_scales(&side, shift);
            let Buckets { offset, bucket_counts } = buckets(&side, shift, joined);
            prop_assert!(bucket_counts.len() <= 160);
            prop_assert_eq!(
                bucket_counts.iter().sum::<u64>(),
                side.iter().map(|(_, count)| count).sum::<u64>()
            );
            for (index, count) in (offset..).zip(bucket_counts) {
                let of_bucket = side.iter().filter(|(of, _)| (i64::from(*of) + shift) >> joined == i64::from(index));
                prop_assert_eq!(of_bucket.map(|(_, count)| count).sum::<u64>(), count);
            }
        }
    }
}
