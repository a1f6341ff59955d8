// SPDX-License-Identifier: Apache-2.0

//! An action server with statistics, and its goals.
//!
//! The goals are wrappers around the goals of rclrs, and record each change of the goal. A wrapper has the same methods
//! as rclrs's goal, and dropping the wrapper has the same effect as dropping rclrs's goal. In the statistics, a goal
//! ends before its client receives the result. So a finished goal does not count as active when its client sends the
//! next goal.

use std::{future::Future, sync::Arc};

use rclrs::{
    AcceptedGoal, ActionServer, BeginAcceptedGoal, CancellingGoal, ExecutingGoal, FeedbackPublisher,
    GoalUuid, RclrsError, RequestedGoal, TerminatedGoal,
};
use rosidl_runtime_rs::Action;
use topic_statistics_core::record::{
    clock::monotonic,
    goals::{GoalRecorder, Outcome},
    source::SourceHandle,
};

use super::{
    goal::{opaque_debug, SharedGoal},
    handle::{stats_handle, SourceStatistics},
};

/// An action server whose goals are measured.
///
/// Create an action server using [`NodeStatistics::create_action_server`](crate::NodeStatistics::create_action_server).
/// Like [`rclrs::ActionServer`], a `StatsActionServer` is a handle: dropping the last clone ends the action server and
/// its statistics.
pub type StatsActionServer<A> = Arc<StatsActionServerState<A>>;

/// The inner state of a [`StatsActionServer`].
pub struct StatsActionServerState<A: Action> {
    /// This field is dropped first, so the statistics end before the action server ends.
    statistics: SourceStatistics,
    recorder: GoalRecorder<true>,
    server: ActionServer<A>,
    name: Box<str>,
}

stats_handle!(StatsActionServerState<A: Action>);

impl<A: Action> StatsActionServerState<A> {
    pub(crate) fn new(
        source: SourceHandle,
        recorder: GoalRecorder<true>,
        server: ActionServer<A>,
        name: Box<str>,
    ) -> Self {
        Self { statistics: SourceStatistics(source), recorder, server, name }
    }

    /// Replaces the callback, as [`rclrs::ActionServerState::set_callback`] does. The new callback is also measured.
    pub fn set_callback<Task>(
        &self,
        callback: impl FnMut(StatsRequestedGoal<A>) -> Task + Send + Sync + 'static,
    ) where
        Task: Future<Output = TerminatedGoal> + Send + 'static,
    {
        self.server.set_callback(measure(callback, self.recorder.clone()));
    }

    /// Returns the fully qualified name of the action, without remappings, which rclrs 0.8 does not report.
    pub fn action_name(&self) -> &str {
        &self.name
    }
}

pub(crate) fn measure<A: Action, Task>(
    mut callback: impl FnMut(StatsRequestedGoal<A>) -> Task + Send + Sync + 'static,
    recorder: GoalRecorder<true>,
) -> impl FnMut(RequestedGoal<A>) -> Task + Send + Sync + 'static {
    move |requested| {
        let goal = SharedGoal::new(recorder.begin(monotonic()));
        callback(StatsRequestedGoal { requested, goal })
    }
}

/// A requested goal, like [`rclrs::RequestedGoal`]. If this value is dropped, the goal is rejected.
pub struct StatsRequestedGoal<A: Action> {
    requested: RequestedGoal<A>,
    goal: SharedGoal<true>,
}

impl<A: Action> StatsRequestedGoal<A> {
    /// Returns the goal.
    #[must_use]
    pub fn goal(&self) -> &Arc<A::Goal> {
        self.requested.goal()
    }

    /// Returns the unique ID of the goal.
    #[must_use]
    pub fn goal_id(&self) -> &GoalUuid {
        self.requested.goal_id()
    }

    /// Accepts the goal, as [`rclrs::RequestedGoal::accept`] does, with the same panics.
    #[must_use]
    pub fn accept(self) -> StatsAcceptedGoal<A> {
        let Self { requested, goal } = self;
        let accepted = requested.accept();
        goal.record(|goal| goal.accept(monotonic));
        StatsAcceptedGoal { accepted, goal }
    }

