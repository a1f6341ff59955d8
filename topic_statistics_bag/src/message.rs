// SPDX-License-Identifier: Apache-2.0

//! The properties of a message that the statistics need.

use topic_statistics_core::record::clock::is_simulated;

/// The index of a channel. A channel is a topic, or one publisher of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChannelKey(pub(crate) u32);

/// The properties of a message that the statistics need. Times are in nanoseconds of Unix time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) channel: ChannelKey,
    /// The sequence number in the file.
    pub(crate) sequence: u32,
    /// The size of the data in bytes. 0 if the size does not fit into 32 bits.
    pub(crate) size: u32,
    /// The log time: when the recorder received the message.
    pub(crate) log: i64,
    /// The publish time. 0 if it is unknown.
    pub(crate) publish: i64,
    /// The header stamp. 0 if the message has no header, or if the stamp cannot be read.
    pub(crate) header: i64,
}

impl Message {
    /// Returns whether `time` and the log time are on different clocks, because one of the two times is simulated and
    /// the other is not. `time` is the publish time or the header stamp of this message.
    ///
    /// The clocks differ if only one of the two times is [simulated](is_simulated), or, for the simulated time of a bag
    /// that is played back, if `time` is more than a minute later than the log time.
    pub(crate) fn is_of_other_clock(&self, time: i64) -> bool {
        // The clocks of hosts that are not synchronized can differ by this much.
        const MINUTE: i64 = 60_000_000_000;
        time != 0 && (is_simulated(time) != is_simulated(self.log) || time > self.log.saturating_add(MINUTE))
    }

    /// Returns the publish time of a message in a file. Returns 0 if the file does not contain the real publish time.
    ///
    /// rosbag2 before pull request #1531, and writers that do not know the publish time, write the log time instead.
    /// Two readings of a clock are never equal to the nanosecond, so a publish time that equals the log time is a copy.
    pub(crate) fn publish_time(publish: u64, log: i64) -> i64 {
        match i64::try_from(publish) {
            Ok(publish) if publish != log => publish,
            _ => 0,
        }
    }
}
