// SPDX-License-Identifier: Apache-2.0

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    health::{Expectations, Level},
    IntoMeasuredOptions, MeasuredClient, Metric, SourceKind, StatisticsError, TopicStatisticsOptions,
    TopicStatisticsState,
};
use ros_env::test_msgs::srv::{BasicTypes, BasicTypes_Response as Response};
use test_support::{domain, middleware, node, of, wait_for, Program, Reader, Spinning, LIMIT};

use super::{request, statistics, Windows};

/// Waits until client and server have discovered each other.
fn wait_for_service(client: &MeasuredClient<BasicTypes>, server: &Program) {
    wait_for("service", || client.service_is_ready().unwrap());
    server.read("client in the server");
}

/// Waits until a promise is resolved. Nobody polls it meanwhile.
fn resolved<T>(mut promise: Promise<T>) -> T {
    let mut result = None;
    wait_for("response", || {
        result = promise.try_recv().unwrap();
        result.is_some()
    });
    result.unwrap()
}

#[test]
fn every_form_of_a_call_is_measured() {
    let (executor, node) = node("caller", &[]);
    let statistics = statistics(&node);
    let client = statistics.create_client::<BasicTypes>("serve").unwrap();
    assert_eq!((client.service_name(), client.source_name()), ("/serve".to_owned(), "/caller:/serve"));
    let windows = Windows::of(client.watch());
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    let server = Program::start("service_server.py", &[], domain());
    wait_for_service(&client, &server);

    let plain: Promise<Response> = client.call(request(100)).unwrap();
    assert_eq!(resolved(plain).int64_value, 100);
    let with_id: Promise<(Response, RequestId)> = client.call(&request(101)).unwrap();
    assert_eq!(resolved(with_id).0.int64_value, 101);
    let with_info: Promise<(Response, ServiceInfo)> = client.call(request(102)).unwrap();
    let (response, info) = resolved(with_info);
    assert!(response.int64_value == 102 && info.source_timestamp.is_some());

    let sum = Arc::new(AtomicU64::new(0));
    let to = Arc::clone(&sum);
    let first = Instant::now();
    let then = client.call_then(request(103), move |response: Response| {
        to.fetch_add(response.int64_value as u64, Ordering::Relaxed);
    });
    let to = Arc::clone(&sum);
    let then_info = client.call_then(request(104), move |response: Response, _: ServiceInfo| {
        to.fetch_add(response.int64_value as u64, Ordering::Relaxed);
    });
    let to = Arc::clone(&sum);
    let then_async =
        client.call_then_async(request(105), move |response: Response, _: RequestId| async move {
            to.fetch_add(response.int64_value as u64, Ordering::Relaxed);
        });
    let sending = first.elapsed().as_secs_f64() * 1e3;
    for promise in [then, then_info, then_async] {
        resolved(promise.unwrap());
    }
    assert_eq!(sum.load(Ordering::Relaxed), 103 + 104 + 105);

    windows.wait_for(Metric::Responses, 6.0);
    windows.wait_for_more(1);
    let sums = [Metric::Calls, Metric::Responses, Metric::DroppedCalls].map(|metric| windows.sum(metric));
    assert_eq!(sums, [6.0, 6.0, 0.0]);
    assert_eq!((windows.count(Metric::RoundTrip), windows.count(Metric::SourceToCallback)), (6, 6));
    let (least, most) = (windows.minimum(Metric::RoundTrip), windows.maximum(Metric::RoundTrip));
    // The last three calls are sent in a moment, and served one after the other.
    assert!((100.0..200.0).contains(&least), "{least} ms");
    assert!((312.0 - sending..5000.0).contains(&most), "{most} ms, sent in {sending} ms");
    let delay = windows.minimum(Metric::SourceToCallback);
    assert!((0.0..50.0).contains(&delay), "the delay of the response alone: {delay} ms");
    if !middleware::lacks_reception_timestamps("the delays of a response") {
        assert_eq!(windows.count(Metric::SourceToReceive), 6);
    }
    reader.read_until("the metrics of a client", |read| {
        SourceKind::Client.metrics().iter().all(|metric| {
            of(read, "/caller:/serve", metric.name()).any(|window| window.unit == metric.unit())
        })
    });
}

#[test]
fn a_thousand_calls_at_once_are_all_answered() {
    const CALLS: u64 = 1000;
    let (executor, node) = node("caller", &[]);
    let statistics = statistics(&node);
    let client = statistics.create_client::<BasicTypes>("serve".keep_last(2000)).unwrap();
    let windows = Windows::of(client.watch());
    let _spinning = Spinning::start(executor);
    let server = Program::start("service_server.py", &[], domain());
    wait_for_service(&client, &server);
    server.signal("STOP");
    let promises: Vec<Promise<Response>> = (0..CALLS).map(|_| client.call(request(0)).unwrap()).collect();
    windows.wait_for(Metric::Calls, CALLS as f64);
    assert_eq!((windows.sum(Metric::Responses), windows.count(Metric::RoundTrip)), (0.0, 0));
    server.signal("CONT");
    promises.into_iter().for_each(|promise| drop(resolved(promise)));
    windows.wait_for(Metric::Responses, CALLS as f64);
    windows.wait_for_more(1);
    let sums = [Metric::Calls, Metric::Responses, Metric::DroppedCalls].map(|metric| windows.sum(metric));
    assert_eq!(sums, [CALLS as f64, CALLS as f64, 0.0]);
    assert_eq!(windows.count(Metric::RoundTrip), CALLS);
    assert_eq!(windows.all(Metric::OldestCall).last().unwrap().average, 0.0);
}

