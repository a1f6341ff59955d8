// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use proptest::prelude::*;

use super::*;

/// The quantiles that the tests compare, in thousandths.
const THOUSANDTHS: [u64; 8] = [0, 1, 70, 500, 570, 900, 990, 999];

/// The number of samples; smaller for Miri, which is slow.
const SAMPLES: usize = if cfg!(miri) { 30 } else { 3000 };

fn collect(samples: &[f64]) -> Distribution {
    let mut distribution = Distribution::default();
    for sample in samples {
        assert!(distribution.accept(*sample));
    }
    distribution
}

/// Returns a distribution that has the sample `sample` as often as `times` says, created by merges.
fn repeated(sample: f64, times: u64) -> Distribution {
    let (mut all, mut power) = (Distribution::default(), collect(&[sample]));
    for bit in 0..u64::BITS - times.leading_zeros() {
        if times >> bit & 1 == 1 {
            assert!(all.merge(&power));
        }
        if bit < 62 {
            let same = power.clone();
            assert!(power.merge(&same));
        }
    }
    all
}

/// The parts of a distribution, as the fields of a message.
#[derive(Clone, Debug, PartialEq)]
struct Message {
    count: u64,
    sum: f64,
    minimum: f64,
    maximum: f64,
    scale: i32,
    zero_threshold: f64,
    zero_count: u64,
    positive: (i32, Vec<u64>),
    negative: (i32, Vec<u64>),
}

impl Message {
    /// Returns the parts, with `padding` empty buckets before the first bucket, or with fewer empty buckets if there is
    /// no room for them.
    fn of(distribution: &Distribution, padding: usize) -> Self {
        Self {
            count: distribution.count(),
            sum: distribution.sum(),
            minimum: distribution.minimum(),
            maximum: distribution.maximum(),
            scale: distribution.scale(),
            zero_threshold: distribution.zero_threshold(),
            zero_count: distribution.zero_count(),
            positive: consecutive(&distribution.positive().collect(), padding),
            negative: consecutive(&distribution.negative().collect(), padding),
        }
    }

    fn parts(&self) -> DistributionParts<'_> {
        DistributionParts {
            count: self.count,
            sum: self.sum,
            minimum: self.minimum,
            maximum: self.maximum,
            scale: self.scale,
            zero_threshold: self.zero_threshold,
            zero_count: self.zero_count,
            positive_offset: self.positive.0,
            positive_counts: &self.positive.1,
            negative_offset: self.negative.0,
            negative_counts: &self.negative.1,
        }
    }
}

/// Returns the first bucket, and the counts from this bucket to the last one, with `padding` empty buckets before them.
fn consecutive(buckets: &BTreeMap<i32, u64>, padding: usize) -> (i32, Vec<u64>) {
    let (Some((first, _)), Some((last, _))) = (buckets.first_key_value(), buckets.last_key_value()) else {
        return (padding as i32, vec![]);
    };
    let room = Distribution::BUCKETS - 1 - last.abs_diff(*first) as usize;
    let first = first - padding.min(room) as i32;
    let count = |index| buckets.get(&index).copied().unwrap_or_default();
    (first, (first..=*last).map(count).collect())
}

/// Returns all parts of a distribution except the sum, which depends on rounding.
fn parts(distribution: &Distribution) -> Message {
    Message { sum: 0.0, ..Message::of(distribution, 0) }
}

fn counts(distribution: &Distribution) -> Vec<u64> {
    distribution.positive().map(|(_, count)| count).collect()
}

fn index(sample: f64, scale: i32) -> i32 {
    bucket_index::index_of(sample.abs(), scale)
}

