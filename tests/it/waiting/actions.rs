// SPDX-License-Identifier: Apache-2.0

use rclrs_topic_statistics::{
    StatsActionClient, StatsBeginAcceptedGoal, StatsFeedbackPublisher, StatsGoalClient, StatsRequestedGoal,
};
use ros_env::test_msgs::action::{Fibonacci, Fibonacci_Feedback, Fibonacci_Goal, Fibonacci_Result};
use tokio::sync::oneshot;
use GoalStatusCode::{Aborted, Cancelled, Succeeded};

use super::*;

const OUTCOMES: [Metric; 6] = [
    Metric::Goals,
    Metric::SucceededGoals,
    Metric::CanceledGoals,
    Metric::AbortedGoals,
    Metric::RejectedGoals,
    Metric::GoalToAcceptance,
];

/// Waits for [`DELAY`] without an executor.
async fn delay() {
    let (sender, ends) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        std::thread::sleep(DELAY);
        drop(sender);
    });
    let _ended = ends.await;
}

/// Handles that keep goals alive after the server's callback: goals with the order 9 and 10.
type Kept = Arc<Mutex<(Option<StatsFeedbackPublisher<Fibonacci>>, Option<StatsRequestedGoal<Fibonacci>>)>>;

/// The server's callback. The order of a goal decides what the callback does with the goal.
async fn execute(goal: StatsRequestedGoal<Fibonacci>, kept: Kept) -> TerminatedGoal {
    let (feedback, result) = (Fibonacci_Feedback::default, Fibonacci_Result::default());
    let never = std::future::pending::<()>;
    match goal.goal().order {
        0 => return goal.reject(),
        1 => {
            delay().await;
            let executing = goal.accept().execute();
            executing.publish_feedback(feedback());
            delay().await;
            executing.publish_feedback(feedback());
            return executing.succeeded_with(result);
        }
        2 => {
            let executing = goal.try_accept().unwrap().execute();
            delay().await;
            return executing.aborted_with(result);
        }
        3 => {
            let executing = goal.accept().execute();
            executing.publish_feedback(feedback());
            let _never = executing.until_cancel_requested(Box::pin(never())).await;
            let cancelling = executing.begin_cancelling();
            delay().await;
            return cancelling.cancelled_with(result);
        }
        4 => {
            let accepted = goal.accept();
            accepted.unless_cancel_requested(never()).await.unwrap_err();
            let StatsBeginAcceptedGoal::Cancel(cancelling) = accepted.begin() else { panic!() };
            delay().await;
            return cancelling.cancelled_with(result);
        }
        // The callback drops or keeps the goals with these orders, and then waits forever.
        5 => drop(goal),
        6 => drop(goal.accept()),
        7 => drop(goal.accept().execute()),
        8 => drop(goal.accept().begin_cancelling()),
        9 => kept.lock().unwrap().0 = Some(goal.accept().execute().feedback_publisher()),
        _ => kept.lock().unwrap().1 = Some(goal),
    }
    std::future::pending().await
}

/// Sends a goal, and cancels the goal if its order is 3 or 4. Returns the goal's status; `None` if the goal is
/// rejected.
async fn request(client: &StatsActionClient<Fibonacci>, order: i32) -> Option<GoalStatusCode> {
    let goal = client.try_request_goal(Fibonacci_Goal { order }).unwrap().await?;
    let StatsGoalClient { mut feedback, result, cancellation, .. } = goal;
    match order {
        1 => drop(feedback.recv().await.unwrap()),
        3 | 4 => assert!(cancellation.cancel().await.is_accepted()),
        _ => {}
    }
    Some(result.await.0)
}

