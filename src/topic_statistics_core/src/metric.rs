// SPDX-License-Identifier: Apache-2.0

//! The metrics of Topic Statistics, with their names and units.

use std::{fmt, str::FromStr};

use crate::source_kind::SourceKind;

/// The number of samples of a metric in a window.
enum Form {
    /// A window has any number of samples, so the metric has distributions.
    Samples,
    /// A window has one sample, or one sample for each thread of an executor.
    Single,
    /// A window has one sample: the count of events in the window. So the sum of the samples of several windows is a
    /// count, too.
    Count,
}

/// Defines the metrics from a table. Each entry of the table has the name, the unit, how many samples a window has,
/// which kinds of sources can measure the metric (a service of another program is measured only by its service
/// introspection), what a sample is, what a high value means, what a user can do then, and when there is no sample.
macro_rules! metrics {
    ($(
        $(#[doc = $doc:literal])+
        $metric:ident: $name:literal, $unit:literal, $form:ident, of [$($kind:ident),*], help: $help:literal,
            high: $high:literal $(, nan: $nan:literal)?;
    )+) => {
        /// A metric of Topic Statistics: a quantity that is measured.
        ///
        /// [`name`](Self::name) and [`unit`](Self::unit) are the values of `metrics_source` and `unit` on
        /// `/statistics`. `Display` writes the name, and `parse` reads the name. The first two metrics are the metrics
        /// of rclcpp, and the default metrics of every subscription.
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
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\nUnit: ", $unit, ".\n\nHigh: ", $high, ".")]
                $metric,
            )+
        }

        impl Metric {
            /// Every metric, in the order in which the metrics of a window are published.
            pub const ALL: &'static [Self] = &[$(Self::$metric),+];

            /// Returns the value of `metrics_source`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$metric => $name,)+
                }
            }

            /// Returns the value of `unit`: `ms` (milliseconds), `bytes`, `Hz`, `%`, or the name of what is counted,
            /// such as `messages`.
            pub const fn unit(self) -> &'static str {
                match self {
                    $(Self::$metric => $unit,)+
                }
            }

            /// Returns what a sample is, in a few words. The text has no period at its end.
            pub const fn help(self) -> &'static str {
                match self {
                    $(Self::$metric => $help,)+
                }
            }

            /// Returns what a high value means and, after a colon, what a user can do, without a period at the end.
            pub const fn high(self) -> &'static str {
                match self {
                    $(Self::$metric => $high,)+
                }
            }

            /// Returns the cases in which a message, a request or a call gives no sample, as clauses without a period
            /// at their end. The text is empty if each message, request or call gives a sample.
            pub const fn when_nan(self) -> &'static str {
                match self {
                    $(Self::$metric => concat!($($nan)?),)+
                }
            }

            /// Returns the kinds of sources that can measure this metric, as a set with one bit for each kind.
            const fn kinds(self) -> u16 {
                match self {
                    $(Self::$metric => 0 $(| SourceKind::$kind.bit())*,)+
                }
            }

            const fn form(self) -> Form {
                match self {
                    $(Self::$metric => Form::$form,)+
                }
            }
        }
    };
}

