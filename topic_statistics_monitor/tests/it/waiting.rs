// SPDX-License-Identifier: Apache-2.0

//! `--services` and `--actions`: nodes in Python and C++, and the figures that their own clocks and counts have.

use std::time::Instant;

use serde_json::Value;
use test_support::{cpp::CppNode, domain, Program};

use crate::{
    run::{run, text, Json},
    terminal::Terminal,
};

/// How far a time may be above what was injected, in ms: the host may be busy with other tests. That it is no other
/// time is told by the lower bounds, and by the clients' own clocks.
const TOLERANCE: f64 = 1000.0;
/// How far it may be below: rcl stamps what was sent after the sending.
const EARLIER: f64 = 10.0;
/// How far a time between two receptions may be below: the first message may wait until the monitor has a processor.
const EARLIER_BY_RECEPTION: f64 = 50.0;
/// How often receptions are measured before their times are called wrong.
const ROUNDS: u32 = 3;

/// The windows of one service or action.
struct Windows {
    monitor: Json,
    windows: Vec<Value>,
}

impl Windows {
    /// Starts the monitor. Waits for a window of these publishers.
    fn start(arguments: &[&str], publishers: u64) -> Self {
        let mut this = Self { monitor: Json::start(arguments, domain()), windows: vec![] };
        this.read_until("a window of all publishers", |windows| {
            windows.last().is_some_and(|window| window["publishers"] == publishers)
        });
        // They may have been discovered within this window.
        let first = this.windows.len();
        this.read_until("whole windows", |windows| windows.len() >= first + 4);
        this
    }

    fn read_until(&mut self, what: &str, enough: impl Fn(&[Value]) -> bool) {
        let deadline = Instant::now() + test_support::LIMIT;
        while !enough(&self.windows) {
            let line = self.monitor.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|error| panic!("no {what}: {error}; {:?}", self.windows.last()));
            self.windows.push(serde_json::from_str(&line).unwrap());
        }
    }

    /// Reads until a count is that high, and for a window more. Returns the sum.
    fn count(&mut self, metric: &str, at_least: f64) -> f64 {
        let of_all = |windows: &[Value]| sum(windows, metric);
        self.read_until(metric, |windows| of_all(windows) >= at_least);
        let first = self.windows.len();
        self.read_until("a further window", |windows| windows.len() > first);
        of_all(&self.windows)
    }

    /// Returns mean, minimum, maximum and number of the samples of a metric.
    fn samples(&self, metric: &str) -> [f64; 4] {
        let figure = |window: &Value, figure: &str| window["metrics"][metric][figure].as_f64();
        let mut all = [0.0, f64::INFINITY, f64::NEG_INFINITY, 0.0];
        for window in &self.windows {
            let (Some(mean), Some(count)) = (figure(window, "mean"), figure(window, "count")) else {
                continue;
            };
            all[0] += mean * count;
            all[1] = all[1].min(figure(window, "min").unwrap());
            all[2] = all[2].max(figure(window, "max").unwrap());
            all[3] += count;
        }
        all[0] /= all[3];
        all
    }
}

fn sum(windows: &[Value], metric: &str) -> f64 {
    windows.iter().filter_map(|window| window["metrics"][metric]["mean"].as_f64()).sum()
}

fn server(milliseconds: &str, state: &str) -> Program {
    Program::start("introspected.py", &["server", milliseconds, state], domain())
}

fn client(state: &str) -> Program {
    Program::start("introspected.py", &["client", "-", state], domain())
}

/// Returns bounds of the mean round trip, in ms, by the client's own clock: from after the sending of each request to
/// before the taking of its response, and from before that to after this.
fn own_round_trip(printed: &str) -> [f64; 2] {
    let (within, around) = printed.split_once(' ').unwrap();
    [within, around].map(|mean| mean.parse().unwrap())
}

#[test]
fn the_parts_of_a_round_trip_are_those_that_were_injected() {
    // With contents, messages own memory.
    let (_server, mut client) = (server("55", "CONTENTS"), client("METADATA"));
    let mut windows = Windows::start(&["--services", "serve"], 2);
    // The response waits for its client until 85 ms after the call, for less than 30 ms.
    let own = own_round_trip(&client.request("20 85"));
    for count in ["requests", "calls", "responses"] {
        assert_eq!(windows.count(count, 20.0), 20.0, "{count}");
    }
    let parts = ["request_delay_ms", "response_duration_ms", "response_delay_ms"];
    for (part, injected) in parts.into_iter().zip([0.0, 55.0, 0.0]) {
        let [mean, minimum, maximum, count] = windows.samples(part);
        assert_eq!(count, 20.0, "{part}");
        // The stamp of a sending may be late by as long as its process had no processor: a delay from there to the
        // reception by the other process is as much shorter. A duration that ends with it is longer.
        let least = if part == "response_duration_ms" { minimum } else { mean };
        let is_right = least >= injected - EARLIER && maximum <= injected + TOLERANCE;
        assert!(is_right, "{part}: {minimum} to {maximum} ms, {mean} ms on average");
    }
    let [mean, minimum, _, count] = windows.samples("round_trip_ms");
    assert!(
        count == 20.0 && minimum >= 85.0 - EARLIER && (own[0] - 1.0..own[1] + 1.0).contains(&mean),
        "{mean} ms; the client has {own:?}"
    );
    let sum_of_parts: f64 = parts.map(|part| windows.samples(part)[0]).iter().sum();
    assert!((sum_of_parts - mean).abs() < 1e-3, "{sum_of_parts} and {mean} ms");
    assert_eq!(windows.windows.last().unwrap()["type"], "test_msgs/srv/BasicTypes");
    assert_eq!(sum(&windows.windows, "dropped_calls"), 0.0);
}

