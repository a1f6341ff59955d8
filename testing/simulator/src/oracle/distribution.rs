// SPDX-License-Identifier: Apache-2.0

//! Distributions computed in the simplest way, by the rules of docs/distributions.md.

use std::collections::BTreeMap;

use topic_statistics_core::{collector::Distribution, Metric};

use crate::equal::is_same;

#[derive(Clone, Debug, PartialEq)]
pub struct Naive {
    pub scale: i32,
    /// The index of the first bucket above the zero threshold. `None` if the samples of each sign fit into 160 buckets.
    pub threshold: Option<i32>,
    pub zero_count: u64,
    /// The buckets of the positive samples and of the negative samples.
    pub counts: [BTreeMap<i32, u64>; 2],
}

impl Naive {
    pub fn new(samples: &[f64]) -> Self {
        let mut scales = (2..=8).rev().map(|scale| Self::with_any_buckets(scale, samples));
        scales.find(Self::fits).unwrap_or_else(|| {
            let mut folded = Self::with_any_buckets(2, samples);
            folded.fold();
            folded
        })
    }

    fn fits(&self) -> bool {
        let fits = |counts: &BTreeMap<i32, u64>| {
            let (first, last) = (counts.first_key_value()?.0, counts.last_key_value()?.0);
            Some(last - first < 160)
        };
        self.counts.iter().all(|counts| fits(counts).unwrap_or(true))
    }

    fn join(&mut self, scale: i32) {
        let by = self.scale - scale;
        for counts in &mut self.counts {
            for (bucket, count) in std::mem::take(counts) {
                *counts.entry(bucket >> by).or_default() += count;
            }
        }
        self.scale = scale;
    }

    pub fn with_any_buckets(scale: i32, samples: &[f64]) -> Self {
        let mut naive = Self { scale, threshold: None, zero_count: 0, counts: Default::default() };
        for sample in samples {
            if *sample == 0.0 {
                naive.zero_count += 1;
                continue;
            }
            // A power of two is the upper end of a bucket, and its logarithm is exact. No other sample is near enough
            // to a bucket's end for a rounding error to matter.
            let bucket = (sample.abs().log2() * f64::from(1 << scale)).ceil() as i32 - 1;
            *naive.counts[usize::from(*sample < 0.0)].entry(bucket).or_default() += 1;
        }
        naive
    }

    /// Makes the samples fit into 160 buckets of each sign: samples with the smallest absolute values are counted as
    /// zero.
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
    pub fn add(&mut self, distribution: &Distribution) {
        let naive = &mut self.naive;
        let scale = naive.scale.min(distribution.scale());
        naive.join(scale);
        let sides = [distribution.positive().collect::<Vec<_>>(), distribution.negative().collect()];
        for (counts, buckets) in naive.counts.iter_mut().zip(sides) {
            for (bucket, count) in buckets {
                *counts.entry(bucket >> (distribution.scale() - scale)).or_default() += count;
            }
        }
        naive.zero_count += distribution.zero_count();
        while !naive.fits() && naive.scale > 2 {
            naive.join(naive.scale - 1);
        }
        if distribution.zero_threshold() > 0.0 || naive.threshold.is_some() || !naive.fits() {
            naive.fold();
        }
        self.sum += distribution.sum();
        (self.minimum, self.maximum) =
            (self.minimum.min(distribution.minimum()), self.maximum.max(distribution.maximum()));
    }
}

impl PartialEq for Merged {
    fn eq(&self, other: &Self) -> bool {
        let extremes = |merged: &Self| (merged.minimum, merged.maximum);
        let size = self.minimum.abs().max(self.maximum.abs()) * 1e3; // rounding errors of many samples add up
        self.naive == other.naive && extremes(self) == extremes(other) && is_same(self.sum, other.sum, size)
    }
}

/// The merged distributions of each source name and metric.
pub type MergedDistributions = BTreeMap<(String, Metric), Merged>;

/// Adds the distributions of all metrics to the merged distributions of the source name `name`.
pub fn add_distributions<'a>(
    to: &mut MergedDistributions,
    name: &str,
    distribution_of: impl Fn(Metric) -> Option<&'a Distribution>,
) {
    for metric in Metric::ALL {
        let Some(distribution) = distribution_of(*metric) else { continue };
        to.entry((name.to_owned(), *metric)).or_default().add(distribution);
    }
}

/// Returns the largest relative error of a quantile of these samples.
pub fn relative_error(samples: &[f64]) -> f64 {
    2_f64.powf(1.0 / f64::from(1 << Naive::new(samples).scale)) - 1.0
}
