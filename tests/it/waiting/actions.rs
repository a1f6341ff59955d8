// SPDX-License-Identifier: Apache-2.0

use std::{
    sync::{mpsc, Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoMeasuredOptions, MeasuredAcceptedGoal, MeasuredActionClient, MeasuredBeginAcceptedGoal,
    MeasuredFeedbackPublisher, MeasuredGoalClient, MeasuredRequestedGoal, Metric, NodeStatistics, SourceKind,
    StatisticsError, TopicStatisticsOptions, TopicStatisticsState,
};
use ros_env::test_msgs::action::{Fibonacci, Fibonacci_Feedback, Fibonacci_Goal, Fibonacci_Result};
use test_support::{domain, node, of, wait_for, Program, Reader, Spinning, LIMIT};
use tokio::sync::oneshot;

use super::{statistics, Windows};

/// How far a measured time may be above what the test itself has measured: the host is busy with other tests.
const TOLERANCE: f64 = 60.0;

/// The times that the test itself has measured, in milliseconds.
#[derive(Clone, Default)]
struct Own(Arc<Mutex<Vec<(Metric, f64)>>>);

impl Own {
    /// Measures a time that ends now.
    fn measure(&self, metric: Metric, since: Instant) {
        self.0.lock().unwrap().push((metric, since.elapsed().as_secs_f64() * 1e3));
    }

    /// Asserts that each sample of a metric is at least as injected, in milliseconds, and at most the longest time that
    /// the test has measured. Returns the number of samples.
    #[track_caller]
    fn assert_lasted(&self, windows: &Windows, metric: Metric, injected: f64) -> u64 {
        let (least, most) = (windows.minimum(metric), windows.maximum(metric));
        let own = self.0.lock().unwrap();
        let longest = own.iter().filter(|(of, _)| *of == metric).map(|(_, time)| *time).fold(0.0, f64::max);
        assert!(
            least >= injected - 1.0 && most <= longest + TOLERANCE,
            "{metric}: {least} to {most} ms, at most {longest} by the test"
        );
        windows.count(metric)
    }
}

/// Returns how many goals there were, and how many of each outcome.
fn outcomes(windows: &Windows) -> [f64; 5] {
    let metrics = [
        Metric::Goals,
        Metric::SucceededGoals,
        Metric::CanceledGoals,
        Metric::AbortedGoals,
        Metric::RejectedGoals,
    ];
    metrics.map(|metric| windows.sum(metric))
}

fn last(windows: &Windows, metric: Metric) -> f64 {
    windows.all(metric).last().unwrap().average
}

/// Waits for this number of milliseconds. It needs no executor.
fn after(milliseconds: u64) -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(milliseconds));
        drop(sender);
    });
    receiver
}

fn feedback() -> Fibonacci_Feedback {
    Fibonacci_Feedback { sequence: vec![1, 2] }
}

fn result() -> Fibonacci_Result {
    Fibonacci_Result { sequence: vec![3, 5] }
}

/// Accepts a goal after 40 ms, executes 20 ms later. The executor may begin long after it was handed out.
async fn accept(
    goal: MeasuredRequestedGoal<Fibonacci>,
    began: Instant,
    own: &Own,
) -> MeasuredAcceptedGoal<Fibonacci> {
    drop(after(40).await);
    let accepted = goal.accept();
    own.measure(Metric::GoalToAcceptance, began);
    drop(after(20).await);
    accepted
}

