// SPDX-License-Identifier: Apache-2.0

//! Prometheus's protobuf format: messages `io.prometheus.client.MetricFamily`, each after its length.
//!
//! The messages are those of `io/prometheus/client/metrics.proto` of <https://github.com/prometheus/client_model>, with the
//! fields that are written here.

use std::time::SystemTime;

use prost::{
    bytes::Bytes,
    encoding::{encode_key, encode_varint, WireType},
    Message,
};

use super::{Family, Histogram, Kind, Labels, SummaryValue, Writer, QUANTILES};

/// Writes protobuf.
#[derive(Debug, Default)]
pub struct Protobuf {
    out: Vec<u8>,
    /// The family that is being written, without its metrics.
    family: MetricFamily,
    /// Its metrics, as they are encoded in the family.
    metrics: Vec<u8>,
}

/// The number of the field `metric` of `MetricFamily`.
const METRIC: u32 = 4;

#[derive(Clone, PartialEq, Message)]
pub struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub help: Option<String>,
    #[prost(enumeration = "MetricType", optional, tag = "3")]
    pub r#type: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub metric: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    pub unit: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MetricType {
    Counter = 0,
    Gauge = 1,
    Summary = 2,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub gauge: Option<Gauge>,
    #[prost(message, optional, tag = "3")]
    pub counter: Option<Counter>,
    #[prost(message, optional, tag = "4")]
    pub summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    pub histogram: Option<NativeHistogram>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LabelPair {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Gauge {
    #[prost(double, optional, tag = "1")]
    pub value: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Counter {
    #[prost(double, optional, tag = "1")]
    pub value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub created_timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Summary {
    #[prost(uint64, optional, tag = "1")]
    pub sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub quantile: Vec<Quantile>,
    #[prost(message, optional, tag = "4")]
    pub created_timestamp: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Quantile {
    #[prost(double, optional, tag = "1")]
    pub quantile: Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub value: Option<f64>,
}

/// `Histogram`, without classic buckets.
#[derive(Clone, PartialEq, Message)]
pub struct NativeHistogram {
    #[prost(uint64, optional, tag = "1")]
    pub sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub sample_sum: Option<f64>,
    #[prost(sint32, optional, tag = "5")]
    pub schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub zero_count: Option<u64>,
    #[prost(message, repeated, tag = "9")]
    pub negative_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "10")]
    pub negative_delta: Vec<i64>,
    #[prost(message, repeated, tag = "12")]
    pub positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub positive_delta: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub created_timestamp: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    pub offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub length: Option<u32>,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl From<SystemTime> for Timestamp {
    /// A time before 1970 becomes 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() as i32 }
    }
}

impl Protobuf {
    /// Adds a metric, which has no labels yet.
    fn add(&mut self, labels: &Bytes, metric: &Metric) {
        encode_key(METRIC, WireType::LengthDelimited, &mut self.metrics);
        encode_varint((labels.len() + metric.encoded_len()) as u64, &mut self.metrics);
        self.metrics.extend_from_slice(labels);
        metric.encode_raw(&mut self.metrics);
    }

    fn end_family(&mut self) {
        if !self.metrics.is_empty() {
            encode_varint((self.family.encoded_len() + self.metrics.len()) as u64, &mut self.out);
            self.family.encode_raw(&mut self.out);
            self.out.append(&mut self.metrics);
        }
    }
}

impl Writer for Protobuf {
    const HAS_HISTOGRAMS: bool = true;
    /// The labels, as they are encoded in a metric.
    type Labels = Bytes;

    fn labels(labels: Labels<'_>) -> Bytes {
        let labels = labels.iter().filter(|(_, value)| !value.is_empty());
        let pair = |(name, value): &(&str, &str)| LabelPair {
            name: Some((*name).to_owned()),
            value: Some((*value).to_owned()),
        };
        Metric { label: labels.map(pair).collect(), ..Metric::default() }.encode_to_vec().into()
    }

    type Output = Vec<u8>;

    fn family(&mut self, family: &Family) {
        self.end_family();
        let (kind, suffix) = match family.kind {
            Kind::Counter => (MetricType::Counter, "_total"),
            Kind::Gauge => (MetricType::Gauge, ""),
            Kind::Summary => (MetricType::Summary, ""),
            Kind::Histogram => (MetricType::Histogram, ""),
        };
        self.family = MetricFamily {
            name: Some(format!("{}{suffix}", family.name)),
            help: Some(family.help.clone()),
            r#type: Some(kind.into()),
            metric: vec![],
            unit: Some(family.unit.to_owned()).filter(|unit| !unit.is_empty()),
        };
    }

    fn gauge(&mut self, labels: &Bytes, value: f64) {
        self.add(labels, &Metric { gauge: Some(Gauge { value: Some(value) }), ..Metric::default() });
    }

    fn counter(&mut self, labels: &Bytes, value: f64, created: SystemTime) {
        let counter = Counter { value: Some(value), created_timestamp: Some(created.into()) };
        self.add(labels, &Metric { counter: Some(counter), ..Metric::default() });
    }

    fn summary(&mut self, labels: &Bytes, summary: SummaryValue) {
        let quantile = |(quantile, value): (&f64, Option<f64>)| {
            value.map(|value| Quantile { quantile: Some(*quantile), value: Some(value) })
        };
        let summary = Summary {
            sample_count: Some(summary.count),
            sample_sum: Some(summary.sum),
            quantile: QUANTILES.iter().zip(summary.quantiles).filter_map(quantile).collect(),
            created_timestamp: Some(summary.created.into()),
        };
        self.add(labels, &Metric { summary: Some(summary), ..Metric::default() });
    }

    fn histogram(&mut self, labels: &Bytes, histogram: &Histogram, created: SystemTime) {
        let shift = histogram.shift();
        let (positive_span, positive_delta) = spans(histogram.positive(), shift);
        let (negative_span, negative_delta) = spans(histogram.negative(), shift);
        let histogram = NativeHistogram {
            sample_count: Some(histogram.count()),
            sample_sum: Some(histogram.sum()),
            schema: Some(histogram.scale()),
            zero_threshold: Some(0.0),
            zero_count: Some(histogram.zero_count()),
            negative_span,
            negative_delta,
            positive_span,
            positive_delta,
            created_timestamp: Some(created.into()),
        };
        self.add(labels, &Metric { histogram: Some(histogram), ..Metric::default() });
    }

    fn finish(mut self) -> Vec<u8> {
        self.end_family();
        self.out
    }
}

/// Returns the spans of consecutive buckets, each with the number of empty buckets before it, and the difference of each count
/// from the count before it.
fn spans(buckets: impl Iterator<Item = (i32, u64)>, shift: i32) -> (Vec<BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<BucketSpan>, Vec<i64>) = (vec![], vec![]);
    let (mut next, mut before) = (0, 0_i64);
    for (index, count) in buckets {
        // Prometheus numbers a bucket by its upper boundary, and OpenTelemetry by its lower one.
        let index = index + shift + 1;
        match spans.last_mut() {
            Some(BucketSpan { length: Some(length), .. }) if index == next => *length += 1,
            _ => spans.push(BucketSpan { offset: Some(index - next), length: Some(1) }),
        }
        next = index + 1;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        before = count;
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_buckets_are_one_span() {
        let (spans, deltas) = spans([(-3, 5), (-2, 7), (4, 1)].into_iter(), 0);
        let spans: Vec<_> = spans.iter().map(|span| (span.offset(), span.length())).collect();
        assert_eq!(spans, [(-2, 2), (5, 1)], "buckets -2, -1 and 5 of Prometheus");
        assert_eq!(deltas, [5, 2, -6]);
    }
}