#[test]
fn a_node_in_cpp_has_the_parts_of_its_round_trips() {
    let Some(node) = CppNode::compile() else { return };
    let mut node = node.start(domain());
    let mut windows = Windows::start(&["--services", "set_camera_info"], 2);
    assert_eq!(node.request("50"), "50");
    for count in ["requests", "calls", "responses"] {
        assert_eq!(windows.count(count, 50.0), 50.0, "{count}");
    }
    let [round_trip, duration] =
        ["round_trip_ms", "response_duration_ms"].map(|metric| windows.samples(metric));
    for [_, minimum, maximum, count] in [round_trip, duration] {
        assert!(
            count == 50.0 && minimum >= 10.0 && maximum < TOLERANCE,
            "{count} from {minimum} to {maximum} ms"
        );
    }
    assert!(duration[0] <= round_trip[0], "{duration:?} of {round_trip:?}");
    assert_eq!(windows.windows.last().unwrap()["type"], "sensor_msgs/srv/SetCameraInfo");
    node.end();
}

/// A callback of rclpy that sleeps receives no `/clock`: on its clock it takes no time.
#[test]
fn calls_on_simulated_time_take_real_time() {
    let mut simulator = Program::start("simulator.py", &["--speed", "0.5", "--start", "2000"], domain());
    simulator.send("begin");
    let simulated = ["--ros-args", "-p", "use_sim_time:=true"];
    let start = |role, milliseconds| {
        let arguments = [&[role, milliseconds, "METADATA"], &simulated[..]].concat();
        Program::start("introspected.py", &arguments, domain())
    };
    let (_server, mut client) = (start("server", "30"), start("client", "-"));
    let mut windows = Windows::start(&["--services", "serve"], 2);
    let own = own_round_trip(&client.request("20 40"));
    assert_eq!(windows.count("responses", 20.0), 20.0);
    let [mean, _, _, count] = windows.samples("round_trip_ms");
    // By the times of reception.
    let is_right = (own[0] - EARLIER..own[1] + EARLIER).contains(&mean);
    assert!(count == 20.0 && is_right, "{mean} ms; the client has {own:?}");
    let [mean, _, _, count] = windows.samples("response_duration_ms");
    assert!(count == 20.0 && (30.0 - EARLIER..own[1]).contains(&mean), "{mean} ms");
    for unknown in ["request_delay_ms", "response_delay_ms"] {
        assert_eq!(windows.samples(unknown)[3], 0.0, "{unknown}");
    }
}

#[test]
fn what_the_service_alone_tells_is_known_and_the_rest_is_not() {
    let (_server, mut client) = (server("20", "METADATA"), client("OFF"));
    let mut windows = Windows::start(&["--services"], 1);
    client.request("10 0");
    assert_eq!(windows.count("requests", 10.0), 10.0);
    let [_, minimum, _, count] = windows.samples("response_duration_ms");
    assert!(count == 10.0 && minimum >= 20.0 - EARLIER, "{count} from {minimum} ms");
    for unknown in ["calls", "responses", "round_trip_ms", "request_delay_ms", "response_delay_ms"] {
        assert_eq!(windows.samples(unknown)[3], 0.0, "{unknown}");
    }
}

#[test]
fn a_call_to_a_stuck_service_waits_and_conditions_are_about_it() {
    let (server, mut client) = (server("0", "METADATA"), client("METADATA"));
    let mut windows = Windows::start(&["--services"], 2);
    client.request("5 0");
    windows.count("responses", 5.0);
    let healthy = ["--services", "--require", "serve: round_trip<1s oldest_call<1s", "--duration", "60"];
    let asked = std::thread::spawn({
        let domain = domain();
        move || run(&healthy, domain)
    });
    // A request in each of its windows.
    while !asked.is_finished() {
        client.request("1 100");
    }
    let output = asked.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    server.signal("STOP");
    client.send("1 0");
    windows.read_until("a call that waits for 2 s", |windows| {
        windows.last().unwrap()["metrics"]["oldest_call_ms"]["mean"].as_f64() > Some(2000.0)
    });
    assert_eq!(windows.windows.last().unwrap()["metrics"]["active_requests"]["mean"], 1.0);
    server.signal("CONT");
    client.read("the answer at last");
    windows.read_until("no call that waits", |windows| {
        windows.last().unwrap()["metrics"]["oldest_call_ms"]["mean"] == 0.0
    });
}

