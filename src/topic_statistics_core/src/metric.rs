// SPDX-License-Identifier: Apache-2.0

//! The metrics of Topic Statistics, with their names and units.

use std::{fmt, str::FromStr};

/// A metric of Topic Statistics: the quantity that is measured.
///
/// [`name`](Self::name) and [`unit`](Self::unit) are `metrics_source` and `unit` on `/statistics`; `Display` writes the
/// name, and `parse` reads it. The first two metrics are rclcpp's, and the default of every subscription.
///
/// ```
/// # extern crate topic_statistics_core as rclrs_topic_statistics;
/// use rclrs_topic_statistics::Metric;
///
/// let metric: Metric = "publication_seq_gap".parse()?;
/// assert_eq!((metric, metric.unit()), (Metric::PublicationSeqGap, "messages"));
/// assert!(Metric::OF_SUBSCRIPTIONS.contains(&metric));
/// # Ok::<(), rclrs_topic_statistics::UnknownMetric>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Metric {
    /// The age of a message when its callback starts: ROS time less the header stamp (or the source timestamp, see
    /// [`AgeSource`](crate::AgeSource)). *High*: the message was delayed; the metrics below show where.
    MessageAge,
    /// The time between the callback starts of two messages, on the monotonic clock. *High*: messages arrive too rarely
    /// or are lost. A high standard deviation: they arrive in bursts.
    MessagePeriod,
    /// Source timestamp less header stamp: the delay in the driver and the publisher. NaN on simulated time, which
    /// source timestamps do not follow.
    HeaderToSource,
    /// Received timestamp less source timestamp: the delay in the middleware and the network. *Negative*: the clocks of
    /// two hosts differ. NaN where the middleware does not report when a message was received (Cyclone DDS).
    SourceToReceive,
    /// Callback start less received timestamp: how long the message waited for the executor or the worker. NaN where
    /// `SourceToReceive` is.
    ReceiveToCallback,
    /// Callback start less source timestamp: the sum of the two delays before. Available with every middleware.
    SourceToCallback,
    /// Callback start (ROS time) less header stamp: the age from end to end.
    HeaderToCallback,
    /// The duration of the callback; of an async callback, from the first poll to completion.
    CallbackDuration,
    /// The number of messages missing immediately before each message, of the same publisher. A message that arrives
    /// late is subtracted in the [totals](crate::Totals) only. NaN if the middleware does not
    /// number messages.
    PublicationSeqGap,
    /// The time from the last message to the window's end, on the monotonic clock; one sample per window. NaN before
    /// the first message since the statistics were enabled. *Growing from window to window*: the topic is silent.
    TimeSinceLastMessage,
    /// The kernel's estimate of the offset of this host's clock; one sample per window. NaN where the kernel reports
    /// that the clock is not synchronised, and where it does not know the offset: chrony and phc2sys steer the clock
    /// without telling it. It is published once for all subscriptions of a node with the same window and publisher,
    /// with the host name as `measurement_source_name`.
    ClockOffset,
    /// The size of a message in bytes: serialized (CDR) as it is sent, with the encapsulation header of 4 bytes, and on
    /// DDS with the padding to a multiple of 4. That is what `ros2 topic bw` counts. A publisher measures it, too, if
    /// it is in its `StatisticsOptions::metrics`. *High*: messages need much of the network.
    MessageSize,
    /// The time between the ends of two publications of a `StatsPublisher`, on the monotonic
    /// clock. *High*: the node publishes too rarely. Publications that fail are not measured.
    PublishPeriod,
    /// The duration of a publication of a `StatsPublisher`. *High*: the middleware blocks the
    /// node: large messages, a slow reliable reader, a full history.
    PublishDuration,
    /// The duration of code that a `Stopwatch` measures.
    Duration,
    /// The frequency of a `Counter` in a window, in Hz. Average, minimum and maximum are
    /// this one frequency; the sample count is the count.
    Frequency,
    /// The share of a window in which a thread of an executor was busy, in percent; one sample per thread. The maximum
    /// is the busiest thread. *High*: what becomes ready has to wait.
    Busy,
    /// The time that a callback of an executor waited for its thread: of a timer since its time, of a task since it was
    /// woken. *High*: another callback took long. Not measured where rclrs does not know when the callback became
    /// ready.
    ReadyToRun,
    /// The longest callback of an executor, finished or still running at the window's end; one sample per window.
    LongestCallback,
    /// The requests of a service whose callbacks started in a window; one value per window.
    Requests,
    /// The time between the callback starts of two requests, on the monotonic clock. *Low*: clients call often.
    RequestPeriod,
    /// The duration from the start of an async service callback, which is its first poll, to its response. *High*: what
    /// the callback awaits is slow, or it is not polled because the executor is busy.
    ResponseDuration,
    /// The requests under way at the end of a window: taken, and not answered; one value per window. *Growing from
    /// window to window*: clients call more often than the service responds.
    ActiveRequests,
    /// The most requests under way at once in a window; one value per window.
    MaxActiveRequests,
    /// The callbacks of a service that panicked in a window, so that their requests have no response; one value per
    /// window.
    CallbackPanics,
    /// The calls of a client that started in a window; one value per window.
    Calls,
    /// The responses to a client that arrived in a window; one value per window.
    Responses,
    /// The calls of a client that ended in a window without a response: the promise, the client or the executor was
    /// dropped; one value per window. *High*: the service does not respond in the time that the caller waits.
    DroppedCalls,
    /// The time from a call of a client to its response, on the monotonic clock. *High*: the network, the service or
    /// the client's executor is slow. The delays of the response, and the service's own metrics, show where.
    RoundTrip,
    /// The time from the sending of a request to the start of its service, on the clocks of two nodes, as service
    /// introspection tells them. No node measures it: `topic_monitor --services` does.
    RequestDelay,
    /// Likewise from the sending of a response to its client.
    ResponseDelay,
    /// The age of the oldest call that waits for its response at the end of a window, 0 if none waits; one value per
    /// window. *Growing from window to window*: the service is stuck, or there is none.
    OldestCall,
    /// The time between two callback starts of a timer, on the monotonic clock.
    TimerPeriod,
    /// Callback start less the time for which rcl has scheduled it, on the timer's clock. *High*: another callback of
    /// the executor or the worker took long, or the host has no CPU time left.
    TimerLateness,
    /// The periods of a timer without a call: rcl skips periods that pass before a late call; one value per window.
    SkippedPeriods,
    /// The duration of a timer's callback as a percentage of the timer's period. *Above 100*: the timer cannot keep its
    /// period.
    CallbackShare,
    /// The goals that an action server received, or that an action client sent, in a window; one value per window.
    Goals,
    /// The time from a goal to its acceptance, on the monotonic clock: of a server from the start of its callback, of a
    /// client from the sending to the response. *High*: the server decides late; of a client alone, the network or an
    /// executor is slow.
    GoalToAcceptance,
    /// The time from the sending of a goal to its first feedback in an action client. *High*: the server starts late.
    GoalToFeedback,
    /// The time between two feedback messages that an action server published for the same goal.
    FeedbackPeriod,
    /// The time from a request to cancel a goal, as the code of an action server learns of it, to the canceled goal.
    /// *High*: the server takes long to stop.
    CancelDelay,
    /// The duration of a goal that succeeded: of a server from the start of its execution, of a client from the sending
    /// to the result.
    GoalSucceeded,
    /// Likewise of a goal that was canceled.
    GoalCanceled,
    /// Likewise of a goal that was aborted.
    GoalAborted,
    /// The goals that succeeded in a window; one value per window.
    SucceededGoals,
    /// The goals that were canceled in a window; one value per window.
    CanceledGoals,
    /// The goals that were aborted in a window, also because the server dropped them; one value per window.
    AbortedGoals,
    /// The goals that were rejected in a window; one value per window.
    RejectedGoals,
    /// The goals that an action client dropped in a window before it had their results; one value per window. *High*:
    /// the server does not end in the time that the caller waits.
    DroppedGoals,
    /// The goals under way at the end of a window: received or sent, and not ended; one value per window.
    ActiveGoals,
    /// The most goals under way at once in a window; one value per window.
    MaxActiveGoals,
    /// The age of the oldest goal under way at the end of a window, 0 if there is none; one value per window. *Growing
    /// from window to window*: the goal is stuck, or a client's goal has no server.
    OldestGoal,
    /// The time from the source timestamp of a message to the publication that its callback makes: a hop of a chain of
    /// nodes. No node measures it itself: the preloaded library does. *High*: the network, the executor or the callback
    /// is slow; the metrics of the subscription show which. NaN in a window with a publication whose cause is not
    /// known.
    InputToOutput,
}

