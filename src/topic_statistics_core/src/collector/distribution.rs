// SPDX-License-Identifier: Apache-2.0

use std::{fmt, ops::Range};

use super::finite_or_nan;
use bucket_index::{boundary, index_of_normal, index_of_subnormal, largest_below, MAX_SCALE};
pub use parts::{DistributionParts, InvalidDistribution};

mod bucket_index;
mod parts;
#[cfg(test)]
mod tests;

/// The distribution of samples, in constant memory: a base-2 exponential histogram as defined by
/// [OpenTelemetry](https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram).
///
/// At the scale `s`, bucket `i` counts the samples in `(base^i, base^(i+1)]` with `base = 2^(2^-s)`. Negative samples
/// are counted in separate buckets, by their absolute values. Samples of zero are counted exactly. Each sign has at
/// most [`BUCKETS`](Self::BUCKETS) buckets: the scale starts at [`MAX_SCALE`](Self::MAX_SCALE), and falls when the
/// range of the samples grows.
///
/// The scale never falls below [`MIN_SCALE`](Self::MIN_SCALE). At that scale the buckets span 12 orders of magnitude.
/// If the samples have a larger range, the smallest samples are counted near zero, below the
/// [`zero_threshold`](Self::zero_threshold). A quantile is NaN if its sample was counted near zero. The error of all
/// other quantiles stays within its bound.
///
/// Counts are exact up to 2^63 samples. As soon as one bucket has 2^32 samples, each count takes twice the memory. Then
/// there are half as many buckets, and the scale may fall.
///
/// ```
/// use topic_statistics_core::collector::Distribution;
///
/// let mut ages = Distribution::default();
/// for age in 1..=1000 {
///     ages.accept(f64::from(age) / 10.0);
/// }
/// let error = ages.quantile(0.99) - 99.0;
/// assert!(error.abs() <= 99.0 * ages.relative_error());
/// assert!(ages.quantile(0.9999).is_nan()); // needs 10000 samples
/// ```
#[derive(Clone)]
pub struct Distribution {
    // The fields of the minimum and the maximum are not adjacent: the compiler would compare adjacent fields together,
    // in ten instructions instead of two.
    minimum: f64,
    sum: f64,
    maximum: f64,
    /// `MAX_SCALE - scale`.
    shift: i32,
    /// The number of buckets of each sign: [`NARROW`], or [`WIDE`] if a count needs 64 bits.
    buckets: u32,
    /// The first bucket above the zero threshold; `None` if the threshold is 0. If this is not `None`, the scale is
    /// [`MIN_SCALE`](Self::MIN_SCALE), and the buckets of both signs begin at this index.
    threshold: Option<i32>,
    zero_count: u64,
    positive: Side,
    negative: Side,
}

/// The number of buckets of each sign: `NARROW` if counts have 32 bits, `WIDE` if counts have 64 bits.
const NARROW: u32 = Distribution::BUCKETS as u32;
const WIDE: u32 = NARROW / 2;

#[derive(Clone)]
struct Side {
    /// The index of the bucket whose count is the first of `counts`.
    first: i32,
    /// If counts have 64 bits, the second half of this array has the upper 32 bits of each count.
    counts: [u32; Distribution::BUCKETS],
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            minimum: f64::INFINITY,
            sum: 0.0,
            maximum: f64::NEG_INFINITY,
            shift: 0,
            buckets: NARROW,
            threshold: None,
            zero_count: 0,
            positive: Side::new(0),
            negative: Side::new(0),
        }
    }
}

impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distribution")
            .field("count", &self.count())
            .field("sum", &self.sum())
            .field("minimum", &self.minimum())
            .field("maximum", &self.maximum())
            .field("scale", &self.scale())
            .field("zero_threshold", &self.zero_threshold())
            .field("zero_count", &self.zero_count())
            .field("positive", &self.positive().collect::<Vec<_>>())
            .field("negative", &self.negative().collect::<Vec<_>>())
            .finish()
    }
}

impl PartialEq for Distribution {
    /// Two distributions are equal if their figures (minimum, sum, maximum, scale, zero count, threshold) and their
    /// buckets are equal.
    fn eq(&self, other: &Self) -> bool {
        let figures = |distribution: &Self| {
            (
                distribution.minimum,
                distribution.sum,
                distribution.maximum,
                distribution.shift,
                distribution.zero_count,
                distribution.threshold,
            )
        };
        figures(self) == figures(other)
            && self.positive().eq(other.positive())
            && self.negative().eq(other.negative())
    }
}

impl Distribution {
    /// The largest number of buckets for each sign.
    pub const BUCKETS: usize = 160;

    /// The largest scale, which samples of a small range have. At this scale a quantile has an error of at most 0.3 %.
    /// The scale is also the largest schema of Prometheus's native histograms.
    pub const MAX_SCALE: i32 = MAX_SCALE;

