// SPDX-License-Identifier: Apache-2.0

//! An action client with statistics, and its goals.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock},
    task::{ready, Context, Poll, Wake, Waker},
};

use futures_core::Stream;
use rclrs::{
    ActionClient, CancelResponseClient, CancellationClient, FeedbackClient, GoalClient, GoalClientStream,
    GoalEvent, GoalStatusCode, GoalUuid, MultiCancelResponseClient, Promise, RclrsError, RequestedGoalClient,
    ResultClient, StatusClient, StatusWatcher,
};
use ros_env::builtin_interfaces::msg::Time;
use rosidl_runtime_rs::Action;
use tokio::sync::mpsc::error::TryRecvError;
use topic_statistics_core::{
    mutex::lock,
    record::{
        clock::monotonic,
        goals::{GoalRecorder, Outcome},
        source::SourceHandle,
    },
};

use super::{
    goal::{opaque_debug, outcome, SharedGoal},
    handle::{stats_handle, SourceStatistics},
};

/// An action client whose goals are measured.
///
/// Create an action client using [`NodeStatistics::create_action_client`](crate::NodeStatistics::create_action_client).
/// Like [`rclrs::ActionClient`], a `StatsActionClient` is a handle: dropping the last clone ends its statistics. But
/// the rclrs action client lives on until its goals are also dropped.
pub type StatsActionClient<A> = Arc<StatsActionClientState<A>>;

/// The inner state of a [`StatsActionClient`].
pub struct StatsActionClientState<A: Action> {
    /// This field is dropped first, so the statistics end before the action client ends.
    statistics: SourceStatistics,
    recorder: GoalRecorder<false>,
    client: ActionClient<A>,
    name: Box<str>,
}

stats_handle!(StatsActionClientState<A: Action>);

impl<A: Action> StatsActionClientState<A> {
    pub(crate) fn new(
        source: SourceHandle,
        recorder: GoalRecorder<false>,
        client: ActionClient<A>,
        name: Box<str>,
    ) -> Self {
        Self { statistics: SourceStatistics(source), recorder, client, name }
    }

    /// Sends a goal, as [`rclrs::ActionClientState::request_goal`] does, with the same panics.
    pub fn request_goal(&self, goal: A::Goal) -> StatsRequestedGoalClient<A> {
        let began = monotonic();
        self.requested(began, self.client.request_goal(goal))
    }

    /// Sends a goal, as [`rclrs::ActionClientState::try_request_goal`] does, with the same errors. A goal that cannot
    /// be sent is not measured.
    pub fn try_request_goal(&self, goal: A::Goal) -> Result<StatsRequestedGoalClient<A>, RclrsError> {
        let began = monotonic();
        Ok(self.requested(began, self.client.try_request_goal(goal)?))
    }

    fn requested(&self, began: i64, requested: RequestedGoalClient<A>) -> StatsRequestedGoalClient<A> {
        let goal = SharedGoal::new(self.recorder.begin(began));
        let goal_id = *requested.goal_id();
        StatsRequestedGoalClient { requested: Watched::new(requested, &goal), goal_id, goal }
    }

    /// Returns whether an action server is available, as [`rclrs::ActionClientState::server_is_available`] does, with
    /// the same errors.
    pub fn server_is_available(&self) -> Result<bool, RclrsError> {
        self.client.server_is_available()
    }

    /// Returns a promise that is fulfilled when an action server is ready, as
    /// [`rclrs::ActionClientState::notify_on_server_ready`] does.
    pub fn notify_on_server_ready(&self) -> Promise<()> {
        self.client.notify_on_server_ready()
    }

    /// Returns the fully qualified name of the action, without remappings, which rclrs 0.8 does not report.
    pub fn action_name(&self) -> &str {
        &self.name
    }

    /// Returns the rclrs action client. Goals that are sent through this client are not measured.
    pub fn client(&self) -> &ActionClient<A> {
        &self.client
    }
}

