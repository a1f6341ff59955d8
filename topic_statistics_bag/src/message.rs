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
    /// Returns whether a time of it cannot be of the clock of its log time: the one is simulated, the other is not.
    ///
    /// Simulated time starts at 0, or it is the time of a bag that is played. So one of the two times is before 2000,
    /// or the message is later than its recording.
    pub(crate) fn is_of_other_clock(&self, time: i64) -> bool {
        const SECOND: i64 = 1_000_000_000;
        const YEAR_2000: i64 = 946_684_800 * SECOND;
        // By as much differ the clocks of hosts that nobody sets.
        const MINUTE: i64 = 60 * SECOND;
        let is_simulated = |time: i64| time < YEAR_2000;
        time != 0 && (is_simulated(time) != is_simulated(self.log) || time > self.log.saturating_add(MINUTE))
    }

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
