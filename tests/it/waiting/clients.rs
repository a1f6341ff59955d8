// SPDX-License-Identifier: Apache-2.0

use std::sync::{
    atomic::{AtomicU64, Ordering},
    Arc,
};

use rclrs::*;
use rclrs_topic_statistics::{
    health::{Expectations, Level},
    IntoMeasuredOptions, MeasuredClient, Metric, SourceKind, StatisticsError, TopicStatisticsOptions,
    TopicStatisticsState,
};
use ros_env::test_msgs::srv::{BasicTypes, BasicTypes_Request as Request, BasicTypes_Response as Response};
use test_support::{domain, middleware, node, wait_for, Program, Reader, Spinning};

use super::{read_all, statistics, Windows};

/// A request whose response takes that number of milliseconds.
fn request(milliseconds: i64) -> Request {
    Request { int64_value: milliseconds, ..Default::default() }
}

/// Starts a server. Waits until it and the client have discovered each other.
fn start_server(client: &MeasuredClient<BasicTypes>) -> Program {
    let server = Program::start("service_server.py", &[], domain());
    wait_for("service", || client.service_is_ready().unwrap());
    server.read("client in the server");
    server
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
    let _server = start_server(&client);

    // A round trip ends with the response, and not when it is awaited.
    let plain: Promise<Response> = client.call(request(500)).unwrap();
    windows.wait_for(Metric::Responses, 1);
    windows.assert_delayed(Metric::RoundTrip, 1);
    let (delay, round_trip) = (windows.most(Metric::SourceToCallback), windows.most(Metric::RoundTrip));
    assert!(delay >= 0.0 && delay < round_trip - 499.0, "the delay of the response alone: {delay} ms");
    assert_eq!(resolved(plain).int64_value, 500);

    let with_id: Promise<(Response, RequestId)> = client.call(&request(1)).unwrap();
    assert_eq!(resolved(with_id).0.int64_value, 1);
    let with_info: Promise<(Response, ServiceInfo)> = client.call(request(2)).unwrap();
    let (response, info) = resolved(with_info);
    assert!(response.int64_value == 2 && info.source_timestamp.is_some());
    let sum = Arc::new(AtomicU64::new(0));
    let add = || {
        let sum = Arc::clone(&sum);
        move |response: Response| {
            sum.fetch_add(response.int64_value as u64, Ordering::Relaxed);
        }
    };
    let (with_info, with_id) = (add(), add());
    let promises = [
        client.call_then(request(3), add()),
        client.call_then(request(4), move |response: Response, _: ServiceInfo| with_info(response)),
        client.call_then_async(request(5), move |response: Response, _: RequestId| async move {
            with_id(response);
        }),
    ];
    promises.into_iter().for_each(|promise| resolved(promise.unwrap()));
    assert_eq!(sum.load(Ordering::Relaxed), 3 + 4 + 5);
    windows.wait_for(Metric::RoundTrip, 6);
    let counts = [Metric::Calls, Metric::Responses, Metric::DroppedCalls, Metric::SourceToCallback];
    assert_eq!(windows.totals(counts), [6, 6, 0, 6]);
    if !middleware::lacks_reception_timestamps("the delays of a response") {
        assert_eq!(windows.total(Metric::SourceToReceive), 6);
    }
    read_all(&mut reader, "/caller:/serve", SourceKind::Client.metrics());

    let error = statistics.create_client::<BasicTypes>("1st service").unwrap_err();
    assert!(matches!(&error, StatisticsError::CreateClient { name, .. } if name == "1st service"), "{error}");
    let wrong = "serve".topic_statistics(TopicStatisticsOptions::new().metrics([Metric::Requests]));
    let error = statistics.create_client::<BasicTypes>(wrong).unwrap_err();
    assert!(error.to_string().contains("A client has no metric \"requests\": it has "), "{error}");
}

#[test]
fn calls_without_a_response_and_without_statistics() {
    let (executor, node) = node("caller", &[]);
    let statistics = statistics(&node);
    let expected = Expectations::new().error_unless("oldest_call<300ms".parse().unwrap());
    let options = TopicStatisticsOptions::new().expect(expected).state(TopicStatisticsState::Disable);
    let client = statistics.create_client::<BasicTypes>("serve".topic_statistics(options)).unwrap();
    let windows = Windows::of(client.watch());
    let _spinning = Spinning::start(executor);
    let server = start_server(&client);
    let unmeasured: Promise<Response> = client.call(request(7)).unwrap();
    assert_eq!((resolved(unmeasured).int64_value, windows.len()), (7, 0));

    client.set_state(TopicStatisticsState::Enable);
    server.signal("STOP");
    let [waits, dropped, last] = [(); 3].map(|()| client.call::<_, Response>(request(0)).unwrap());
    windows.wait_for(Metric::Calls, 3);
    wait_for("an error", || client.health().borrow().level == Level::Error);
    assert_eq!(windows.totals([Metric::Responses, Metric::DroppedCalls]), [0, 0]);
    drop(dropped);
    windows.wait_for(Metric::DroppedCalls, 1);
    assert!(windows.last(Metric::OldestCall) >= 300.0);
    // The server is killed with calls under way.
    server.signal("KILL");
    drop(waits);
    windows.wait_for(Metric::DroppedCalls, 2);
    drop(last);
    windows.wait_for(Metric::DroppedCalls, 3);
    assert_eq!(windows.last(Metric::OldestCall), 0.0);
    wait_for("the end of the error", || client.health().borrow().level == Level::Ok);

    let mut unanswered: Promise<Response> = client.call(request(0)).unwrap();
    drop(client);
    // rclrs 0.8 sometimes misses the wake-up of a drop. This wakes the wait set.
    let again = statistics.create_client::<BasicTypes>("serve").unwrap();
    assert_eq!(again.source_name(), "/caller:/serve", "its name is free");
    wait_for("the end of the promise", || unanswered.try_recv().is_err());
}