macro_rules! methods_of_rclrs {
    ($($name:ident($($argument:ident: $Argument:ty)?) -> $Result:ty;)+) => {
        /// These methods measure nothing, because they may act on goals of other clients.
        impl<A: Action> StatsActionClientState<A> {$(
            #[doc = concat!("As [`rclrs::ActionClientState::", stringify!($name), "`]. This call is not measured.")]
            pub fn $name(&self $(, $argument: $Argument)?) -> $Result {
                self.client.$name($($argument)?)
            }
        )+}
    };
}

methods_of_rclrs! {
    receive_feedback(goal_id: GoalUuid) -> FeedbackClient<A>;
    receive_status(goal_id: GoalUuid) -> StatusClient<A>;
    watch_status(goal_id: GoalUuid) -> StatusWatcher<A>;
    receive_result(goal_id: GoalUuid) -> ResultClient<A>;
    try_receive_result(goal_id: GoalUuid) -> Result<ResultClient<A>, RclrsError>;
    cancel_goal(goal_id: GoalUuid) -> CancelResponseClient<A>;
    try_cancel_goal(goal_id: GoalUuid) -> Result<CancelResponseClient<A>, RclrsError>;
    cancel_all_goals() -> MultiCancelResponseClient<A>;
    try_cancel_all_goals() -> Result<MultiCancelResponseClient<A>, RclrsError>;
    cancel_goals_prior_to(time: Time) -> MultiCancelResponseClient<A>;
    try_cancel_goals_prior_to(time: Time) -> Result<MultiCancelResponseClient<A>, RclrsError>;
}

/// The time at which a future was first woken, and the waker that is woken then. So the measured time of a goal's
/// response is the time when the response arrives, even if user code awaits the response later.
#[derive(Default)]
struct Arrival {
    time: OnceLock<i64>,
    waker: Mutex<Option<Waker>>,
}

impl Arrival {
    /// Returns when the future was woken. If the future has not been woken yet, returns the current time.
    fn time(&self) -> i64 {
        *self.time.get_or_init(monotonic)
    }
}

impl Wake for Arrival {
    fn wake(self: Arc<Self>) {
        self.time();
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A future of rclrs. This struct polls the future at its creation, so that the future's end is noticed even if user
/// code awaits the future later.
struct Watched<F: Future> {
    /// `None` after the future has ended.
    future: Option<F>,
    /// The output of the future, until the output is taken.
    output: Option<F::Output>,
    arrival: Arc<Arrival>,
}

impl<F: Future + Unpin> Watched<F> {
    fn new<const IS_SERVER: bool>(future: F, goal: &SharedGoal<IS_SERVER>) -> Self {
        let mut watched = Self { future: Some(future), output: None, arrival: Arc::default() };
        if goal.is_measured() {
            watched.look();
        }
        watched
    }

    /// Polls the future without waiting. If the future has ended and its output has not been taken yet, returns the
    /// output.
    fn look(&mut self) -> Option<&F::Output> {
        if let Poll::Ready((output, _)) = self.poll(&mut Context::from_waker(Waker::noop())) {
            self.output = Some(output);
        }
        self.output.as_ref()
    }

    /// Polls the future. Returns the output and the time at which the output arrived. The output is returned only once.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(F::Output, i64)> {
        if let Some(output) = self.output.take() {
            return Poll::Ready((output, self.arrival.time()));
        }
        let Some(future) = &mut self.future else { return Poll::Pending };
        *lock(&self.arrival.waker) = Some(context.waker().clone());
        let waker = Waker::from(Arc::clone(&self.arrival));
        let output = ready!(Pin::new(future).poll(&mut Context::from_waker(&waker)));
        self.future = None;
        Poll::Ready((output, self.arrival.time()))
    }
}

/// A goal that was sent, like [`rclrs::RequestedGoalClient`]. Await this value to get the response of the action
/// server. The response is `None` if the server rejects the goal.
pub struct StatsRequestedGoalClient<A: Action> {
    requested: Watched<RequestedGoalClient<A>>,
    goal_id: GoalUuid,
    goal: SharedGoal<false>,
}

impl<A: Action> StatsRequestedGoalClient<A> {
    /// Returns the unique ID of the goal.
    pub fn goal_id(&self) -> &GoalUuid {
        &self.goal_id
    }
}

impl<A: Action> Future for StatsRequestedGoalClient<A> {
    type Output = Option<StatsGoalClient<A>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { requested, goal, .. } = self.get_mut();
        let (client, arrived) = ready!(requested.poll(context));
        let Some(GoalClient { feedback, status, result, cancellation, stamp }) = client else {
            goal.record(|goal| goal.end(Outcome::Rejected, || arrived));
            return Poll::Ready(None);
        };
        goal.record(|goal| goal.accept(|| arrived));
        let feedback = StatsFeedbackClient { feedback, goal: goal.clone() };
        let result = StatsResultClient::new(result, goal.clone());
        Poll::Ready(Some(StatsGoalClient { feedback, status, result, cancellation, stamp }))
    }
}

