// SPDX-License-Identifier: Apache-2.0

use std::sync::{mpsc, Arc, Mutex};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoMeasuredOptions, MeasuredBeginAcceptedGoal, MeasuredFeedbackPublisher, MeasuredGoalClient,
    MeasuredRequestedGoal, Metric, SourceKind, StatisticsError, TopicStatisticsOptions, TopicStatisticsState,
};
use ros_env::test_msgs::action::{Fibonacci, Fibonacci_Feedback, Fibonacci_Goal, Fibonacci_Result};
use test_support::{domain, node, wait_for, Program, Reader, Spinning, LIMIT};
use tokio::sync::oneshot;

use super::{read_all, statistics, Windows, DELAY};

/// How many goals there were, and how many of each outcome.
const OUTCOMES: [Metric; 6] = [
    Metric::Goals,
    Metric::SucceededGoals,
    Metric::CanceledGoals,
    Metric::AbortedGoals,
    Metric::RejectedGoals,
    Metric::GoalToAcceptance,
];

/// Waits for [`DELAY`]. It needs no executor.
fn delay() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        std::thread::sleep(DELAY);
        drop(sender);
    });
    receiver
}

fn result() -> Fibonacci_Result {
    Fibonacci_Result { sequence: vec![3, 5] }
}

/// What a test keeps of a goal.
type Held = Arc<Mutex<Option<MeasuredFeedbackPublisher<Fibonacci>>>>;

/// A goal's order decides on its way.
async fn execute(goal: MeasuredRequestedGoal<Fibonacci>, held: Held) -> TerminatedGoal {
    match goal.goal().order {
        0 => return goal.reject(),
        // Without an end: the goal is dropped, and the handler waits for ever.
        1 => drop(goal),
        2 => drop(goal.accept()),
        3 => drop(goal.try_accept().unwrap().execute()),
        4 => drop(goal.accept().begin_cancelling()),
        5 => *held.lock().unwrap() = Some(goal.accept().execute().feedback_publisher()),
        6 => {
            drop(delay().await);
            let executing = goal.accept().execute();
            executing.publish_feedback(Fibonacci_Feedback::default());
            drop(delay().await);
            executing.publish_feedback(Fibonacci_Feedback::default());
            return executing.succeeded_with(result());
        }
        7 => {
            let executing = goal.accept().execute();
            drop(delay().await);
            return executing.aborted_with(result());
        }
        8 => {
            let executing = goal.accept().execute();
            let pending = Box::pin(std::future::pending::<()>());
            drop(executing.until_cancel_requested(pending).await);
            let cancelling = executing.begin_cancelling();
            drop(delay().await);
            return cancelling.cancelled_with(result());
        }
        _ => {
            let accepted = goal.accept();
            accepted.unless_cancel_requested(std::future::pending::<()>()).await.unwrap_err();
            let MeasuredBeginAcceptedGoal::Cancel(cancelling) = accepted.begin() else { panic!() };
            drop(delay().await);
            return cancelling.cancelled_with(result());
        }
    }
    std::future::pending().await
}

#[test]
fn a_servers_goals_are_measured_and_end_as_rclrs_ends_them() {
    let (executor, node) = node("server", &[]);
    let statistics = statistics(&node);
    let held = Held::default();
    let holds = Arc::clone(&held);
    let handle = move |goal| execute(goal, Arc::clone(&holds));
    let server = statistics.create_action_server::<Fibonacci, _>("act", handle).unwrap();
    assert_eq!((server.action_name(), server.source_name()), ("/act", "/server:/act"));
    let windows = Windows::of(server.watch());
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    let mut client = Program::start("action_client.py", &[], domain());
    // 4: succeeded, 5: canceled, 6: aborted.
    for (goal, status) in [
        ("0 3", "rejected rejected rejected"),
        ("1 1", "rejected"),
        ("2 1", "6"),
        ("3 1", "6"),
        ("4 1", "6"),
        ("6 1", "4"),
        ("7 1", "6"),
        ("8 2 1", "5 5"),
        ("9 1 1", "5"),
    ] {
        assert_eq!(client.request(&format!("act {goal}")), status, "{goal}");
    }
    windows.wait_for(Metric::CanceledGoals, 3);
    assert_eq!(windows.totals(OUTCOMES), [12, 1, 3, 4, 4, 8]);
    assert!(windows.most(Metric::GoalToAcceptance) >= 500.0);
    assert!((500.0..5000.0).contains(&windows.most(Metric::GoalSucceeded)));
    assert!((500.0..5000.0).contains(&windows.most(Metric::GoalAborted)));
    windows.assert_delayed(Metric::FeedbackPeriod, 1);
    windows.assert_delayed(Metric::CancelDelay, 3);
    assert_eq!(windows.total(Metric::GoalCanceled), 3);
    assert!((2.0..=3.0).contains(&windows.most(Metric::MaxActiveGoals)), "two wait to be canceled");
    let active = || [Metric::ActiveGoals, Metric::OldestGoal].map(|metric| windows.last(metric));
    assert_eq!(active(), [0.0, 0.0]);

    // A client that leaves takes no goal with it. It is aborted when its last publisher is dropped.
    client.send("act 5 1");
    wait_for("an old goal", || windows.last(Metric::OldestGoal) > 250.0);
    client.signal("KILL");
    windows.wait_for_more(1);
    assert_eq!((windows.last(Metric::ActiveGoals), windows.total(Metric::AbortedGoals)), (1.0, 4));
    let publisher = held.lock().unwrap().take().unwrap();
    (0..3).for_each(|_| publisher.publish(Fibonacci_Feedback::default()).unwrap());
    drop(publisher);
    windows.wait_for(Metric::AbortedGoals, 5);
    assert_eq!((windows.total(Metric::FeedbackPeriod), active()), (1 + 2, [0.0, 0.0]));
    read_all(&mut reader, "/server:/act", SourceKind::ActionServer.metrics());

    let error = statistics.create_action_server::<Fibonacci, _>("1st action", |goal| async { goal.reject() });
    let error = error.unwrap_err();
    assert!(matches!(&error, StatisticsError::CreateActionServer { name, .. } if name == "1st action"));
}