#[test]
fn each_outcome_and_time_of_a_servers_goals_is_measured() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let own = Own::default();
    let of_server = own.clone();
    async fn execute(goal: MeasuredRequestedGoal<Fibonacci>, requested: Instant, own: Own) -> TerminatedGoal {
        if goal.goal().order < 3 {
            return goal.reject();
        }
        let order = goal.goal().order;
        let accepted = accept(goal, requested, &own).await;
        let began = Instant::now();
        let executing = accepted.execute();
        assert_eq!(executing.goal().order, order);
        let mut last = None;
        for _ in 0..4 {
            let now = Instant::now();
            executing.publish_feedback(feedback());
            if let Some(last) = last.replace(now) {
                own.measure(Metric::FeedbackPeriod, last);
            }
            drop(after(50).await);
        }
        let (ended, metric, began) = match order {
            3 => (executing.succeeded_with(result()), Metric::GoalSucceeded, began),
            4 => (executing.aborted_with(result()), Metric::GoalAborted, began),
            _ => {
                let Err(_waits) = executing.until_cancel_requested(after(60_000)).await else {
                    return executing.aborted_with(result());
                };
                let began = Instant::now();
                let cancelling = executing.begin_cancelling();
                drop(after(150).await);
                (cancelling.cancelled_with(result()), Metric::CancelDelay, began)
            }
        };
        own.measure(metric, began);
        ended
    }
    let server = statistics
        .create_action_server::<Fibonacci, _>("act", move |goal| {
            execute(goal, Instant::now(), of_server.clone())
        })
        .unwrap();
    assert_eq!((server.action_name(), server.source_name()), ("/act", "/server:/act"));
    let windows = Windows::of(server.watch());
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("action_client.py", &[], domain());
    assert_eq!(client.request("act 1 3"), "rejected rejected rejected");
    assert_eq!(client.request("act 3 3"), "4 4 4");
    assert_eq!(client.request("act 4 1"), "6");
    assert_eq!(client.request("act 5 2 400"), "5 5");

    windows.wait_for(Metric::CanceledGoals, 2.0);
    windows.wait_for_more(1);
    assert_eq!(outcomes(&windows), [9.0, 3.0, 2.0, 1.0, 3.0]);
    for (metric, injected, count) in [
        (Metric::GoalToAcceptance, 40.0, 6), // of those that were accepted
        (Metric::FeedbackPeriod, 50.0, 6 * 3),
        (Metric::GoalSucceeded, 200.0, 3),
        (Metric::GoalAborted, 200.0, 1),
        (Metric::CancelDelay, 150.0, 2),
    ] {
        assert_eq!(own.assert_lasted(&windows, metric, injected), count, "{metric}");
    }
    // From the start of the execution: the client cancels 400 ms after the acceptance, 20 ms before it.
    assert_eq!(windows.count(Metric::GoalCanceled), 2);
    assert!(windows.minimum(Metric::GoalCanceled) >= 350.0);
    assert_eq!(windows.maximum(Metric::MaxActiveGoals), 3.0);
    assert_eq!((last(&windows, Metric::ActiveGoals), last(&windows, Metric::OldestGoal)), (0.0, 0.0));
    reader.read_until("the metrics of an action server", |read| {
        SourceKind::ActionServer
            .metrics()
            .iter()
            .all(|metric| of(read, "/server:/act", metric.name()).any(|window| window.unit == metric.unit()))
    });
}

/// The wrappers leave to rclrs what it does with a goal that is dropped.
#[test]
fn a_goal_that_its_server_drops_ends_as_without_statistics() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let (sender, dropped) = mpsc::channel();
    let held = Arc::new(Mutex::new(None));
    let holds = Arc::clone(&held);
    let server = statistics
        .create_action_server::<Fibonacci, _>("act", move |goal| {
            let (sender, holds) = (sender.clone(), Arc::clone(&holds));
            async move {
                let order = goal.goal().order;
                // Without an end: the handler waits for ever, and the goal is dropped before that.
                match order {
                    0 => drop(goal),
                    1 => drop(goal.accept()),
                    2 => drop(goal.try_accept().unwrap().execute()),
                    3 => drop(goal.accept().begin_cancelling()),
                    _ => {
                        let executing = goal.accept().execute();
                        *holds.lock().unwrap() = Some(executing.feedback_publisher());
                    }
                }
                sender.send(order).unwrap();
                std::future::pending().await
            }
        })
        .unwrap();
    let windows = Windows::of(server.watch());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("action_client.py", &[], domain());
    assert_eq!(client.request("act 0 1"), "rejected");
    for order in 1..=3 {
        assert_eq!(client.request(&format!("act {order} 1")), "6");
    }
    windows.wait_for(Metric::AbortedGoals, 3.0);
    windows.wait_for_more(1);
    assert_eq!(outcomes(&windows), [4.0, 0.0, 0.0, 3.0, 1.0]);

    // rclrs aborts it when the last publisher of its feedback is dropped, too.
    client.send("act 4 1");
    while dropped.recv().unwrap() != 4 {}
    wait_for("an old goal", || last(&windows, Metric::OldestGoal) > 250.0);
    assert_eq!((last(&windows, Metric::ActiveGoals), windows.sum(Metric::AbortedGoals)), (1.0, 3.0));
    let publisher: MeasuredFeedbackPublisher<Fibonacci> = held.lock().unwrap().take().unwrap();
    for _ in 0..3 {
        publisher.publish(feedback()).unwrap();
    }
    drop(publisher);
    assert_eq!(client.read("the status"), "6");
    windows.wait_for(Metric::AbortedGoals, 4.0);
    assert_eq!(windows.count(Metric::FeedbackPeriod), 2);
    assert_eq!(last(&windows, Metric::ActiveGoals), 0.0);
}

