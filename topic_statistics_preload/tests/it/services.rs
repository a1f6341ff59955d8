// SPDX-License-Identifier: Apache-2.0

//! Services and clients of rclpy with statistics.

use std::ops::Range;

use test_support::{domain, of, Metric, Program, Reader};

use crate::preloaded;

const SERVICE: &str = "/server:/serve";
const CLIENT: &str = "/caller:/serve";
const CALLS: u32 = 20;
/// The limit of calls while all of them are later than expected.
const MOST_CALLS: u32 = 100;
/// How far a delay may be from the one that is injected, in milliseconds.
const TOLERANCE: f64 = 3.0;

fn start(program: &str) -> Program {
    let mut command = Program::command(program, &[], domain());
    preloaded(&mut command, &[("PERIOD", "0.3")]);
    command.spawn().unwrap().into()
}

/// Returns the sum of a metric that is a count for each window.
fn total(metrics: &[Metric], source: &str, metric: &str) -> f64 {
    of(metrics, source, metric).map(Metric::average).sum()
}

/// Returns the least of all samples of a metric: what the machine's load adds is not in it.
fn least(reader: &Reader, source: &str, metric: &str) -> f64 {
    of(&reader.metrics, source, metric).map(Metric::minimum).fold(f64::NAN, f64::min)
}

/// The delays of a server and of a client, in milliseconds, and nothing else that is late: the range of the least sample
/// of each metric.
fn expected_delays(server: f64, client: f64) -> [(&'static str, &'static str, Range<f64>); 6] {
    let near = |delay: f64| delay - 0.1..delay + TOLERANCE;
    let round_trip = server + client;
    [
        (SERVICE, "response_duration_ms", near(server)),
        (SERVICE, "source_to_callback_ms", near(0.0)),
        (CLIENT, "source_to_receive_ms", near(0.0)),
        (CLIENT, "receive_to_callback_ms", near(client)),
        (CLIENT, "source_to_callback_ms", near(client)),
        (CLIENT, "round_trip_ms", round_trip..round_trip + 2.0 * TOLERANCE),
    ]
}

/// Reads until both have published their windows: nothing is missing then.
fn read_first_windows(reader: &mut Reader, sources: &[&str]) {
    reader.read_until("windows", |metrics| {
        sources.iter().all(|source| metrics.iter().any(|metric| metric.source == *source))
    });
}

/// Calls the service with that delay of the server and of the client, in milliseconds, and asserts that the delays are
/// in their own metrics only. Returns the number of calls and all statistics.
fn call(server_late: u32, client_late: u32) -> (f64, Reader) {
    let mut reader = Reader::start(domain());
    let (_server, mut caller) = (start("service_server.py"), start("calls.py"));
    read_first_windows(&mut reader, &[SERVICE, CLIENT]);
    let expected = expected_delays(server_late.into(), client_late.into());
    let mut calls = 0.0;
    let is_late = |reader: &Reader| {
        expected.iter().any(|(source, metric, range)| !range.contains(&least(reader, source, metric)))
    };
    // On a busy machine all calls may be later.
    while calls == 0.0 || is_late(&reader) && calls < f64::from(MOST_CALLS) {
        for _ in 0..CALLS {
            let response = caller.request(&format!("call {server_late} {client_late}"));
            assert_eq!(response, server_late.to_string());
        }
        calls += f64::from(CALLS);
        reader.read_until("all calls", |metrics| {
            total(metrics, SERVICE, "requests") >= calls
                && total(metrics, CLIENT, "responses") >= calls
                // The last metrics of windows without calls.
                && [(SERVICE, "max_active_requests"), (CLIENT, "responses")].iter().all(|(source, metric)| {
                    of(metrics, source, metric).last().is_some_and(|last| last.average() == 0.0)
                })
        });
    }
    for (source, metric, range) in &expected {
        let value = least(&reader, source, metric);
        assert!(range.contains(&value), "{source} {metric}: {value} ms of {calls} calls, not {range:?}");
        let samples: f64 = of(&reader.metrics, source, metric).map(Metric::count).sum();
        assert_eq!(samples, calls, "{source} {metric}");
    }
    (calls, reader)
}

