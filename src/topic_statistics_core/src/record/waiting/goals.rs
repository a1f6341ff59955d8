// SPDX-License-Identifier: Apache-2.0

//! The collectors of an action server and of an action client.

use std::sync::Arc;

use super::{
    measurements::Measurements,
    under_way::{Active, Oldest, Since},
};
use crate::{
    collector::{milliseconds_between, single_sample},
    distributions::Distributions,
    metric::Metric,
    metric_set::MetricSet,
    mutex::lock,
    record::{
        clocks::clock::EndedWindow,
        sources::windowed::{Collector, Present, Windowed},
    },
    source_kind::SourceKind,
    summary::Summary,
    sync::Mutex,
};

/// The collectors of an action server or client.
#[derive(Debug)]
pub struct Goals<const IS_SERVER: bool> {
    measurements: Measurements,
    under_way: UnderWay,
}

#[derive(Clone, Debug, Default)]
struct UnderWay {
    active: Active,
    oldest: Oldest,
}

/// An event of a goal.
#[derive(Debug)]
pub struct GoalSample {
    /// The metric whose count this event increases by one.
    count: Option<Metric>,
    /// The duration that ends with this event, in milliseconds, and the metric of the duration.
    duration: Option<(Metric, f64)>,
}

/// How a goal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The goal was reached.
    Succeeded,
    /// The goal was canceled.
    Canceled,
    /// The server aborted the goal.
    Aborted,
    /// The server did not accept the goal.
    Rejected,
    /// The client did not wait for the goal's result.
    Dropped,
}

impl Outcome {
    /// Returns the metric that counts the goals with this outcome, and the metric of their duration.
    const fn metrics(self) -> (Metric, Option<Metric>) {
        match self {
            Self::Succeeded => (Metric::SucceededGoals, Some(Metric::GoalSucceeded)),
            Self::Canceled => (Metric::CanceledGoals, Some(Metric::GoalCanceled)),
            Self::Aborted => (Metric::AbortedGoals, Some(Metric::GoalAborted)),
            Self::Rejected => (Metric::RejectedGoals, None),
            Self::Dropped => (Metric::DroppedGoals, None),
        }
    }
}

impl<const IS_SERVER: bool> Collector for Goals<IS_SERVER> {
    type Sample = GoalSample;

    const KIND: SourceKind = if IS_SERVER { SourceKind::ActionServer } else { SourceKind::ActionClient };

    fn accept(&mut self, sample: &GoalSample, _present: Present, distributions: &mut Distributions) {
        if let Some(metric) = sample.count {
            self.measurements.count(metric);
        }
        if let Some((metric, milliseconds)) = sample.duration {
            self.measurements.add(metric, milliseconds, distributions);
        }
    }

    fn take(&mut self, ended: &EndedWindow) -> (u64, Vec<(Metric, Summary)>) {
        let (active, most) = self.under_way.active.take();
        let others = [
            (Metric::ActiveGoals, single_sample(Some(active.into()))),
            (Metric::MaxActiveGoals, single_sample(Some(most.into()))),
            (Metric::OldestGoal, single_sample(Some(self.under_way.oldest.age(ended.stop)))),
        ];
        (self.measurements.counted(Metric::Goals), self.measurements.take(&others))
    }

    fn measures(&self, metric: Metric) -> bool {
        self.measurements.measures(metric)
    }

    fn clear(&mut self, _start: i64, _has_stepped: bool) {
        self.measurements.clear();
        self.under_way.active.take();
    }
}

/// Records the goals of an action server, or of an action client.
#[derive(Clone, Debug)]
pub struct GoalRecorder<const IS_SERVER: bool> {
    /// The collectors of the goals.
    pub goals: Arc<Windowed<Goals<IS_SERVER>>>,
    under_way: UnderWay,
}

impl<const IS_SERVER: bool> GoalRecorder<IS_SERVER> {
    /// Creates a recorder of these metrics, in the disabled state.
    pub fn new(metrics: MetricSet) -> Self {
        let under_way = UnderWay::default();
        let measurements = Measurements::new(Goals::<IS_SERVER>::KIND.metrics(), metrics);
        let goals = Goals { measurements, under_way: under_way.clone() };
        Self { goals: Arc::new(Windowed::new(goals)), under_way }
    }

    /// Records that a goal was received or sent at the time `began`, in nanoseconds on the monotonic clock. Returns
    /// `None` while the statistics are disabled.
    pub fn begin(&self, began: i64) -> Option<ActiveGoal<IS_SERVER>> {
        if !self.goals.is_enabled() {
            return None;
        }
        self.under_way.active.begin();
        let since = self.under_way.oldest.begin(began);
        self.record(Some(Metric::Goals), None);
        let progress = Progress { started: began, ..Progress::default() };
        Some(ActiveGoal { recorder: self.clone(), since, progress: Mutex::new(progress) })
    }