#[test]
fn a_goal_may_be_canceled_before_it_is_executed() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let own = Own::default();
    let of_server = own.clone();
    async fn cancel(goal: MeasuredRequestedGoal<Fibonacci>, own: Own) -> TerminatedGoal {
        let accepted = goal.accept();
        if accepted.goal().order == 0 {
            let _unless_canceled = accepted.unless_cancel_requested(std::future::pending::<()>()).await;
        } else {
            drop(after(3000).await);
        }
        let began = Instant::now();
        match accepted.begin() {
            MeasuredBeginAcceptedGoal::Execute(executing) => executing.aborted_with(result()),
            MeasuredBeginAcceptedGoal::Cancel(cancelling) => {
                drop(after(120).await);
                cancelling.publish_feedback(feedback());
                let ended = cancelling.cancelled_with(result());
                own.measure(Metric::CancelDelay, began);
                ended
            }
        }
    }
    let server = statistics
        .create_action_server::<Fibonacci, _>("act", move |goal| cancel(goal, of_server.clone()))
        .unwrap();
    let windows = Windows::of(server.watch());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("action_client.py", &[], domain());
    assert_eq!(client.request("act 0 1 200"), "5", "its code awaits the request to cancel");
    assert_eq!(client.request("act 1 1 200"), "5", "it asks when it begins");
    windows.wait_for(Metric::CanceledGoals, 2.0);
    assert_eq!(own.assert_lasted(&windows, Metric::CancelDelay, 120.0), 2);
}

/// Starts a client. Waits until it and the action server of the other process have discovered each other.
fn client(
    server: &Program,
    statistics: &NodeStatistics,
    options: TopicStatisticsOptions,
) -> (MeasuredActionClient<Fibonacci>, Windows) {
    let client = statistics.create_action_client::<Fibonacci>("act".topic_statistics(options)).unwrap();
    wait_for("the action server", || client.server_is_available().unwrap());
    server.read("client in the action server");
    let windows = Windows::of(client.watch());
    (client, windows)
}

fn order(order: i32) -> Fibonacci_Goal {
    Fibonacci_Goal { order }
}

