// SPDX-License-Identifier: Apache-2.0

//! Writes Prometheus's protobuf format: messages `io.prometheus.client.MetricFamily`. The length of each message is
//! written before the message.
//!
//! The messages are defined in `io/prometheus/client/metrics.proto` of <https://github.com/prometheus/client_model>.
//! The fields are written directly to the output, without structs in memory: a large state has millions of fields.

use std::{rc::Rc, time::SystemTime};

use prost::encoding::{
    double, encode_key, encode_varint, int32, int64, sint32, string, uint32, uint64, WireType,
};

use super::writer::{Family, Kind, Labels, SummaryValue, Writer};
use crate::state::{Bucket, Histogram, QUANTILES};

#[derive(Debug)]
pub struct Protobuf {
    out: Vec<u8>,
    /// The offset in `out` where the current family begins.
    family: usize,
    /// The offset in `out` where the metrics of the current family begin.
    metrics: usize,
}

impl Protobuf {
    /// Returns a writer that uses the memory of `out`.
    pub fn new(mut out: Vec<u8>) -> Self {
        out.clear();
        Self { out, family: 0, metrics: 0 }
    }

    /// Writes a metric: its labels, and a message with its value. `value` is the number of this message's field.
    fn metric(&mut self, labels: &[u8], value: u32, write: impl FnOnce(&mut Vec<u8>)) {
        message(&mut self.out, 4, |out| {
            out.extend_from_slice(labels);
            message(out, value, write);
        });
    }

    fn end_family(&mut self) {
        if self.out.len() == self.metrics {
            self.out.truncate(self.family);
        } else {
            prefix_length(&mut self.out, self.family);
        }
    }
}

impl Writer for Protobuf {
    const BEGINS_AT_ZERO: bool = true;

    type Labels = Rc<[u8]>;

    fn labels(labels: Labels<'_>) -> Rc<[u8]> {
        let mut out = vec![];
        for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            message(&mut out, 1, |out| {
                text(out, 1, name);
                text(out, 2, value);
            });
        }
        out.into()
    }

    type Output = Vec<u8>;

    fn family(&mut self, family: &Family) {
        self.end_family();
        let (kind, suffix) = match family.kind {
            Kind::Counter => (0, "_total"),
            Kind::Gauge => (1, ""),
            Kind::Summary => (2, ""),
            Kind::Histogram => (4, ""),
        };
        self.family = self.out.len();
        string::encode(1, &format!("{}{suffix}", family.name), &mut self.out);
        string::encode(2, &family.help, &mut self.out);
        int32::encode(3, &kind, &mut self.out);
        if !family.unit.is_empty() {
            text(&mut self.out, 5, family.unit);
        }
        self.metrics = self.out.len();
    }

    fn gauge(&mut self, labels: &Rc<[u8]>, value: f64) {
        self.metric(labels, 2, |out| double::encode(1, &value, out));
    }

    fn counter(&mut self, labels: &Rc<[u8]>, value: f64, created: SystemTime) {
        self.metric(labels, 3, |out| {
            double::encode(1, &value, out);
            timestamp(out, 3, created);
        });
    }

    fn summary(&mut self, labels: &Rc<[u8]>, summary: SummaryValue) {
        self.metric(labels, 4, |out| {
            uint64::encode(1, &summary.count, out);
            double::encode(2, &summary.sum, out);
            for (quantile, value) in QUANTILES.iter().zip(summary.quantiles) {
                if let Some(value) = value {
                    message(out, 3, |out| {
                        double::encode(1, quantile, out);
                        double::encode(2, &value, out);
                    });
                }
            }
            timestamp(out, 4, summary.created);
        });
    }

    fn histogram(&mut self, labels: &Rc<[u8]>, histogram: &Histogram, bounds: &[f64], created: SystemTime) {
        let shift = histogram.shift();
        self.metric(labels, 7, |out| {
            uint64::encode(1, &histogram.count, out);
            double::encode(2, &histogram.sum(), out);
            for bound in bounds {
                message(out, 3, |out| {
                    uint64::encode(1, &histogram.count_up_to(*bound), out);
                    double::encode(2, bound, out);
                });
            }
            sint32::encode(5, &histogram.scale, out);
            double::encode(6, &0.0, out); // the zero threshold
            uint64::encode(7, &histogram.zero_count, out);
            spans(out, 9, &histogram.negative, shift);
            deltas(out, 10, &histogram.negative);
            spans(out, 12, &histogram.positive, shift);
            deltas(out, 13, &histogram.positive);
            timestamp(out, 15, created);
        });
    }

    fn finish(mut self) -> Vec<u8> {
        self.end_family();
        self.out
    }
}

/// Writes each span of consecutive buckets: the number of empty buckets before the span, and the span's length.
fn spans(out: &mut Vec<u8>, field: u32, buckets: &[Bucket], shift: i32) {
    let mut next = 0;
    for span in buckets.chunk_by(|(index, _), (following, _)| index + 1 == *following) {
        // Prometheus numbers a bucket by its upper boundary, but OpenTelemetry by its lower boundary. So 1 is added.
        let first = span[0].0 + shift + 1;
        message(out, field, |out| {
            sint32::encode(1, &(first - next), out);
            uint32::encode(2, &(span.len() as u32), out);
        });
        next = first + span.len() as i32;
    }
}

/// Writes the difference between each count and the previous count, as a packed field. Packing halves the field's size.
fn deltas(out: &mut Vec<u8>, field: u32, buckets: &[Bucket]) {
    if buckets.is_empty() {
        return;
    }
    let mut before = 0;
    message(out, field, |out| {
        for (_, count) in buckets {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let delta = count - before;
            // This is the zigzag encoding of `sint64`. In this encoding, a number near 0 needs few bytes.
            encode_varint(((delta << 1) ^ (delta >> 63)) as u64, out);
            before = count;
        }
    });
}

/// Writes a `google.protobuf.Timestamp`. A time before 1970 is written as the start of 1970.
fn timestamp(out: &mut Vec<u8>, field: u32, time: SystemTime) {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    message(out, field, |out| {
        int64::encode(1, &(since.as_secs() as i64), out);
        int32::encode(2, &(since.subsec_nanos() as i32), out);
    });
}

fn text(out: &mut Vec<u8>, field: u32, text: &str) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    encode_key(field, WireType::LengthDelimited, out);
    let begin = out.len();
    write(out);
    prefix_length(out, begin);
}

/// Inserts, at the offset `begin`, the length of the bytes from `begin` to the end.
fn prefix_length(out: &mut Vec<u8>, begin: usize) {
    let end = out.len();
    encode_varint((end - begin) as u64, out);
    let length = out.len() - end;
    out[begin..].rotate_right(length);
}