#[test]
fn a_late_server_is_in_the_duration_of_its_responses_and_the_counts_are_exact() {
    let (calls, reader) = call(30, 0);
    for (source, metric) in [(SERVICE, "requests"), (CLIENT, "calls"), (CLIENT, "responses")] {
        assert_eq!(total(&reader.metrics, source, metric), calls, "{source} {metric}");
    }
    let most = of(&reader.metrics, SERVICE, "max_active_requests").map(Metric::average);
    assert_eq!(most.fold(0.0, f64::max), 1.0);
    let last = |metric: &str| reader.windows(SERVICE, metric).last().unwrap().average();
    assert_eq!((last("active_requests"), last("max_active_requests")), (0.0, 0.0));
    // Fast DDS does not report when a request arrived: that is not guessed. What a take cannot know has no message.
    let unknown = reader.windows(SERVICE, "receive_to_callback_ms");
    assert!(unknown.iter().all(|window| window.count() == 0.0 && window.average().is_nan()), "{unknown:?}");
    for (source, metric) in
        [(SERVICE, "callback_duration_ms"), (SERVICE, "callback_panics"), (CLIENT, "dropped_calls")]
    {
        assert!(reader.windows(source, metric).is_empty(), "{source} {metric}");
    }
    let of_node = |metric: &&Metric| ![SERVICE, CLIENT].contains(&&*metric.source);
    let other = reader.metrics.iter().filter(of_node).find(|metric| metric.metric != "clock_offset_ms");
    assert!(other.is_none(), "services that every node has are not measured: {other:?}");
}

#[test]
fn a_client_whose_executor_is_late_has_that_in_its_own_delay_only() {
    call(0, 20);
}

#[test]
fn calls_that_are_never_answered_are_seen_while_they_wait_also_after_their_server_was_killed() {
    let mut reader = Reader::start(domain());
    let (server, mut caller) = (start("service_server.py"), start("calls.py"));
    read_first_windows(&mut reader, &[SERVICE, CLIENT]);
    caller.request("call 0 0");
    // If a window ended during this call, that call is the oldest one of its window.
    reader.read_until("the response", |metrics| {
        total(metrics, CLIENT, "responses") == 1.0
            && of(metrics, CLIENT, "oldest_call_ms").last().is_some_and(|last| last.average() == 0.0)
    });
    let before = reader.windows(CLIENT, "oldest_call_ms").len();
    (0..3).for_each(|_| drop(caller.request("send 3600000")));
    let is_waiting = |metrics: &[Metric], milliseconds: f64| {
        of(metrics, CLIENT, "oldest_call_ms").skip(before).any(|oldest| oldest.average() > milliseconds)
    };
    reader.read_until("a call that waits", |metrics| is_waiting(metrics, 1000.0));
    // rclpy takes the next request when it has responded to the one before.
    reader.read_until("the request that it has taken", |metrics| {
        of(metrics, SERVICE, "active_requests").last().is_some_and(|last| last.average() == 1.0)
    });
    server.signal("KILL");
    reader.read_until("a call that waits on", |metrics| is_waiting(metrics, 2500.0));
    assert_eq!(total(&reader.metrics, CLIENT, "calls"), 4.0);
    assert_eq!(total(&reader.metrics, CLIENT, "responses"), 1.0);
    let oldest: Vec<Metric> = reader.windows(CLIENT, "oldest_call_ms");
    let waits: Vec<&Metric> = oldest[before..].iter().filter(|oldest| oldest.average() > 0.0).collect();
    assert!(waits.len() >= 6, "{oldest:?}");
    for pair in waits.windows(2) {
        let (grown, length) = (pair[1].average() - pair[0].average(), pair[1].length() * 1e3);
        assert!((grown - length).abs() < TOLERANCE, "{grown} ms in {length} ms");
    }
}