/// Computes by definition, from all samples in ascending order, the parts that the distribution must have.
fn expected(sorted: &[f64]) -> Message {
    let negative: Vec<f64> = sorted.iter().copied().filter(|sample| *sample < 0.0).rev().collect();
    let positive: Vec<f64> = sorted.iter().copied().filter(|sample| *sample > 0.0).collect();
    let signs = [&negative, &positive];
    let fits = |scale: i32| {
        signs.iter().all(|samples| match (samples.first(), samples.last()) {
            (Some(smallest), Some(largest)) => index(*largest, scale) - index(*smallest, scale) < 160,
            _ => true,
        })
    };
    let scale = (3..=8).rev().find(|scale| fits(*scale)).unwrap_or(2);
    let largest = signs.iter().filter_map(|samples| samples.last()).map(|sample| index(*sample, scale)).max();
    let threshold = largest.filter(|_| !fits(scale)).map(|largest| largest - 159);
    let buckets = |samples: &[f64]| {
        let mut counts = BTreeMap::<i32, u64>::new();
        for sample in samples {
            let index = index(*sample, scale);
            if threshold.is_none_or(|threshold| index >= threshold) {
                *counts.entry(index).or_default() += 1;
            }
        }
        counts
    };
    let (positive, negative) = (buckets(&positive), buckets(&negative));
    Message {
        sum: 0.0,
        scale,
        zero_count: sorted.len() as u64 - positive.values().chain(negative.values()).sum::<u64>(),
        zero_threshold: threshold.map_or(0.0, |threshold| largest_below(threshold, scale)),
        positive: consecutive(&positive, 0),
        negative: consecutive(&negative, 0),
        count: sorted.len() as u64,
        minimum: sorted[0],
        maximum: sorted[sorted.len() - 1],
    }
}

/// Returns an error unless the distribution is that of the samples, and each quantile is NaN or differs from the exact
/// quantile by at most its error.
fn is_of(distribution: &Distribution, samples: &[f64]) -> Result<(), TestCaseError> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    prop_assert_eq!(parts(distribution), expected(&sorted));
    let (count, threshold) = (sorted.len() as u64, distribution.zero_threshold());
    let near_zero = sorted.iter().filter(|sample| sample.abs() <= threshold).count();
    prop_assert_eq!(distribution.zero_count(), near_zero as u64);
    for thousandths in THOUSANDTHS {
        let ours = distribution.quantile(thousandths as f64 / 1000.0);
        if count * (1000 - thousandths) < 1000 {
            prop_assert!(ours.is_nan(), "p{} of {} samples: {}", thousandths, count, ours);
            continue;
        }
        let rank = (count * thousandths).div_ceil(1000).max(1);
        let exact = sorted[rank as usize - 1];
        if exact.abs() <= threshold && threshold > 0.0 {
            prop_assert!(ours.is_nan(), "p{}: {}, which is near zero", thousandths, ours);
        } else {
            let bound = distribution.relative_error() * exact.abs() + 5e-324;
            prop_assert!((ours - exact).abs() <= bound, "p{}: {}, exactly {}", thousandths, ours, exact);
        }
    }
    Ok(())
}

/// A strategy for samples between the two given powers of ten.
fn of_orders(orders: std::ops::Range<f64>) -> BoxedStrategy<f64> {
    orders.prop_map(|order| 10_f64.powf(order)).boxed()
}

/// A strategy for samples of one kind or of several kinds. The kinds are: any finite bits, ages from nanoseconds to
/// days, a small range, zeros, tiny samples and huge samples.
fn samples() -> impl Strategy<Value = Vec<f64>> {
    let any = (0..f64::INFINITY.to_bits()).prop_map(f64::from_bits).boxed();
    let kinds = [
        any,
        of_orders(-3.0..6.0),
        of_orders(-6.0..9.0),
        (9.9..10.1).boxed(),
        prop_oneof![Just(0.0), Just(-0.0), of_orders(-1.0..0.0)].boxed(),
        of_orders(-323.0..-300.0),
        of_orders(300.0..308.0),
        prop::sample::select(vec![1.0, 2.0, 4.0, f64::MAX, f64::MIN_POSITIVE, 5e-324]).boxed(),
    ];
    let kind = prop::sample::select(kinds.to_vec());
    let signed = prop_oneof![Just(0.0), Just(0.5), Just(1.0)];
    (prop::collection::vec(kind, 1..4), signed).prop_flat_map(|(kinds, negative)| {
        let sample = (prop::sample::select(kinds).prop_flat_map(|kind| kind), prop::bool::weighted(negative));
        let sample = sample.prop_map(|(sample, is_negative)| if is_negative { -sample } else { sample });
        prop_oneof![prop::collection::vec(sample.clone(), 1..20), prop::collection::vec(sample, 1..SAMPLES)]
    })
}

