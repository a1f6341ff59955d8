// SPDX-License-Identifier: Apache-2.0

//! Tests of `--services` and `--actions` with nodes in Python and C++.

use std::fs;

use serde_json::Value;
use test_support::{domain, Program};

use crate::run::Json;

/// The largest plausible duration, in ms, even on a busy machine.
const LIMIT: f64 = 5000.0;

/// A monitor, and the windows that it wrote for one service or action.
struct Windows {
    monitor: Json,
    windows: Vec<Value>,
}

impl Windows {
    /// Starts the monitor. Waits for five consecutive windows with this number of publishers.
    fn start(arguments: &[&str], publishers: u64) -> Self {
        let mut this = Self { monitor: Json::start(arguments, domain()), windows: vec![] };
        this.read_until("windows of all publishers", |windows| {
            windows.iter().rev().take_while(|window| window["publishers"] == publishers).count() >= 5
        });
        this
    }

    fn read_until(&mut self, what: &str, enough: impl Fn(&[Value]) -> bool) {
        while !enough(&self.windows) {
            self.windows.push(self.monitor.until(what, |_| true));
        }
    }

    /// Reads windows until the sum of a count is `expected`. Asserts that another window does not change the sum.
    fn count(&mut self, metric: &str, expected: f64) {
        self.read_until(metric, |windows| sum(windows, metric) >= expected);
        self.windows.push(self.monitor.until("a further window", |_| true));
        assert_eq!(sum(&self.windows, metric), expected, "{metric}");
    }

    /// Asserts that a metric has this number of samples, and that all its samples are at least `least`.
    fn assert_samples(&self, metric: &str, expected: u64, least: f64) {
        let metrics = self.windows.iter().map(|window| &window["metrics"][metric]);
        let measured: Vec<&Value> = metrics.filter(|metric| metric["count"].as_u64() > Some(0)).collect();
        let count: u64 = measured.iter().map(|metric| metric["count"].as_u64().unwrap()).sum();
        assert_eq!(count, expected, "{metric}: {measured:?}");
        for samples in measured {
            let [min, max] = ["min", "max"].map(|figure| samples[figure].as_f64().unwrap());
            assert!(min >= least && max < LIMIT, "{metric}: {samples}");
        }
    }
}

fn sum(windows: &[Value], metric: &str) -> f64 {
    windows.iter().filter_map(|window| window["metrics"][metric]["mean"].as_f64()).sum()
}

fn last(windows: &[Value], metric: &str) -> f64 {
    windows.last().and_then(|window| window["metrics"][metric]["mean"].as_f64()).unwrap_or(f64::NAN)
}

#[test]
fn calls_have_their_parts_and_one_that_is_stuck_waits() {
    let server = Program::start("introspected.py", &["server", "500", "CONTENTS"], domain());
    let mut client = Program::start("introspected.py", &["client", "-", "METADATA"], domain());
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    let arguments = ["--services", "serve", "--report", page.to_str().unwrap()];
    let mut windows = Windows::start(&arguments, 2);
    client.request("4 0");
    for count in ["requests", "calls", "responses"] {
        windows.count(count, 4.0);
    }
    for (part, injected) in [("round_trip_ms", 250.0), ("response_duration_ms", 250.0)] {
        windows.assert_samples(part, 4, injected);
    }
    for part in ["request_delay_ms", "response_delay_ms"] {
        windows.assert_samples(part, 4, -250.0); // negative if the sender's stamp is late
    }
    assert_eq!(windows.windows.last().unwrap()["type"], "test_msgs/srv/BasicTypes");
    assert_eq!(sum(&windows.windows, "dropped_calls"), 0.0);

    server.signal("STOP");
    client.send("1 0");
    windows.read_until("a call that waits", |windows| last(windows, "oldest_call_ms") > 1000.0);
    assert_eq!(last(&windows.windows, "active_requests"), 1.0);
    server.signal("CONT");
    client.read("the answer at last");
    windows.read_until("no call that waits", |windows| last(windows, "oldest_call_ms") == 0.0);
    assert_eq!(windows.monitor.end("INT"), Some(0));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("round trip") && page.contains("Distribution of round_trip_ms"), "{page}");

    let monitor = Json::start(&["--services", "server/get_parameters", "nothing"], domain());
    monitor.until_error("there is no service /nothing yet");
    let line = monitor.until_error("/server/get_parameters publishes no events");
    assert!(line.contains("configure_introspection of rclcpp, rclpy and rclrs"), "{line}");
}

#[test]
fn goals_have_their_outcomes_and_durations() {
    let _server = Program::start("action_server.py", &[], domain());
    let mut client = Program::start("action_client.py", &[], domain());
    // The action publishes no status before its first goal. This first goal is from before the start of the monitor.
    assert_eq!(client.request("act 0 1"), "4");
    let mut windows = Windows::start(&["--actions"], 1);
    assert_eq!(client.request("act 300 2"), "4 4");
    assert_eq!(client.request("act 301 1"), "6");
    assert_eq!(client.request("act 60000 1 800"), "5");
    assert_eq!(client.request("act -1 1"), "rejected");
    for (count, expected) in
        [("canceled_goals", 1.0), ("goals", 4.0), ("succeeded_goals", 2.0), ("aborted_goals", 1.0)]
    {
        windows.count(count, expected);
    }
    assert_eq!(sum(&windows.windows, "dropped_goals"), 0.0);
    assert_eq!(last(&windows.windows, "active_goals"), 0.0);
    assert_eq!(windows.windows.last().unwrap()["type"], "test_msgs/action/Fibonacci");
    // The action server delays its results by 500 ms and 800 ms. Its feedback comes after 200 ms.
    windows.assert_samples("goal_to_feedback_ms", 4, 20.0);
    windows.assert_samples("goal_succeeded_ms", 2, 250.0);
    windows.assert_samples("goal_aborted_ms", 1, 250.0);
    windows.assert_samples("goal_canceled_ms", 1, 250.0);
}
