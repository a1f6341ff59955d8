// SPDX-License-Identifier: Apache-2.0

//! Converts a histogram to OTLP. In OTLP, the buckets of a histogram are consecutive.

use opentelemetry_proto::tonic::metrics::v1::{
    exponential_histogram_data_point::Buckets, ExponentialHistogramDataPoint,
};

use crate::state::{Bucket, Histogram};

/// The largest number of buckets for each sign. It is the default of OpenTelemetry's SDKs, so all readers accept it.
const MAX_BUCKETS: i64 = 160;

/// Returns a data point with all samples of a histogram. Its attributes and times are not set.
///
/// Buckets are joined in pairs until [`MAX_BUCKETS`] consecutive buckets are enough for all samples.
pub fn data_point(histogram: &Histogram) -> ExponentialHistogramDataPoint {
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
    use proptest::prelude::*;

    use super::*;

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