    /// The smallest scale. At this scale a quantile has an error of at most 19 %, and all buckets together span 12
    /// orders of magnitude.
    pub const MIN_SCALE: i32 = 2;

    /// The largest number of samples that a distribution has after a [`merge`](Self::merge). A `u64` could count about
    /// twice as many samples.
    const MAX_MERGED: u64 = 1 << 63;

    /// Accepts a sample. Returns false and ignores the sample if it is NaN or infinite.
    #[inline]
    pub fn accept(&mut self, sample: f64) -> bool {
        const INFINITY: u64 = f64::INFINITY.to_bits();
        const NORMAL: u64 = f64::MIN_POSITIVE.to_bits();
        let magnitude = sample.abs().to_bits();
        let index = if magnitude.wrapping_sub(NORMAL) < INFINITY - NORMAL {
            index_of_normal(magnitude)
        } else if magnitude >= INFINITY {
            return false;
        } else if magnitude == 0 {
            self.zero_count += 1;
            self.add_figures(sample);
            return true;
        } else {
            index_of_subnormal(sample.abs())
        };
        self.add_figures(sample);

        let index = index >> self.shift;
        let is_negative = sample < 0.0;
        let side = if is_negative { &mut self.negative } else { &mut self.positive };
        let slot = index.wrapping_sub(side.first) as u32;
        match side.counts.get_mut(slot as usize) {
            Some(count) if slot < self.buckets && *count < u32::MAX => *count += 1,
            _ => self.add_elsewhere(index, is_negative),
        }
        true
    }

    #[inline]
    fn add_figures(&mut self, sample: f64) {
        self.sum += sample;
        // Each comparison is one instruction. `f64::min` needs more instructions, because it handles NaN.
        self.minimum = if sample < self.minimum { sample } else { self.minimum };
        self.maximum = if sample > self.maximum { sample } else { self.maximum };
    }

    /// Counts a sample whose bucket does not exist yet, or whose bucket's count cannot grow further.
    #[cold]
    #[inline(never)]
    fn add_elsewhere(&mut self, index: i32, is_negative: bool) {
        if self.threshold.is_some_and(|threshold| index < threshold) {
            self.zero_count += 1;
            return;
        }
        let mut sample = Self { shift: self.shift, ..Self::default() };
        let side = if is_negative { &mut sample.negative } else { &mut sample.positive };
        side.first = index;
        side.counts[0] = 1;
        self.add(&sample);
    }

    /// Adds the samples of another distribution, as if this distribution had accepted them. As long as every bucket has
    /// fewer than 2^32 samples, the counts are exact, and the order of merges and samples does not change them.
    ///
    /// If the sum would have more than 2^63 samples, returns false and changes nothing.
    #[must_use]
    pub fn merge(&mut self, other: &Self) -> bool {
        let has_room = self.count().checked_add(other.count()).is_some_and(|count| count <= Self::MAX_MERGED);
        if has_room {
            self.add(other);
        }
        has_room
    }