/// A promise is resolved when the response arrives, also if it is awaited much later.
#[test]
fn a_round_trip_ends_with_the_response_and_not_when_it_is_awaited() {
    const UNAWAITED: Duration = Duration::from_millis(500);
    let (mut executor, node) = node("caller", &[]);
    let statistics = statistics(&node);
    let client = statistics.create_client::<BasicTypes>("serve").unwrap();
    let windows = Windows::of(client.watch());
    let server = Program::start("service_server.py", &[], domain());
    wait_for_service(&client, &server);
    let called = Instant::now();
    let promise: Promise<Response> = client.call(request(0)).unwrap();
    let commands = Arc::clone(executor.commands());
    let watching = windows.clone();
    let halt = std::thread::spawn(move || {
        watching.wait_for(Metric::Responses, 1.0);
        std::thread::sleep(UNAWAITED);
        commands.halt_spinning();
    });
    assert!(executor.spin(SpinOptions::default().timeout(LIMIT)).is_empty());
    halt.join().unwrap();
    let most = (called.elapsed() - UNAWAITED).as_secs_f64() * 1e3;
    assert_eq!(resolved(promise).int64_value, 0);
    let round_trip = windows.maximum(Metric::RoundTrip);
    assert!((0.0..most).contains(&round_trip), "{round_trip} ms, at most {most} ms by the test");
}

#[test]
fn a_call_without_a_response_shows_in_every_window_until_it_is_dropped() {
    let (executor, node) = node("caller", &[]);
    let statistics = statistics(&node);
    let expected = Expectations::new().error_unless("oldest_call<300ms".parse().unwrap());
    let client = statistics
        .create_client::<BasicTypes>("serve".topic_statistics(TopicStatisticsOptions::new().expect(expected)))
        .unwrap();
    let windows = Windows::of(client.watch());
    let _spinning = Spinning::start(executor);
    let server = Program::start("service_server.py", &[], domain());
    wait_for_service(&client, &server);
    let ended: Promise<Response> = client.call(request(0)).unwrap();
    resolved(ended);

    server.signal("STOP");
    let waits: Promise<Response> = client.call(request(0)).unwrap();
    let dropped: Promise<Response> = client.call(request(0)).unwrap();
    windows.wait_for(Metric::Calls, 3.0);
    let from = windows.len();
    windows.wait_for_more(4);
    windows.assert_ages(Metric::OldestCall, from);
    let oldest = || windows.all(Metric::OldestCall).last().unwrap().average;
    let before = oldest();
    wait_for("an error", || client.health().borrow().level == Level::Error);
    assert_eq!(windows.sum(Metric::DroppedCalls), 0.0);
    drop(dropped);
    windows.wait_for(Metric::DroppedCalls, 1.0);

    // The server is killed with a call under way.
    server.signal("KILL");
    windows.wait_for_more(2);
    assert!(oldest() > before);
    drop(waits);
    windows.wait_for(Metric::DroppedCalls, 2.0);
    windows.wait_for_more(1);
    assert_eq!(oldest(), 0.0);
    assert_eq!((windows.sum(Metric::Calls), windows.sum(Metric::Responses)), (3.0, 1.0));
    wait_for("the end of the error", || client.health().borrow().level == Level::Ok);
}

#[test]
fn a_dropped_client_drops_its_calls_and_a_disabled_one_measures_none() {
    let (executor, node) = node("caller", &[]);
    let statistics = statistics(&node);
    let _spinning = Spinning::start(executor);
    let server = Program::start("service_server.py", &[], domain());
    let off = TopicStatisticsOptions::new().state(TopicStatisticsState::Disable);
    let client = statistics.create_client::<BasicTypes>("serve".topic_statistics(off)).unwrap();
    wait_for_service(&client, &server);
    let promise: Promise<Response> = client.call(request(7)).unwrap();
    assert_eq!(resolved(promise).int64_value, 7);
    assert!(client.latest().is_none());
    client.set_state(TopicStatisticsState::Enable);
    let windows = Windows::of(client.watch());
    let mut promise: Promise<Response> = client.call(request(0)).unwrap();
    windows.wait_for(Metric::Responses, 1.0);
    let mut unanswered: Promise<Response> = client.call(request(60_000)).unwrap();
    drop(client);
    // rclrs 0.8 sometimes misses the wake-up of a drop. This wakes the wait set.
    let again = statistics.create_client::<BasicTypes>("serve").unwrap();
    assert_eq!(again.source_name(), "/caller:/serve", "its name is free");
    wait_for("the end of the promise", || unanswered.try_recv().is_err());
    assert_eq!(promise.try_recv().unwrap().unwrap().int64_value, 0);
}

#[test]
fn a_client_that_cannot_be_created_is_an_error_with_its_name() {
    let (_executor, node) = node("caller", &[]);
    let statistics = statistics(&node);
    let error = statistics.create_client::<BasicTypes>("1st service").unwrap_err();
    assert!(matches!(&error, StatisticsError::CreateClient { name, .. } if name == "1st service"), "{error}");
    let wrong = TopicStatisticsOptions::new().metrics([Metric::Requests]);
    let error = statistics.create_client::<BasicTypes>("serve".topic_statistics(wrong)).unwrap_err();
    assert!(error.to_string().contains("A client has no metric \"requests\": it has "), "{error}");
}