impl<A: Action> Drop for StatsRequestedGoalClient<A> {
    /// If the response has arrived, records the response, even if user code has never awaited it.
    fn drop(&mut self) {
        if !self.goal.is_measured() {
            return;
        }
        let is_accepted = self.requested.look().map(Option::is_some);
        let arrival = &self.requested.arrival;
        match is_accepted {
            Some(true) => self.goal.record(|goal| goal.accept(|| arrival.time())),
            Some(false) => self.goal.record(|goal| goal.end(Outcome::Rejected, || arrival.time())),
            None => {}
        }
    }
}

/// A goal that was accepted, like [`rclrs::GoalClient`]. Destructure this struct to use its fields separately.
#[non_exhaustive]
pub struct StatsGoalClient<A: Action> {
    /// Receives feedback.
    pub feedback: StatsFeedbackClient<A>,
    /// Watches the status.
    pub status: StatusWatcher<A>,
    /// Receives the result.
    pub result: StatsResultClient<A>,
    /// Requests the cancellation of the goal.
    pub cancellation: CancellationClient<A>,
    /// The time at which the server accepted the goal, on the server's clock.
    pub stamp: Time,
}

impl<A: Action> Clone for StatsGoalClient<A> {
    fn clone(&self) -> Self {
        Self {
            feedback: self.feedback.clone(),
            status: self.status.clone(),
            result: self.result.clone(),
            cancellation: self.cancellation.clone(),
            stamp: self.stamp.clone(),
        }
    }
}

impl<A: Action> StatsGoalClient<A> {
    /// Returns a stream of the events of the goal, as [`rclrs::GoalClient::stream`] does.
    pub fn stream(self) -> StatsGoalClientStream<A> {
        let Self { feedback: StatsFeedbackClient { feedback, .. }, status, result, cancellation, stamp } =
            self;
        let client = GoalClient { feedback, status, result: result.plain.clone(), cancellation, stamp };
        StatsGoalClientStream { stream: client.stream(), result }
    }
}

/// Receives feedback of a goal, like [`rclrs::FeedbackClient`].
pub struct StatsFeedbackClient<A: Action> {
    feedback: FeedbackClient<A>,
    goal: SharedGoal<false>,
}

impl<A: Action> Clone for StatsFeedbackClient<A> {
    fn clone(&self) -> Self {
        Self { feedback: self.feedback.clone(), goal: self.goal.clone() }
    }
}

impl<A: Action> StatsFeedbackClient<A> {
    /// Receives the next feedback, as [`UnboundedReceiver::recv`](tokio::sync::mpsc::UnboundedReceiver::recv) does.
    pub async fn recv(&mut self) -> Option<A::Feedback> {
        let feedback = self.feedback.recv().await;
        self.receive(feedback.is_some());
        feedback
    }

