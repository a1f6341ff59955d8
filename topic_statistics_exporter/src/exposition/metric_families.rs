// SPDX-License-Identifier: Apache-2.0

//! The families of each metric: names, meanings, and the form of their values.

use std::sync::LazyLock;

use rclrs_topic_statistics::Metric;

use super::writer::{Family, Kind};
use crate::model::{MetricName, Unit};

/// The families of all metrics of the library, and at last those of any other metric.
pub static OF_METRICS: LazyLock<Vec<MetricFamilies>> =
    LazyLock::new(|| Metric::ALL.iter().copied().map(Some).chain([None]).map(MetricFamilies::new).collect());

/// The families of one metric.
pub struct MetricFamilies {
    /// `None` for metrics that are not of the library.
    pub metric: Option<Metric>,
    /// The part of their names that is the metric's.
    pub base_name: &'static str,
    /// The form in which a metric's window is written.
    pub shape: Shape,
    pub mean: Family,
    pub min: Family,
    pub max: Family,
    pub std_dev: Family,
    /// Sum and count of all windows, and quantiles of the last one.
    pub summary: Family,
    pub negative_windows: Family,
    pub distribution: Family,
}

/// The values of a metric in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Many samples.
    Samples,
    /// One value, which is a gauge.
    OneValue,
    /// One frequency, and the number of events.
    Frequency,
    /// One count. The sum of all windows is a counter.
    Count,
}

impl MetricFamilies {
    fn new(metric: Option<Metric>) -> Self {
        let Description { name, what, high } = Description::of(metric);
        let unit = match metric.map(|metric| MetricName::Known(metric).unit()) {
            Some(Unit::Seconds) => "seconds",
            Some(Unit::Bytes) => "bytes",
            Some(Unit::Messages) => "messages",
            Some(Unit::Hertz) => "hertz",
            Some(Unit::Other(_)) | None => "",
        };
        let shape = match metric {
            // One for each thread.
            Some(Metric::Busy) => Shape::Samples,
            Some(Metric::Frequency) => Shape::Frequency,
            Some(metric) if metric.is_count() => Shape::Count,
            Some(metric) if !metric.has_distribution() => Shape::OneValue,
            _ => Shape::Samples,
        };
        let family = |kind, part: &str, help: String| {
            let parts = ["topic_statistics", name, part, unit];
            let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_");
            Family { name, help, kind, unit }
        };
        let gauge = |part, text: &str| {
            family(Kind::Gauge, part, format!("{text} of the last window: {what}. {high}"))
        };
        let mean = match shape {
            Shape::Samples => gauge("mean", "Average"),
            _ => family(Kind::Gauge, "", format!("In the last window: {what}. {high}")),
        };
        let summary = match shape {
            Shape::Frequency => Family {
                name: "topic_statistics_events".to_owned(),
                help: "Events that a counter of a node has counted. High: they are frequent".to_owned(),
                kind: Kind::Counter,
                unit: "",
            },
            Shape::Count => family(Kind::Counter, "", format!("In all windows: {what}. {high}")),
            _ => family(
                Kind::Summary,
                "",
                format!(
                    "Sum and count of the samples of all windows, but those with a negative sample; quantiles of the \
                     last window: {what}. {high}"
                ),
            ),
        };
        Self {
            metric,
            base_name: name,
            shape,
            mean,
            min: gauge("min", "Smallest sample"),
            max: gauge("max", "Largest sample"),
            std_dev: gauge("stddev", "Standard deviation"),
            summary,
            negative_windows: Family {
                name: format!("topic_statistics_{name}_negative_windows"),
                help: format!(
                    "Windows with a negative sample: {what}. High: the clocks of two hosts differ, or stamps are wrong"
                ),
                kind: Kind::Counter,
                unit: "",
            },
            distribution: family(
                Kind::Histogram,
                "distribution",
                format!("Samples of all windows with a distribution: {what}. {high}"),
            ),
        }
    }
}

struct Description {
    name: &'static str,
    what: &'static str,
    high: &'static str,
}