#[test]
fn a_clients_goals_are_measured_until_they_end_or_are_dropped() {
    let (executor, node) = node("client", &[]);
    let statistics = statistics(&node);
    let _spinning = Spinning::start(executor);
    let server = Program::start("action_server.py", &[], domain());
    let off = TopicStatisticsOptions::new().state(TopicStatisticsState::Disable);
    let client = statistics.create_action_client::<Fibonacci>("act".topic_statistics(off)).unwrap();
    assert_eq!((client.action_name(), client.source_name()), ("/act", "/client:/act"));
    wait_for("the action server", || client.server_is_available().unwrap());
    server.read("client in the action server");
    let windows = Windows::of(client.watch());
    let mut reader = Reader::start(domain());

    let order = |order| Fibonacci_Goal { order };
    let (sender, ended) = mpsc::channel();
    let of_task = client.clone();
    let _task = node.commands().run(async move {
        // Disabled statistics pass a goal on.
        let goal = of_task.request_goal(order(0)).await.unwrap();
        sender.send(goal.clone().result.await.0).unwrap();
        sender.send(goal.result.await.0).unwrap();
        of_task.set_state(TopicStatisticsState::Enable);
        assert!(of_task.request_goal(order(-1)).await.is_none());
        for milliseconds in [500, 501] {
            let goal = of_task.request_goal(order(milliseconds)).await.unwrap();
            let MeasuredGoalClient { mut feedback, result, .. } = goal;
            assert!(feedback.recv().await.is_some());
            sender.send(result.await.0).unwrap();
        }
        let goal = of_task.try_request_goal(order(60_000)).unwrap().await.unwrap();
        let MeasuredGoalClient { mut feedback, result, cancellation, .. } = goal;
        assert!(feedback.recv().await.is_some());
        assert!(cancellation.cancel().await.is_accepted());
        sender.send(result.await.0).unwrap();
    });
    use GoalStatusCode::{Aborted, Cancelled, Succeeded};
    for status in [Succeeded, Succeeded, Succeeded, Aborted, Cancelled] {
        assert_eq!(ended.recv_timeout(LIMIT).unwrap(), status);
    }
    windows.wait_for(Metric::CanceledGoals, 1);
    assert_eq!(windows.totals(OUTCOMES), [4, 1, 1, 1, 1, 3]);
    // The server accepts after 100 ms, and publishes feedback 200 ms later.
    for (metric, at_least, count) in [
        (Metric::GoalToAcceptance, 100.0, 3),
        (Metric::GoalToFeedback, 300.0, 3),
        (Metric::GoalSucceeded, 800.0, 1),
        (Metric::GoalAborted, 801.0, 1),
        (Metric::GoalCanceled, 400.0, 1),
    ] {
        let (least, most) = (windows.least(metric), windows.most(metric));
        assert!(least >= at_least - 1.0 && most < at_least + 5000.0, "{metric}: {least} to {most} ms");
        assert_eq!(windows.total(metric), count, "{metric}");
    }
    let active = || [Metric::ActiveGoals, Metric::OldestGoal].map(|metric| windows.last(metric));
    assert_eq!((active(), windows.total(Metric::DroppedGoals)), ([0.0, 0.0], 0));

    // Goals of a stuck server show in every window until they are dropped.
    server.signal("STOP");
    let [requested, other] = [(); 2].map(|()| client.request_goal(order(0)));
    wait_for("old goals", || windows.last(Metric::OldestGoal) > 250.0);
    assert_eq!((windows.last(Metric::ActiveGoals), windows.total(Metric::DroppedGoals)), (2.0, 0));
    drop(other);
    windows.wait_for(Metric::DroppedGoals, 1);
    server.signal("KILL");
    drop(requested);
    windows.wait_for(Metric::DroppedGoals, 2);
    assert_eq!((active(), windows.totals(OUTCOMES)), ([0.0, 0.0], [6, 1, 1, 1, 1, 3]));
    read_all(&mut reader, "/client:/act", SourceKind::ActionClient.metrics());

    let error = statistics.create_action_client::<Fibonacci>("1st action").unwrap_err();
    assert!(matches!(&error, StatisticsError::CreateActionClient { name, .. } if name == "1st action"));
    let wrong = "act".topic_statistics(TopicStatisticsOptions::new().metrics([Metric::FeedbackPeriod]));
    let error = statistics.create_action_client::<Fibonacci>(wrong).unwrap_err();
    assert!(error.to_string().contains("client has no metric \"feedback_period_ms\": it has "), "{error}");
}
