// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    record::{
        source::WindowedCollector,
        test_clock::{at, TestClock},
    },
    window::WindowStatistics,
};

fn recorder<const IS_SERVER: bool>() -> GoalRecorder<IS_SERVER> {
    let recorder = GoalRecorder::new(MetricSet::of(Goals::<IS_SERVER>::KIND.metrics()));
    recorder.goals.set_distributions(true);
    assert!(recorder.goals.enable(&TestClock::new()));
    recorder
}

fn end<const IS_SERVER: bool>(recorder: &GoalRecorder<IS_SERVER>) -> WindowStatistics {
    recorder.goals.end_window(&TestClock::new()).unwrap().statistics
}

fn figures_of<const N: usize>(window: &WindowStatistics, metrics: [Metric; N]) -> [(f64, u64); N] {
    metrics.map(|metric| window.get(metric).map(|summary| (summary.average, summary.sample_count)).unwrap())
}

fn values<const N: usize>(window: &WindowStatistics, metrics: [Metric; N]) -> [f64; N] {
    figures_of(window, metrics).map(|(average, _)| average)
}

const OUTCOMES: [Metric; 5] = [
    Metric::Goals,
    Metric::SucceededGoals,
    Metric::CanceledGoals,
    Metric::AbortedGoals,
    Metric::RejectedGoals,
];
const UNDER_WAY: [Metric; 2] = [Metric::ActiveGoals, Metric::MaxActiveGoals];

#[test]
fn each_time_of_a_servers_goal_is_in_its_own_metric() {
    let recorder = recorder::<true>();
    let goal = recorder.begin(at(0)()).unwrap();
    goal.accept(at(30));
    goal.execute(at(50));
    for feedback in [60, 80, 120] {
        goal.feedback(at(feedback));
    }
    goal.request_cancel(at(130));
    goal.request_cancel(at(140));
    goal.end(Outcome::Canceled, at(170));
    goal.feedback(at(180));
    goal.leave(at(190));
    let window = end(&recorder);
    let times = [
        Metric::GoalToAcceptance,
        Metric::FeedbackPeriod,
        Metric::CancelDelay,
        Metric::GoalCanceled,
        Metric::GoalSucceeded,
    ];
    let [acceptance, feedback, cancel, canceled, succeeded] = figures_of(&window, times);
    let times = (acceptance, feedback, cancel, canceled);
    let expected = ((30.0, 1), (30.0, 2), (40.0, 1), (120.0, 1));
    assert_eq!(times, expected, "the first request to cancel counts, and nothing after the end");
    assert_eq!(succeeded.1, 0);
    assert_eq!(values(&window, OUTCOMES), [1.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(values(&window, UNDER_WAY), [0.0, 1.0]);
    assert_eq!(window.count, 1);
    let measured: Vec<_> = window.metrics.iter().map(|(metric, _)| *metric).collect();
    assert_eq!(measured, SourceKind::ActionServer.metrics());
    assert_eq!(window.distribution(Metric::FeedbackPeriod).unwrap().count(), 2);
    assert!(window.distribution(Metric::Goals).is_none());
}

#[test]
fn the_times_of_a_clients_goal_begin_with_its_sending() {
    let recorder = recorder::<false>();
    let goal = recorder.begin(at(0)()).unwrap();
    goal.accept(at(20));
    goal.accept(at(25));
    goal.feedback(at(70));
    goal.feedback(at(90));
    goal.end(Outcome::Succeeded, at(200));
    let window = end(&recorder);
    let times = [Metric::GoalToAcceptance, Metric::GoalToFeedback, Metric::GoalSucceeded];
    assert_eq!(figures_of(&window, times), [(20.0, 1), (70.0, 1), (200.0, 1)]);
    assert_eq!(values(&window, OUTCOMES), [1.0, 1.0, 0.0, 0.0, 0.0]);
    let measured: Vec<_> = window.metrics.iter().map(|(metric, _)| *metric).collect();
    assert_eq!(measured, SourceKind::ActionClient.metrics());
}

#[test]
fn a_goal_that_nobody_holds_ends_as_rclrs_ends_it() {
    let server = recorder::<true>();
    server.begin(at(0)()).unwrap().leave(at(5));
    let accepted = server.begin(at(0)()).unwrap();
    accepted.accept(at(10));
    accepted.leave(at(35));
    let window = end(&server);
    assert_eq!(values(&window, OUTCOMES), [2.0, 0.0, 0.0, 1.0, 1.0]);
    assert_eq!(figures_of(&window, [Metric::GoalAborted]), [(25.0, 1)], "since its acceptance");

    let client = recorder::<false>();
    let goal = client.begin(at(0)()).unwrap();
    goal.accept(at(10));
    goal.leave(at(35));
    let window = end(&client);
    assert_eq!(values(&window, OUTCOMES), [1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(values(&window, [Metric::DroppedGoals]), [1.0]);
    assert_eq!(figures_of(&window, [Metric::GoalAborted]).map(|(_, count)| count), [0]);
}

#[test]
fn a_rejected_request_to_cancel_has_no_delay() {
    let recorder = recorder::<true>();
    for is_asked_again in [false, true] {
        let goal = recorder.begin(at(0)()).unwrap();
        goal.accept(at(0));
        goal.request_cancel(at(10));
        goal.reject_cancel();
        if is_asked_again {
            goal.request_cancel(at(100));
        }
        goal.end(Outcome::Canceled, at(107)); // a server may cancel a goal without a request of a client
    }
    let goal = recorder.begin(at(0)()).unwrap();
    goal.request_cancel(at(10));
    goal.end(Outcome::Succeeded, at(90));
    assert_eq!(figures_of(&end(&recorder), [Metric::CancelDelay]), [(7.0, 1)]);
}

#[test]
fn goals_under_way_show_in_every_window_until_they_end() {
    let recorder = recorder::<false>();
    let ages = |window: &WindowStatistics| values(window, [Metric::OldestGoal])[0] / 1e3;
    let [oldest, other] = [3, 1].map(|ago| recorder.begin(at(-1000 * ago)()).unwrap());
    let window = end(&recorder);
    assert_eq!((ages(&window), values(&window, UNDER_WAY)), (3.0, [2.0, 2.0]));
    oldest.end(Outcome::Aborted, at(0));
    let window = end(&recorder);
    assert_eq!((ages(&window), values(&window, UNDER_WAY)), (1.0, [1.0, 2.0]));
    other.leave(at(0));
    let window = end(&recorder);
    assert_eq!((ages(&window), values(&window, UNDER_WAY)), (0.0, [0.0, 1.0]));
    assert_eq!(values(&end(&recorder), UNDER_WAY), [0.0, 0.0]);
}

#[test]
fn disabled_statistics_measure_no_goal_and_forget_earlier_ones() {
    let recorder = recorder::<true>();
    let goal = recorder.begin(at(0)()).unwrap();
    recorder.goals.disable();
    assert!(recorder.begin(at(0)()).is_none());
    goal.accept(at(0));
    assert!(recorder.goals.enable(&TestClock::new()));
    let window = end(&recorder);
    assert_eq!((window.count, values(&window, UNDER_WAY)), (0, [1.0, 1.0]), "the goal is still in progress");
    assert_eq!(figures_of(&window, [Metric::GoalToAcceptance])[0].1, 0);
    goal.end(Outcome::Succeeded, at(0));
    assert_eq!(values(&end(&recorder), OUTCOMES), [0.0, 1.0, 0.0, 0.0, 0.0]);
}
