// SPDX-License-Identifier: Apache-2.0

//! Arithmetic only: samples in, a summary out.
//!
//! Nothing here knows of ROS, of a clock, a lock or a message type, and nothing allocates: every time is a value
//! that is passed in. This is what the benchmarks and the property tests drive.

mod age;
mod period;
mod sequence;
mod summary;

pub use age::AgeCollector;
pub use period::{FirstPeriod, PeriodCollector};
pub use sequence::{Publisher, Sequence, SequenceTotals, SequenceTracker};
pub use summary::SummaryCollector;

/// Nanoseconds in a millisecond, the unit of ages and periods on `/statistics`.
const NANOSECONDS_PER_MILLISECOND: f64 = 1e6;

/// `later - earlier` of two times in nanoseconds, in milliseconds.
///
/// The difference is taken as an integer: a time of today has no room for nanoseconds in an `f64`.
#[inline]
pub(crate) fn milliseconds_between(earlier: i64, later: i64) -> f64 {
    match later.checked_sub(earlier) {
        Some(nanoseconds) => nanoseconds as f64 / NANOSECONDS_PER_MILLISECOND,
        None => milliseconds_of_centuries(earlier, later),
    }
}

/// The same for times more than 292 years apart.
#[cold]
#[inline(never)]
fn milliseconds_of_centuries(earlier: i64, later: i64) -> f64 {
    (i128::from(later) - i128::from(earlier)) as f64 / NANOSECONDS_PER_MILLISECOND
}