    fn record(&self, count: Option<Metric>, duration: Option<(Metric, f64)>) {
        self.goals.record(|| GoalSample { count, duration });
    }
}

/// A goal that is in progress until [`end`](Self::end) or [`leave`](Self::leave) is called. Several threads may share
/// the goal, and each of them may publish feedback.
///
/// Each `clock` argument of a method returns nanoseconds on the monotonic clock. The clock is read under the goal's
/// lock, so that the times of the goal are in order.
#[derive(Debug)]
pub struct ActiveGoal<const IS_SERVER: bool> {
    recorder: GoalRecorder<IS_SERVER>,
    since: Since,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    started: i64,
    last_feedback: Option<i64>,
    cancel_requested: Option<i64>,
    is_accepted: bool,
    has_ended: bool,
}

impl<const IS_SERVER: bool> ActiveGoal<IS_SERVER> {
    /// Records that the goal is accepted now. Only the first call has an effect.
    pub fn accept(&self, clock: impl FnOnce() -> i64) {
        let mut progress = lock(&self.progress);
        if std::mem::replace(&mut progress.is_accepted, true) || progress.has_ended {
            return;
        }
        let now = clock();
        if IS_SERVER {
            progress.started = now;
        }
        drop(progress);
        let delay = milliseconds_between(self.since.0, now);
        self.recorder.record(None, Some((Metric::GoalToAcceptance, delay)));
    }

    /// Records that the server starts to execute the goal now.
    pub fn execute(&self, clock: impl FnOnce() -> i64) {
        lock(&self.progress).started = clock();
    }

    /// Records that feedback for the goal is published (by a server) or received (by a client) now.
    pub fn feedback(&self, clock: impl FnOnce() -> i64) {
        let mut progress = lock(&self.progress);
        if progress.has_ended {
            return;
        }
        let now = clock();
        let last = progress.last_feedback.replace(now);
        drop(progress);
        let (metric, from) = match last {
            Some(last) if IS_SERVER => (Metric::FeedbackPeriod, last),
            None if !IS_SERVER => (Metric::GoalToFeedback, self.since.0),
            _ => return,
        };
        self.recorder.record(None, Some((metric, milliseconds_between(from, now))));
    }

    /// Records that the server learns now of a request to cancel the goal. Only the first request counts.
    pub fn request_cancel(&self, clock: impl FnOnce() -> i64) {
        lock(&self.progress).cancel_requested.get_or_insert_with(clock);
    }

    /// Records that the server rejects the requests to cancel the goal.
    pub fn reject_cancel(&self) {
        lock(&self.progress).cancel_requested = None;
    }

    /// Records that the goal ends now. Only the first call has an effect.
    pub fn end(&self, outcome: Outcome, clock: impl FnOnce() -> i64) {
        self.end_as(|_| outcome, clock);
    }

    /// Records that the goal was dropped, unless the goal has already ended. If a client drops the goal, the client
    /// gets no result. If a server drops the goal, rclrs aborts an accepted goal, and rejects a goal that was not
    /// accepted.
    pub fn leave(&self, clock: impl FnOnce() -> i64) {
        let outcome = |is_accepted| match (IS_SERVER, is_accepted) {
            (false, _) => Outcome::Dropped,
            (true, true) => Outcome::Aborted,
            (true, false) => Outcome::Rejected,
        };
        self.end_as(outcome, clock);
    }

    fn end_as(&self, outcome: impl FnOnce(bool) -> Outcome, clock: impl FnOnce() -> i64) {
        let mut progress = lock(&self.progress);
        if std::mem::replace(&mut progress.has_ended, true) {
            return;
        }
        let (now, outcome) = (clock(), outcome(progress.is_accepted));
        let Progress { started, cancel_requested, .. } = *progress;
        drop(progress);
        if let (Outcome::Canceled, Some(requested)) = (outcome, cancel_requested) {
            self.recorder.record(None, Some((Metric::CancelDelay, milliseconds_between(requested, now))));
        }
        let (count, duration) = outcome.metrics();
        self.recorder
            .record(Some(count), duration.map(|metric| (metric, milliseconds_between(started, now))));
        self.recorder.under_way.oldest.end(self.since);
        self.recorder.under_way.active.end();
    }
}

#[cfg(test)]
mod tests;
