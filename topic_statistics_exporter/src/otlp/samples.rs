// SPDX-License-Identifier: Apache-2.0

//! A histogram as OTLP has it: consecutive buckets, of all samples or of those since the report before.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::metrics::v1::{
    exponential_histogram_data_point::Buckets, ExponentialHistogramDataPoint,
};

use crate::state::Histogram;

/// The most buckets that are sent of each sign: the default of OpenTelemetry's SDKs, which every reader takes.
const MAX_BUCKETS: i64 = 160;

/// The samples of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    scale: i32,
    /// From the index of a bucket to that of the base unit.
    shift: i32,
    positive: BTreeMap<i32, u64>,
    negative: BTreeMap<i32, u64>,
    zero_count: u64,
    count: u64,
    /// In the base unit.
    sum: f64,
}

impl Samples {
    /// All samples of a histogram.
    pub fn of(histogram: &Histogram) -> Self {
        Self {
            scale: histogram.scale(),
            shift: histogram.shift(),
            positive: histogram.positive().collect(),
            negative: histogram.negative().collect(),
            zero_count: histogram.zero_count(),
            count: histogram.count(),
            sum: histogram.sum(),
        }
    }

    /// The samples that the same histogram did not have yet at an earlier time.
    pub fn since(&self, earlier: &Self) -> Self {
        // A scale never rises.
        let joined = earlier.scale - self.scale;
        Self {
            positive: difference(&self.positive, &earlier.positive, joined),
            negative: difference(&self.negative, &earlier.negative, joined),
            zero_count: self.zero_count.saturating_sub(earlier.zero_count),
            count: self.count.saturating_sub(earlier.count),
            sum: self.sum - earlier.sum,
            ..*self
        }
    }

    /// A data point without attributes and times. Buckets are joined in pairs until [`MAX_BUCKETS`] cover all samples.
    pub fn data_point(&self) -> ExponentialHistogramDataPoint {
        let ranges = [&self.positive, &self.negative].map(|side| self.range(side));
        let is_too_wide = |joined: u32| {
            ranges.iter().flatten().any(|(first, last)| (last >> joined) - (first >> joined) >= MAX_BUCKETS)
        };
        let joined = (0..u32::BITS).find(|joined| !is_too_wide(*joined)).unwrap_or(u32::BITS);
        let [positive, negative] = [&self.positive, &self.negative]
            .map(|side| Some(self.buckets(side, joined)).filter(|_| !side.is_empty()));
        ExponentialHistogramDataPoint {
            count: self.count,
            // OTLP: no sum where there are negative samples.
            sum: self.negative.is_empty().then_some(self.sum),
            scale: self.scale - joined as i32,
            zero_count: self.zero_count,
            positive,
            negative,
            ..ExponentialHistogramDataPoint::default()
        }
    }

    /// The indices of the first and the last bucket, in the base unit.
    fn range(&self, side: &BTreeMap<i32, u64>) -> Option<(i64, i64)> {
        let (first, last) = side.first_key_value().zip(side.last_key_value())?;
        Some((self.index(*first.0), self.index(*last.0)))
    }

    fn index(&self, index: i32) -> i64 {
        i64::from(index) + i64::from(self.shift)
    }

    fn buckets(&self, side: &BTreeMap<i32, u64>, joined: u32) -> Buckets {
        let offset = self.range(side).map_or(0, |(first, _)| first >> joined);
        let mut counts = Vec::new();
        for (index, count) in side {
            let place = usize::try_from((self.index(*index) >> joined) - offset).unwrap_or_default();
            counts.resize(counts.len().max(place + 1), 0);
            counts[place] += count;
        }
        Buckets { offset: offset as i32, bucket_counts: counts }
    }
}

/// The buckets of one sign without those of an earlier time, of which so many scales have been given up since.
fn difference(now: &BTreeMap<i32, u64>, earlier: &BTreeMap<i32, u64>, joined: i32) -> BTreeMap<i32, u64> {
    let mut left = now.clone();
    for (index, count) in earlier {
        if let Some(bucket) = left.get_mut(&(index >> joined)) {
            *bucket = bucket.saturating_sub(*count);
        }
    }
    left.retain(|_, count| *count > 0);
    left
}
