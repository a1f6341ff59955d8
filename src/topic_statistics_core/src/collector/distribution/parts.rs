// SPDX-License-Identifier: Apache-2.0

//! Creates a distribution from its parts, for example from the fields of a message.

use std::fmt;

use super::{
    bucket_index::{index_of, largest_below, MAX_SCALE},
    Distribution, WIDE,
};

/// The parts of a [`Distribution`], with the field names of `topic_statistics_interfaces/msg/MetricsDistribution`.
///
/// The default parts describe a distribution without samples.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DistributionParts<'a> {
    /// The number of samples: the sum of all counts.
    pub count: u64,
    /// The sum of the samples; NaN if the sum is too large for an `f64`. The value is not checked against the buckets.
    pub sum: f64,
    /// The smallest sample; NaN if there is no sample.
    pub minimum: f64,
    /// The largest sample; NaN if there is no sample.
    pub maximum: f64,
    /// The scale, from [`Distribution::MIN_SCALE`] to [`Distribution::MAX_SCALE`].
    pub scale: i32,
    /// The largest absolute value that is counted as zero. Above the smallest scale, the threshold is 0. At the
    /// smallest scale, it can also be the largest `f64` below a bucket.
    pub zero_threshold: f64,
    /// The number of samples whose absolute values are at most the zero threshold.
    pub zero_count: u64,
    /// The index of the first bucket of positive samples.
    pub positive_offset: i32,
    /// The counts of consecutive buckets of positive samples, at most [`Distribution::BUCKETS`] counts.
    pub positive_counts: &'a [u64],
    /// The index of the first bucket of negative samples. The index follows from the samples' absolute values.
    pub negative_offset: i32,
    /// The counts of consecutive buckets of negative samples, at most [`Distribution::BUCKETS`] counts.
    pub negative_counts: &'a [u64],
}

impl Default for DistributionParts<'_> {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0.0,
            minimum: f64::NAN,
            maximum: f64::NAN,
            scale: MAX_SCALE,
            zero_threshold: 0.0,
            zero_count: 0,
            positive_offset: 0,
            positive_counts: &[],
            negative_offset: 0,
            negative_counts: &[],
        }
    }
}

/// The error for invalid parts of a distribution. The error message names the wrong part and the valid values.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDistribution(String);

/// The place of a distribution's smallest or largest sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Bucket `i` of negative samples is `Negative(-i)`, so that places are ordered like the samples.
    Negative(i32),
    Zero,
    Positive(i32),
}

impl Distribution {
    /// Returns the distribution with exactly these figures and buckets, for example from a message.
    ///
    /// If a count needs more than 32 bits, the distribution has room for fewer buckets. Then the distribution may get a
    /// smaller scale than the parts have, just as a [`merge`](Self::merge) may reduce the scale.
    ///
    /// Returns an error that names the invalid part. If the parts are valid, this function allocates no memory.
    pub fn from_parts(parts: &DistributionParts<'_>) -> Result<Self, InvalidDistribution> {
        let &DistributionParts { scale, zero_count, count, sum, .. } = parts;
        if !(Self::MIN_SCALE..=Self::MAX_SCALE).contains(&scale) {
            let (min, max) = (Self::MIN_SCALE, Self::MAX_SCALE);
            return invalid(format_args!("The scale is {scale}: it has to be from {min} to {max}"));
        }
        let threshold = threshold(parts)?;
        let positive = side("positive", parts.positive_offset, parts.positive_counts, scale, threshold)?;
        let negative = side("negative", parts.negative_offset, parts.negative_counts, scale, threshold)?;
        let counts = parts.positive_counts.iter().chain(parts.negative_counts).chain([&zero_count]);
        let sum_of_counts: u128 = counts.map(|count| u128::from(*count)).sum();
        if sum_of_counts != u128::from(count) || count > Self::MAX_MERGED {
            return invalid(format_args!(
                "The count is {count}, and the sum of all counts is {sum_of_counts}: they have to be equal, and at \
                 most 2^63"
            ));
        }
        if sum.is_infinite() {
            return invalid(format_args!(
                "The sum of the samples is {sum}: it has to be a number, or NaN if it is too large"
            ));
        }
        check_extremes(parts, positive, negative)?;
        if count == 0 {
            return Ok(Self::default());
        }

        // With counts of 64 bits, a distribution has room for only half of the buckets. So each of two distributions
        // gets half of the buckets, and then the two distributions are added.
        let half = |number: usize| {
            let mut half = Self { shift: MAX_SCALE - scale, buckets: WIDE, threshold, ..Self::default() };
            for (side, counts, offset, range) in [
                (&mut half.positive, parts.positive_counts, parts.positive_offset, positive),
                (&mut half.negative, parts.negative_counts, parts.negative_offset, negative),
            ] {
                if range.is_none() {
                    continue; // The offset of a sign without samples has no meaning.
                }
                let counts = counts.chunks(WIDE as usize).nth(number).unwrap_or_default();
                side.first = offset + (number * WIDE as usize) as i32;
                for (slot, count) in counts.iter().enumerate() {
                    side.counts[slot] = *count as u32;
                    side.counts[slot + WIDE as usize] = (count >> 32) as u32;
                }
            }
            half
        };
        let (mut distribution, second) = (half(0), half(1));
        (distribution.zero_count, distribution.sum) = (zero_count, sum);
        (distribution.minimum, distribution.maximum) = (parts.minimum, parts.maximum);
        distribution.add(&second);
        Ok(distribution)
    }
}

