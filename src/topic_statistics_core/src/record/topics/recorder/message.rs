// SPDX-License-Identifier: Apache-2.0

//! A message on its way through the recorder: when it was taken, what was read of it, and the sample that it becomes.

use crate::record::topics::transport::TransportInfo;

/// When a message was taken. High 32 bits: the enabled period. Low 32 bits: how often stamps became doubtful or usable
/// again in that period.
///
/// A message is not recorded if it is taken in one enabled period and its callback starts in another. If a step of the
/// system clock is found between the two, the message has no age: its stamp may be from the clock before the step. A
/// message taken later, while stamps are filtered (`StampFilter`), is filtered even if its callback starts
/// after the filter has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub(super) u64);

impl Epoch {
    /// The statistics are disabled.
    pub(super) const DISABLED: Self = Self(0);

    /// Returns the first epoch of the next enabled period.
    pub(super) fn next(self) -> Self {
        Self(u64::from(self.number().wrapping_add(1).max(1)) << 32)
    }

    /// Returns the epoch after stamps became doubtful or usable again.
    pub(super) fn with_other_stamps(self) -> Self {
        Self(u64::from(self.number()) << 32 | u64::from((self.0 as u32).wrapping_add(1)))
    }

    /// Returns whether both are in the same enabled period.
    pub(super) fn is_of(self, other: Self) -> bool {
        self.number() == other.number() && self != Self::DISABLED
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A message as it is taken. Times are in nanoseconds, 0 if there is none.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedMessage {
    pub(super) epoch: Epoch,
    pub(super) header: i64,
    /// None if no metric needs them.
    pub(super) details: Option<Details>,
}

/// A message's data besides its header stamp.
#[derive(Debug, Clone, Copy)]
pub(super) struct Details {
    pub(super) transport: TransportInfo,
    /// The size in bytes; 0 if unknown or not measured.
    pub(super) size: u32,
    /// How often simulated time had jumped.
    pub(super) jumps: u16,
    /// Whether the node runs on simulated time. (A `bool` has room for the tags of the enums around it: a queued sample
    /// is smaller.)
    pub(super) is_simulated: bool,
    /// Whether messages before or after it may have been left out on purpose.
    pub(super) is_filtered: bool,
}

/// A callback that is running.
#[derive(Debug, Clone, Copy)]
pub struct RunningCallback {
    pub(super) epoch: Epoch,
    /// On the monotonic clock.
    pub(super) started: i64,
}

/// A sample of a subscription. Times are in nanoseconds on the monotonic clock.
pub(super) enum Sample {
    /// A message whose callback starts.
    Message {
        message: ReceivedMessage,
        callback: i64,
        /// ROS time at the same moment if it is simulated; 0 if unknown.
        simulated: i64,
    },
    /// The end of a callback.
    CallbackEnd { epoch: Epoch, milliseconds: f64, end: i64 },
}