#[test]
fn each_outcome_and_time_of_a_clients_goals_is_measured() {
    let (executor, node) = node("client", &[]);
    let statistics = statistics(&node);
    let _spinning = Spinning::start(executor);
    let server = Program::start("action_server.py", &[], domain());
    let (client, windows) = client(&server, &statistics, TopicStatisticsOptions::new());
    assert_eq!((client.action_name(), client.source_name()), ("/act", "/client:/act"));
    let mut reader = Reader::start(domain());

    let (sender, ended) = mpsc::channel();
    let of_task = client.clone();
    let own = Own::default();
    let times = own.clone();
    let _task = node.commands().run(async move {
        assert!(of_task.request_goal(order(-1)).await.is_none());
        for (goal, ended) in [(300, Metric::GoalSucceeded), (301, Metric::GoalAborted)] {
            let began = Instant::now();
            let goal = of_task.request_goal(order(goal)).await.unwrap();
            times.measure(Metric::GoalToAcceptance, began);
            let MeasuredGoalClient { mut feedback, result, .. } = goal;
            assert!(feedback.recv().await.is_some());
            times.measure(Metric::GoalToFeedback, began);
            let status = result.await.0;
            times.measure(ended, began);
            sender.send(status).unwrap();
        }
        let began = Instant::now();
        let goal = of_task.try_request_goal(order(60_000)).unwrap().await.unwrap();
        times.measure(Metric::GoalToAcceptance, began);
        let MeasuredGoalClient { mut feedback, result, cancellation, .. } = goal;
        assert!(feedback.recv().await.is_some());
        times.measure(Metric::GoalToFeedback, began);
        assert!(cancellation.cancel().await.is_accepted());
        sender.send(result.await.0).unwrap();
    });
    let statuses = [(); 3].map(|()| {
        let status = ended.recv_timeout(LIMIT);
        status.unwrap_or_else(|error| panic!("{error}; goals and outcomes so far: {:?}", outcomes(&windows)))
    });
    assert_eq!(statuses, [GoalStatusCode::Succeeded, GoalStatusCode::Aborted, GoalStatusCode::Cancelled]);
    windows.wait_for(Metric::CanceledGoals, 1.0);
    windows.wait_for_more(1);
    assert_eq!(outcomes(&windows), [4.0, 1.0, 1.0, 1.0, 1.0]);
    for (metric, injected, count) in [
        (Metric::GoalToAcceptance, 100.0, 3),
        (Metric::GoalToFeedback, 300.0, 3),
        (Metric::GoalSucceeded, 600.0, 1),
        (Metric::GoalAborted, 601.0, 1),
    ] {
        assert_eq!(own.assert_lasted(&windows, metric, injected), count, "{metric}");
    }
    assert_eq!(windows.count(Metric::GoalCanceled), 1);
    assert_eq!(windows.sum(Metric::DroppedGoals), 0.0);
    assert_eq!((last(&windows, Metric::ActiveGoals), last(&windows, Metric::OldestGoal)), (0.0, 0.0));
    reader.read_until("the metrics of an action client", |read| {
        SourceKind::ActionClient
            .metrics()
            .iter()
            .all(|metric| of(read, "/client:/act", metric.name()).any(|window| window.unit == metric.unit()))
    });
}

/// Acceptance and result are measured when they arrive, also if they are awaited much later, or never.
#[test]
fn a_response_is_measured_when_it_arrives() {
    let (executor, node) = node("client", &[]);
    let statistics = statistics(&node);
    let _spinning = Spinning::start(executor);
    let server = Program::start("action_server.py", &[], domain());
    let (client, windows) = client(&server, &statistics, TopicStatisticsOptions::new());
    let (sender, done) = mpsc::channel();
    let of_task = client.clone();
    let _task = node.commands().run(async move {
        let rejected = of_task.request_goal(order(-1));
        let requested = of_task.request_goal(order(1000));
        drop(after(3000).await);
        drop(rejected);
        let goal = requested.await.unwrap();
        drop(after(5000).await);
        drop(goal);
        sender.send(()).unwrap();
    });
    done.recv_timeout(LIMIT).unwrap();
    windows.wait_for(Metric::SucceededGoals, 1.0);
    windows.wait_for_more(1);
    assert_eq!(outcomes(&windows), [2.0, 1.0, 0.0, 0.0, 1.0]);
    // The server decides on one goal after the other, or on both at once.
    let acceptance = windows.maximum(Metric::GoalToAcceptance);
    assert!((100.0..3000.0).contains(&acceptance), "{acceptance} ms");
    let whole = windows.maximum(Metric::GoalSucceeded);
    assert!((1300.0..8000.0).contains(&whole), "{whole} ms");
}