metrics! {
    /// The age of a message when its callback starts: ROS time minus the header stamp (or minus the source timestamp,
    /// see [`AgeSource`](crate::AgeSource)).
    MessageAge: "message_age", "ms", Samples, of [Subscription],
        help: "the start of the callback less the header stamp",
        high: "the message was delayed: the delays below show where",
        nan: "the type has no `std_msgs/Header header`; the stamp is zero or on another clock; simulated time has not begun; the system clock was stepped";
    /// The time between the callback starts of two messages in a row, on the monotonic clock.
    MessagePeriod: "message_period", "ms", Samples, of [Subscription],
        help: "the time between the starts of two callbacks",
        high: "messages arrive too rarely or are lost: look at the publisher and at `publication_seq_gap`. A high standard deviation: they arrive in bursts",
        nan: "the first message of the window";
    /// The source timestamp minus the header stamp: the delay in the driver and the publisher. NaN if the node uses
    /// simulated time, because source timestamps do not use simulated time.
    HeaderToSource: "header_to_source_ms", "ms", Samples, of [Subscription],
        help: "the time from the header stamp to the publication",
        high: "the driver or the publishing node is slow: look at its load and at its work between stamping and publishing",
        nan: "simulated time; the stamp is zero or on another clock";
    /// The received timestamp minus the source timestamp: the delay in the middleware and the network. NaN if the
    /// middleware does not report when a message was received (Cyclone DDS).
    SourceToReceive: "source_to_receive_ms", "ms", Samples, of [Subscription, Service, Client],
        help: "the time from the publication to the reception",
        high: "the network or the middleware is slow, or, if it is negative, the clocks of two hosts differ: look at the link and at `clock_offset_ms` of both hosts",
        nan: "the middleware does not report the reception";
    /// The callback start minus the received timestamp: how long the message waited for the executor or the worker. The
    /// metric is NaN if `SourceToReceive` is NaN.
    ReceiveToCallback: "receive_to_callback_ms", "ms", Samples, of [Subscription, Service, Client],
        help: "the time from the reception to the callback",
        high: "the executor or the worker is busy: look for a long `callback_duration_ms` in the same node",
        nan: "the middleware does not report the reception";
    /// The callback start minus the source timestamp: the sum of `SourceToReceive` and `ReceiveToCallback`. This metric
    /// is available with every middleware.
    SourceToCallback: "source_to_callback_ms", "ms", Samples, of [Subscription, Service, Client],
        help: "the time from the publication to the callback",
        high: "the network or the executor is slow: the two delays before show which";
    /// The callback start (in ROS time) minus the header stamp: the age from the stamp to the callback.
    HeaderToCallback: "header_to_callback_ms", "ms", Samples, of [Subscription],
        help: "the time from the header stamp to the callback",
        high: "the message was delayed on its way: the delays above show where",
        nan: "the stamp is zero or on another clock";
    /// The duration of the callback. For an async callback, the time from its first poll to its completion.
    CallbackDuration: "callback_duration_ms", "ms", Samples, of [Subscription, Service, Timer],
        help: "the duration of the callback; of an async callback, from the first poll to the end",
        high: "the body of the callback is slow: put a stopwatch around its parts";
    /// The number of messages of the same publisher that are missing immediately before each message. If a missing
    /// message arrives late, only the [totals](crate::Totals) are corrected. NaN if the middleware does not number
    /// messages.
    PublicationSeqGap: "publication_seq_gap", "messages", Samples, of [Subscription],
        help: "the messages missing immediately before a message",
        high: "messages are lost: look at the QoS depth, at the load of the receiver and at the link",
        nan: "the middleware does not number messages; more than 256 publishers";
    /// The time from the last message to the window's end, on the monotonic clock; one sample per window. NaN before
    /// the first message after the statistics were enabled.
    TimeSinceLastMessage: "time_since_last_message_ms", "ms", Single, of [Subscription],
        help: "the time from the last message to the end of the window",
        high: "if it grows from window to window, the topic is silent: look at the publisher and at incompatible QoS",
        nan: "no message since the statistics were enabled";
    /// The kernel's estimate of the offset of this host's clock; one sample per window. NaN if the kernel reports that
    /// the clock is not synchronized, or if the kernel does not know the offset: chrony and phc2sys adjust the clock
    /// without reporting an offset to the kernel. For subscriptions of a node whose windows end at the same time and
    /// have the same publisher, the metric is published only once, with the host name as `measurement_source_name`.
    ClockOffset: "clock_offset_ms", "ms", Single, of [Subscription],
        help: "the offset of the clock of a host, as its kernel estimates it",
        high: "the clock of this host is wrong, and so are delays between hosts: look at chrony or PTP",
        nan: "the clock is not synchronised; chrony or phc2sys steer it";
    /// The size of a message in bytes: serialized (CDR) as it is sent, with the encapsulation header of 4 bytes, and on
    /// DDS with the padding to a multiple of 4. `ros2 topic bw` counts the same size. A publisher measures the size,
    /// too, if `StatisticsOptions::metrics` of the publisher contains this metric.
    MessageSize: "message_size", "bytes", Samples, of [Subscription, Publisher],
        help: "the serialized size of a message, as `ros2 topic bw` counts it",
        high: "messages need much of the network: compress them, or publish less often",
        nan: "the size is unknown";
    /// The time between the ends of two publications in a row of a `StatsPublisher`, on the monotonic clock.
    /// Publications that fail are not measured.
    PublishPeriod: "publish_period", "ms", Samples, of [Publisher],
        help: "the time between two publications",
        high: "the node publishes too rarely: look at what triggers the publication",
        nan: "the first publication of the window; a thread that shares the publisher was preempted";
    /// The duration of a publication of a `StatsPublisher`.
    PublishDuration: "publish_duration_ms", "ms", Samples, of [Publisher],
        help: "the duration of a publication",
        high: "the middleware blocks the node: look for large messages, a slow reliable reader, a full history";
    /// The duration of code that a `Stopwatch` measures.
    Duration: "duration_ms", "ms", Samples, of [Stopwatch],
        help: "the duration of code that a stopwatch measures",
        high: "the code is slow: put stopwatches around its parts";
    /// The frequency of a `Counter`'s events in a window, in Hz. The average, the minimum and the maximum are all equal
    /// to this frequency; the sample count is the number of events.
    Frequency: "frequency_hz", "Hz", Single, of [Counter],
        help: "the frequency of a counter's events; the sample count is their number",
        high: "it happens often";
    /// The share of a window in which a thread of an executor was busy, in percent; one sample per thread. The maximum
    /// is the share of the busiest thread.
    Busy: "busy", "%", Single, of [Executor],
        help: "the share of the window in which a thread of an executor ran callbacks; one sample for each thread",
        high: "what becomes ready has to wait: move a callback to a worker, or make it shorter";
    /// The time that a callback of an executor waited for its thread. A timer waits from the time at which it is due,
    /// and a task waits from the time at which it is woken. The metric is not measured if rclrs does not know when the
    /// callback became ready.
    ReadyToRun: "ready_to_run_ms", "ms", Samples, of [Executor],
        help: "the time that a callback of an executor waited for its thread",
        high: "another callback took long: the waits of the window name it",
        nan: "rclrs does not know when the callback became ready";
    /// The duration of the longest callback of an executor, finished or still running at the window's end; one sample
    /// per window.
    LongestCallback: "longest_callback_ms", "ms", Single, of [Executor],
        help: "the duration of the longest callback of an executor",
        high: "other callbacks wait for it: its name is in the window, in the log and on /diagnostics",
        nan: "nothing ran";
    /// The number of requests of a service whose callbacks started in a window; one value per window.
    Requests: "requests", "requests", Count, of [Service],
        help: "the requests whose callbacks started",
        high: "clients call often";
    /// The time between the callback starts of two requests in a row, on the monotonic clock.
    RequestPeriod: "request_period", "ms", Samples, of [Service],
        help: "the time between two requests",
        high: "clients call rarely",
        nan: "the first request of the window";
    /// The time from the start of an async service callback, which is its first poll, to its response.
    ResponseDuration: "response_duration_ms", "ms", Samples, of [Service],
        help: "the time from the start of an async service callback to the response",
        high: "what the callback awaits is slow, or it is not polled: look at the clients that it awaits and at the executor",
        nan: "the callback is not async";
    /// The number of requests that were taken but not yet answered at the end of a window; one value per window.
    ActiveRequests: "active_requests", "requests", Single, of [Service],
        help: "the requests under way at the end of the window",
        high: "if it grows from window to window, clients call more often than the service responds: make it faster, or use an async callback";
    /// The largest number of requests that were in progress at the same time in a window; one value per window.
    MaxActiveRequests: "max_active_requests", "requests", Single, of [Service],
        help: "the most requests under way at once",
        high: "requests wait for each other: use an async callback or a worker";
    /// The number of callbacks of a service that panicked in a window; one value per window. The requests of these
    /// callbacks got no response.
    CallbackPanics: "callback_panics", "callbacks", Count, of [Service],
        help: "the callbacks that panicked",
        high: "the callback panics: the message is on standard error";
    /// The number of calls of a client that started in a window; one value per window.
    Calls: "calls", "calls", Count, of [Client],
        help: "the calls of a client",
        high: "the client calls often";
    /// The number of responses to a client that arrived in a window; one value per window.
    Responses: "responses", "responses", Count, of [Client],
        help: "the responses to a client",
        high: "the service responds often";
    /// The number of calls of a client that ended in a window without a response, because the promise, the client or
    /// the executor was dropped; one value per window.
    DroppedCalls: "dropped_calls", "calls", Count, of [Client],
        help: "the calls that ended without a response",
        high: "the service does not respond in the time that the caller waits: look at the service, or wait longer";
    /// The time from a call of a client to its response, on the monotonic clock.
    RoundTrip: "round_trip_ms", "ms", Samples, of [Client],
        help: "the time from a call to its response",
        high: "the network, the service or the executor of the client is slow: the delays of the response and the metrics of the service show which";
    /// The time from when a client sends a request to when the service starts to process the request, on the clocks of
    /// two nodes, as service introspection reports the two times. No node measures this metric:
    /// `topic_monitor --services` does.
    RequestDelay: "request_delay_ms", "ms", Samples, of [],
        help: "the time from the sending of a request to the start of its service",
        high: "the network or the executor of the service is slow: look at the link and at the service";
    /// The time from when a service sends a response to when the client receives the response, on the clocks of two
    /// nodes. No node measures this metric: `topic_monitor --services` does.
    ResponseDelay: "response_delay_ms", "ms", Samples, of [],
        help: "the time from the sending of a response to its client",
        high: "the network or the executor of the client is slow: look at the link and at the client";
    /// The age of the oldest call that is waiting for its response at the end of a window, 0 if no call is waiting; one
    /// value per window.
    OldestCall: "oldest_call_ms", "ms", Single, of [Client],
        help: "the age of the oldest call that waits for a response; 0 if none waits",
        high: "if it grows from window to window, the service is stuck, or there is none: look for it in the graph";
    /// The time between two callback starts in a row of a timer, on the monotonic clock.
    TimerPeriod: "timer_period", "ms", Samples, of [Timer],
        help: "the time between two callbacks of a timer",
        high: "the timer is late or skips: look at `timer_lateness_ms`",
        nan: "the first call of the window";
    /// The callback start minus the time for which rcl scheduled the call, on the timer's clock.
    TimerLateness: "timer_lateness_ms", "ms", Samples, of [Timer],
        help: "the time from the schedule of a timer to its callback",
        high: "another callback of the executor or the worker took long, or the host has no CPU time left: use a worker of its own",
        nan: "the schedule is not known";
    /// The number of a timer's periods without a call of its callback: rcl skips periods that pass before a late call.
    /// The metric has one value per window.
    SkippedPeriods: "skipped_periods", "periods", Count, of [Timer],
        help: "the periods of a timer without a callback",
        high: "the timer cannot keep its period: look at `callback_share` and `timer_lateness_ms`",
        nan: "the schedule of a call is not known";
    /// The duration of a timer's callback as a percentage of the timer's period.
    CallbackShare: "callback_share", "%", Samples, of [Timer],
        help: "the duration of a callback of a timer as a percentage of its period",
        high: "above 100, the callback is longer than the period: make it shorter, or the period longer",
        nan: "the period is 0; simulated time";
    /// The number of goals that an action server received, or that an action client sent, in a window; one value per
    /// window.
    Goals: "goals", "goals", Count, of [ActionServer, ActionClient],
        help: "the goals of an action",
        high: "clients send many goals";
    /// The time from a goal to its acceptance, on the monotonic clock. A server measures from the start of its
    /// callback; a client measures from the sending of the goal to the response.
    GoalToAcceptance: "goal_to_acceptance_ms", "ms", Samples, of [ActionServer, ActionClient],
        help: "the time from a goal to its acceptance",
        high: "the server decides late, or, of a client alone, the network or an executor is slow: accept before other work";
    /// The time from when an action client sends a goal to when the client receives the first feedback for the goal.
    GoalToFeedback: "goal_to_feedback_ms", "ms", Samples, of [ActionClient],
        help: "the time from the sending of a goal to its first feedback",
        high: "the server starts late: look at its `max_active_goals`";
    /// The time between two feedback messages in a row that an action server published for the same goal.
    FeedbackPeriod: "feedback_period_ms", "ms", Samples, of [ActionServer],
        help: "the time between two feedback messages of a goal",
        high: "the loop of the action is slow: put a stopwatch around its parts";
    /// The time from a request to cancel a goal to the cancellation of the goal. The time starts when the code of the
    /// action server learns of the request.
    CancelDelay: "cancel_delay_ms", "ms", Samples, of [ActionServer],
        help: "the time from a request to cancel a goal to its end",
        high: "the server takes long to stop: look at the code after `begin_cancelling`";
    /// The duration of a goal that succeeded. A server measures from the start of the goal's execution; a client
    /// measures from the sending of the goal to the result.
    GoalSucceeded: "goal_succeeded_ms", "ms", Samples, of [ActionServer, ActionClient],
        help: "the duration of a goal that succeeded",
        high: "the goal takes long: look at the server";
    /// The duration of a goal that was canceled, measured like `GoalSucceeded`.
    GoalCanceled: "goal_canceled_ms", "ms", Samples, of [ActionServer, ActionClient],
        help: "the duration of a goal that was canceled",
        high: "goals are canceled late, or take long to stop: look at `cancel_delay_ms`";
    /// The duration of a goal that was aborted, measured like `GoalSucceeded`.
    GoalAborted: "goal_aborted_ms", "ms", Samples, of [ActionServer, ActionClient],
        help: "the duration of a goal that was aborted",
        high: "goals fail late: look at the log of the server";
    /// The number of goals that succeeded in a window; one value per window.
    SucceededGoals: "succeeded_goals", "goals", Count, of [ActionServer, ActionClient],
        help: "the goals that succeeded",
        high: "all is well";
    /// The number of goals that were canceled in a window; one value per window.
    CanceledGoals: "canceled_goals", "goals", Count, of [ActionServer, ActionClient],
        help: "the goals that were canceled",
        high: "clients cancel many goals";
    /// The number of goals that were aborted in a window, for example because the server dropped them; one value per
    /// window.
    AbortedGoals: "aborted_goals", "goals", Count, of [ActionServer, ActionClient],
        help: "the goals that were aborted",
        high: "goals fail: look at the log of the server";
    /// The number of goals that were rejected in a window; one value per window.
    RejectedGoals: "rejected_goals", "goals", Count, of [ActionServer, ActionClient],
        help: "the goals that were rejected",
        high: "the server does not accept: look at its conditions";
    /// The number of goals that an action client dropped in a window before their results arrived; one value per
    /// window.
    DroppedGoals: "dropped_goals", "goals", Count, of [ActionClient],
        help: "the goals whose results a client did not wait for",
        high: "the server does not end in the time that the caller waits: look at the server, or wait longer";
    /// The number of goals that were received or sent and had not ended at the end of a window; one value per window.
    ActiveGoals: "active_goals", "goals", Single, of [ActionServer, ActionClient],
        help: "the goals under way at the end of the window",
        high: "if it grows from window to window, goals come faster than they end";
    /// The largest number of goals that were in progress at the same time in a window; one value per window.
    MaxActiveGoals: "max_active_goals", "goals", Single, of [ActionServer, ActionClient],
        help: "the most goals under way at once",
        high: "goals wait for each other";
    /// The age of the oldest goal in progress at the end of a window, 0 if no goal is in progress; one value per
    /// window.
    OldestGoal: "oldest_goal_ms", "ms", Single, of [ActionServer, ActionClient],
        help: "the age of the oldest goal under way; 0 if there is none",
        high: "if it grows from window to window, the goal is stuck, or the goal of a client has no server";
    /// The time from the source timestamp of a message to the publication that the message's callback makes. A hop is
    /// one part of a chain of nodes: the path from a topic that a process receives to a topic that the process
    /// publishes. This time belongs to one hop. No node measures this metric: the preloaded library does. NaN in a
    /// window with a publication whose cause is not known.
    InputToOutput: "input_to_output_ms", "ms", Samples, of [Hop],
        help: "the time from a message to the publication in its callback",
        high: "the network, the executor or the callback is slow: the metrics of the subscription show which",
        nan: "the system clock was stepped; the cause of a publication is not known";
}

