// SPDX-License-Identifier: Apache-2.0

//! The goals of an action, derived from the statuses and the feedback that the action server publishes.
//!
//! Durations are measured between the receptions of messages. So an action server needs no service introspection. Any
//! process can publish statuses, so all memory is limited.

use std::{collections::HashMap, time::Instant};

use rclrs_topic_statistics::Metric;
use topic_statistics_observe::{format::milliseconds, row::Window};

use super::window::Samples;

/// The identifier of a goal.
pub type GoalId = [u8; 16];

/// The statuses of `action_msgs/msg/GoalStatus` that this module uses.
const CANCELING: i8 = 3;
const SUCCEEDED: i8 = 4;
const CANCELED: i8 = 5;
const ABORTED: i8 = 6;

/// The goals of an action.
#[derive(Debug)]
pub struct Goals {
    goals: HashMap<GoalId, Goal>,
    samples: Samples,
    /// Whether the server has published statuses.
    is_known: bool,
    /// The number of goals since the start of the monitor.
    pub received: u64,
}

#[derive(Debug)]
struct Goal {
    status: i8,
    /// When the first status of the goal was received.
    since: Instant,
    /// Whether the goal was observed from its start: its first status was received after the start of the monitor, and
    /// did not yet show its end.
    is_whole: bool,
    canceling: Option<Instant>,
    feedback: Option<Instant>,
}

impl Goal {
    fn has_ended(&self) -> bool {
        [SUCCEEDED, CANCELED, ABORTED].contains(&self.status)
    }
}

impl Default for Goals {
    fn default() -> Self {
        Self { goals: HashMap::new(), samples: Samples::new(Self::METRICS), is_known: false, received: 0 }
    }
}

impl Goals {
    /// The metrics of a window of an action.
    pub const METRICS: &'static [Metric] = &[
        Metric::Goals,
        Metric::GoalToFeedback,
        Metric::FeedbackPeriod,
        Metric::CancelDelay,
        Metric::GoalSucceeded,
        Metric::GoalCanceled,
        Metric::GoalAborted,
        Metric::SucceededGoals,
        Metric::CanceledGoals,
        Metric::AbortedGoals,
        Metric::DroppedGoals,
        Metric::ActiveGoals,
        Metric::OldestGoal,
    ];
    /// The maximum number of goals that are followed at the same time.
    const MAX_GOALS: usize = 1000;

    /// Accepts the statuses of all goals that the server knows. `is_old` means that these goals may have started before
    /// the monitor. Returns `false` if there is no room for some goals.
    pub fn add_statuses(&mut self, statuses: &[(GoalId, i8)], is_old: bool, at: Instant) -> bool {
        self.is_known = true;
        let statuses = &statuses[..statuses.len().min(2 * Self::MAX_GOALS)];
        let known: HashMap<&GoalId, i8> = statuses.iter().map(|(id, status)| (id, *status)).collect();
        // If a goal disappears from the statuses before it has ended, its action server has ended.
        let samples = &mut self.samples;
        self.goals.retain(|id, goal| {
            let is_kept = known.contains_key(id);
            if !is_kept && !goal.has_ended() {
                samples.count(Metric::DroppedGoals);
            }
            is_kept
        });
        let mut has_room = true;
        for (id, status) in known {
            if !self.goals.contains_key(id) && self.goals.len() >= Self::MAX_GOALS {
                has_room = false;
                continue;
            }
            self.set_status(*id, status, is_old, at);
        }
        has_room
    }

    fn set_status(&mut self, id: GoalId, status: i8, is_old: bool, at: Instant) {
        let mut is_new = false;
        let goal = self.goals.entry(id).or_insert_with(|| {
            is_new = true;
            let is_whole = !is_old && ![CANCELING, SUCCEEDED, CANCELED, ABORTED].contains(&status);
            Goal { status: 0, since: at, is_whole, canceling: None, feedback: None }
        });
        if is_new && !is_old {
            self.received += 1;
            self.samples.count(Metric::Goals);
        }
        if goal.status == status || goal.has_ended() {
            return;
        }
        goal.status = status;
        let (count, duration) = match status {
            CANCELING => {
                goal.canceling = (!is_new).then_some(at);
                return;
            }
            SUCCEEDED => (Metric::SucceededGoals, Metric::GoalSucceeded),
            CANCELED => (Metric::CanceledGoals, Metric::GoalCanceled),
            ABORTED => (Metric::AbortedGoals, Metric::GoalAborted),
            _ => return,
        };
        if is_new && is_old {
            return;
        }
        self.samples.count(count);
        if goal.is_whole {
            self.samples.add(duration, between(goal.since, at));
        }
        if let (CANCELED, Some(canceling)) = (status, goal.canceling) {
            self.samples.add(Metric::CancelDelay, between(canceling, at));
        }
    }

    /// Accepts feedback. The feedback of a goal whose status has not arrived yet is ignored.
    pub fn accept_feedback(&mut self, id: &GoalId, at: Instant) {
        let Some(goal) = self.goals.get_mut(id) else { return };
        match goal.feedback.replace(at) {
            Some(last) => self.samples.add(Metric::FeedbackPeriod, between(last, at)),
            None if goal.is_whole => self.samples.add(Metric::GoalToFeedback, between(goal.since, at)),
            None => {}
        }
    }

    /// Ends a window. `window` has only times, and the function adds the metrics to it.
    pub fn end_window(&mut self, window: Window) -> Window {
        let active = || self.goals.values().filter(|goal| !goal.has_ended());
        let oldest = active().map(|goal| goal.since).min().unwrap_or(window.ended);
        let mut others = vec![
            (Metric::ActiveGoals, Some(active().count() as f64)),
            (Metric::OldestGoal, Some(between(oldest, window.ended))),
        ];
        if !self.is_known {
            let is_single = |metric: &&Metric| !metric.has_distribution();
            others = Self::METRICS.iter().filter(is_single).map(|metric| (*metric, None)).collect();
        }
        let received = self.is_known.then(|| self.samples.counted(Metric::Goals));
        self.samples.end(&others, window, received)
    }
}