#[test]
fn a_goal_of_a_stuck_server_shows_in_every_window_until_it_is_dropped() {
    let (executor, node) = node("client", &[]);
    let statistics = statistics(&node);
    let _spinning = Spinning::start(executor);
    let server = Program::start("action_server.py", &[], domain());
    let (client, windows) = client(&server, &statistics, TopicStatisticsOptions::new());
    server.signal("STOP");
    let requested = client.request_goal(order(0));
    let other = client.request_goal(order(0));
    windows.wait_for(Metric::Goals, 2.0);
    let from = windows.len();
    windows.wait_for_more(4);
    windows.assert_ages(Metric::OldestGoal, from);
    assert_eq!((last(&windows, Metric::ActiveGoals), windows.sum(Metric::DroppedGoals)), (2.0, 0.0));
    drop(other);
    windows.wait_for(Metric::DroppedGoals, 1.0);
    server.signal("KILL");
    drop(requested);
    windows.wait_for(Metric::DroppedGoals, 2.0);
    windows.wait_for_more(1);
    assert_eq!((last(&windows, Metric::ActiveGoals), last(&windows, Metric::OldestGoal)), (0.0, 0.0));
    assert_eq!(outcomes(&windows), [2.0, 0.0, 0.0, 0.0, 0.0]);
}

/// A client leaves with its goal under way. The server measures on.
#[test]
fn a_client_that_leaves_takes_no_goal_with_it() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let own = Own::default();
    let of_server = own.clone();
    async fn execute(goal: MeasuredRequestedGoal<Fibonacci>, own: Own) -> TerminatedGoal {
        let began = Instant::now();
        let executing = goal.accept().execute();
        drop(after(1500).await);
        let ended = executing.succeeded_with(result());
        own.measure(Metric::GoalSucceeded, began);
        ended
    }
    let server = statistics
        .create_action_server::<Fibonacci, _>("act", move |goal| execute(goal, of_server.clone()))
        .unwrap();
    let windows = Windows::of(server.watch());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("action_client.py", &[], domain());
    client.send("act 0 1");
    windows.wait_for(Metric::Goals, 1.0);
    client.signal("KILL");
    windows.wait_for(Metric::SucceededGoals, 1.0);
    wait_for("the server's own time, which it measures last", || !own.0.lock().unwrap().is_empty());
    assert_eq!(own.assert_lasted(&windows, Metric::GoalSucceeded, 1500.0), 1);
    windows.wait_for_more(1);
    assert_eq!(last(&windows, Metric::ActiveGoals), 0.0);
}

#[test]
fn disabled_statistics_pass_every_goal_on() {
    let (executor, node) = node("client", &[]);
    let statistics = statistics(&node);
    let _spinning = Spinning::start(executor);
    let server = Program::start("action_server.py", &[], domain());
    let off = TopicStatisticsOptions::new().state(TopicStatisticsState::Disable);
    let (client, windows) = client(&server, &statistics, off);
    let (sender, done) = mpsc::channel();
    let _task = node.commands().run(async move {
        let goal = client.request_goal(order(0)).await.unwrap();
        sender.send(goal.clone().result.await.0).unwrap();
        sender.send(goal.result.await.0).unwrap();
    });
    for _ in 0..2 {
        assert_eq!(done.recv_timeout(LIMIT).unwrap(), GoalStatusCode::Succeeded);
    }
    assert_eq!(windows.len(), 0);
}

#[test]
fn an_action_that_cannot_be_created_is_an_error_with_its_name() {
    let (_executor, node) = node("navigator", &[]);
    let statistics = statistics(&node);
    let handler = |goal: MeasuredRequestedGoal<Fibonacci>| async move { goal.reject() };
    let error = statistics.create_action_server::<Fibonacci, _>("1st action", handler).unwrap_err();
    assert!(matches!(&error, StatisticsError::CreateActionServer { name, .. } if name == "1st action"));
    let error = statistics.create_action_client::<Fibonacci>("1st action").unwrap_err();
    assert!(matches!(&error, StatisticsError::CreateActionClient { name, .. } if name == "1st action"));
    let wrong = TopicStatisticsOptions::new().metrics([Metric::FeedbackPeriod]);
    let error = statistics.create_action_client::<Fibonacci>("act".topic_statistics(wrong)).unwrap_err();
    assert!(error.to_string().contains("client has no metric \"feedback_period_ms\": it has "), "{error}");
}
