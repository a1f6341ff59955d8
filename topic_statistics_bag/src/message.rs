// SPDX-License-Identifier: Apache-2.0

//! What is kept of a message.

/// The index of a channel of the bag: of a topic, or of one of its publishers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ChannelKey(pub(crate) u32);

/// What is kept of a message. Times are in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Message {
    pub(crate) channel: ChannelKey,
    /// As the file has it.
    pub(crate) sequence: u32,
    /// The bytes of its data; 0 if there is no room for the number.
    pub(crate) size: u32,
    pub(crate) log: i64,
    /// 0 if unknown.
    pub(crate) publish: i64,
    /// 0 if there is none, or if it cannot be read.
    pub(crate) header: i64,
}

impl Message {
    /// Returns the time of publication that a file gives; 0 if it says nothing.
    ///
    /// Before rosbag2 #1531, and from writers that know no better, it is the log time. Two readings of a clock are
    /// never equal to the nanosecond, so an equal time was copied.
    pub(crate) fn publish_time(publish: u64, log: i64) -> i64 {
        match i64::try_from(publish) {
            Ok(publish) if publish != log => publish,
            _ => 0,
        }
    }
}