/// Returns the time between two events, in milliseconds.
fn between(from: Instant, to: Instant) -> f64 {
    milliseconds(to.saturating_duration_since(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::window::tests::{self, empty};
    use std::time::Duration;
    use topic_statistics_observe::testing::at;

    const ACCEPTED: i8 = 1;
    const EXECUTING: i8 = 2;

    fn ms(milliseconds: u64) -> Instant {
        at(0) + Duration::from_millis(milliseconds)
    }

    /// Ends a window at this time. Returns the mean and the number of samples of each named metric.
    fn figures(goals: &mut Goals, milliseconds: u64, names: &str) -> Vec<(f64, u64)> {
        tests::figures(&goals.end_window(empty(milliseconds)), names)
    }

    #[test]
    fn each_outcome_has_its_count_and_its_duration() {
        let (mut goals, [a, b, c]) = (Goals::default(), [[1; 16], [2; 16], [3; 16]]);
        assert!(goals.add_statuses(&[(a, ACCEPTED)], false, ms(0)));
        goals.add_statuses(&[(a, EXECUTING), (b, ACCEPTED)], false, ms(100));
        for (goal, time) in [(a, 150), (a, 250), (c, 250)] {
            goals.accept_feedback(&goal, ms(time));
        }
        goals.add_statuses(&[(a, SUCCEEDED), (b, EXECUTING), (c, ACCEPTED)], false, ms(300));
        goals.add_statuses(&[(a, SUCCEEDED), (b, CANCELING), (c, ABORTED)], false, ms(400));
        let names =
            "goals active_goals oldest_goal_ms goal_succeeded_ms goal_aborted_ms goal_to_feedback_ms \
                     feedback_period_ms";
        let durations = [(300.0, 1), (100.0, 1), (150.0, 1), (100.0, 1)];
        let expected = [&[(3.0, 1), (1.0, 1), (400.0, 1)], &durations[..]].concat();
        assert_eq!(figures(&mut goals, 500, names), expected);
        goals.add_statuses(&[(b, CANCELED)], false, ms(640));
        let found = figures(&mut goals, 1000, "cancel_delay_ms goal_canceled_ms goals active_goals");
        assert_eq!((found, goals.received), (vec![(240.0, 1), (540.0, 1), (0.0, 1), (0.0, 1)], 3));
    }

    #[test]
    fn earlier_goals_have_no_duration_and_lost_ones_are_dropped() {
        let (mut goals, [a, b]) = (Goals::default(), [[1; 16], [2; 16]]);
        assert!(figures(&mut goals, 0, "goals")[0].0.is_nan(), "no status was received yet");
        goals.add_statuses(&[(a, SUCCEEDED), (b, EXECUTING)], true, ms(0));
        let found = figures(&mut goals, 100, "goals succeeded_goals active_goals");
        assert_eq!(found, [(0.0, 1), (0.0, 1), (1.0, 1)]);
        goals.add_statuses(&[(a, SUCCEEDED), (b, SUCCEEDED)], false, ms(200));
        let found = figures(&mut goals, 300, "succeeded_goals goal_succeeded_ms");
        assert_eq!((found[0].0, found[1].1), (1.0, 0));
        goals.add_statuses(&[([3; 16], ACCEPTED)], false, ms(400));
        goals.add_statuses(&[([4; 16], ACCEPTED)], false, ms(500));
        assert_eq!(figures(&mut goals, 600, "dropped_goals")[0].0, 1.0);
    }

    #[test]
    fn goals_have_a_bound() {
        let mut goals = Goals::default();
        let id = |number: u32| std::array::from_fn(|index| number.to_ne_bytes()[index % 4]);
        let many: Vec<_> = (0..3000).map(|number| (id(number), EXECUTING)).collect();
        assert!(!goals.add_statuses(&many, false, ms(0)));
        assert_eq!(goals.goals.len(), Goals::MAX_GOALS);
    }
}