impl Metric {
    /// All metrics of a subscription, in the order of [`ALL`](Self::ALL).
    pub const OF_SUBSCRIPTIONS: &'static [Self] = SourceKind::Subscription.metrics();

    /// Returns the metrics that a kind of source can measure. `COUNT` is [the number](Self::count_of) of these metrics.
    pub(crate) const fn of_kind<const COUNT: usize>(kind: SourceKind) -> [Self; COUNT] {
        let (mut of_kind, mut count, mut index) = ([Self::ALL[0]; COUNT], 0, 0);
        while index < Self::ALL.len() {
            if Self::ALL[index].kinds() & kind.bit() != 0 {
                of_kind[count] = Self::ALL[index];
                count += 1;
            }
            index += 1;
        }
        of_kind
    }

    /// Returns the number of metrics that a kind of source can measure.
    pub(crate) const fn count_of(kind: SourceKind) -> usize {
        let (mut count, mut index) = (0, 0);
        while index < Self::ALL.len() {
            count += (Self::ALL[index].kinds() & kind.bit() != 0) as usize;
            index += 1;
        }
        count
    }

    /// Returns whether a window can have many samples of this metric, so that a
    /// [distribution](crate::WindowStatistics::distribution) is useful.
    pub const fn has_distribution(self) -> bool {
        matches!(self.form(), Form::Samples)
    }

