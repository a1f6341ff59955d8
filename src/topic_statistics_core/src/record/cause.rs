// SPDX-License-Identifier: Apache-2.0

//! Which message caused a publication: the message whose callback publishes.
//!
//! rmw does not learn when a callback starts. A client library takes a message and calls its callback on the same
//! thread. What the thread does next shows that the callback has returned: it waits, takes something else, calls a
//! timer, or reports it by a tracepoint (rclcpp). rclpy triggers a guard condition between take and callback, and again
//! after the callback.
//!
//! | since the take, the thread has | the cause of a publication is |
//! |---|---|
//! | done none of this, or triggered once | the message |
//! | triggered twice or more, without a tracepoint | not known: the callback may have returned |
//! | taken another message, with nothing of this in between | not known: the program takes by itself, or takes first and calls later |
//! | waited, taken a request, called a timer, ended a callback | no message |

/// A message that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of its topic; 0 if the topic is not measured.
    pub topic: u32,
    /// The source timestamp, in nanoseconds since the epoch; 0 if unknown.
    pub source: i64,
    /// When it was taken, in nanoseconds on the monotonic clock.
    pub taken: i64,
}

impl Message {
    /// A message of a topic that is not measured.
    pub const UNMEASURED: Self = Self { topic: 0, source: 0, taken: 0 };
}

/// What has caused a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No message that this thread has taken: a timer, a service, other code.
    Other,
    /// The message in whose callback it is.
    Message(Message),
    /// Not known.
    Ambiguous,
}

/// What a thread does, by what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// No callback of a message.
    #[default]
    Other,
    /// It has taken a message.
    Message {
        /// The message.
        message: Message,
        /// How often it has triggered a guard condition since then.
        triggers: u8,
        /// Whether a tracepoint has said that its callback runs.
        is_in_callback: bool,
    },
    /// It has taken several messages. `triggers` are those since the last one.
    Several {
        /// How often it has triggered a guard condition since the last one.
        triggers: u8,
    },
}

impl Activity {
    /// It has taken a message.
    #[inline]
    pub fn take(&mut self, message: Message) {
        let is_next = match self {
            Self::Other => true,
            Self::Message { triggers, is_in_callback, .. } => *triggers >= 2 && !*is_in_callback,
            Self::Several { triggers } => *triggers >= 2,
        };
        *self = match is_next {
            true => Self::Message { message, triggers: 0, is_in_callback: false },
            false => Self::Several { triggers: 0 },
        };
    }

    /// It has triggered a guard condition.
    #[inline]
    pub fn trigger(&mut self) {
        match self {
            Self::Other => {}
            Self::Message { triggers, .. } | Self::Several { triggers } => {
                *triggers = triggers.saturating_add(1)
            }
        }
    }

    /// A tracepoint says that a callback starts.
    #[inline]
    pub fn start_callback(&mut self, is_intra_process: bool) {
        match self {
            // Its message has not come by the middleware.
            _ if is_intra_process => *self = Self::Other,
            Self::Message { is_in_callback, .. } => *is_in_callback = true,
            Self::Other | Self::Several { .. } => {}
        }
    }

    /// The callback has returned, if there was one.
    #[inline]
    pub fn end(&mut self) {
        *self = Self::Other;
    }

    /// Returns what causes a publication of the thread now.
    #[inline]
    pub fn cause(self) -> Cause {
        match self {
            Self::Other => Cause::Other,
            Self::Message { message, triggers, is_in_callback } if is_in_callback || triggers <= 1 => {
                Cause::Message(message)
            }
            Self::Message { .. } | Self::Several { .. } => Cause::Ambiguous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Message = Message { topic: 1, source: 10, taken: 11 };
    const B: Message = Message { topic: 2, source: 20, taken: 21 };

    /// Returns the causes of the publications (`p`) of a thread that does this, one letter each: takes `a` or `b`,
    /// triggers (`t`), waits (`w`), starts and ends a callback (`(`, `)`), starts one of intra-process (`i`).
    fn causes(does: &str) -> Vec<Cause> {
        let mut activity = Activity::Other;
        let mut causes = vec![];
        for step in does.chars() {
            match step {
                'a' => activity.take(A),
                'b' => activity.take(B),
                't' => activity.trigger(),
                'w' | ')' => activity.end(),
                '(' => activity.start_callback(false),
                'i' => activity.start_callback(true),
                'p' => causes.push(activity.cause()),
                _ => unreachable!("{step}"),
            }
        }
        causes
    }

    #[test]
    fn a_publication_is_caused_by_the_message_in_whose_callback_it_is() {
        let (a, b) = (Cause::Message(A), Cause::Message(B));
        // A callback that publishes twice; then one that does not, and one of another topic in the same round: of
        // rclcpp, of rclpy, and of others in rounds of their own.
        for executor in ["wa(pp)a()b(p)", "watpptattbtptw", "wappwawbp"] {
            assert_eq!(causes(executor), [a, a, b], "{executor}");
        }
        assert_eq!(causes("wa(tttp)"), [a], "rclcpp triggers for its intra-process subscriptions");
    }

    #[test]
    fn a_publication_outside_of_a_callback_has_no_message_as_its_cause() {
        for timer in ["p", "wp", "wawp", "wa(p)wp", "wa()p", "watptwp", "wa()ip"] {
            assert_eq!(causes(timer).last(), Some(&Cause::Other), "{timer}");
        }
    }

    #[test]
    fn where_the_callback_may_have_returned_the_cause_is_ambiguous() {
        // Two inputs taken by the program itself; a coroutine of rclpy that goes on after another callback.
        // An executor that takes first and calls later, as rclrs's with one thread.
        for unknown in ["watbtp", "wabp", "wabap", "wab(p", "wattp", "wattbttp", "waap"] {
            assert_eq!(causes(unknown), [Cause::Ambiguous], "{unknown}");
        }
        assert_eq!(causes("wabpwap"), [Cause::Ambiguous, Cause::Message(A)]);
    }
}
