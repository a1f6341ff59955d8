// SPDX-License-Identifier: Apache-2.0

//! Collectors are arithmetic only: samples go in, and a summary comes out.
//!
//! Collectors use no ROS type, no clock and no lock. They get every time as an argument. Only [`SequenceTracker`]
//! allocates memory, for each publisher that it has not seen before.

mod age;
mod distribution;
mod period;
mod sequence;
mod summary;

pub use age::AgeCollector;
pub use distribution::{Distribution, DistributionParts, InvalidDistribution};
pub use period::{FirstPeriod, PeriodCollector};
pub(crate) use sequence::{steps, Followed};
pub use sequence::{FollowedPublisher, Sequence, SequenceTotals, SequenceTracker};
pub use summary::SummaryCollector;

use crate::summary::Summary;

/// Returns the summary of one sample, or of no sample if `sample` is `None`.
pub fn single_sample(sample: Option<f64>) -> Summary {
    let mut collector = SummaryCollector::default();
    if let Some(sample) = sample {
        collector.accept(sample);
    }
    collector.summary()
}

/// Returns the value, or NaN if the value is infinite.
fn finite_or_nan(value: f64) -> f64 {
    if value.is_finite() {
        value
    } else {
        f64::NAN
    }
}

/// The nanoseconds in a millisecond, the unit of ages and periods on `/statistics`.
const NANOSECONDS_PER_MILLISECOND: f64 = 1e6;

/// Returns `later - earlier` in milliseconds. Both times are in nanoseconds.
///
/// The times are subtracted as integers, because an `f64` cannot represent today's time in nanoseconds exactly.
#[inline]
pub(crate) fn milliseconds_between(earlier: i64, later: i64) -> f64 {
    match later.checked_sub(earlier) {
        Some(nanoseconds) => nanoseconds as f64 / NANOSECONDS_PER_MILLISECOND,
        None => milliseconds_of_centuries(earlier, later),
    }
}

/// Returns `later - earlier` in milliseconds, for times that are more than 292 years apart.
#[cold]
#[inline(never)]
fn milliseconds_of_centuries(earlier: i64, later: i64) -> f64 {
    (i128::from(later) - i128::from(earlier)) as f64 / NANOSECONDS_PER_MILLISECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_centuries_apart_are_subtracted_without_overflow() {
        let all = (i64::MAX as f64 * 2.0 + 1.0) / 1e6;
        assert_eq!(milliseconds_between(i64::MIN, i64::MAX), all);
        assert_eq!(milliseconds_between(i64::MAX, i64::MIN), -all);
        assert_eq!(milliseconds_between(i64::MIN, 0), i64::MAX as f64 / 1e6);
        assert_eq!(milliseconds_between(-1_500_000, i64::MAX), (i64::MAX as f64 + 1.5e6) / 1e6);
    }
}