    /// Returns whether the metric's one sample in a window is a count of events in the window. Then the sum over
    /// several windows is a count, too.
    pub const fn is_count(self) -> bool {
        matches!(self.form(), Form::Count)
    }

    /// Returns whether the samples are the times between two events of a source. False for the feedback period, because
    /// both of its events belong to one goal.
    #[doc(hidden)]
    pub const fn is_period(self) -> bool {
        matches!(self, Self::MessagePeriod | Self::PublishPeriod | Self::RequestPeriod | Self::TimerPeriod)
    }

    /// Returns whether the metric compares times of the system clock. Such a metric has no samples in a window in which
    /// the system clock was stepped.
    #[doc(hidden)]
    pub const fn is_of_system_time(self) -> bool {
        matches!(
            self,
            Self::MessageAge
                | Self::HeaderToSource
                | Self::SourceToReceive
                | Self::ReceiveToCallback
                | Self::SourceToCallback
                | Self::HeaderToCallback
                | Self::RequestDelay
                | Self::ResponseDelay
                | Self::InputToOutput
        )
    }

    /// Returns whether the metric needs a header stamp. The result is always true for [`MessageAge`](Self::MessageAge),
    /// although an age that starts at the source timestamp needs no header stamp.
    #[doc(hidden)]
    pub const fn starts_at_header_stamp(self) -> bool {
        matches!(self, Self::MessageAge | Self::HeaderToSource | Self::HeaderToCallback)
    }
}

