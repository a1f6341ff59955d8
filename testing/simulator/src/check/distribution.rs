// SPDX-License-Identifier: Apache-2.0

//! Compares distributions with all samples.

use std::collections::BTreeMap;

use topic_statistics_core::{collector::Distribution, Summary};

use super::{equal, is_same};
use crate::{faults::Tally, oracle::Expected};

/// The distribution of samples, in the simplest way, by docs/distributions.md.
#[derive(Clone, Debug, PartialEq)]
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
        Some(Self::with_any_buckets(scale, samples)).filter(Self::fits)
    }

    /// Returns whether 160 buckets are enough for each sign.
    fn fits(&self) -> bool {
        let fits = |counts: &BTreeMap<i32, u64>| {
            let (first, last) = (counts.first_key_value()?.0, counts.last_key_value()?.0);
            Some(last - first < 160)
        };
        self.counts.iter().all(|counts| fits(counts).unwrap_or(true))
    }

    /// Joins buckets, down to a scale.
    fn join(&mut self, scale: i32) {
        let by = self.scale - scale;
        for counts in &mut self.counts {
            for (bucket, count) in std::mem::take(counts) {
                *counts.entry(bucket >> by).or_default() += count;
            }
        }
        self.scale = scale;
    }

    fn with_any_buckets(scale: i32, samples: &[f64]) -> Self {
        let mut naive = Self { scale, threshold: None, zero_count: 0, counts: Default::default() };
        for sample in samples {
            if *sample == 0.0 {
                naive.zero_count += 1;
                continue;
            }
            // A power of two is the upper end of a bucket, and its logarithm is exact; no other sample of these is so
            // near to one.
            let bucket = (sample.abs().log2() * f64::from(1 << scale)).ceil() as i32 - 1;
            *naive.counts[usize::from(*sample < 0.0)].entry(bucket).or_default() += 1;
        }
        naive
    }

    /// Returns the distribution of samples that need too many buckets: the smallest ones are near zero.
    fn folded(samples: &[f64]) -> Self {
        let mut naive = Self::with_any_buckets(2, samples);
        naive.fold();
        naive
    }

    fn fold(&mut self) {
        let high =
            self.counts.iter().filter_map(|counts| counts.last_key_value()).map(|(high, _)| *high).max();
        let threshold = high.unwrap_or(0) - 159;
        for counts in &mut self.counts {
            let folded: u64 = counts.range(..threshold).map(|(_, count)| count).sum();
            self.zero_count += folded;
            counts.retain(|bucket, _| *bucket >= threshold);
        }
        self.threshold = Some(threshold);
    }
}

/// The sum of distributions with different scales.
#[derive(Clone, Debug)]
pub struct Merged {
    naive: Naive,
    sum: f64,
    minimum: f64,
    maximum: f64,
}

impl Default for Merged {
    fn default() -> Self {
        let naive = Naive { scale: 8, threshold: None, zero_count: 0, counts: Default::default() };
        Self { naive, sum: 0.0, minimum: f64::INFINITY, maximum: f64::NEG_INFINITY }
    }
}

impl Merged {
    pub fn add(&mut self, of: &Distribution) {
        let naive = &mut self.naive;
        let scale = naive.scale.min(of.scale());
        naive.join(scale);
        let sides = [of.positive().collect::<Vec<_>>(), of.negative().collect()];
        for (counts, buckets) in naive.counts.iter_mut().zip(sides) {
            for (bucket, count) in buckets {
                *counts.entry(bucket >> (of.scale() - scale)).or_default() += count;
            }
        }
        naive.zero_count += of.zero_count();
        while !naive.fits() && naive.scale > 2 {
            naive.join(naive.scale - 1);
        }
        if of.zero_threshold() > 0.0 || naive.threshold.is_some() || !naive.fits() {
            naive.fold();
        }
        self.sum += of.sum();
        (self.minimum, self.maximum) = (self.minimum.min(of.minimum()), self.maximum.max(of.maximum()));
    }
}

impl PartialEq for Merged {
    fn eq(&self, other: &Self) -> bool {
        let extremes = |of: &Self| (of.minimum, of.maximum);
        let size = self.minimum.abs().max(self.maximum.abs()) * 1e3; // of many samples
        self.naive == other.naive && extremes(self) == extremes(other) && is_same(self.sum, other.sum, size)
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
    let samples = match expected {
        Expected::Samples(samples) => samples,
        Expected::SomeOf(samples, _) if samples.len() as u64 == summary.sample_count => samples,
        Expected::SomeOf(samples, _) => return some_of(ours, summary, samples),
        _ => return Ok(()),
    };
    let size: f64 = samples.iter().map(|sample| sample.abs()).sum();
    if !is_same(ours.sum(), samples.iter().sum(), size) {
        return Err(format!("sum {}, expected {}", ours.sum(), samples.iter().sum::<f64>()));
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

/// Compares the distribution of some of these samples.
fn some_of(ours: &Distribution, summary: &Summary, samples: &[f64]) -> Result<(), String> {
    let most = Naive::with_any_buckets(ours.scale(), samples);
    let buckets = ours.positive().map(|of| (0, of)).chain(ours.negative().map(|of| (1, of)));
    for (sign, (bucket, count)) in buckets {
        let most = most.counts[sign].get(&bucket).copied().unwrap_or(0);
        if count > most {
            return Err(format!("{count} samples in bucket {bucket}, expected at most {most}"));
        }
    }
    if ours.zero_threshold() == 0.0 && ours.zero_count() > most.zero_count {
        return Err(format!("{} zeros, expected at most {}", ours.zero_count(), most.zero_count));
    }
    let (sum, size) =
        (summary.average * summary.sample_count as f64, samples.iter().map(|of| of.abs()).sum());
    match is_same(ours.sum(), sum, size) {
        true => Ok(()),
        false => Err(format!("sum {}, expected {sum}", ours.sum())),
    }
}

/// Returns by how much a quantile of these samples may be off, as a part of it.
pub fn relative_error(samples: &[f64]) -> f64 {
    2_f64.powf(1.0 / f64::from(1 << Naive::new(samples).scale)) - 1.0
}
