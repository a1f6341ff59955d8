// SPDX-License-Identifier: Apache-2.0

//! The times of a recorded message.

use rclrs::{Clock, ClockType, Node};

/// The clock of a node on simulated time. As in rosbag2, log times are on this clock.
#[derive(Clone)]
pub struct SimulatedClock(Clock);

impl SimulatedClock {
    /// Returns the clock of a node. `None` if the node uses the system clock.
    pub fn new(node: &Node) -> Option<Self> {
        let clock = node.get_clock();
        matches!(clock.clock_type(), ClockType::RosTime).then_some(Self(clock))
    }

    /// Returns the time in nanoseconds. 0 before the first message on `/clock`.
    pub fn now(&self) -> u64 {
        self.0.now().nsec.try_into().unwrap_or_default()
    }
}

/// The times of a recorded message, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub log_time: u64,
    /// The time of the publication. Equals the log time if the time of the publication is unknown.
    pub publish_time: u64,
}

impl Times {
    /// Returns the times of a message. `None` before simulated time begins, because the message has no time.
    ///
    /// `simulated` is the time of the message's callback on simulated time, if the node uses simulated time. In this
    /// case, the source timestamp is not used, because the source timestamp is on the system clock, and all times of a
    /// recording are on one clock.
    pub fn new(simulated: Option<u64>, received: u64, source: Option<u64>) -> Option<Self> {
        match simulated {
            Some(0) => None,
            Some(now) => Some(Self { log_time: now, publish_time: now }),
            None => Some(Self { log_time: received, publish_time: source.unwrap_or(received) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_one_clock() {
        const S: u64 = 1_000_000_000;
        let times = |log_time, publish_time| Some(Times { log_time, publish_time });
        let (received, source) = (1_795_802_456 * S, 1_795_802_456 * S - 300_000);
        assert_eq!(Times::new(None, received, Some(source)), times(received, source));
        assert_eq!(Times::new(None, received, None), times(received, received));
        // A message with a header stamp of 99.9 s has an age of 100 ms, not of 57 years.
        assert_eq!(Times::new(Some(100 * S), received, Some(source)), times(100 * S, 100 * S));
        assert_eq!(Times::new(Some(0), received, Some(source)), None, "no message on /clock yet");
    }
}