impl Metric {
    /// Every metric, in the order in which the metrics of a window are published.
    pub const ALL: &'static [Self] = &[
        Self::MessageAge,
        Self::MessagePeriod,
        Self::HeaderToSource,
        Self::SourceToReceive,
        Self::ReceiveToCallback,
        Self::SourceToCallback,
        Self::HeaderToCallback,
        Self::CallbackDuration,
        Self::PublicationSeqGap,
        Self::TimeSinceLastMessage,
        Self::ClockOffset,
        Self::MessageSize,
        Self::PublishPeriod,
        Self::PublishDuration,
        Self::Duration,
        Self::Frequency,
        Self::Busy,
        Self::ReadyToRun,
        Self::LongestCallback,
        Self::Requests,
        Self::RequestPeriod,
        Self::ResponseDuration,
        Self::ActiveRequests,
        Self::MaxActiveRequests,
        Self::CallbackPanics,
        Self::Calls,
        Self::Responses,
        Self::DroppedCalls,
        Self::RoundTrip,
        Self::RequestDelay,
        Self::ResponseDelay,
        Self::OldestCall,
        Self::TimerPeriod,
        Self::TimerLateness,
        Self::SkippedPeriods,
        Self::CallbackShare,
        Self::Goals,
        Self::GoalToAcceptance,
        Self::GoalToFeedback,
        Self::FeedbackPeriod,
        Self::CancelDelay,
        Self::GoalSucceeded,
        Self::GoalCanceled,
        Self::GoalAborted,
        Self::SucceededGoals,
        Self::CanceledGoals,
        Self::AbortedGoals,
        Self::RejectedGoals,
        Self::DroppedGoals,
        Self::ActiveGoals,
        Self::MaxActiveGoals,
        Self::OldestGoal,
        Self::InputToOutput,
    ];

    /// Every metric of a subscription, in the same order.
    pub const OF_SUBSCRIPTIONS: &'static [Self] = &[
        Self::MessageAge,
        Self::MessagePeriod,
        Self::HeaderToSource,
        Self::SourceToReceive,
        Self::ReceiveToCallback,
        Self::SourceToCallback,
        Self::HeaderToCallback,
        Self::CallbackDuration,
        Self::PublicationSeqGap,
        Self::TimeSinceLastMessage,
        Self::ClockOffset,
        Self::MessageSize,
    ];

    /// Returns the value of `metrics_source`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MessageAge => "message_age",
            Self::MessagePeriod => "message_period",
            Self::HeaderToSource => "header_to_source_ms",
            Self::SourceToReceive => "source_to_receive_ms",
            Self::ReceiveToCallback => "receive_to_callback_ms",
            Self::SourceToCallback => "source_to_callback_ms",
            Self::HeaderToCallback => "header_to_callback_ms",
            Self::CallbackDuration => "callback_duration_ms",
            Self::PublicationSeqGap => "publication_seq_gap",
            Self::TimeSinceLastMessage => "time_since_last_message_ms",
            Self::ClockOffset => "clock_offset_ms",
            Self::MessageSize => "message_size",
            Self::PublishPeriod => "publish_period",
            Self::PublishDuration => "publish_duration_ms",
            Self::Duration => "duration_ms",
            Self::Frequency => "frequency_hz",
            Self::Busy => "busy",
            Self::ReadyToRun => "ready_to_run_ms",
            Self::LongestCallback => "longest_callback_ms",
            Self::Requests => "requests",
            Self::RequestPeriod => "request_period",
            Self::ResponseDuration => "response_duration_ms",
            Self::ActiveRequests => "active_requests",
            Self::MaxActiveRequests => "max_active_requests",
            Self::CallbackPanics => "callback_panics",
            Self::Calls => "calls",
            Self::Responses => "responses",
            Self::DroppedCalls => "dropped_calls",
            Self::RoundTrip => "round_trip_ms",
            Self::RequestDelay => "request_delay_ms",
            Self::ResponseDelay => "response_delay_ms",
            Self::OldestCall => "oldest_call_ms",
            Self::TimerPeriod => "timer_period",
            Self::TimerLateness => "timer_lateness_ms",
            Self::SkippedPeriods => "skipped_periods",
            Self::CallbackShare => "callback_share",
            Self::Goals => "goals",
            Self::GoalToAcceptance => "goal_to_acceptance_ms",
            Self::GoalToFeedback => "goal_to_feedback_ms",
            Self::FeedbackPeriod => "feedback_period_ms",
            Self::CancelDelay => "cancel_delay_ms",
            Self::GoalSucceeded => "goal_succeeded_ms",
            Self::GoalCanceled => "goal_canceled_ms",
            Self::GoalAborted => "goal_aborted_ms",
            Self::SucceededGoals => "succeeded_goals",
            Self::CanceledGoals => "canceled_goals",
            Self::AbortedGoals => "aborted_goals",
            Self::RejectedGoals => "rejected_goals",
            Self::DroppedGoals => "dropped_goals",
            Self::ActiveGoals => "active_goals",
            Self::MaxActiveGoals => "max_active_goals",
            Self::OldestGoal => "oldest_goal_ms",
            Self::InputToOutput => "input_to_output_ms",
        }
    }

    /// Returns the value of `unit`: `ms`, for milliseconds, `bytes`, `Hz`, `%`, or what is counted, such as `messages`.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::PublicationSeqGap => "messages",
            Self::MessageSize => "bytes",
            Self::Frequency => "Hz",
            Self::Requests | Self::ActiveRequests | Self::MaxActiveRequests => "requests",
            Self::CallbackPanics => "callbacks",
            Self::Calls | Self::DroppedCalls => "calls",
            Self::Responses => "responses",
            Self::SkippedPeriods => "periods",
            Self::Busy | Self::CallbackShare => "%",
            Self::Goals
            | Self::SucceededGoals
            | Self::CanceledGoals
            | Self::AbortedGoals
            | Self::RejectedGoals
            | Self::DroppedGoals
            | Self::ActiveGoals
            | Self::MaxActiveGoals => "goals",
            _ => "ms",
        }
    }

    /// Returns whether a window can have more than a few samples, so that there is a
    /// [distribution](crate::WindowStatistics::distribution).
    pub const fn has_distribution(self) -> bool {
        !self.is_count()
            && !matches!(
                self,
                Self::TimeSinceLastMessage
                    | Self::ClockOffset
                    | Self::Frequency
                    | Self::Busy
                    | Self::LongestCallback
                    | Self::ActiveRequests
                    | Self::MaxActiveRequests
                    | Self::OldestCall
                    | Self::ActiveGoals
                    | Self::MaxActiveGoals
                    | Self::OldestGoal
            )
    }

    /// Returns whether its one sample in a window is a count in that window, so that the sum over windows is a count,
    /// too.
    pub const fn is_count(self) -> bool {
        matches!(
            self,
            Self::Requests
                | Self::CallbackPanics
                | Self::Calls
                | Self::Responses
                | Self::DroppedCalls
                | Self::SkippedPeriods
                | Self::Goals
                | Self::SucceededGoals
                | Self::CanceledGoals
                | Self::AbortedGoals
                | Self::RejectedGoals
                | Self::DroppedGoals
        )
    }

    /// Returns whether its samples are the times between two events of a source. Those of feedback are of one goal.
    #[doc(hidden)]
    pub const fn is_period(self) -> bool {
        matches!(self, Self::MessagePeriod | Self::PublishPeriod | Self::RequestPeriod | Self::TimerPeriod)
    }

    /// Returns whether it is not measured without a header stamp. A [`MessageAge`](Self::MessageAge) from the source
    /// timestamp is.
    #[doc(hidden)]
    pub const fn starts_at_header_stamp(self) -> bool {
        matches!(self, Self::MessageAge | Self::HeaderToSource | Self::HeaderToCallback)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the names of metrics, separated by commas.
pub fn names(metrics: &[Metric]) -> String {
    metrics.iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ")
}

fn hint(name: &str) -> String {
    let names = Metric::ALL.iter().map(|metric| metric.name());
    nearest(name, names).map(|nearest| format!(", perhaps {nearest} is meant")).unwrap_or_default()
}

/// Returns the name that was probably meant: at most two characters differ.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = names
        .filter(|known| name.len().abs_diff(known.len()) <= 8) // two characters
        .map(|known| (distance(name, known), known));
    Some(distances.filter(|(distance, known)| *distance <= 2 && 2 * distance < known.len()).min()?.1)
}

