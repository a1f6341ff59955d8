// SPDX-License-Identifier: Apache-2.0

//! Runs of a recording: the log times go back when a simulation starts again, or a clock is set.

use crate::message::Message;

/// Finds where the log times go back for good.
///
/// A run is new if [`MESSAGES`](Self::MESSAGES) messages of a channel are each earlier than as many before them, by more
/// than [`LATE`](Self::LATE). A wrong time and a late message are no run, nor are topics that were written one behind
/// the other.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    channels: Vec<Channel>,
    /// Messages from the first one on that went back, until it is known why.
    held: Vec<Message>,
}

/// The log times of a channel.
#[derive(Clone, Copy, Debug)]
struct Channel {
    /// The last ones of this run, in any order.
    last: [i64; Runs::MESSAGES],
    /// The number of all.
    count: usize,
    /// How many of those that are held went back.
    back: usize,
}

/// What becomes of a message.
#[derive(Debug)]
pub(crate) enum Place {
    /// It follows the others.
    Next,
    /// It waits.
    Held,
    /// These messages were late, the last one is it.
    Late(Vec<Message>),
    /// These messages begin a new run, the last one is it.
    NewRun(Vec<Message>),
}

impl Runs {
    const MESSAGES: usize = 4;
    /// How late recorders write messages at most, in nanoseconds.
    const LATE: i64 = 1_000_000_000;
    /// How many messages are held at most.
    const MAX_HELD: usize = 1 << 12;

    /// Accepts a message in the order of the file.
    pub(crate) fn accept(&mut self, message: &Message) -> Place {
        let number = message.channel.0 as usize;
        if self.channels.len() <= number {
            self.channels.resize(number + 1, Channel::NEW);
        }
        let channel = &mut self.channels[number];
        let goes_back = channel.last.iter().all(|last| message.log < last.saturating_sub(Self::LATE));
        if self.held.is_empty() && !goes_back {
            channel.add(message.log);
            return Place::Next;
        }
        self.held.push(*message);
        channel.back += usize::from(goes_back);
        if channel.back >= Self::MESSAGES {
            self.channels.clear();
            return Place::NewRun(self.take());
        }
        let has_returned = channel.back > 0 && !goes_back;
        if has_returned || self.held.len() >= Self::MAX_HELD {
            return Place::Late(self.take());
        }
        Place::Held
    }

    /// Returns whether messages are held.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the messages that are held.
    pub(crate) fn take(&mut self) -> Vec<Message> {
        let held = std::mem::take(&mut self.held);
        for message in &held {
            let number = message.channel.0 as usize;
            if self.channels.len() <= number {
                self.channels.resize(number + 1, Channel::NEW);
            }
            self.channels[number].add(message.log);
            self.channels[number].back = 0;
        }
        held
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

    const S: i64 = 1_000_000_000;

    /// Returns where new runs begin, and in which order the messages leave.
    fn runs(times: impl IntoIterator<Item = (u32, i64)>) -> (Vec<i64>, Vec<i64>) {
        let (mut runs, mut starts, mut all) = (Runs::default(), vec![], vec![]);
        for (channel, log) in times {
            let message = Message { channel: ChannelKey(channel), log, ..Message::default() };
            match runs.accept(&message) {
                Place::Next => all.push(log),
                Place::Held => {}
                Place::Late(held) => all.extend(held.iter().map(|message| message.log)),
                Place::NewRun(held) => {
                    starts.push(held[0].log);
                    all.extend(held.iter().map(|message| message.log));
                }
            }
            assert!(runs.held.len() < Runs::MAX_HELD);
        }
        all.extend(runs.take().iter().map(|message| message.log));
        (starts, all)
    }

    #[test]
    fn a_run_begins_where_a_channel_goes_back_for_good() {
        let run = |from: i64, to: i64| (from..to).map(|second| (0, second * S));
        let (starts, all) = runs(run(0, 20).chain(run(3, 9)).chain(run(0, 30)));
        assert_eq!(starts, [3 * S, 0]);
        assert_eq!(all.len(), 56);
    }

    #[test]
    fn what_is_held_has_a_bound() {
        let stray = (0..4).map(|second| (0, second * S + 100 * S)).chain([(0, 0)]);
        let (starts, all) = runs(stray.chain((0..10_000).map(|number| (1, number))));
        assert_eq!((starts.len(), all.len()), (0, 10_005));
    }
}
