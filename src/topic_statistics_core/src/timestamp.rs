// SPDX-License-Identifier: Apache-2.0

//! Points in time, and steps of a clock.

use std::time::{Duration, SystemTime};

/// A point in time, in nanoseconds since the epoch of a clock. The documentation of each field or function with a
/// `Timestamp` names the clock: the system clock, or ROS time, which is simulated time if the node uses it.
///
/// ```
/// # extern crate topic_statistics_core as rclrs_topic_statistics;
/// use rclrs_topic_statistics::Timestamp;
/// use std::time::{Duration, SystemTime};
///
/// let stamp = Timestamp::from_nanoseconds(1_500_000_000);
/// assert_eq!(SystemTime::from(stamp), SystemTime::UNIX_EPOCH + Duration::from_millis(1500));
/// let later = Timestamp::from_nanoseconds(1_500_000_007);
/// assert_eq!(later.duration_since(stamp), Some(Duration::from_nanos(7)));
/// assert_eq!(stamp.duration_since(later), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Returns the point in time that is `nanoseconds` after the epoch of the clock.
    pub const fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// Returns the nanoseconds since the epoch of the clock.
    pub const fn as_nanoseconds(self) -> i64 {
        self.0
    }

    /// Returns the time from `earlier` to this timestamp; `None` if `earlier` is after this timestamp.
    pub fn duration_since(self, earlier: Self) -> Option<Duration> {
        (self >= earlier).then(|| Duration::from_nanos(self.0.abs_diff(earlier.0)))
    }
}

/// Converts a timestamp of the system clock.
impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let since_epoch = Duration::from_nanos(time.0.unsigned_abs());
        if time.0 < 0 {
            Self::UNIX_EPOCH - since_epoch
        } else {
            Self::UNIX_EPOCH + since_epoch
        }
    }
}

/// A step of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStep {
    /// The clock was set forward by this duration.
    Forward(Duration),
    /// The clock was set back by this duration.
    Back(Duration),
}

impl ClockStep {
    /// Returns the step for a number of nanoseconds. A negative number is a step back.
    pub const fn from_nanoseconds(by: i64) -> Self {
        let length = Duration::from_nanos(by.unsigned_abs());
        if by < 0 {
            Self::Back(length)
        } else {
            Self::Forward(length)
        }
    }

    /// Returns the nanoseconds of the step. The number is negative for a step back.
    pub fn as_nanoseconds(self) -> i64 {
        match self {
            Self::Forward(by) => i64::try_from(by.as_nanos()).unwrap_or(i64::MAX),
            Self::Back(by) => i64::try_from(by.as_nanos()).map_or(i64::MIN, |by| -by),
        }
    }
}