    /// Accepts the goal, as [`rclrs::RequestedGoal::try_accept`] does, with the same errors.
    pub fn try_accept(self) -> Result<StatsAcceptedGoal<A>, RclrsError> {
        let Self { requested, goal } = self;
        let accepted = requested.try_accept()?;
        goal.record(|goal| goal.accept(monotonic));
        Ok(StatsAcceptedGoal { accepted, goal })
    }

    /// Rejects the goal.
    pub fn reject(self) -> TerminatedGoal {
        let Self { requested, goal } = self;
        goal.end(Outcome::Rejected);
        requested.reject()
    }
}

/// Implements the methods of goals that are accepted and have not ended.
macro_rules! accepted_methods {
    ($name:ident, $field:ident) => {
        impl<A: Action> $name<A> {
            /// Returns the goal.
            #[must_use]
            pub fn goal(&self) -> &Arc<A::Goal> {
                self.$field.goal()
            }

            /// Publishes feedback.
            pub fn publish_feedback(&self, feedback: A::Feedback) {
                self.$field.publish_feedback(feedback);
                self.goal.record(|goal| goal.feedback(monotonic));
            }

            /// Returns a handle with which other code can publish feedback of this goal.
            pub fn feedback_publisher(&self) -> StatsFeedbackPublisher<A> {
                let publisher = self.$field.feedback_publisher();
                StatsFeedbackPublisher { publisher, goal: self.goal.clone() }
            }
        }
    };
}

/// Implements the methods of goals whose cancellation may be requested.
macro_rules! cancelable_methods {
    ($name:ident, $field:ident, $of_rclrs:literal) => {
        impl<A: Action> $name<A> {
            #[doc = concat!("Polls a future until it is finished, or until the goal is to be canceled, as ")]
            #[doc = concat!("[`rclrs::", $of_rclrs, "::until_cancel_requested`] does. The cancel delay begins ")]
            #[doc = "when it returns the future."]
            pub async fn until_cancel_requested<F: Future + Unpin>(&self, f: F) -> Result<F::Output, F> {
                let result = self.$field.until_cancel_requested(f).await;
                if result.is_err() {
                    self.goal.record(|goal| goal.request_cancel(monotonic));
                }
                result
            }

            #[doc = concat!("Polls a future unless the goal is to be canceled, as ")]
            #[doc = concat!("[`rclrs::", $of_rclrs, "::unless_cancel_requested`] does. The cancel delay begins ")]
            #[doc = "when it returns an error."]
            pub async fn unless_cancel_requested<F: Future>(&self, f: F) -> Result<F::Output, ()> {
                let result = self.$field.unless_cancel_requested(f).await;
                if result.is_err() {
                    self.goal.record(|goal| goal.request_cancel(monotonic));
                }
                result
            }

            /// Begins to cancel the goal, even if its cancellation was not requested.
            #[must_use]
            pub fn begin_cancelling(self) -> StatsCancellingGoal<A> {
                let Self { $field, goal } = self;
                StatsCancellingGoal { cancelling: $field.begin_cancelling(), goal }
            }

            /// Rejects all requests to cancel this goal that have not been answered yet.
            pub fn reject_cancellation(&self) {
                self.$field.reject_cancellation();
                self.goal.record(|goal| goal.reject_cancel());
            }
        }
    };
}

/// Implements the methods of goals that may succeed or be aborted.
macro_rules! executing_methods {
    ($name:ident, $field:ident) => {
        impl<A: Action> $name<A> {
            /// Ends the goal with the status succeeded.
            pub fn succeeded_with(self, result: A::Result) -> TerminatedGoal {
                self.goal.end(Outcome::Succeeded);
                self.$field.succeeded_with(result)
            }

            /// Ends the goal with the status aborted.
            pub fn aborted_with(self, result: A::Result) -> TerminatedGoal {
                self.goal.end(Outcome::Aborted);
                self.$field.aborted_with(result)
            }
        }
    };
}

