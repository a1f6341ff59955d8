// SPDX-License-Identifier: Apache-2.0

//! Compares distributions with all samples.

use std::collections::BTreeMap;

use ros_env::topic_statistics_interfaces::msg::MetricsDistribution;

use super::{equal, is_same};
use crate::{
    collector::Distribution,
    faults::Tally,
    oracle::Expected,
    window::{Metric, Summary},
};

/// The distribution of samples, in the simplest way, by docs/distributions.md.
struct Naive {
    scale: i32,
    /// Where the buckets begin, if the samples need more than there are.
    threshold: Option<i32>,
    zero_count: u64,
    /// The counts of the positive samples, and of the negative ones.
    counts: [BTreeMap<i32, u64>; 2],
}

impl Naive {
    fn new(samples: &[f64]) -> Self {
        (2..=8).rev().find_map(|scale| Self::at(scale, samples)).unwrap_or_else(|| Self::folded(samples))
    }

    /// Returns the distribution at a scale; None if it needs more than 160 buckets.
    fn at(scale: i32, samples: &[f64]) -> Option<Self> {
        let naive = Self::with_any_buckets(scale, samples);
        let fits = |counts: &BTreeMap<i32, u64>| {
            let (first, last) = (counts.first_key_value()?.0, counts.last_key_value()?.0);
            Some(last - first < 160)
        };
        naive.counts.iter().all(|counts| fits(counts).unwrap_or(true)).then_some(naive)
    }

    fn with_any_buckets(scale: i32, samples: &[f64]) -> Self {
        let mut naive = Self { scale, threshold: None, zero_count: 0, counts: Default::default() };
        for sample in samples {
            if *sample == 0.0 {
                naive.zero_count += 1;
                continue;
            }
            // A power of two is the upper end of a bucket, and its logarithm is exact; no other sample of these is so near to one.
            let bucket = (sample.abs().log2() * f64::from(1 << scale)).ceil() as i32 - 1;
            *naive.counts[usize::from(*sample < 0.0)].entry(bucket).or_default() += 1;
        }
        naive
    }

    /// Returns the distribution of samples that need too many buckets: the smallest ones are near zero.
    fn folded(samples: &[f64]) -> Self {
        let mut naive = Self::with_any_buckets(2, samples);
        let high =
            naive.counts.iter().filter_map(|counts| counts.last_key_value()).map(|(high, _)| *high).max();
        let threshold = high.unwrap_or(0) - 159;
        for counts in &mut naive.counts {
            let folded: u64 = counts.range(..threshold).map(|(_, count)| count).sum();
            naive.zero_count += folded;
            counts.retain(|bucket, _| *bucket >= threshold);
        }
        naive.threshold = Some(threshold);
        naive
    }
}

/// Compares the distribution of a window with its samples.
pub(super) fn check(
    ours: &Distribution,
    summary: &Summary,
    expected: &Expected,
    tally: &mut Tally,
) -> Result<(), String> {
    equal("count", ours.count(), summary.sample_count)?;
    equal("minimum", ours.minimum(), summary.minimum)?;
    equal("maximum", ours.maximum(), summary.maximum)?;
    let Expected::Samples(samples) = expected else { return Ok(()) };
    let size: f64 = samples.iter().map(|sample| sample.abs()).sum();
    if !is_same(ours.sum(), samples.iter().sum(), size) {
        return Err(format!("sum {}", ours.sum()));
    }
    let naive = Naive::new(samples);
    equal("scale", ours.scale(), naive.scale)?;
    equal("zero count", ours.zero_count(), naive.zero_count)?;
    let [positive, negative] = &naive.counts;
    equal("positive buckets", ours.positive().collect(), positive.clone())?;
    equal("negative buckets", ours.negative().collect(), negative.clone())?;
    let base = 2_f64.powf(1.0 / f64::from(1 << naive.scale));
    let zero_threshold = naive.threshold.map_or(0.0, |threshold| base.powi(threshold));
    if !is_same(ours.zero_threshold(), zero_threshold, 0.0) {
        return Err(format!("zero threshold {}, expected {zero_threshold}", ours.zero_threshold()));
    }
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    for (quantile, per_mille) in [(0.5, 500), (0.9, 900), (0.99, 990), (0.999, 999)] {
        let rank = (sorted.len() * per_mille).div_ceil(1000);
        let has_enough = sorted.len() * (1000 - per_mille) >= 1000;
        let exact = sorted[rank - 1];
        let is_near_zero = naive.threshold.is_some() && exact.abs() <= zero_threshold;
        let ours = ours.quantile(quantile);
        let is_good = match has_enough && !is_near_zero {
            true => (ours - exact).abs() <= exact.abs() * (base - 1.0) * (1.0 + 1e-9),
            false => ours.is_nan(),
        };
        if !is_good {
            return Err(format!(
                "quantile {quantile} is {ours}, expected {exact} of {} samples",
                sorted.len()
            ));
        }
        tally.digest(ours);
    }
    tally.figures += 11;
    Ok(())
}

/// Compares a message with the distribution that it is of.
pub fn message(message: &MetricsDistribution, metric: Metric, of: &Distribution) -> Result<(), String> {
    equal("metric", &*message.metrics_source, metric.name())?;
    equal("unit", &*message.unit, metric.unit())?;
    equal("count", message.count, of.count())?;
    equal("scale", message.scale, of.scale())?;
    equal("zero count", message.zero_count, of.zero_count())?;
    for (offset, counts, buckets) in [
        (message.positive_offset, &message.positive_counts, of.positive().collect::<BTreeMap<_, _>>()),
        (message.negative_offset, &message.negative_counts, of.negative().collect()),
    ] {
        let read = (offset..).zip(counts.iter().copied()).filter(|(_, count)| *count > 0);
        equal("buckets", read.collect(), buckets)?;
        equal("whether an end is empty", counts.first() == Some(&0) || counts.last() == Some(&0), false)?;
    }
    for (name, ours, expected) in [
        ("sum", message.sum, of.sum()),
        ("minimum", message.minimum, of.minimum()),
        ("maximum", message.maximum, of.maximum()),
        ("zero threshold", message.zero_threshold, of.zero_threshold()),
        ("p50", message.p50, of.quantile(0.5)),
        ("p90", message.p90, of.quantile(0.9)),
        ("p99", message.p99, of.quantile(0.99)),
        ("p99.9", message.p99_9, of.quantile(0.999)),
    ] {
        if ours.to_bits() != expected.to_bits() && !(ours.is_nan() && expected.is_nan()) {
            return Err(format!("{name} {ours}, expected {expected}"));
        }
    }
    Ok(())
}
