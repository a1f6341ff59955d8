// SPDX-License-Identifier: Apache-2.0

//! Finds the message that caused a publication. If a callback publishes, the cause is the callback's message.
//!
//! The rmw layer is not informed when a callback starts. But a client library takes a message and calls the message's
//! callback on the same thread.
//!
//! rclcpp reports by tracepoints when a callback starts and ends, and which callback belongs to which subscription. If
//! a thread publishes between the start and the end of a callback, the cause is the callback's message. This is the
//! message that the callback's subscription took last on this thread, or a message that was passed on within the
//! process. The callback of a timer or a service has no message. Outside a callback, a message that a subscription of
//! rclcpp took is not regarded as a cause, because rclcpp discards some messages without calling a callback, and
//! programs can take messages themselves.
//!
//! For subscriptions without tracepoints, the next action of the thread shows that the callback has returned: the
//! thread waits, takes something else, or calls a timer. rclpy triggers a guard condition between the take and the
//! callback, and again after the callback.
//!
//! | actions of the thread since the take | cause of a publication |
//! |---|---|
//! | none of the actions below, or triggered a guard condition once | the message |
//! | triggered guard conditions twice or more | unknown: the callback may have returned |
//! | took another message, without any other action in between | unknown: the program takes messages itself, or takes several messages before it calls callbacks |
//! | waited, took a request, called a timer, or ended a callback | no message |

/// A message that a thread has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the message's topic; 0 if the topic is not measured.
    pub topic: u32,
    /// The source timestamp of the message, in nanoseconds since the Unix epoch; 0 if unknown.
    pub source: i64,
    /// The time at which the message was taken, in nanoseconds on the monotonic clock.
    pub taken: i64,
}

impl Message {
    /// A message of a topic that is not measured.
    pub const UNMEASURED: Self = Self { topic: 0, source: 0, taken: 0 };
}

/// The cause of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No message that this thread has taken is the cause: a timer, a service or other code published.
    Other,
    /// The message whose callback made the publication.
    Message(Message),
    /// The cause is unknown.
    Ambiguous,
}

/// The current activity of a thread, inferred from the thread's calls of rmw and its tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    state: State,
    /// The number of a subscription whose callbacks are reported, and the last message that this subscription took;
    /// `None` after a callback has started.
    taken: Option<(usize, Message)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The thread runs no callback of a message.
    Other,
    /// The thread runs a callback that was reported by a tracepoint, with the callback's message.
    Callback(Option<Message>),
    /// The thread has taken a message. `triggers` is how often the thread has triggered a guard condition since the
    /// take.
    Message { message: Message, triggers: u8 },
    /// The thread has taken several messages. `triggers` is how often the thread has triggered a guard condition since
    /// the last take.
    Several { triggers: u8 },
}

impl Activity {
    /// The activity of a thread that has done nothing yet.
    pub const NONE: Self = Self { state: State::Other, taken: None };

    /// Records that the thread took a message of a subscription whose callbacks are not reported.
    #[inline]
    pub fn take(&mut self, message: Message) {
        let is_next = match self.state {
            State::Other => true,
            State::Callback(_) => return, // the reported callback continues
            // If several messages were taken but none is measured, none of them is a cause.
            State::Message { message: before, triggers } => {
                triggers >= 2 || (before.topic == 0 && message.topic == 0)
            }
            State::Several { triggers } => triggers >= 2,
        };
        self.state = match is_next {
            true => State::Message { message, triggers: 0 },
            false => State::Several { triggers: 0 },
        };
    }

    /// Records that the thread took a message of a subscription whose callbacks are reported. `subscription` is the
    /// subscription's number.
    #[inline]
    pub fn take_for_callback(&mut self, message: Message, subscription: usize) {
        self.taken = Some((subscription, message));
        if !matches!(self.state, State::Callback(_)) {
            self.state = State::Other;
        }
    }

    /// Records that the thread triggered a guard condition.
    #[inline]
    pub fn trigger(&mut self) {
        if let State::Message { triggers, .. } | State::Several { triggers } = &mut self.state {
            *triggers = triggers.saturating_add(1);
        }
    }

    /// Records that a callback of the given subscription starts. `None` stands for a callback of a timer or a service.
    #[inline]
    pub fn start_callback(&mut self, subscription: Option<usize>) {
        let taken = self.taken.take().filter(|(by, _)| Some(*by) == subscription);
        self.state = State::Callback(taken.map(|(_, message)| message));
    }

    /// Records the start of a callback whose message was passed on within the process. `None` means that this message
    /// is unknown.
    #[inline]
    pub fn start_callback_of(&mut self, message: Option<Message>) {
        self.taken = None;
        self.state = State::Callback(message);
    }

    /// Records that the running callback, if any, has returned.
    #[inline]
    pub fn end(&mut self) {
        *self = Self::NONE;
    }