    /// Ends a window: returns the window's distribution, and starts the next window.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    fn add(&mut self, other: &Self) {
        let sum = self.with_buckets(other, NARROW).or_else(|| self.with_buckets(other, WIDE));
        // A sum with counts of 64 bits has room for all samples, so `sum` is not `None` here.
        *self = sum.unwrap_or_default();
    }

    /// Returns the sum of two distributions, with `buckets` buckets for each sign; `None` if a count overflows.
    fn with_buckets(&self, other: &Self, buckets: u32) -> Option<Self> {
        let mut shift = self.shift.max(other.shift);
        // For the positive and for the negative samples: the indices of the first and the last bucket.
        let mut ranges = [false, true].map(|is_negative| {
            let range = |distribution: &Self| {
                distribution.range(is_negative).map(|(low, high)| {
                    (low >> (shift - distribution.shift), high >> (shift - distribution.shift))
                })
            };
            match (range(self), range(other)) {
                (Some((low, high)), Some((other_low, other_high))) => {
                    Some((low.min(other_low), high.max(other_high)))
                }
                (range, other_range) => range.or(other_range),
            }
        });
        let fit = |ranges: &[Option<(i32, i32)>]| {
            ranges.iter().flatten().all(|(low, high)| high.abs_diff(*low) < buckets)
        };
        while !fit(&ranges) && shift < MAX_SCALE - Self::MIN_SCALE {
            shift += 1;
            ranges = ranges.map(|range| range.map(|(low, high)| (low >> 1, high >> 1)));
        }
        let mut threshold = self.threshold.max(other.threshold);
        if threshold.is_some() || !fit(&ranges) {
            // Of the buckets, those with the largest absolute values are kept, as many as possible. Positive and
            // negative samples get the same threshold. With one threshold for each sign, the threshold would depend on
            // the order of the samples.
            let high = ranges.iter().flatten().map(|(_, high)| *high).max();
            threshold = threshold.max(high.map(|high| high - (buckets as i32 - 1)));
        }
        let first = |range: Option<(i32, i32)>| match (threshold, range) {
            (Some(threshold), _) => threshold,
            // Half of the unused slots are for buckets below the range, and half are for buckets above the range.
            (None, Some((low, high))) => low - (buckets as i32 - 1 - (high - low)) / 2,
            (None, None) => 0,
        };
        let mut sum = Self {
            minimum: self.minimum.min(other.minimum),
            sum: self.sum + other.sum,
            maximum: self.maximum.max(other.maximum),
            shift,
            buckets,
            threshold,
            zero_count: self.zero_count + other.zero_count,
            positive: Side::new(first(ranges[0])),
            negative: Side::new(first(ranges[1])),
        };
        for distribution in [self, other] {
            for is_negative in [false, true] {
                for (index, count) in distribution.side(is_negative) {
                    sum.add_count(index >> (shift - distribution.shift), is_negative, count)?;
                }
            }
        }
        Some(sum)
    }

    /// Adds a count to an existing bucket, or to the zero count if the bucket is below the threshold. Returns `None` if
    /// the count overflows.
    fn add_count(&mut self, index: i32, is_negative: bool, count: u64) -> Option<()> {
        if self.threshold.is_some_and(|threshold| index < threshold) {
            self.zero_count += count;
            return Some(());
        }
        let is_wide = self.buckets == WIDE;
        let side = if is_negative { &mut self.negative } else { &mut self.positive };
        let slot = usize::try_from(index - side.first).ok()?;
        let sum = side.count(slot, is_wide) + count;
        if is_wide {
            *side.counts.get_mut(slot + WIDE as usize)? = (sum >> 32) as u32;
            side.counts[slot] = sum as u32;
        } else {
            *side.counts.get_mut(slot)? = u32::try_from(sum).ok()?;
        }
        Some(())
    }

    /// Returns the indices of the first and the last bucket that have samples, for the positive or for the negative
    /// samples.
    fn range(&self, is_negative: bool) -> Option<(i32, i32)> {
        let mut indices = self.side(is_negative).map(|(index, _)| index);
        let first = indices.next()?;
        Some((first, indices.next_back().unwrap_or(first)))
    }

    /// Returns the buckets that have samples, for the positive or for the negative samples: index and count.
    fn side(&self, is_negative: bool) -> impl DoubleEndedIterator<Item = (i32, u64)> + '_ {
        let side = if is_negative { &self.negative } else { &self.positive };
        let is_wide = self.buckets == WIDE;
        side.slots(is_wide)
            .map(move |slot| (side.first + slot as i32, side.count(slot, is_wide)))
            .filter(|(_, count)| *count > 0)
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.zero_count + self.positive().chain(self.negative()).map(|(_, count)| count).sum::<u64>()
    }

    /// Returns the sum of the samples; NaN if the sum is too large for an `f64`.
    pub fn sum(&self) -> f64 {
        finite_or_nan(self.sum)
    }

    /// Returns the smallest sample; NaN if there is no sample.
    pub fn minimum(&self) -> f64 {
        finite_or_nan(self.minimum)
    }

    /// Returns the largest sample; NaN if there is no sample.
    pub fn maximum(&self) -> f64 {
        finite_or_nan(self.maximum)
    }

    /// Returns the scale, from [`MIN_SCALE`](Self::MIN_SCALE) to [`MAX_SCALE`](Self::MAX_SCALE).
    pub fn scale(&self) -> i32 {
        MAX_SCALE - self.shift
    }

    /// Returns the number of samples whose absolute value is at most the [`zero_threshold`](Self::zero_threshold).
    pub fn zero_count(&self) -> u64 {
        self.zero_count
    }

    /// Returns the largest absolute value that is counted as zero. The threshold is 0 unless the samples have a larger
    /// range than the buckets of the smallest scale.
    pub fn zero_threshold(&self) -> f64 {
        self.threshold.map_or(0.0, |threshold| largest_below(threshold, self.scale()))
    }

    /// Returns the buckets of positive samples with a count above 0: index and count, in ascending order of the
    /// indices.
    pub fn positive(&self) -> impl DoubleEndedIterator<Item = (i32, u64)> + '_ {
        self.side(false)
    }

    /// Returns the buckets of negative samples with a count above 0: the index, which follows from the samples'
    /// absolute values, and the count, in ascending order of the indices.
    pub fn negative(&self) -> impl DoubleEndedIterator<Item = (i32, u64)> + '_ {
        self.side(true)
    }

    /// Returns the index of the first bucket of positive samples, and the counts from this bucket to the last bucket
    /// that has samples.
    pub fn positive_counts(&self) -> (i32, Vec<u64>) {
        counts(self.positive())
    }

    /// Returns the index of the first bucket of negative samples, and the counts from this bucket to the last bucket
    /// that has samples. The indices follow from the samples' absolute values.
    pub fn negative_counts(&self) -> (i32, Vec<u64>) {
        counts(self.negative())
    }

    /// Returns an upper bound of the error of each quantile that is not NaN, relative to the exact quantile. The bound
    /// is `base - 1`, from 0.003 to 0.19. (Samples below 2.2e-308 have fewer digits. So quantiles in this range can
    /// have an additional error of 5e-324.)
    pub fn relative_error(&self) -> f64 {
        (std::f64::consts::LN_2 / f64::from(1 << self.scale())).exp_m1()
    }

    /// Returns the sample that the given share of all samples does not exceed: `quantile(0.99)` is the 99th percentile.
    ///
    /// The exact quantile of `n` samples is the sample of rank `quantile * n`, rounded up, in ascending order. The
    /// result is in the same bucket as the exact quantile. Within the bucket, the result is interpolated by the rank,
    /// as in Prometheus's `histogram_quantile`. The interpolation assumes that the samples of a bucket are evenly
    /// distributed on a logarithmic scale. Because the result and the exact quantile are in the same bucket, they
    /// differ by at most [`relative_error`](Self::relative_error). The result is never below the minimum or above the
    /// maximum.
    ///
    /// The result is NaN in three cases: there are fewer than `1 / (1 - quantile)` samples; `quantile` is not in
    /// `[0, 1)`; or the [`zero_threshold`](Self::zero_threshold) is not zero and the absolute value of the exact
    /// quantile is at most this threshold.
    ///
    /// Do not average the quantiles of several windows: [`merge`](Self::merge) the distributions instead.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let count = self.count();
        if !(0.0..1.0).contains(&quantile) {
            return f64::NAN;
        }
        // As an `f64`, 0.07 is a little more than 7/100. The product is reduced a little, so that the quantile 0.07 of
        // 100 samples has rank 7 and not rank 8.
        let rank = (quantile * count as f64 * (1.0 - 4.0 * f64::EPSILON)).ceil() as u64;
        if rank >= count {
            return f64::NAN;
        }
        let rank = rank.max(1);
        let mut before = 0;
        // The position of the rank within a bucket, as a share of the bucket's samples.
        let share = |before, count| ((rank - before) as f64 - 0.5) / count as f64;
        let in_bucket = |index: f64| boundary(index, self.scale());
        let limited = |value: f64| value.max(self.minimum).min(self.maximum);
        for (index, count) in self.negative().rev() {
            if rank <= before + count {
                return limited(-in_bucket(f64::from(index) + 1.0 - share(before, count)));
            }
            before += count;
        }
        if rank <= before + self.zero_count {
            return if self.threshold.is_some() { f64::NAN } else { 0.0 };
        }
        before += self.zero_count;
        for (index, count) in self.positive() {
            if rank <= before + count {
                return limited(in_bucket(f64::from(index) + share(before, count)));
            }
            before += count;
        }
        f64::NAN
    }
}

