// SPDX-License-Identifier: Apache-2.0

//! Services and clients of rclpy with statistics.

use test_support::{domain, windows_of, Metric, Reader};

use crate::{count, extremes, settle, start, total};

const SERVICE: &str = "/server:/serve";
const CLIENT: &str = "/caller:/serve";
const LATE: &str = "/late:/serve";

#[test]
fn requests_and_calls_of_rclpy_and_those_never_answered() {
    let options = [("PERIOD", "0.3")];
    let mut reader = Reader::start_with_depth(domain(), 1000);
    let (server, mut caller) = (start("service_server.py", &[], &options), start("calls.py", &[], &options));
    let mut late = start("calls.py", &["serve", "--ros-args", "-r", "__node:=late"], &options);
    let sources = [(SERVICE, "max_active_requests"), (CLIENT, "responses"), (LATE, "responses")];
    settle(&mut reader, &sources);
    for _ in 0..3 {
        assert_eq!(caller.request("call 500 0"), "500", "the server is late");
        assert_eq!(late.request("call 0 500"), "0", "the client's executor is late");
    }
    settle(&mut reader, &sources);
    let metrics = &reader.metrics;
    for (source, metric, expected) in [
        (SERVICE, "requests", 6.0),
        (CLIENT, "calls", 3.0),
        (CLIENT, "responses", 3.0),
        (LATE, "calls", 3.0),
        (LATE, "responses", 3.0),
    ] {
        assert_eq!(total(metrics, source, metric), expected, "{source} {metric}");
    }
    for (source, metric, samples) in [
        (SERVICE, "response_duration_ms", 6.0),
        (SERVICE, "source_to_callback_ms", 6.0),
        (SERVICE, "receive_to_callback_ms", 0.0), // Fast DDS does not report when a request arrived
        (CLIENT, "source_to_receive_ms", 3.0),
        (LATE, "source_to_callback_ms", 3.0),
    ] {
        assert_eq!(count(metrics, source, metric), samples, "{source} {metric}");
    }
    let is_late = |source, metric, is_each: bool| {
        let (least, greatest) = extremes(metrics, source, metric);
        let delay = if is_each { least } else { greatest };
        assert!((250.0..5000.0).contains(&delay), "{source} {metric}: {least} to {greatest} ms");
    };
    is_late(SERVICE, "response_duration_ms", false);
    is_late(CLIENT, "round_trip_ms", true);
    is_late(LATE, "receive_to_callback_ms", true);
    is_late(LATE, "round_trip_ms", true);
    // Metrics that rmw's calls cannot show are not published, and the services that every node has are not measured.
    for (source, metric) in
        [(SERVICE, "callback_duration_ms"), (SERVICE, "callback_panics"), (CLIENT, "dropped_calls")]
    {
        assert!(reader.windows(source, metric).is_empty(), "{source} {metric}");
    }
    let is_other = |metric: &&Metric| metric.source.starts_with('/') && !metric.source.ends_with(":/serve");
    assert!(metrics.iter().find(is_other).is_none());

    // The service takes only one of these three requests, because rclpy takes the next request only after a response.
    (0..3).for_each(|_| drop(caller.request("send 3600000")));
    let last =
        |metrics: &[Metric], source, metric| windows_of(metrics, source, metric).last().map(Metric::average);
    reader.read_until("the request that it has taken", |metrics| {
        last(metrics, SERVICE, "active_requests") == Some(1.0)
    });
    server.signal("KILL");
    reader.read_until("calls that wait", |metrics| last(metrics, CLIENT, "oldest_call_ms") > Some(1500.0));
    assert_eq!(total(&reader.metrics, CLIENT, "calls"), 6.0);
    assert_eq!(total(&reader.metrics, CLIENT, "responses"), 3.0);
}