    /// Receives feedback that has already arrived, as
    /// [`UnboundedReceiver::try_recv`](tokio::sync::mpsc::UnboundedReceiver::try_recv) does, with the same errors.
    pub fn try_recv(&mut self) -> Result<A::Feedback, TryRecvError> {
        let feedback = self.feedback.try_recv();
        self.receive(feedback.is_ok());
        feedback
    }

    /// Polls for the next feedback, as
    /// [`UnboundedReceiver::poll_recv`](tokio::sync::mpsc::UnboundedReceiver::poll_recv) does.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<A::Feedback>> {
        let feedback = self.feedback.poll_recv(context);
        self.receive(matches!(feedback, Poll::Ready(Some(_))));
        feedback
    }

    fn receive(&self, has_feedback: bool) {
        if has_feedback {
            self.goal.record(|goal| goal.feedback(monotonic));
        }
    }
}

/// A future with the result of a goal, like [`rclrs::ResultClient`].
pub struct StatsResultClient<A: Action> {
    result: Watched<ResultClient<A>>,
    /// The result client of rclrs, for clones of this value and for the stream of the goal's events.
    plain: ResultClient<A>,
    goal: SharedGoal<false>,
}

impl<A: Action> StatsResultClient<A> {
    fn new(plain: ResultClient<A>, goal: SharedGoal<false>) -> Self {
        Self { result: Watched::new(plain.clone(), &goal), plain, goal }
    }

    fn end(&self, status: GoalStatusCode) {
        self.goal.record(|goal| goal.end(outcome(status), || self.result.arrival.time()));
    }
}

impl<A: Action> Clone for StatsResultClient<A> {
    fn clone(&self) -> Self {
        Self::new(self.plain.clone(), self.goal.clone())
    }
}

impl<A: Action> Future for StatsResultClient<A> {
    type Output = (GoalStatusCode, A::Result);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (output, _) = ready!(self.result.poll(context));
        self.end(output.0);
        Poll::Ready(output)
    }
}

impl<A: Action> Drop for StatsResultClient<A> {
    /// If the result has arrived, records the result, even if user code has never awaited it.
    fn drop(&mut self) {
        if self.goal.is_measured() {
            if let Some(status) = self.result.look().map(|(status, _)| *status) {
                self.end(status);
            }
        }
    }
}

/// A stream of the events of a goal, like [`rclrs::GoalClientStream`].
pub struct StatsGoalClientStream<A: Action> {
    stream: GoalClientStream<A>,
    result: StatsResultClient<A>,
}

impl<A: Action> Stream for StatsGoalClientStream<A> {
    type Item = GoalEvent<A>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { stream, result } = self.get_mut();
        let event = ready!(Pin::new(stream).poll_next(context));
        match &event {
            Some(GoalEvent::Feedback(_)) => result.goal.record(|goal| goal.feedback(monotonic)),
            Some(GoalEvent::Result((status, _))) => result.end(*status),
            Some(GoalEvent::Status(_)) | None => {}
        }
        Poll::Ready(event)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

// These types never pin their fields, so they are `Unpin` for every action type.
impl<A: Action> Unpin for StatsRequestedGoalClient<A> {}
impl<A: Action> Unpin for StatsResultClient<A> {}
impl<A: Action> Unpin for StatsGoalClientStream<A> {}

opaque_debug!(
    StatsRequestedGoalClient,
    StatsGoalClient,
    StatsFeedbackClient,
    StatsResultClient,
    StatsGoalClientStream
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_arrives_when_it_is_sent_not_when_awaited() {
        let (sender, future) = tokio::sync::oneshot::channel();
        let mut watched = Watched { future: Some(future), output: None, arrival: Arc::default() };
        assert_eq!(watched.look(), None);
        sender.send(7).unwrap();
        let sent = monotonic();
        while monotonic() == sent {}
        let Poll::Ready((output, arrived)) = watched.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the output was sent")
        };
        assert_eq!(output, Ok(7));
        assert!(arrived <= sent, "{arrived} {sent}");
    }
}