#[test]
fn goals_of_both_ends_are_measured_until_they_end() {
    let mut executor = single_threaded();
    let [server, client] = ["server", "client"].map(|name| executor.create_node(name).unwrap());
    let [statistics, client_statistics] = [&server, &client].map(statistics);
    let kept = Kept::default();
    let holds = Arc::clone(&kept);
    let handle = move |goal| execute(goal, Arc::clone(&holds));
    let other = |_| async { panic!("it is replaced") };
    let server = statistics.create_action_server::<Fibonacci, _>("act", other).unwrap();
    server.set_callback(handle);
    let off = "act".statistics(StatisticsOptions::new().state(StatisticsState::Disable));
    let client = client_statistics.create_action_client::<Fibonacci>(off).unwrap();
    assert_eq!((server.action_name(), server.statistics().source_name()), ("/act", "/server:/act"));
    assert_eq!((client.action_name(), client.statistics().source_name()), ("/act", "/client:/act"));
    let [at_server, at_client] =
        [server.statistics().watch(), client.statistics().watch()].map(Windows::collect);
    let mut reader = Reader::start(domain());
    let calling = Arc::clone(&client);
    run(&mut executor, async move {
        calling.notify_on_server_ready().await.unwrap();
        assert_eq!(request(&calling, 2).await, Some(Aborted), "disabled statistics pass a goal on");
        assert!(calling.statistics().latest().is_none());
        calling.statistics().set_state(StatisticsState::Enable);
        for (order, status) in [
            (0, None),
            (1, Some(Succeeded)),
            (2, Some(Aborted)),
            (3, Some(Cancelled)),
            (4, Some(Cancelled)),
            (5, None),
            (6, Some(Aborted)),
            (7, Some(Aborted)),
            (8, Some(Aborted)),
        ] {
            assert_eq!(request(&calling, order).await, status, "{order}");
        }
    });
    at_client.wait_for(Metric::Goals, 9);
    at_server.wait_for(Metric::Goals, 10);
    assert_eq!(at_client.totals(OUTCOMES), [9, 1, 2, 4, 2, 7]);
    assert_eq!(at_server.totals(OUTCOMES), [10, 1, 2, 5, 2, 8]);
    at_server.assert_delayed(Metric::FeedbackPeriod, 1);
    at_server.assert_delayed(Metric::CancelDelay, 2);
    at_server.assert_delayed(Metric::GoalSucceeded, 1);
    at_client.assert_delayed(Metric::GoalSucceeded, 1);
    at_client.assert_delayed(Metric::GoalToFeedback, 1);
    for windows in [&at_server, &at_client] {
        assert!((500.0..5000.0).contains(&windows.most(Metric::GoalToAcceptance)));
        assert!((500.0..5000.0).contains(&windows.most(Metric::GoalAborted)));
        assert_eq!(windows.total(Metric::GoalCanceled), 2);
        assert_eq!([Metric::ActiveGoals, Metric::OldestGoal].map(|metric| windows.last(metric)), [0.0; 2]);
    }

    // A goal that does not end must appear in every window of the server. In the client's windows, the goal must appear
    // until its handle is dropped.
    let _spinning = Spinning::start(executor);
    let goals = [9, 10].map(|order| client.request_goal(Fibonacci_Goal { order }));
    let is_old = |windows: &Windows| windows.last(Metric::OldestGoal) > 250.0;
    wait_for("old goals", || is_old(&at_server) && is_old(&at_client));
    assert_eq!([&at_server, &at_client].map(|windows| windows.last(Metric::MaxActiveGoals)), [2.0; 2]);
    drop(goals);
    at_client.wait_for(Metric::DroppedGoals, 2);
    assert_eq!(at_client.last(Metric::OldestGoal), 0.0);
    // rclrs aborts a goal when the last feedback publisher of the goal is dropped.
    let publisher = kept.lock().unwrap().0.take().unwrap();
    (0..3).for_each(|_| publisher.publish(Fibonacci_Feedback::default()).unwrap());
    drop(publisher);
    at_server.wait_for(Metric::AbortedGoals, 6);
    assert_eq!((at_server.last(Metric::ActiveGoals), at_server.total(Metric::FeedbackPeriod)), (1.0, 3));
    read_all(&mut reader, "/server:/act", SourceKind::ActionServer.metrics());
    read_all(&mut reader, "/client:/act", SourceKind::ActionClient.metrics());
}
