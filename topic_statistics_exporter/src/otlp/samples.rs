// SPDX-License-Identifier: Apache-2.0

//! A histogram in OTLP: consecutive buckets, of all samples or of the samples since the report before.

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
    /// From the index of a bucket to its index in the base unit.
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
            positive: histogram.positive().iter().copied().collect(),
            negative: histogram.negative().iter().copied().collect(),
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

/// Subtracts an earlier snapshot of one sign, rescaled by `joined` scales to this scale.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rclrs_topic_statistics::{Distribution, Metric};

    use super::*;
    use crate::{
        model::{MetricDistribution, Received, SourceName, Window},
        state::{Limits, Now, State},
    };

    /// The state after windows of ages (ms).
    fn state(windows: &[Vec<f64>]) -> State {
        let now = Now::read();
        let mut state = State::new(Limits::default(), now);
        for (window, samples) in (0..).zip(windows) {
            let mut distribution = Box::<Distribution>::default();
            samples.iter().for_each(|sample| assert!(distribution.accept(*sample)));
            let window = Window { start: window, stop: window + 1 };
            let (source, metric) = (SourceName::new("/a:/b"), Metric::MessageAge);
            let received = MetricDistribution { source, metric, window, distribution };
            state.accept(Ok(Received::Distribution(received)), now);
        }
        assert_eq!(state.counts().distributions, windows.len() as u64);
        state
    }

    fn samples_of(windows: &[Vec<f64>]) -> Samples {
        let state = state(windows);
        let (_, source) = state.sources().next().unwrap();
        let (_, metric) = source.metrics().next().unwrap();
        Samples::of(&metric.distribution.as_ref().unwrap().total)
    }

    /// Windows that can be in one histogram: from microseconds to weeks.
    fn windows() -> impl Strategy<Value = Vec<Vec<f64>>> {
        let sample = prop_oneof![1e-3..1e-2, 1.0..1000.0, -50.0..-0.5, Just(0.0), 1e6..1e8];
        prop::collection::vec(prop::collection::vec(sample, 1..30), 2..8)
    }

    #[test]
    fn the_161st_bucket_halves_the_resolution() {
        let mut samples = samples_of(&[vec![1.0]]);
        samples.shift = 0;
        for (last, joined) in [(159, 0), (160, 1), (318, 1), (320, 2)] {
            samples.positive = BTreeMap::from([(0, 1), (last, 1)]);
            let point = samples.data_point();
            let counts = point.positive.unwrap().bucket_counts;
            assert_eq!((samples.scale - point.scale, counts.len() as i32), (joined, (last >> joined) + 1));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_data_point_has_all_samples_in_at_most_160_buckets(windows in windows()) {
            let samples = samples_of(&windows);
            let point = samples.data_point();
            let joined = samples.scale - point.scale;
            for (side, buckets) in [(&samples.positive, &point.positive), (&samples.negative, &point.negative)] {
                let Some(buckets) = buckets else { continue };
                prop_assert!(buckets.bucket_counts.len() <= 160);
                for (index, count) in (buckets.offset..).zip(&buckets.bucket_counts) {
                    let of_bucket = side.iter().filter(|(of, _)| (*of + samples.shift) >> joined == index);
                    prop_assert_eq!(of_bucket.map(|(_, count)| count).sum::<u64>(), *count);
                }
            }
            let sides = [&point.positive, &point.negative].into_iter().flatten();
            let total: u64 = sides.flat_map(|side| &side.bucket_counts).sum();
            prop_assert_eq!(total + point.zero_count, windows.iter().map(|window| window.len() as u64).sum::<u64>());
            prop_assert_eq!(point.sum.is_some(), samples.negative.is_empty());
        }
    }
}