/// Returns the first bucket above the zero threshold; `None` if the threshold is 0.
fn threshold(parts: &DistributionParts<'_>) -> Result<Option<i32>, InvalidDistribution> {
    let &DistributionParts { zero_threshold: threshold, scale, .. } = parts;
    if threshold == 0.0 {
        return Ok(None);
    }
    let is_possible = scale == Distribution::MIN_SCALE && threshold > 0.0 && threshold.is_finite();
    let first = is_possible.then(|| index_of(threshold, scale) + 1);
    match first.filter(|first| largest_below(*first, scale) == threshold) {
        Some(first) => Ok(Some(first)),
        None => invalid(format_args!(
            "The zero threshold is {threshold} at the scale {scale}: it has to be 0, or the largest f64 below a \
             bucket of the scale {min}",
            min = Distribution::MIN_SCALE
        )),
    }
}

/// Checks the buckets of positive or negative samples. Returns the first and the last bucket that have samples; `None`
/// if no bucket has samples.
fn side(
    sign: &'static str,
    offset: i32,
    counts: &[u64],
    scale: i32,
    threshold: Option<i32>,
) -> Result<Option<(i32, i32)>, InvalidDistribution> {
    if counts.len() > Distribution::BUCKETS {
        let (buckets, max) = (counts.len(), Distribution::BUCKETS);
        return invalid(format_args!("There are {buckets} {sign} buckets: there can be at most {max}"));
    }
    let first = threshold.unwrap_or_else(|| index_of(f64::from_bits(1), scale));
    let last = index_of(f64::MAX, scale);
    let mut range = None;
    for (slot, _) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let index = i64::from(offset) + slot as i64;
        match i32::try_from(index) {
            Ok(index) if (first..=last).contains(&index) => {
                range = Some((range.map_or(index, |(low, _)| low), index));
            }
            _ => {
                return invalid(format_args!(
                    "The {sign} bucket {index} has samples: at the scale {scale}, the buckets are from {first} to \
                     {last}"
                ))
            }
        }
    }
    Ok(range)
}

/// Checks that the minimum and the maximum are in the buckets of the smallest and the largest sample.
fn check_extremes(
    parts: &DistributionParts<'_>,
    positive: Option<(i32, i32)>,
    negative: Option<(i32, i32)>,
) -> Result<(), InvalidDistribution> {
    let &DistributionParts { minimum, maximum, scale, zero_threshold, zero_count, .. } = parts;
    let zero = (zero_count > 0).then_some(Place::Zero);
    let of_negative = |index: i32| Place::Negative(-index);
    let smallest = negative
        .map(|(_, last)| of_negative(last))
        .or(zero)
        .or(positive.map(|(first, _)| Place::Positive(first)));
    let largest = positive
        .map(|(_, last)| Place::Positive(last))
        .or(zero)
        .or(negative.map(|(first, _)| of_negative(first)));
    let place = |sample: f64| match sample {
        _ if !sample.is_finite() => None,
        _ if sample.abs() <= zero_threshold => Some(Place::Zero),
        _ if sample < 0.0 => Some(of_negative(index_of(-sample, scale))),
        _ => Some(Place::Positive(index_of(sample, scale))),
    };
    let is_without_samples = smallest.is_none() && minimum.is_nan() && maximum.is_nan();
    let is_right = smallest.is_some() && place(minimum) == smallest && place(maximum) == largest;
    if is_without_samples || is_right && minimum <= maximum {
        Ok(())
    } else {
        invalid(format_args!(
            "The minimum is {minimum} and the maximum {maximum}: they have to be in the first and the last bucket \
             with samples, and in order"
        ))
    }
}

fn invalid<T>(message: fmt::Arguments<'_>) -> Result<T, InvalidDistribution> {
    Err(InvalidDistribution(message.to_string()))
}
