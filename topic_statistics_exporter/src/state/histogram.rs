// SPDX-License-Identifier: Apache-2.0

//! A histogram that only grows.

use std::collections::BTreeMap;

use rclrs_topic_statistics::collector::Distribution;

use super::NotAdded;

/// The merged distributions of all windows of a metric: a base-2 exponential histogram.
///
/// Other than a [`Distribution`], it has sparse buckets: one wrong stamp, 12 orders of magnitude away, takes one bucket and
/// not the resolution of all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    scale: i32,
    positive: BTreeMap<i32, u64>,
    negative: BTreeMap<i32, u64>,
    zero_count: u64,
    count: u64,
    sum: f64,
    factor: f64,
}

impl Histogram {
    /// How many buckets with samples each sign has, at most. More than these are joined in pairs, and the scale falls.
    pub const MAX_BUCKETS: usize = 160;

    /// Returns a histogram without samples. `factor` is that from the unit of the samples to their base unit.
    pub fn new(factor: f64) -> Self {
        Self {
            scale: Distribution::MAX_SCALE,
            positive: BTreeMap::new(),
            negative: BTreeMap::new(),
            zero_count: 0,
            count: 0,
            sum: 0.0,
            factor,
        }
    }

    /// Adds the samples of a window. The counts are exact.
    ///
    /// Refuses a window whose smallest samples have no bucket ([`Distribution::zero_threshold`]): where they belong is not known.
    pub(super) fn add(&mut self, window: &Distribution) -> Result<(), NotAdded> {
        if window.zero_threshold() > 0.0 {
            return Err(NotAdded::TooWide);
        }
        self.reduce_to(window.scale());
        let shift = window.scale() - self.scale;
        for (index, count) in window.positive() {
            add(&mut self.positive, index >> shift, count);
        }
        for (index, count) in window.negative() {
            add(&mut self.negative, index >> shift, count);
        }
        self.zero_count = self.zero_count.saturating_add(window.zero_count());
        self.count = self.count.saturating_add(window.count());
        if window.count() > 0 {
            self.sum += window.sum();
        }
        while self.positive.len().max(self.negative.len()) > Self::MAX_BUCKETS {
            self.reduce_to(self.scale - 1);
        }
        Ok(())
    }

    fn reduce_to(&mut self, scale: i32) {
        if scale >= self.scale {
            return;
        }
        let shift = self.scale - scale;
        for side in [&mut self.positive, &mut self.negative] {
            let before = std::mem::take(side);
            before.into_iter().for_each(|(index, count)| add(side, index >> shift, count));
        }
        self.scale = scale;
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the samples, in the base unit.
    pub fn sum(&self) -> f64 {
        self.sum * self.factor
    }

    /// Returns the number of samples that are 0.
    pub fn zero_count(&self) -> u64 {
        self.zero_count
    }

    /// Returns the scale, which is Prometheus's schema.
    pub fn scale(&self) -> i32 {
        self.scale
    }

    /// Returns the buckets with positive samples, in ascending order: index and count. Bucket `i` has the samples above `base^i`
    /// and up to `base^(i+1)`, with `base = 2^(2^-scale)`, in the unit of the samples: see [`shift`](Self::shift).
    pub fn positive(&self) -> impl ExactSizeIterator<Item = (i32, u64)> + '_ {
        self.positive.iter().map(|(index, count)| (*index, *count))
    }

    /// Returns the same of the absolute values of negative samples.
    pub fn negative(&self) -> impl ExactSizeIterator<Item = (i32, u64)> + '_ {
        self.negative.iter().map(|(index, count)| (*index, *count))
    }

    /// Returns what has to be added to the index of a bucket to get its index in the base unit.
    ///
    /// The boundaries of milliseconds are not quite those of seconds, since 1000 is not a power of the base. The next bucket
    /// is taken. So boundaries, and quantiles, are off by less than half a bucket: a factor of `base^0.5` at most.
    pub fn shift(&self) -> i32 {
        (self.factor.log2() * f64::from(self.scale).exp2()).round() as i32
    }
}

fn add(buckets: &mut BTreeMap<i32, u64>, index: i32, count: u64) {
    let bucket = buckets.entry(index).or_default();
    *bucket = bucket.saturating_add(count);
}
