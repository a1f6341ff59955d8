// SPDX-License-Identifier: Apache-2.0

//! The goals of the node's action server and action client.

use fastrand::Rng;
use topic_statistics_core::{
    record::goals::{ActiveGoal, GoalRecorder, Outcome},
    Metric,
};

use crate::oracle;

/// The goals of an action server or of an action client.
pub struct Goals<const IS_SERVER: bool> {
    recorder: GoalRecorder<IS_SERVER>,
    under_way: Vec<Goal<IS_SERVER>>,
}

/// A goal that is measured, with what the oracle knows about it.
struct Goal<const IS_SERVER: bool> {
    goal: ActiveGoal<IS_SERVER>,
    began: i64,
    started: i64,
    is_accepted: bool,
    last_feedback: Option<i64>,
    cancel_requested: Option<i64>,
}

impl<const IS_SERVER: bool> Goals<IS_SERVER> {
    pub fn new(recorder: GoalRecorder<IS_SERVER>) -> Self {
        Self { recorder, under_way: vec![] }
    }

    /// Makes a goal begin, advance or end. Returns whether the library agrees with the oracle on which goals are
    /// measured.
    pub fn run(&mut self, oracle: &mut oracle::Other, random: &mut Rng, now: i64) -> bool {
        let step = random.u32(..8);
        if step < 2 {
            return self.begin(oracle, now);
        }
        if self.under_way.is_empty() {
            return true;
        }
        let index = random.usize(..self.under_way.len());
        let goal = &mut self.under_way[index];
        match step {
            2 => goal.accept(oracle, now),
            3 if IS_SERVER => {
                goal.goal.execute(|| now);
                goal.started = now;
            }
            4 | 5 => goal.feedback(oracle, now),
            6 if random.bool() => {
                goal.goal.request_cancel(|| now);
                goal.cancel_requested.get_or_insert(now);
            }
            6 => {
                goal.goal.reject_cancel();
                goal.cancel_requested = None;
            }
            _ => self.under_way.remove(index).end(oracle, random, now),
        }
        true
    }

    fn begin(&mut self, oracle: &mut oracle::Other, now: i64) -> bool {
        let goal = self.recorder.begin(now);
        let is_measured = goal.is_some();
        if let Some(goal) = goal {
            oracle.begin(now);
            oracle.event(Metric::Goals, 0);
            self.under_way.push(Goal {
                goal,
                began: now,
                started: now,
                is_accepted: false,
                last_feedback: None,
                cancel_requested: None,
            });
        }
        is_measured == oracle.is_enabled
    }
}

impl<const IS_SERVER: bool> Goal<IS_SERVER> {
    fn accept(&mut self, oracle: &mut oracle::Other, now: i64) {
        self.goal.accept(|| now);
        if std::mem::replace(&mut self.is_accepted, true) {
            return;
        }
        oracle.event(Metric::GoalToAcceptance, now - self.began);
        if IS_SERVER {
            self.started = now;
        }
    }

    fn feedback(&mut self, oracle: &mut oracle::Other, now: i64) {
        self.goal.feedback(|| now);
        match self.last_feedback.replace(now) {
            Some(last) if IS_SERVER => oracle.event(Metric::FeedbackPeriod, now - last),
            None if !IS_SERVER => oracle.event(Metric::GoalToFeedback, now - self.began),
            _ => {}
        }
    }

    fn end(self, oracle: &mut oracle::Other, random: &mut Rng, now: i64) {
        let outcome = match random.u32(..5) {
            0 => Some(Outcome::Succeeded),
            1 => Some(Outcome::Canceled),
            2 => Some(Outcome::Aborted),
            3 => Some(Outcome::Rejected),
            _ => None,
        };
        match outcome {
            Some(outcome) => self.goal.end(outcome, || now),
            None => self.goal.leave(|| now),
        }
        let lasted = now - self.started;
        let (count, duration) = match outcome {
            Some(Outcome::Succeeded) => (Metric::SucceededGoals, Some(Metric::GoalSucceeded)),
            Some(Outcome::Canceled) => (Metric::CanceledGoals, Some(Metric::GoalCanceled)),
            Some(Outcome::Aborted) => (Metric::AbortedGoals, Some(Metric::GoalAborted)),
            Some(Outcome::Rejected) => (Metric::RejectedGoals, None),
            // The goal was dropped, not ended. The outcome depends on who dropped the goal.
            _ if !IS_SERVER => (Metric::DroppedGoals, None),
            _ if self.is_accepted => (Metric::AbortedGoals, Some(Metric::GoalAborted)),
            _ => (Metric::RejectedGoals, None),
        };
        oracle.event(count, 0);
        if let Some(duration) = duration {
            oracle.event(duration, lasted);
        }
        if let (Some(Outcome::Canceled), Some(requested), true) = (outcome, self.cancel_requested, IS_SERVER)
        {
            oracle.event(Metric::CancelDelay, now - requested);
        }
        oracle.end(self.began);
        // A goal that has ended must not be counted again.
        self.goal.leave(|| now);
    }
}