impl Side {
    fn new(first: i32) -> Self {
        Self { first, counts: [0; Distribution::BUCKETS] }
    }

    /// Returns a range of slots (indices of `counts`) that contains all counts above zero.
    fn slots(&self, is_wide: bool) -> Range<usize> {
        /// How many counts are checked at once. This number has to divide the number of buckets.
        const CHUNK: usize = 16;
        if is_wide {
            return 0..WIDE as usize;
        }
        // This fold has no branch, so the compiler can check all counts of a chunk with a few vector instructions.
        let has_counts = |chunk: &[u32]| chunk.iter().fold(0, |all, count| all | count) > 0;
        let mut chunks = self.counts.chunks(CHUNK);
        match chunks.position(has_counts) {
            Some(first) => {
                first * CHUNK..(first + 1 + chunks.rposition(has_counts).map_or(0, |last| last + 1)) * CHUNK
            }
            None => 0..0,
        }
    }

    /// Returns the count in a slot; 0 if the slot does not exist.
    fn count(&self, slot: usize, is_wide: bool) -> u64 {
        let count = |slot: usize| u64::from(self.counts.get(slot).copied().unwrap_or_default());
        count(slot) | if is_wide { count(slot + WIDE as usize) << 32 } else { 0 }
    }
}

/// Returns the index of the first bucket with samples, and the counts from this bucket to the last bucket with samples.
fn counts(mut buckets: impl Iterator<Item = (i32, u64)>) -> (i32, Vec<u64>) {
    let Some((offset, first)) = buckets.next() else { return (0, vec![]) };
    let mut counts = vec![first];
    for (index, count) in buckets {
        counts.resize(index.abs_diff(offset) as usize, 0);
        counts.push(count);
    }
    (offset, counts)
}
