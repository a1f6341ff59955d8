// SPDX-License-Identifier: Apache-2.0

//! A histogram whose counts only grow.

use rclrs_topic_statistics::Distribution;

use super::budget::NotAdded;

/// A base-2 exponential histogram: the merged distributions of all windows of a metric.
///
/// Unlike a [`Distribution`], this histogram stores only buckets that have samples. So one wrong sample that is 12
/// orders of magnitude from the others needs only one bucket, and all other buckets keep their resolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The scale of the buckets. Prometheus calls the scale `schema`.
    pub scale: i32,
    /// The buckets of positive samples (index and count), in ascending order. Bucket `i` has the samples above `base^i`
    /// and up to `base^(i+1)`, with `base = 2^(2^-scale)`. These boundaries are in the unit of the samples, not in the
    /// base unit: see [`shift`](Self::shift).
    pub positive: Vec<Bucket>,
    /// The buckets of negative samples, by the absolute values of the samples.
    pub negative: Vec<Bucket>,
    pub zero_count: u64,
    pub count: u64,
    sum: f64,
    factor: f64,
}

/// The index of a bucket, and the number of samples in this bucket.
pub type Bucket = (i32, u64);

impl Histogram {
    /// The largest number of buckets of each sign. If more are needed, all buckets are joined in pairs.
    pub const MAX_BUCKETS: usize = 160;

    /// Returns a histogram without samples. `factor` converts a sample from its unit to the base unit.
    pub fn new(factor: f64) -> Self {
        Self {
            scale: Distribution::MAX_SCALE,
            positive: vec![],
            negative: vec![],
            zero_count: 0,
            count: 0,
            sum: 0.0,
            factor,
        }
    }

    /// Adds the samples of a window. No sample is lost or counted twice.
    ///
    /// Refuses a window whose smallest samples are in no bucket ([`Distribution::zero_threshold`]), because it is
    /// unknown to which buckets these samples belong.
    pub(super) fn add(&mut self, window: &Distribution) -> Result<(), NotAdded> {
        if window.zero_threshold() > 0.0 {
            return Err(NotAdded::TooWide);
        }
        self.reduce_to(window.scale());
        let shift = window.scale() - self.scale;
        let shifted = |(index, count)| (index >> shift, count);
        add(&mut self.positive, window.positive().map(shifted));
        add(&mut self.negative, window.negative().map(shifted));
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
            side.iter_mut().for_each(|(index, _)| *index >>= shift);
            side.dedup_by(|(index, count), (before, sum)| {
                let is_same = index == before;
                if is_same {
                    *sum = sum.saturating_add(*count);
                }
                is_same
            });
            side.shrink_to(Self::MAX_BUCKETS);
        }
        self.scale = scale;
    }

    pub fn sum(&self) -> f64 {
        self.sum * self.factor
    }

    /// Returns the number of samples up to `bound`, which is above 0 and in the base unit. These are the samples of all
    /// buckets that end at or below `bound`. If `bound` is inside a bucket, the samples of this bucket are not counted.
    pub fn count_up_to(&self, bound: f64) -> u64 {
        // The factor allows for the rounding error in the computed end of a bucket.
        let bound = bound * (1.0 + 1e-9);
        let end = |index: i32| (f64::from(index + 1) * (-f64::from(self.scale)).exp2()).exp2() * self.factor;
        let positive = self.positive.iter().take_while(|(index, _)| end(*index) <= bound);
        let counts = self.negative.iter().chain(positive).map(|(_, count)| *count);
        counts.fold(self.zero_count, u64::saturating_add)
    }

    /// Returns the number that is added to the index of a bucket to get the index of this bucket in the base unit.
    ///
    /// The bucket boundaries in milliseconds differ slightly from the boundaries in seconds, because 1000 is not a
    /// power of `base`. This function rounds to the nearest bucket. So the error of boundaries and quantiles is at most
    /// half a bucket, which is a factor of `base^0.5`.
    pub fn shift(&self) -> i32 {
        (self.factor.log2() * f64::from(self.scale).exp2()).round() as i32
    }
}

/// Adds samples to the buckets of one sign. Both arguments are sorted in ascending order.
fn add(buckets: &mut Vec<Bucket>, samples: impl Iterator<Item = Bucket>) {
    let mut next = 0;
    for (index, count) in samples {
        while buckets.get(next).is_some_and(|(before, _)| *before < index) {
            next += 1;
        }
        match buckets.get_mut(next) {
            Some((same, sum)) if *same == index => *sum = sum.saturating_add(count),
            _ => {
                // By default, a `Vec` doubles its capacity, and could so reserve memory for more buckets than a
                // histogram can have.
                if buckets.len() == buckets.capacity() {
                    buckets.reserve_exact(Histogram::MAX_BUCKETS / 5);
                }
                buckets.insert(next, (index, count));
            }
        }
    }
}