/// A strategy for the parts of a distribution. At most one of the parts is wrong.
fn lies() -> impl Strategy<Value = Message> {
    let count = prop_oneof![0..4_u64, any::<u64>(), Just(u64::MAX), Just(1 << 63)];
    let number = prop_oneof![any::<f64>(), of_orders(-9.0..9.0), Just(0.0), Just(f64::NAN), Just(f64::MAX)];
    let offset = prop_oneof![any::<i32>(), -9000..9000, Just(i32::MIN), Just(i32::MAX)];
    let counts = prop::collection::vec(count.clone(), 0..170);
    let lie = (0..10, count, number, offset, counts);
    (samples(), lie).prop_map(|(samples, (lie, count, number, offset, counts))| {
        let mut message = Message::of(&collect(&samples), 0);
        match lie {
            0 => message.count = count,
            1 => message.minimum = number,
            2 => message.maximum = number,
            3 => message.zero_threshold = number,
            4 => message.sum = number,
            5 => message.scale = offset % 12,
            6 => message.positive.0 = offset,
            7 => message.negative.0 = offset,
            8 => message.positive.1 = counts,
            // Adds samples to a bucket and to the count. The parts stay valid unless a count overflows.
            _ => {
                if let Some(bucket) = message.positive.1.first_mut() {
                    *bucket = bucket.wrapping_add(count);
                    message.count = message.count.wrapping_add(count);
                }
            }
        }
        message
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 100 }))]

    #[test]
    fn any_samples_have_the_quantiles_of_the_sorted_samples(samples in samples()) {
        is_of(&collect(&samples), &samples)?;
    }

    #[test]
    fn merges_in_any_order_have_the_quantiles_of_all_samples(
        samples in samples(),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        order in any::<prop::sample::Index>(),
    ) {
        let mut ends: Vec<usize> = ends.iter().map(|end| end.index(samples.len())).collect();
        ends.push(samples.len());
        ends.sort_unstable();
        let mut windows: Vec<Distribution> = ends
            .iter()
            .scan(0, |start, end| Some(collect(&samples[std::mem::replace(start, *end)..*end])))
            .collect();
        while windows.len() > 1 {
            let other = windows.swap_remove(order.index(windows.len()));
            let into = order.index(windows.len());
            prop_assert!(windows[into].merge(&other));
        }
        is_of(&windows[0], &samples)?;
    }

    #[test]
    fn its_parts_give_the_same_distribution(samples in samples(), times in 1..1_u64 << 62, padding in 0_usize..3) {
        let distribution = collect(&samples);
        // The counts need more than 32 bits.
        let mut many = repeated(samples[0], times);
        let again = |original: &Distribution| {
            Distribution::from_parts(&Message::of(original, padding).parts()).unwrap()
        };
        for original in [&distribution, &many] {
            let again = again(original);
            prop_assert_eq!(parts(&again), parts(original));
            prop_assert!(again.sum() == original.sum() || again.sum().is_nan() && original.sum().is_nan());
        }
        let mut again = again(&many);
        prop_assert_eq!(again.merge(&distribution), many.merge(&distribution));
        prop_assert_eq!(parts(&again), parts(&many), "the merged distributions are equal");
    }

    #[test]
    fn any_parts_are_those_of_a_distribution_or_refused(message in lies()) {
        if let Ok(distribution) = Distribution::from_parts(&message.parts()) {
            prop_assert_eq!(distribution.count(), message.count);
            prop_assert_eq!(distribution.minimum().to_bits(), message.minimum.to_bits());
            prop_assert_eq!(distribution.maximum().to_bits(), message.maximum.to_bits());
            for quantile in THOUSANDTHS.map(|thousandths| distribution.quantile(thousandths as f64 / 1000.0)) {
                prop_assert!(quantile.is_nan() || (message.minimum..=message.maximum).contains(&quantile));
            }
        }
    }

    #[test]
    fn a_larger_quantile_is_not_smaller(samples in samples(), mut quantiles in prop::collection::vec(0.0..1.0, 2..9)) {
        let distribution = collect(&samples);
        quantiles.sort_by(f64::total_cmp);
        let quantiles = quantiles.iter().map(|quantile| distribution.quantile(*quantile));
        let numbers: Vec<f64> = quantiles.filter(|number| !number.is_nan()).collect();
        prop_assert!(numbers.is_sorted(), "{:?}", numbers);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn the_quantiles_are_those_of_hdrhistogram() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut theirs = Histogram::<u64>::new(4).unwrap();
    let mut ours = Distribution::default();
    for _ in 0..SAMPLES * 30 {
        // The samples are in nanoseconds. Most are near 1 ms, and a few are as large as about 10 s.
        let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let tail = if random.u32(0..20) == 0 { 10_f64.powf(4.0 * random.f64()) } else { 1.0 };
        let sample = (1e6 * normal.exp() * tail) as u64 + 1;
        theirs.record(sample).unwrap();
        assert!(ours.accept(sample as f64));
    }
    for quantile in [0.1, 0.5, 0.9, 0.99, 0.999] {
        let theirs = theirs.value_at_quantile(quantile) as f64;
        let difference = (ours.quantile(quantile) / theirs - 1.0).abs();
        // hdrhistogram's values have four exact digits. The interpolation within a bucket halves the error of this
        // crate's quantiles.
        assert!(difference < ours.relative_error() / 2.0, "{quantile}: {difference}, hdrhistogram {theirs}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn a_quantile_needs_samples_beyond_it() {
    for (quantile, needed) in [(0.0, 1), (0.5, 2), (0.9, 10), (0.95, 20), (0.99, 100), (0.999, 1000)] {
        let mut distribution = repeated(5.0, needed - 1);
        assert!(distribution.quantile(quantile).is_nan(), "{quantile} of {needed} - 1");
        assert!(distribution.accept(5.0));
        assert_eq!(distribution.quantile(quantile), 5.0);
    }
    let distribution = repeated(1.0, 1 << 40);
    for quantile in [1.0, 2.0, -0.1, f64::NAN, f64::INFINITY] {
        assert!(distribution.quantile(quantile).is_nan(), "{quantile} is not a share");
    }
}

#[test]
fn the_rounding_of_a_share_does_not_change_the_rank() {
    // The quantiles must be exact, although 0.07 * 100 is a little more than 7, and 0.57 * 100 a little less than 57,
    // in floating point.
    let distribution = collect(&(1..=100).map(f64::from).collect::<Vec<_>>());
    for (quantile, exact) in [(0.07, 7.0), (0.14, 14.0), (0.57, 57.0)] {
        let ours = distribution.quantile(quantile);
        assert!((ours / exact - 1.0).abs() <= distribution.relative_error(), "{quantile}: {ours}");
    }
    assert!((8.0 / 7.0 - 1.0) > 2.0 * distribution.relative_error(), "7 and 8 are in different buckets");
}

#[test]
fn nan_and_infinities_are_refused_and_change_nothing() {
    let mut distribution = collect(&[1.0, -2.0, 0.0]);
    let before = (parts(&distribution), distribution.sum());
    for sample in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(!distribution.accept(sample));
    }
    assert_eq!((parts(&distribution), distribution.sum()), before);
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn the_sum_is_that_of_the_samples_and_nan_if_it_is_too_large() {
    let mut distribution = collect(&[1.5, -0.25, 0.0]);
    assert!(distribution.merge(&collect(&[2.0])));
    assert_eq!(distribution.sum(), 3.25);
    assert!(collect(&[f64::MAX, f64::MAX]).sum().is_nan());
    assert_eq!(collect(&[f64::MAX, f64::MAX]).quantile(0.5), f64::MAX);
}

#[test]
fn the_error_is_the_width_of_a_bucket() {
    for (samples, scale) in [([1.5, 1.6], 8), ([1.1, 1.9], 7), ([0.01, 1e10], 2)] {
        let distribution = collect(&samples);
        assert_eq!(distribution.scale(), scale);
        let base = 1.0 + distribution.relative_error();
        assert!((base.powi(1 << scale) - 2.0).abs() < 1e-12, "{base}");
    }
    let [smallest, largest] =
        [[1.5, 1.6], [0.01, 1e10]].map(|samples| (1e4 * collect(&samples).relative_error()).round());
    assert_eq!([smallest, largest], [27.0, 1892.0], "0.27 % and 18.92 %");
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn the_scale_falls_with_the_161st_bucket_and_not_before() {
    // The two samples are the middle of the first bucket and the middle of the last bucket.
    let of_buckets = |buckets: i32, scale: i32, sign: f64| {
        let middle = |index: i32| sign * boundary(f64::from(index) + 0.5, scale);
        collect(&[middle(-7), middle(-7 + buckets - 1)])
    };
    for sign in [1.0, -1.0] {
        for scale in 3..=8 {
            assert_eq!(of_buckets(160, scale, sign).scale(), scale);
            assert_eq!(of_buckets(161, scale, sign).scale(), scale - 1);
        }
        assert_eq!(of_buckets(160, 2, sign).zero_threshold(), 0.0);
        let near_zero = of_buckets(161, 2, sign);
        assert!((near_zero.zero_threshold() / 2_f64.powf(-1.5) - 1.0).abs() < 1e-15);
        assert_eq!((near_zero.scale(), near_zero.zero_count()), (2, 1));
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn a_bucket_counts_beyond_32_bits() {
    const FULL: u64 = u32::MAX as u64;
    let mut distribution = repeated(5.0, FULL);
    assert!(distribution.accept(6.0));
    assert!(distribution.accept(5.0) && distribution.accept(5.0));
    assert_eq!(distribution.scale(), 8, "80 buckets are enough for 5 to 6");
    assert_eq!(counts(&distribution), [FULL + 2, 1]);
    // The lower 32 bits of the count overflow for the second time.
    assert!(distribution.merge(&repeated(5.0, FULL - 2)));
    assert_eq!(counts(&distribution), [2 * FULL, 1]);
    for _ in 0..4 {
        assert!(distribution.accept(5.0));
    }
    assert_eq!(counts(&distribution), [2 * FULL + 4, 1]);
    // With counts of 64 bits there are only 80 buckets. 5 and 7 are 124 buckets apart at scale 8, and 62 buckets apart
    // at scale 7. 5 and 8 are 87 buckets apart at scale 7.
    assert!(distribution.accept(7.0));
    assert_eq!((distribution.scale(), counts(&distribution)), (7, vec![2 * FULL + 4, 1, 1]));
    assert!(distribution.accept(8.0));
    assert_eq!((distribution.scale(), counts(&distribution)), (6, vec![2 * FULL + 4, 1, 1, 1]));
    assert_eq!(distribution.count(), 2 * FULL + 7);
    let median = distribution.quantile(0.5);
    assert!((median / 5.0 - 1.0).abs() <= distribution.relative_error(), "{median}");
}

/// With counts of 64 bits there are only 80 buckets. The slots after these buckets have the upper 32 bits of the
/// counts.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn the_bucket_after_the_80th_changes_no_count_beyond_32_bits() {
    for buckets in 1..80 {
        // The first bucket is in the middle of its slots, so for some `buckets` the next bucket is just after the last
        // slot.
        let mut distribution = repeated(5.0, 1 << 32);
        let sample = 5.0 * (f64::from(buckets) / 256.0).exp2();
        assert_eq!(index(sample, 8) - index(5.0, 8), buckets);
        assert!(distribution.accept(sample));
        assert_eq!((distribution.scale(), counts(&distribution)), (8, vec![1 << 32, 1]), "{buckets}");
    }
}

/// If the count of the first bucket above the zero threshold needs more than 32 bits, its samples must not be added to
/// the zero count.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn the_bucket_at_the_threshold_counts_beyond_32_bits() {
    const TWICE_FULL: u64 = (1 << 33) - 1;
    let (near_zero, lowest, highest) = (1e-9, 1.5, 1.5 * (79.0_f64 / 4.0).exp2());
    let mut distribution = repeated(lowest, TWICE_FULL);
    for sample in [near_zero, highest] {
        assert!(distribution.accept(sample));
    }
    let lower_bound = std::f64::consts::SQRT_2;
    assert_eq!(distribution.scale(), 2);
    assert!((distribution.zero_threshold() - lower_bound).abs() < 1e-9, "{}", distribution.zero_threshold());
    assert!(distribution.accept(lowest));
    assert_eq!((distribution.zero_count(), counts(&distribution)), (1, vec![TWICE_FULL + 1, 1]));
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn counts_of_billions_are_exact() {
    // At scale 8, the samples are in two buckets. After the third sample, the scale is 2, and they are in one bucket.
    let mut distribution = repeated(5.0, 3_000_000_000);
    assert!(distribution.merge(&repeated(5.1, 3_000_000_000)));
    assert_eq!(distribution.positive().count(), 2);
    assert!(distribution.accept(5e-4));
    assert_eq!(distribution.scale(), 2);
    assert_eq!(counts(&distribution), [1, 6_000_000_000]);
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn samples_beyond_2_to_the_63_are_refused_and_change_nothing() {
    let mut distribution = repeated(-5.0, 1 << 62);
    let same = distribution.clone();
    assert!(distribution.merge(&same));
    assert_eq!(distribution.count(), 1 << 63);
    let before = (parts(&distribution), distribution.sum());
    assert!(!distribution.merge(&same));
    assert!(!distribution.merge(&collect(&[1.0])));
    assert_eq!((parts(&distribution), distribution.sum()), before);
    assert!(distribution.merge(&Distribution::default()));
    assert!(distribution.accept(1.0), "single samples have room for 292 years, at one per nanosecond");
    assert_eq!((distribution.count(), distribution.quantile(0.5)), ((1 << 63) + 1, -5.0));
}

#[test]
fn distributions_are_equal_if_all_figures_and_buckets_are() {
    let one = collect(&[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(one, collect(&[4.0, 3.0, 2.0, 1.0]));
    assert_ne!(one, collect(&[1.0, 2.4, 2.6, 4.0]), "the figures are equal, but the buckets differ");
    assert_ne!(collect(&[-1.0, -2.0, -3.0, -4.0]), collect(&[-1.0, -2.4, -2.6, -4.0]));
    let (sample, close) = (collect(&[1.5]), collect(&[1.5 + 1e-9]));
    assert!(sample != close && sample.positive().eq(close.positive()), "the figures are different");
    assert!(format!("{one:?}").starts_with("Distribution { count: 4, sum: 10.0, minimum: 1.0, maximum: 4.0,"));
}

#[test]
fn a_distribution_has_at_most_1500_bytes() {
    assert!(size_of::<Distribution>() <= 1500, "{} bytes", size_of::<Distribution>());
}

#[test]
fn parts_that_no_distribution_has_are_refused() {
    // At the scale 8, there are two samples of 1 in bucket -1, one sample of 1.5 in bucket 149, one sample of -3 in
    // bucket 405, and a zero.
    let right = Message::of(&collect(&[1.0, 1.0, 1.5, -3.0, 0.0]), 0);
    assert_eq!((right.scale, right.positive.0, right.negative.0), (8, -1, 405));
    assert!(Distribution::from_parts(&right.parts()).is_ok());
    let error = |change: &dyn Fn(&mut Message)| {
        let mut wrong = right.clone();
        change(&mut wrong);
        Distribution::from_parts(&wrong.parts()).unwrap_err().to_string()
    };
    let bucket = |sign, index: i64| {
        format!(
            "The {sign} bucket {index} has samples: at the scale 8, the buckets are from -274945 to 262143"
        )
    };
    let count = |count: u64, sum: u128| format!("The count is {count}, and the sum of all counts is {sum}:");
    let scale = |scale: i32| format!("The scale is {scale}: it has to be from 2 to 8");
    let overflows = u128::from(u64::MAX) + 4; // in a u64, the sum overflows to 3
    type Lie = &'static dyn Fn(&mut Message);
    let rows: [(Lie, _); 11] = [
        (&|message| message.scale = 9, scale(9)),
        (&|message| message.scale = 1, scale(1)),
        (
            &|message| message.negative.1.resize(161, 0),
            "There are 161 negative buckets: there can be at most 160".to_owned(),
        ),
        (&|message| message.positive.0 = i32::MAX, bucket("positive", i64::from(i32::MAX))),
        (&|message| message.negative.0 = i32::MIN, bucket("negative", i64::from(i32::MIN))),
        (&|message| message.negative.0 = 262_144, bucket("negative", 262_144)),
        (&|message| message.count = 6, count(6, 5)),
        (&|message| message.zero_count = 0, count(5, 4)),
        (&|message| (message.count, message.zero_count) = (4, u64::MAX), count(4, overflows)),
        (
            &|message| (message.count, message.zero_count) = ((1 << 63) + 1, (1 << 63) - 3),
            count((1 << 63) + 1, (1 << 63) + 1),
        ),
        (&|message| message.sum = f64::INFINITY, "The sum of the samples is inf:".to_owned()),
    ];
    for (change, expected) in rows {
        let error = error(change);
        assert!(error.starts_with(&expected), "{error}");
    }
    for (minimum, maximum) in [
        (f64::NAN, 1.5),
        (-3.0, f64::NAN),
        (f64::NEG_INFINITY, 1.5),
        (-3.0, f64::INFINITY),
        (1.5, -3.0),
        (-2.9, 1.5),
        (-3.0, 1.6),
        (-3.0, 1.0),
    ] {
        let error = error(&|message| (message.minimum, message.maximum) = (minimum, maximum));
        assert!(
            error.starts_with(&format!("The minimum is {minimum} and the maximum {maximum}:")),
            "{error}"
        );
    }
    for threshold in [1e-9, -1e-9, f64::NAN, f64::INFINITY] {
        let error = error(&|message| message.zero_threshold = threshold);
        assert!(error.starts_with(&format!("The zero threshold is {threshold} at the scale 8:")), "{error}");
    }
}

#[test]
fn a_zero_threshold_lies_below_a_bucket_and_no_bucket_below_it() {
    let right = Message::of(&collect(&[1e-9, 1e9]), 0);
    assert!(right.scale == 2 && right.zero_threshold > 0.0);
    assert!(Distribution::from_parts(&right.parts()).is_ok());
    let wrong =
        Message { zero_threshold: f64::from_bits(right.zero_threshold.to_bits() + 1), ..right.clone() };
    let error = Distribution::from_parts(&wrong.parts()).unwrap_err().to_string();
    assert!(error.starts_with("The zero threshold is") && error.contains("at the scale 2:"), "{error}");
    let wrong = Message { negative: (-100, vec![1]), count: 3, ..right };
    let error = Distribution::from_parts(&wrong.parts()).unwrap_err().to_string();
    assert!(error.starts_with("The negative bucket -100 has samples:"), "{error}");
}

#[test]
fn no_samples_have_parts_too() {
    let none = Message::of(&Distribution::default(), 2);
    assert_eq!(Distribution::from_parts(&none.parts()), Ok(Distribution::default()));
    let lie = Message { minimum: 0.0, ..none };
    assert!(Distribution::from_parts(&lie.parts()).is_err());
}