/// An accepted goal, like [`rclrs::AcceptedGoal`]. If this value is dropped, the goal is aborted.
pub struct StatsAcceptedGoal<A: Action> {
    accepted: AcceptedGoal<A>,
    goal: SharedGoal<true>,
}

accepted_methods!(StatsAcceptedGoal, accepted);
cancelable_methods!(StatsAcceptedGoal, accepted, "AcceptedGoal");

impl<A: Action> StatsAcceptedGoal<A> {
    /// Starts to execute the goal.
    #[must_use]
    pub fn execute(self) -> StatsExecutingGoal<A> {
        let Self { accepted, goal } = self;
        let executing = accepted.execute();
        goal.record(|goal| goal.execute(monotonic));
        StatsExecutingGoal { executing, goal }
    }

    /// Starts to cancel the goal if its cancellation is requested, and starts to execute the goal otherwise.
    #[must_use]
    pub fn begin(self) -> StatsBeginAcceptedGoal<A> {
        let Self { accepted, goal } = self;
        match accepted.begin() {
            BeginAcceptedGoal::Execute(executing) => {
                goal.record(|goal| goal.execute(monotonic));
                StatsBeginAcceptedGoal::Execute(StatsExecutingGoal { executing, goal })
            }
            BeginAcceptedGoal::Cancel(cancelling) => {
                goal.record(|goal| goal.request_cancel(monotonic));
                StatsBeginAcceptedGoal::Cancel(StatsCancellingGoal { cancelling, goal })
            }
        }
    }
}

/// The next state of an accepted goal, like [`rclrs::BeginAcceptedGoal`].
#[non_exhaustive]
pub enum StatsBeginAcceptedGoal<A: Action> {
    /// The goal is executed.
    Execute(StatsExecutingGoal<A>),
    /// The goal is canceled.
    Cancel(StatsCancellingGoal<A>),
}

/// A goal that is being executed, like [`rclrs::ExecutingGoal`]. If this value is dropped, the goal is aborted.
pub struct StatsExecutingGoal<A: Action> {
    executing: ExecutingGoal<A>,
    goal: SharedGoal<true>,
}

accepted_methods!(StatsExecutingGoal, executing);
cancelable_methods!(StatsExecutingGoal, executing, "ExecutingGoal");
executing_methods!(StatsExecutingGoal, executing);

/// A goal that is being canceled, like [`rclrs::CancellingGoal`]. If this value is dropped, the goal is aborted.
pub struct StatsCancellingGoal<A: Action> {
    cancelling: CancellingGoal<A>,
    goal: SharedGoal<true>,
}

accepted_methods!(StatsCancellingGoal, cancelling);
executing_methods!(StatsCancellingGoal, cancelling);

impl<A: Action> StatsCancellingGoal<A> {
    /// Ends the goal with the status canceled.
    pub fn cancelled_with(self, result: A::Result) -> TerminatedGoal {
        self.goal.end(Outcome::Canceled);
        self.cancelling.cancelled_with(result)
    }
}

/// Publishes feedback of a goal, like [`rclrs::FeedbackPublisher`]. A dropped goal is aborted only after its feedback
/// publishers are dropped.
#[derive(Clone)]
pub struct StatsFeedbackPublisher<A: Action> {
    publisher: FeedbackPublisher<A>,
    goal: SharedGoal<true>,
}

impl<A: Action> StatsFeedbackPublisher<A> {
    /// Publishes feedback, as [`rclrs::FeedbackPublisher::publish`] does, with the same errors.
    pub fn publish(&self, feedback: A::Feedback) -> Result<(), A::Feedback> {
        self.publisher.publish(feedback)?;
        self.goal.record(|goal| goal.feedback(monotonic));
        Ok(())
    }
}

opaque_debug!(
    StatsRequestedGoal,
    StatsAcceptedGoal,
    StatsBeginAcceptedGoal,
    StatsExecutingGoal,
    StatsCancellingGoal,
    StatsFeedbackPublisher
);
