// SPDX-License-Identifier: Apache-2.0

//! Finds the runs of a recording. A new run begins where the log times go back: after the restart of a simulation, or
//! after a clock was set back.

use crate::message::Message;

/// Finds new runs. A new run begins if [`MESSAGES`](Self::MESSAGES) consecutive messages of a channel are all more than
/// [`LATE`](Self::LATE) earlier than the latest messages of this channel in the current run. No new run begins at a
/// single wrong time, at a late message, or if a recorder has written the topics one after the other.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    channels: Vec<Channel>,
    /// The messages that wait until it is clear whether a new run has begun. The log time of the first of these
    /// messages went back.
    pending: Vec<Message>,
}

#[derive(Clone, Copy, Debug)]
struct Channel {
    /// The latest log times of this channel in the current run, in any order.
    last: [i64; Runs::MESSAGES],
    /// The number of messages of this channel in the current run.
    count: usize,
    /// How many of the waiting messages of this channel have log times that went back.
    back: usize,
}

pub(crate) enum Place {
    Next,
    Held,
    /// No new run has begun: these messages belong to the current run. All of them have waited, except the last
    /// message, which is the accepted message.
    Late(Vec<Message>),
    /// A new run has begun with these messages. The last message is the accepted message.
    NewRun(Vec<Message>),
}

impl Runs {
    /// The number of messages of a channel that decide whether a new run has begun.
    const MESSAGES: usize = 4;
    /// The longest delay with which a recorder writes a message, in nanoseconds.
    const LATE: i64 = 1_000_000_000;
    /// The largest number of waiting messages.
    const MAX_PENDING: usize = 1 << 12;

    pub(crate) fn place(&mut self, message: &Message) -> Place {
        let channel = Self::channel(&mut self.channels, message);
        let goes_back = channel.last.iter().all(|last| message.log < last.saturating_sub(Self::LATE));
        if self.pending.is_empty() && !goes_back {
            channel.add(message.log);
            return Place::Next;
        }
        self.pending.push(*message);
        channel.back += usize::from(goes_back);
        if channel.back >= Self::MESSAGES {
            self.channels.clear();
            return Place::NewRun(self.take());
        }
        let has_returned = channel.back > 0 && !goes_back;
        if has_returned || self.pending.len() >= Self::MAX_PENDING {
            return Place::Late(self.take());
        }
        Place::Held
    }

    fn channel<'a>(channels: &'a mut Vec<Channel>, message: &Message) -> &'a mut Channel {
        let number = message.channel.0 as usize;
        if channels.len() <= number {
            channels.resize(number + 1, Channel::NEW);
        }
        &mut channels[number]
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Removes and returns the waiting messages.
    pub(crate) fn take(&mut self) -> Vec<Message> {
        let pending = std::mem::take(&mut self.pending);
        for message in &pending {
            let channel = Self::channel(&mut self.channels, message);
            channel.add(message.log);
            channel.back = 0;
        }
        pending
    }
}

impl Channel {
    const NEW: Self = Self { last: [i64::MIN; Runs::MESSAGES], count: 0, back: 0 };

    fn add(&mut self, log: i64) {
        self.last[self.count % Runs::MESSAGES] = log;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ChannelKey;

    #[test]
    fn pending_messages_have_a_bound() {
        let (mut runs, mut count) = (Runs::default(), 0);
        let stray = [100, 101, 102, 103, 0].map(|second| (0, second * 1_000_000_000));
        for (channel, log) in stray.into_iter().chain((0..10_000).map(|number| (1, number))) {
            let message = Message { channel: ChannelKey(channel), log, ..Message::default() };
            count += match runs.place(&message) {
                Place::Next => 1,
                Place::Held => 0,
                Place::Late(pending) => pending.len(),
                Place::NewRun(_) => panic!("one stray message is no run"),
            };
            assert!(runs.pending.len() < Runs::MAX_PENDING);
        }
        assert_eq!(count + runs.take().len(), 10_005);
    }
}