impl Description {
    fn of(metric: Option<Metric>) -> Self {
        let (name, what, high) = match metric {
            Some(Metric::MessageAge) => (
                "message_age",
                "the age of a message when its callback starts",
                "High: the message was delayed on its way",
            ),
            Some(Metric::MessagePeriod) => (
                "message_period",
                "the time between two messages received",
                "High: messages arrive too rarely, or are lost",
            ),
            Some(Metric::HeaderToSource) => (
                "header_to_source",
                "the time from the header stamp to the publication",
                "High: the driver or the publisher is slow",
            ),
            Some(Metric::SourceToReceive) => (
                "source_to_receive",
                "the time from the publication to the reception",
                "High: the middleware or the network is slow",
            ),
            Some(Metric::ReceiveToCallback) => (
                "receive_to_callback",
                "the time from the reception to the callback",
                "High: the executor of the node is busy",
            ),
            Some(Metric::SourceToCallback) => (
                "source_to_callback",
                "the time from the publication to the callback",
                "High: the network or the executor of the node is slow",
            ),
            Some(Metric::HeaderToCallback) => (
                "header_to_callback",
                "the time from the header stamp to the callback",
                "High: the message was delayed on its way",
            ),
            Some(Metric::CallbackDuration) => (
                "callback_duration",
                "the duration of the callback",
                "High: the callback is slow, and delays others",
            ),
            Some(Metric::PublicationSeqGap) => (
                "publication_gap",
                "the messages missing immediately before a message",
                "High: messages are lost on the network or in a queue",
            ),
            Some(Metric::TimeSinceLastMessage) => (
                "time_since_last_message",
                "the time from the last message to the end of the window",
                "High: the topic is silent",
            ),
            Some(Metric::ClockOffset) => (
                "clock_offset",
                "the offset of the clock of a host, as its kernel estimates it",
                "High or far below 0: ages between hosts are wrong",
            ),
            Some(Metric::MessageSize) => (
                "message_size",
                "the serialized size of a message",
                "High: messages need much of the network",
            ),
            Some(Metric::PublishPeriod) => {
                ("publish_period", "the time between two publications", "High: the node publishes too rarely")
            }
            Some(Metric::PublishDuration) => {
                ("publish_duration", "the duration of a publication", "High: the middleware blocks the node")
            }
            Some(Metric::Duration) => {
                ("duration", "the duration of code that a stopwatch measures", "High: the code is slow")
            }
            Some(Metric::Frequency) => {
                ("frequency", "the frequency of a counter's events", "High: events are frequent")
            }
            Some(Metric::Busy) => (
                "busy_percent",
                "the share of the time in which a thread of an executor ran callbacks",
                "High: callbacks wait for each other; the largest sample is the busiest thread",
            ),
            Some(Metric::ReadyToRun) => (
                "ready_to_run",
                "the time that a callback of an executor waited for its thread",
                "High: another callback took long",
            ),
            Some(Metric::LongestCallback) => (
                "longest_callback",
                "the duration of the longest callback of an executor",
                "High: other callbacks wait for it",
            ),
            Some(Metric::Requests) => {
                ("requests", "the requests whose callbacks started", "High: clients call often")
            }
            Some(Metric::RequestPeriod) => {
                ("request_period", "the time between two requests", "Low: clients call often")
            }
            Some(Metric::ResponseDuration) => (
                "response_duration",
                "the time from the start of an async service callback to the response",
                "High: the service waits for something else",
            ),
            Some(Metric::ActiveRequests) => (
                "active_requests",
                "the requests under way at its end",
                "High: clients call more often than the service responds",
            ),
            Some(Metric::MaxActiveRequests) => (
                "max_active_requests",
                "the most requests under way at once",
                "High: clients call more often than the service responds",
            ),
            Some(Metric::CallbackPanics) => {
                ("callback_panics", "the callbacks that panicked", "Above 0: requests have no response")
            }
            Some(Metric::Calls) => ("calls", "the calls of a client", "High: the client calls often"),
            Some(Metric::Responses) => {
                ("responses", "the responses to a client", "Lower than calls: some have none")
            }
            Some(Metric::DroppedCalls) => (
                "dropped_calls",
                "the calls that ended without a response",
                "High: the service does not respond in the time that the caller waits",
            ),
            Some(Metric::RoundTrip) => (
                "round_trip",
                "the time from a call to its response",
                "High: the network, the service or the executor of the client is slow",
            ),
            Some(Metric::RequestDelay) => (
                "request_delay",
                "the time from the sending of a request to the start of its service",
                "High: the network or the executor of the service is slow",
            ),
            Some(Metric::ResponseDelay) => (
                "response_delay",
                "the time from the sending of a response to its client",
                "High: the network or the executor of the client is slow",
            ),
            Some(Metric::OldestCall) => (
                "oldest_call",
                "the age of the oldest call that waits for a response",
                "High: the service is stuck, or there is none",
            ),
            Some(Metric::TimerPeriod) => {
                ("timer_period", "the time between two callbacks of a timer", "High: periods are skipped")
            }
            Some(Metric::TimerLateness) => (
                "timer_lateness",
                "the time from the schedule of a timer to its callback",
                "High: another callback of the executor took long",
            ),
            Some(Metric::SkippedPeriods) => (
                "skipped_periods",
                "the periods of a timer without a callback",
                "Above 0: a callback was late by more than a period",
            ),
            Some(Metric::CallbackShare) => (
                "callback_share",
                "the duration of a callback of a timer as a percentage of its period",
                "Above 100: the timer cannot keep its period",
            ),
            Some(Metric::Goals) => ("goals", "the goals of an action", "High: clients send goals often"),
            Some(Metric::GoalToAcceptance) => (
                "goal_to_acceptance",
                "the time from a goal to its acceptance",
                "High: the action server decides late, or the network or an executor is slow",
            ),
            Some(Metric::GoalToFeedback) => (
                "goal_to_feedback",
                "the time from the sending of a goal to its first feedback",
                "High: the action server starts late",
            ),
            Some(Metric::FeedbackPeriod) => (
                "feedback_period",
                "the time between two feedback messages of a goal",
                "High: the action server reports rarely",
            ),
            Some(Metric::CancelDelay) => (
                "cancel_delay",
                "the time from a request to cancel a goal to its end",
                "High: the action server takes long to stop",
            ),
            Some(Metric::GoalSucceeded) => {
                ("goal_succeeded", "the duration of a goal that succeeded", "High: the action is slow")
            }
            Some(Metric::GoalCanceled) => (
                "goal_canceled",
                "the duration of a goal that was canceled",
                "High: clients cancel late, or the action server takes long to stop",
            ),
            Some(Metric::GoalAborted) => (
                "goal_aborted",
                "the duration of a goal that was aborted",
                "High: the action server gives up late",
            ),
            Some(Metric::SucceededGoals) => {
                ("succeeded_goals", "the goals that succeeded", "Lower than goals: some do not")
            }
            Some(Metric::CanceledGoals) => {
                ("canceled_goals", "the goals that were canceled", "High: clients change their minds")
            }
            Some(Metric::AbortedGoals) => {
                ("aborted_goals", "the goals that were aborted", "Above 0: the action server gave them up")
            }
            Some(Metric::RejectedGoals) => (
                "rejected_goals",
                "the goals that were rejected",
                "Above 0: the action server did not accept them",
            ),
            Some(Metric::DroppedGoals) => (
                "dropped_goals",
                "the goals whose results a client did not wait for",
                "High: the action server does not end in the time that the client waits",
            ),
            Some(Metric::ActiveGoals) => (
                "active_goals",
                "the goals under way at its end",
                "High: clients send more goals than the action server ends",
            ),
            Some(Metric::MaxActiveGoals) => (
                "max_active_goals",
                "the most goals under way at once",
                "High: clients send more goals than the action server ends",
            ),
            Some(Metric::OldestGoal) => (
                "oldest_goal",
                "the age of the oldest goal under way",
                "High: the goal is stuck, or there is no action server",
            ),
            Some(Metric::InputToOutput) => (
                "input_to_output",
                "the time from a message to the publication in its callback",
                "High: the network, the executor or the callback is slow",
            ),
            // A metric of a later version of the library.
            Some(_) | None => (
                "other",
                "samples of a metric that this exporter does not know, in the unit of the label",
                "What a high value means is up to the metric",
            ),
        };
        Self { name, what, high }
    }
}