/// Returns how many characters are to be added, removed or replaced to get from one word to the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, one) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, other) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(one != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// A name that no metric has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no metric {0:?}{hint}: docs/statistics.md lists all metrics", hint = hint(&self.0))]
pub struct UnknownMetric(pub String);

impl FromStr for Metric {
    type Err = UnknownMetric;

    /// Returns the metric with that [`name`](Self::name).
    fn from_str(name: &str) -> Result<Self, UnknownMetric> {
        Self::ALL
            .iter()
            .copied()
            .find(|metric| metric.name() == name)
            .ok_or_else(|| UnknownMetric(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_parsed_from_its_name_and_displayed_as_it() {
        for metric in Metric::ALL {
            assert_eq!(metric.to_string().parse(), Ok(*metric));
        }
        let unknown = "message_jitter".parse::<Metric>().unwrap_err().to_string();
        assert!(unknown.contains("\"message_jitter\"") && !unknown.contains("frequency_hz"), "{unknown}");
        let unknown = "message_agee".parse::<Metric>().unwrap_err().to_string();
        assert!(unknown.contains("perhaps message_age is meant"), "{unknown}");
    }

    #[test]
    fn the_metrics_of_a_subscription_are_the_first_of_all() {
        assert!(Metric::ALL.starts_with(Metric::OF_SUBSCRIPTIONS));
        assert!(Metric::ALL.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
    }
}