    /// Returns the cause of a publication that the thread makes now.
    #[inline]
    pub fn cause(self) -> Cause {
        match self.state {
            State::Other | State::Callback(None) => Cause::Other,
            State::Callback(Some(message)) => Cause::Message(message),
            State::Message { message, triggers: 0 | 1 } => Cause::Message(message),
            State::Message { .. } | State::Several { .. } => Cause::Ambiguous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Message = Message { topic: 1, source: 10, taken: 11 };
    const B: Message = Message { topic: 2, source: 20, taken: 21 };

    /// Returns the causes of the publications of a thread. Each letter is an action of the thread: `p` publishes; `a`
    /// and `b` take a message, and `u` takes a message that is not measured; `t` triggers a guard condition; `w` waits
    /// or calls a timer. `A` and `B` are takes by subscriptions whose callbacks are reported. The callbacks of these
    /// messages start with `1` and `2`. `i` starts the callback of a message that was passed on within the process, `0`
    /// any other callback, and `)` ends a callback.
    fn causes(does: &str) -> Vec<Cause> {
        let mut activity = Activity::NONE;
        let mut causes = vec![];
        for step in does.chars() {
            match step {
                'a' => activity.take(A),
                'b' => activity.take(B),
                'u' => activity.take(Message::UNMEASURED),
                'A' => activity.take_for_callback(A, 1),
                'B' => activity.take_for_callback(B, 2),
                't' => activity.trigger(),
                'w' | ')' => activity.end(),
                '0' => activity.start_callback(None),
                'i' => activity.start_callback_of(Some(B)),
                '1' | '2' => activity.start_callback(Some(step as usize - '0' as usize)),
                'p' => causes.push(activity.cause()),
                _ => unreachable!("{step}"),
            }
        }
        causes
    }

    #[test]
    fn a_publication_is_caused_by_the_message_of_its_callback() {
        let (a, b) = (Cause::Message(A), Cause::Message(B));
        // A callback publishes twice. Then one callback does not publish, and a callback of another topic runs in the
        // same round of the executor. The three texts are for rclcpp, for rclpy, and for executors that take one
        // message per round.
        for executor in ["wA1pp)A1)B2p)", "watpptattbtptw", "wappwawbp"] {
            assert_eq!(causes(executor), [a, a, b], "{executor}");
        }
        assert_eq!(causes("wA1tttp)"), [a], "rclcpp triggers for its intra-process subscriptions");
        assert_eq!(causes("A1p)A1p)B2p)"), [a, a, b], "rclcpp's EventsExecutor never waits");
        assert_eq!(causes("Aip)1p"), [b, Cause::Other], "within the process, after a discarded copy");
        assert_eq!(causes("A1pB2pwp"), [a, b, Cause::Other], "callbacks that unwind have no end");
    }

    #[test]
    fn a_publication_outside_of_a_callback_has_no_cause() {
        for timer in ["p", "wp", "wawp", "wA1p)wp", "wA1)p", "watptwp"] {
            assert_eq!(causes(timer).last(), Some(&Cause::Other), "{timer}");
        }
    }

    #[test]
    fn a_take_without_a_callback_causes_nothing() {
        let others = [
            "A0p)",   // the taken copy of a message is discarded, and then a timer is called without a wait
            "A0p",    // the callback of another entity takes a message itself
            "0Ap)",   // the message is taken in the callback of another entity
            "A1)B0p", // another thread has taken the message of this callback
            "AB1p)",  // the callback belongs to an earlier message than the last one
            "Ap",     // a program takes messages itself
            "uu0p)",  // feedback and status of an action in the same round
        ];
        for other in others {
            assert_eq!(causes(other), [Cause::Other], "{other}");
        }
        assert_eq!(causes("uup"), [Cause::Message(Message::UNMEASURED)], "the feedback is the cause");
        // The cause must be the callback's own message, even if other subscriptions take messages, either within the
        // callback, or for their own callbacks in the same round of the executor.
        for callback in ["A1Bp)", "A1Babp)", "BA1p)", "uA1p)", "uuA1p)", "aA1p)", "A1uup)"] {
            assert_eq!(causes(callback), [Cause::Message(A)], "{callback}");
        }
    }

    #[test]
    fn where_the_callback_may_have_returned_the_cause_is_ambiguous() {
        // The cause is unknown if a program takes messages of two inputs itself, if a coroutine of rclpy continues
        // after another callback, or if an executor takes several messages before it calls the callbacks, like the
        // executor of rclrs with one thread.
        for unknown in ["watbtp", "wabp", "wabap", "wattp", "wattbttp", "waap", "uap", "aup"] {
            assert_eq!(causes(unknown), [Cause::Ambiguous], "{unknown}");
        }
        assert_eq!(causes("wabpwap"), [Cause::Ambiguous, Cause::Message(A)]);
    }
}
