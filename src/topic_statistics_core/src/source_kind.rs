// SPDX-License-Identifier: Apache-2.0

//! The kinds of sources, and what each kind can measure.

use std::fmt;

use crate::metric::Metric;

/// The kind of a source: it decides which metrics a source can measure, and so which conditions apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceKind {
    /// A subscription.
    Subscription,
    /// A publisher.
    Publisher,
    /// A stopwatch around any code.
    Stopwatch,
    /// A counter of anything.
    Counter,
    /// An executor.
    Executor,
    /// A service.
    Service,
    /// A client of a service.
    Client,
    /// A timer.
    Timer,
    /// An action server.
    ActionServer,
    /// A client of an action.
    ActionClient,
    /// A hop of a chain: from a topic that a process receives to a topic that it publishes in the callback.
    Hop,
}

impl SourceKind {
    /// Returns every metric that a source of this kind can measure.
    pub const fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Subscription => Metric::OF_SUBSCRIPTIONS,
            Self::Publisher => &[Metric::PublishPeriod, Metric::PublishDuration, Metric::MessageSize],
            Self::Stopwatch => &[Metric::Duration],
            Self::Counter => &[Metric::Frequency],
            Self::Executor => &[Metric::Busy, Metric::ReadyToRun, Metric::LongestCallback],
            Self::Service => &[
                Metric::SourceToReceive,
                Metric::ReceiveToCallback,
                Metric::SourceToCallback,
                Metric::CallbackDuration,
                Metric::Requests,
                Metric::RequestPeriod,
                Metric::ResponseDuration,
                Metric::ActiveRequests,
                Metric::MaxActiveRequests,
                Metric::CallbackPanics,
            ],
            Self::Client => &[
                Metric::SourceToReceive,
                Metric::ReceiveToCallback,
                Metric::SourceToCallback,
                Metric::Calls,
                Metric::Responses,
                Metric::DroppedCalls,
                Metric::RoundTrip,
                Metric::OldestCall,
            ],
            Self::Timer => &[
                Metric::CallbackDuration,
                Metric::TimerPeriod,
                Metric::TimerLateness,
                Metric::SkippedPeriods,
                Metric::CallbackShare,
            ],
            Self::ActionServer => &[
                Metric::Goals,
                Metric::GoalToAcceptance,
                Metric::FeedbackPeriod,
                Metric::CancelDelay,
                Metric::GoalSucceeded,
                Metric::GoalCanceled,
                Metric::GoalAborted,
                Metric::SucceededGoals,
                Metric::CanceledGoals,
                Metric::AbortedGoals,
                Metric::RejectedGoals,
                Metric::ActiveGoals,
                Metric::MaxActiveGoals,
                Metric::OldestGoal,
            ],
            Self::ActionClient => &[
                Metric::Goals,
                Metric::GoalToAcceptance,
                Metric::GoalToFeedback,
                Metric::GoalSucceeded,
                Metric::GoalCanceled,
                Metric::GoalAborted,
                Metric::SucceededGoals,
                Metric::CanceledGoals,
                Metric::AbortedGoals,
                Metric::RejectedGoals,
                Metric::DroppedGoals,
                Metric::ActiveGoals,
                Metric::MaxActiveGoals,
                Metric::OldestGoal,
            ],
            Self::Hop => &[Metric::InputToOutput],
        }
    }

    /// Returns whether silence is normal: a service or an action server waits for its clients, a client for its node,
    /// an executor for anything, and a hop for messages that cause a publication.
    pub const fn may_be_silent(self) -> bool {
        matches!(
            self,
            Self::Service
                | Self::Client
                | Self::ActionServer
                | Self::ActionClient
                | Self::Executor
                | Self::Hop
        )
    }

    /// Returns whether a source of this kind can measure a metric.
    pub fn measures(self, metric: Metric) -> bool {
        self.metrics().contains(&metric)
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subscription => "subscription",
            Self::Publisher => "publisher",
            Self::Stopwatch => "stopwatch",
            Self::Counter => "counter",
            Self::Executor => "executor",
            Self::Service => "service",
            Self::Client => "client",
            Self::Timer => "timer",
            Self::ActionServer => "action server",
            Self::ActionClient => "action client",
            Self::Hop => "hop",
        })
    }
}