impl SourceKind {
    /// Returns every metric that a source of this kind can measure.
    pub const fn metrics(self) -> &'static [Metric] {
        macro_rules! metrics {
            ($($kind:ident)+) => {
                match self {
                    $(Self::$kind => const { &Metric::of_kind::<{ Metric::count_of(Self::$kind) }>(Self::$kind) },)+
                }
            };
        }
        metrics! {
            Subscription Publisher Stopwatch Counter Executor Service Client Timer ActionServer ActionClient Hop
        }
    }

    /// Returns whether a source of this kind can measure a metric.
    pub fn measures(self, metric: Metric) -> bool {
        self.metrics().contains(&metric)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the names of the metrics, separated by commas.
pub fn names(metrics: &[Metric]) -> String {
    metrics.iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ")
}

fn hint(name: &str) -> String {
    let names = Metric::ALL.iter().map(|metric| metric.name());
    nearest(name, names).map(|nearest| format!(", perhaps {nearest} is meant")).unwrap_or_default()
}

/// Returns the known name that was probably meant: it differs from `name` by at most two characters.
#[doc(hidden)] // for the programs
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = names
        .filter(|known| name.len().abs_diff(known.len()) <= 8) // two characters have at most eight bytes
        .map(|known| (distance(name, known), known));
    Some(distances.filter(|(distance, known)| *distance <= 2 && 2 * distance < known.len()).min()?.1)
}

/// Returns the number of characters to add, remove or replace to change one word into the other.
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

/// The error for a name that no metric has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no metric {0:?}{hint}: docs/statistics.md lists all metrics", hint = hint(&self.0))]
pub struct UnknownMetric(pub String);

impl FromStr for Metric {
    type Err = UnknownMetric;

    /// Returns the metric with the given [`name`](Self::name).
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
