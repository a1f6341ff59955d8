// SPDX-License-Identifier: Apache-2.0

//! Whether a time is on simulated time or on the system clock.

/// Returns whether a time, in nanoseconds since the epoch of its clock, is on simulated time, which starts at 0. The
/// simulated time of a bag that is played back can be as late as the system clock, and is not recognized.
pub const fn is_simulated(time: i64) -> bool {
    const YEAR_2000: i64 = 946_684_800_000_000_000;
    time < YEAR_2000
}
