// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use super::{
    calls::CallRecorder,
    goals::{ActiveGoal, GoalRecorder, Outcome},
    under_way::Active,
};
use crate::{
    metric::Metric,
    metric_set::MetricSet,
    model::{check, Reached, Ticks},
    record::{clock::Clock, source::WindowedCollector},
    source_kind::SourceKind,
    sync::thread,
    window::WindowStatistics,
};

fn end(collector: &dyn WindowedCollector, clock: &Ticks) -> WindowStatistics {
    collector.end_window(clock).unwrap().statistics
}

fn average(window: &WindowStatistics, metric: Metric) -> f64 {
    window.get(metric).unwrap().average
}

/// Two requests begin and end while a window ends. Both windows have to report the right largest number of simultaneous
/// requests. After both requests have ended, no request must be in progress.
#[test]
fn the_most_at_once_is_at_least_those_at_each_edge() {
    let both = Reached::default();
    let reached = both.clone();
    check(3, move || {
        let active = Active::default();
        let threads = [(); 2].map(|()| {
            let active = active.clone();
            thread::spawn(move || {
                active.begin();
                active.end();
            })
        });
        let (at_edge, most_before) = active.take();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (at_end, most_after) = active.take();
        assert_eq!(at_end, 0);
        assert!(most_before >= at_edge && most_after >= at_edge && most_before.max(most_after) >= 1);
        reached.set_if(at_edge == 2);
    });
    both.assert();
}

/// One call gets a response and another call is dropped, while a window ends. Each call, response and drop has to be
/// counted in exactly one window, and no call may wait afterwards. At the end of a window, the reported age must be the
/// age of the oldest call that still waits.
#[test]
fn every_call_ends_once() {
    let waits = Reached::default();
    let reached = waits.clone();
    check(2, move || {
        let clock = Arc::new(Ticks::new());
        let recorder = CallRecorder::new(MetricSet::of(SourceKind::Client.metrics()));
        recorder.calls.enable(&*clock);
        let threads = [true, false].map(|responds| {
            let (recorder, clock) = (recorder.clone(), Arc::clone(&clock));
            thread::spawn(move || {
                let (_, waiting) = recorder.call(clock.monotonic(), || Ok::<_, ()>(())).unwrap();
                match waiting {
                    Some(waiting) if responds => waiting.respond(|| clock.monotonic(), || (0, 0)),
                    waiting => drop(waiting),
                }
            })
        });
        let first = end(&*recorder.calls, &clock);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let second = end(&*recorder.calls, &clock);
        for (metric, count) in [(Metric::Calls, 2.0), (Metric::Responses, 1.0), (Metric::DroppedCalls, 1.0)] {
            assert_eq!(average(&first, metric) + average(&second, metric), count, "{metric}");
        }
        assert_eq!(average(&second, Metric::OldestCall), 0.0);
        reached.set_if(average(&first, Metric::OldestCall) > 0.0);
    });
    waits.assert();
}

/// A goal of an action server whose statistics are enabled.
fn goal() -> (Arc<Ticks>, GoalRecorder<true>, Arc<ActiveGoal<true>>) {
    let clock = Arc::new(Ticks::new());
    let recorder = GoalRecorder::new(MetricSet::of(SourceKind::ActionServer.metrics()));
    recorder.goals.enable(&*clock);
    let goal = recorder.begin(clock.monotonic()).unwrap();
    (clock, recorder, Arc::new(goal))
}

/// Two threads end the same goal while a window ends. For example, one thread is a handler, and the other is a task
/// that drops the goal. The end of the goal has to be counted once, in one window. Afterwards, the goal must not be in
/// progress.
#[test]
fn a_goal_ends_once() {
    let under_way = Reached::default();
    let reached = under_way.clone();
    check(2, move || {
        let (clock, recorder, goal) = goal();
        goal.accept(|| clock.monotonic());
        let threads = [true, false].map(|succeeds| {
            let (goal, clock) = (Arc::clone(&goal), Arc::clone(&clock));
            thread::spawn(move || match succeeds {
                true => goal.end(Outcome::Succeeded, || clock.monotonic()),
                false => goal.leave(|| clock.monotonic()),
            })
        });
        let first = end(&*recorder.goals, &clock);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let second = end(&*recorder.goals, &clock);
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

/// Two threads publish feedback of a goal. The feedback period must never be negative, no matter which thread publishes
/// first.
#[test]
fn feedback_is_in_order() {
    check(3, || {
        let (clock, recorder, goal) = goal();
        let threads = [(); 2].map(|()| {
            let (goal, clock) = (Arc::clone(&goal), Arc::clone(&clock));
            thread::spawn(move || goal.feedback(|| clock.monotonic()))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let period = *end(&*recorder.goals, &clock).get(Metric::FeedbackPeriod).unwrap();
        assert!(period.sample_count == 1 && period.minimum > 0.0, "{period:?}");
    });
}
