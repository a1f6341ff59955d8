// SPDX-License-Identifier: Apache-2.0

//! A message in the recorder: the epoch in which it was taken, the data that was read from it, and the sample that is
//! recorded.

use crate::record::topics::transport::{Gid, TransportInfo};

/// The epoch in which a message was taken. The high 32 bits are the number of the run: a run lasts from when the
/// statistics are enabled until they are disabled. The low 32 bits count how often stamps became doubtful or usable
/// again in the run.
///
/// A message is not recorded if it is taken in one run and its callback starts in another run. If a step of the system
/// clock is found between the take and the callback, the message has no age, because its stamp may be from the clock
/// before the step. If a message is taken after the step was found, while stamps are filtered (`StampFilter`), its
/// stamp is filtered even if its callback starts after the filter has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub(super) u64);

impl Epoch {
    /// The epoch while the statistics are disabled.
    pub(super) const DISABLED: Self = Self(0);

    /// Returns the first epoch of the next run of the statistics.
    pub(super) fn next(self) -> Self {
        Self(u64::from(self.number().wrapping_add(1).max(1)) << 32)
    }

    /// Returns the next epoch of the same run, after stamps became doubtful or usable again.
    pub(super) fn with_other_stamps(self) -> Self {
        Self(u64::from(self.number()) << 32 | u64::from((self.0 as u32).wrapping_add(1)))
    }

    /// Returns whether both epochs are in the same run of the statistics, from enabling to disabling.
    pub(super) fn is_of(self, other: Self) -> bool {
        self.number() == other.number() && self != Self::DISABLED
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A message as it was taken. Times are in nanoseconds; 0 if unknown.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedMessage {
    pub(super) epoch: Epoch,
    pub(super) header: i64,
    /// The data except the header stamp; `None` if no metric needs these data.
    pub(super) details: Option<Details>,
}

impl ReceivedMessage {
    /// Returns the epoch in which the message was taken.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

/// The data of a message except its header stamp.
#[derive(Debug, Clone, Copy)]
pub(super) struct Details {
    pub(super) transport: TransportInfo,
    /// The size in bytes; 0 if unknown or not measured.
    pub(super) size: u32,
    /// How often simulated time had jumped when the message was taken.
    pub(super) jumps: u16,
    /// Whether the node uses simulated time. (This `bool` saves memory, because the compiler stores the tags of the
    /// enums around this struct in its unused values.)
    pub(super) is_simulated: bool,
    /// Whether messages before or after this message may have been left out by a content filter.
    pub(super) is_filtered: bool,
}

/// A message that was passed on within the process, without the middleware. The message has no header stamp here,
/// because its content is not read.
#[derive(Debug, Clone, Copy)]
pub struct IntraProcessMessage {
    /// The start of the publication, in nanoseconds on the monotonic clock; 0 if unknown.
    pub published: i64,
    /// The identifier of the buffer in which the message waited. The buffer is treated like a publisher.
    pub buffer: Gid,
    /// The number of the message among all messages that were put into this buffer; `u64::MAX` if unknown. A missing
    /// number means that its message was overwritten in the buffer.
    pub number: u64,
}

/// A callback that is running.
#[derive(Debug, Clone, Copy)]
pub struct RunningCallback {
    pub(super) epoch: Epoch,
    /// The start of the callback, in nanoseconds on the monotonic clock.
    pub(super) started: i64,
}

/// A sample of a subscription. Times are in nanoseconds on the monotonic clock.
pub(super) enum Sample {
    /// A message whose callback starts.
    Message {
        message: ReceivedMessage,
        callback: i64,
        /// The simulated time at the start of the callback; 0 if unknown, or if the node does not use simulated time.
        simulated: i64,
    },
    /// A message that was passed on within the process. Its callback starts.
    IntraProcess { epoch: Epoch, message: IntraProcessMessage, callback: i64 },
    /// The end of a callback.
    CallbackEnd { epoch: Epoch, milliseconds: f64, end: i64 },
}
