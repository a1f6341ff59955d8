// SPDX-License-Identifier: Apache-2.0

//! The numbers of recorded and lost messages of a topic.

use std::fmt;

use topic_statistics_observe::recorded::{RecordedTotals, Scope};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// The number of messages lost on the way to the recorder. `None` if the middleware provides no sequence numbers.
    pub in_transport: Option<u64>,
    /// The number of messages that the recorder received but did not write.
    pub in_recorder: u64,
}

impl Losses {
    pub const NONE: Self = Self { in_transport: Some(0), in_recorder: 0 };

    pub fn and(self, other: Self) -> Self {
        Self {
            in_transport: self.in_transport.zip(other.in_transport).map(|(one, other)| one + other),
            in_recorder: self.in_recorder + other.in_recorder,
        }
    }

    /// Returns the losses since the time of the losses `before`. Never negative, although a late message reduces the
    /// number of losses.
    pub fn since(self, before: Self) -> Self {
        let transport = self.in_transport.zip(before.in_transport);
        Self {
            in_transport: transport.map(|(now, before)| now.saturating_sub(before)),
            in_recorder: self.in_recorder.saturating_sub(before.in_recorder),
        }
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_transport {
            Some(lost) => write!(f, "{lost}")?,
            None => f.write_str("an unknown number")?,
        }
        write!(f, " lost in the transport, {} in the recorder", self.in_recorder)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub messages: u64,
    /// The size of the written messages, in bytes, before compression.
    pub bytes: u64,
    /// The earliest log time, in nanoseconds since the Unix epoch.
    pub first: u64,
    /// The latest log time, in nanoseconds since the Unix epoch.
    pub last: u64,
}

impl Written {
    pub fn add(&mut self, log_time: u64, bytes: usize) {
        self.first = if self.messages == 0 { log_time } else { self.first.min(log_time) };
        self.last = self.last.max(log_time);
        self.messages += 1;
        self.bytes += bytes as u64;
    }

    /// Returns the rate from the first to the last message, in Hz. NaN with fewer than two messages.
    pub fn rate(&self) -> f64 {
        match self.last.saturating_sub(self.first) {
            0 => f64::NAN,
            nanoseconds => (self.messages - 1) as f64 / (nanoseconds as f64 / 1e9),
        }
    }

    pub fn totals(&self, topic: &str, scope: Scope, losses: Losses) -> RecordedTotals {
        RecordedTotals {
            topic: topic.to_owned(),
            scope,
            messages_recorded: self.messages,
            messages_lost_in_transport: losses.in_transport,
            messages_lost_in_recorder: losses.in_recorder,
            bytes_written: self.bytes,
            messages_rate: self.rate(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_from_the_first_message_to_the_last_in_any_order() {
        let mut written = Written::default();
        assert!(written.rate().is_nan());
        for time in [3_000_000_000, 1_000_000_000, 2_000_000_000] {
            written.add(time, 10);
        }
        assert_eq!((written.rate(), written.messages, written.bytes), (1.0, 3, 30));
    }

    #[test]
    fn unknown_losses_stay_unknown() {
        let lost = |in_transport, in_recorder| Losses { in_transport, in_recorder };
        assert_eq!(lost(Some(5), 7).since(lost(Some(2), 3)), lost(Some(3), 4));
        assert_eq!(lost(Some(1), 7).since(lost(Some(2), 7)), lost(Some(0), 0), "a message arrived late");
        assert_eq!(lost(None, 7).since(Losses::NONE), lost(None, 7));
    }
}