#[test]
fn a_service_without_introspection_is_told_how_to_switch_it_on() {
    let _server = server("0", "OFF");
    let monitor = Json::start(&["--services", "serve", "nothing"], domain());
    monitor.until_error("there is no service /nothing yet");
    let line = monitor.until_error("/serve publishes no events");
    assert!(line.contains("configure_introspection of rclcpp, rclpy and rclrs"), "{line}");
}

#[test]
fn the_goals_of_an_action_have_their_outcomes_and_durations() {
    let _server = Program::start("action_server.py", &[], domain());
    let mut client = Program::start("action_client.py", &[], domain());
    // An action has no status before its first goal, and this is from before the monitor.
    assert_eq!(client.request("act 0 1"), "4");
    for round in 1.. {
        let mut windows = Windows::start(&["--actions"], 1);
        assert_eq!(client.request("act 300 2"), "4 4");
        assert_eq!(client.request("act 301 1"), "6");
        assert_eq!(client.request("act 60000 1 800"), "5");
        assert_eq!(client.request("act -1 1"), "rejected");
        assert_eq!(windows.count("canceled_goals", 1.0), 1.0);
        let counts = ["goals", "succeeded_goals", "aborted_goals", "dropped_goals"];
        assert_eq!(counts.map(|count| sum(&windows.windows, count)), [4.0, 2.0, 1.0, 0.0]);
        let last = windows.windows.last().unwrap();
        assert_eq!(last["type"], "test_msgs/action/Fibonacci");
        assert_eq!(last["metrics"]["active_goals"]["mean"], 0.0);
        let mut wrong = vec![];
        for (metric, injected, expected) in [
            ("goal_to_feedback_ms", 200.0, 4.0),
            ("goal_succeeded_ms", 500.0, 2.0),
            ("goal_aborted_ms", 501.0, 1.0),
            ("goal_canceled_ms", 800.0, 1.0),
        ] {
            let [_, minimum, maximum, count] = windows.samples(metric);
            // Feedback that a monitor takes before the goal's first status is not measured.
            let is_right = count == expected
                && minimum >= injected - EARLIER_BY_RECEPTION
                && maximum <= injected + TOLERANCE;
            if !is_right {
                wrong.push(format!("{metric}: {count} from {minimum} to {maximum} ms"));
            }
        }
        if wrong.is_empty() {
            return;
        }
        assert!(round < ROUNDS, "{wrong:?}");
    }
}

#[test]
fn lines_and_a_report_have_the_round_trip() {
    let (_server, mut client) = (server("30", "METADATA"), client("METADATA"));
    let page = tempfile::NamedTempFile::with_suffix(".html").unwrap();
    let domain = domain();
    let mut lines_of = |seconds: &'static str| {
        let path = page.path().to_str().unwrap().to_owned();
        let arguments =
            ["--services", "--plain", "--duration", seconds, "--report", &path].map(str::to_owned);
        let monitor = std::thread::spawn(move || run(&arguments.each_ref().map(String::as_str), domain));
        while !monitor.is_finished() {
            client.request("3 0");
        }
        let output = monitor.join().unwrap();
        eprintln!("{seconds} s: {}", text(&output.stderr));
        text(&output.stdout)
    };
    // On a busy machine, discovery takes longer than the shorter runs.
    let mut runs = ["6", "12", "24"].into_iter().map(&mut lines_of);
    let is_measured = |lines: &String| {
        lines.lines().filter(|line| line.starts_with("/serve")).any(|line| {
            let mean = line.split_whitespace().nth(4).unwrap();
            mean.parse::<f64>().is_ok_and(|mean| (30.0..30.0 + TOLERANCE).contains(&mean))
        })
    };
    let lines = runs.find(is_measured).expect("a round trip");
    assert!(lines.contains("round trip ms") && lines.contains("service  "), "{lines}");
    let page = std::fs::read_to_string(page.path()).unwrap();
    assert!(page.contains("round trip") && page.contains("Distribution of round_trip_ms"), "{page}");
}

#[test]
fn the_live_view_has_the_round_trips_and_their_parts_in_the_details() {
    let (_server, mut client) = (server("30", "METADATA"), client("METADATA"));
    let mut terminal = Terminal::start(&["--services"], domain());
    let has_figures = |text: &str| {
        let row = text.lines().find_map(|line| line.split_once("/serve ")).unwrap_or_default().1;
        let mean = row.split_whitespace().nth(2).and_then(|mean| mean.parse::<f64>().ok());
        mean.is_some_and(|mean| (30.0..30.0 + TOLERANCE).contains(&mean))
    };
    test_support::wait_for("a row with figures", || {
        client.request("5 0");
        has_figures(&terminal.text())
    });
    let list = terminal.text();
    for part in ["1 service  sort service", "round trip ms", "serve ms", "test_msgs/srv/BasicTypes"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    terminal.press("\r");
    terminal.wait("the parts", |text| {
        ["request_delay_ms", "response_duration_ms", "response_delay_ms"]
            .iter()
            .all(|part| text.contains(part))
    });
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}
