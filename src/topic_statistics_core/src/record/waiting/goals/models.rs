// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use super::*;
use crate::{
    model::{check, Reached, Ticks},
    record::{clock::Clock, source::WindowedCollector},
    sync::thread,
    window::WindowStatistics,
};

/// Two threads end the same goal while a window ends: for example, a handler and a task that drops the goal. The end of
/// the goal has to be counted once, in one window. Afterwards, the goal is not in progress.
#[test]
fn a_goal_ends_once() {
    let under_way = Reached::default();
    let reached = under_way.clone();
    check(2, move || {
        let clock = Arc::new(Ticks::new());
        let recorder = GoalRecorder::<true>::new(MetricSet::of(SourceKind::ActionServer.metrics()));
        recorder.goals.enable(&*clock);
        let goal = Arc::new(recorder.begin(clock.monotonic()).unwrap());
        goal.accept(|| clock.monotonic());
        let threads = [true, false].map(|succeeds| {
            let (goal, clock) = (Arc::clone(&goal), Arc::clone(&clock));
            thread::spawn(move || match succeeds {
                true => goal.end(Outcome::Succeeded, || clock.monotonic()),
                false => goal.leave(|| clock.monotonic()),
            })
        });
        let first = recorder.goals.end_window(&*clock).unwrap().statistics;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let second = recorder.goals.end_window(&*clock).unwrap().statistics;
        let average = |window: &WindowStatistics, metric| window.get(metric).unwrap().average;
        let both = |metric| average(&first, metric) + average(&second, metric);
        assert_eq!(
            (both(Metric::Goals), both(Metric::SucceededGoals) + both(Metric::AbortedGoals)),
            (1.0, 1.0)
        );
        assert_eq!((average(&second, Metric::ActiveGoals), average(&second, Metric::OldestGoal)), (0.0, 0.0));
        reached.set_if(average(&first, Metric::ActiveGoals) == 1.0);
    });
    under_way.assert();
}

/// Two threads publish feedback of a goal. The feedback period is never negative, no matter which thread publishes
/// first.
#[test]
fn feedback_is_in_order() {
    check(3, || {
        let clock = Arc::new(Ticks::new());
        let recorder = GoalRecorder::<true>::new(MetricSet::of(SourceKind::ActionServer.metrics()));
        recorder.goals.enable(&*clock);
        let goal = Arc::new(recorder.begin(clock.monotonic()).unwrap());
        let threads = [(); 2].map(|()| {
            let (goal, clock) = (Arc::clone(&goal), Arc::clone(&clock));
            thread::spawn(move || goal.feedback(|| clock.monotonic()))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let window = recorder.goals.end_window(&*clock).unwrap().statistics;
        let period = *window.get(Metric::FeedbackPeriod).unwrap();
        assert!(period.sample_count == 1 && period.minimum > 0.0, "{period:?}");
    });
}
