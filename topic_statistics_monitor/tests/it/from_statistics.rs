// SPDX-License-Identifier: Apache-2.0

//! `--from-statistics`: the messages of nodes, and of anybody.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use rclrs_topic_statistics::{MeasuredExecutor, NodeStatistics};
use serde_json::Value;
use test_support::{context, domain, program, wait_for, Process, Program, Spinning};

use crate::{
    output::wait_until_full,
    run::{command, run, text, Json, FAST},
    terminal::Terminal,
};

#[test]
fn the_statistics_of_other_nodes_are_shown() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let _listener = Process::start(program("listener"), &[], domain);
    let monitor = Json::start(&["--from-statistics", "/listener:/imu"], domain);
    let imu = monitor.until("statistics of imu at 50 Hz", |json| {
        let age = &json["metrics"]["message_age"];
        let period = json["metrics"]["message_period"]["mean"].as_f64().unwrap_or_default();
        let rate = json["rate"].as_f64().unwrap_or_default();
        age["count"].as_u64() > Some(40) && (15.0..25.0).contains(&period) && (40.0..60.0).contains(&rate)
    });
    assert_eq!(imu["topic"], "/listener:/imu");

    let mut terminal = Terminal::start(&["--from-statistics"], domain);
    terminal.wait("sources", |text| text.contains("/listener:/imu") && text.contains("/listener:/chatter"));
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn the_details_of_an_executor_name_the_callbacks_that_wait_and_those_that_make_them_wait() {
    let domain = domain();
    let executor = context(domain, &[]).create_executor(MeasuredExecutor::single_threaded());
    let node = executor.create_node("robot").unwrap();
    let _statistics = NodeStatistics::new(&node).unwrap();
    let block = || std::thread::sleep(Duration::from_millis(50));
    let _timers = [
        node.create_timer_repeating(Duration::from_millis(10), || {}).unwrap(),
        node.create_timer_repeating(Duration::from_millis(200), block).unwrap(),
    ];
    let _spinning = Spinning::start(executor);
    let mut terminal = Terminal::start(&["--from-statistics"], domain);
    terminal.wait("the executor", |text| text.contains("/robot:executor"));
    terminal.press("\r");
    terminal.wait("the callbacks", |text| {
        text.contains("busy: spin ")
            && text.contains("longest: timer 200ms on spin, ")
            && text.contains("timer 10ms waited ")
            && text.contains(" ms for timer 200ms")
            && text.contains("longest_callback_ms")
    });
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn sources_are_named_by_node_and_topic_in_patterns_and_conditions() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let robot = |namespace: &str| {
        let namespace = format!("__ns:={namespace}");
        let arguments = ["--ros-args", "-r", &*namespace, "-r", "imu:=/imu"];
        Process::start(program("listener"), &arguments, domain)
    };
    let _robots = [robot("/r1"), robot("/r2")];
    let monitor = Json::start(&["--from-statistics", "/*/listener:/imu"], domain);
    let is_at_50_hz = |json: &Value| (40.0..60.0).contains(&json["rate"].as_f64().unwrap_or_default());
    for source in ["/r1/listener:/imu", "/r2/listener:/imu"] {
        monitor.until(source, |json| json["topic"] == source && is_at_50_hz(json));
    }
    for (condition, status) in [
        ("/r1/listener:/imu: rate>5 /r2/listener:/imu:rate<500", Some(0)),
        ("/r1/listener:/imu:rate>500", Some(1)),
        ("/r3/listener:/imu: rate>5", Some(1)),
    ] {
        let duration = if status == Some(0) { "50" } else { "4" };
        let output = run(&["--from-statistics", "--require", condition, "--duration", duration], domain);
        assert_eq!(output.status.code(), status, "{condition}: {}", text(&output.stderr));
    }
}

#[test]
fn no_name_from_the_network_reaches_the_terminal_unescaped() {
    let domain = domain();
    let mut foreign = Program::start("foreign_statistics.py", &[], domain);
    let child = command(&["--from-statistics", "--plain"], domain)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let (output, errors) = (
        test_support::lines(child.stdout.take().unwrap()),
        test_support::lines(child.stderr.take().unwrap()),
    );
    let _monitor = Process::from(child);
    let mut lines: Vec<String> = vec![];
    wait_for("lines of the names, and a report of the one that is too long", || {
        assert_eq!(foreign.request("names"), "done");
        lines.extend(output.try_iter().chain(errors.try_iter()));
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        has("\\u{1b}") && has("zzz") && has("messages dropped")
    });
    assert!(
        !lines.iter().any(|line| line.contains(|c: char| c.is_control() || c == '\u{202e}')),
        "{lines:#?}"
    );
    assert!(lines.iter().all(|line| !line.starts_with("/imu") && line.chars().count() < 200), "{lines:#?}");

    let monitor = Json::start(&["--from-statistics"], domain);
    let hostile = "x\u{1b}]0;PWNED\u{7}\u{1b}[2J\n/imu 1 100.0\u{7f}\u{9b}\u{202e}";
    let mut line = String::new();
    wait_for("the name in JSON", || {
        assert_eq!(foreign.request("names"), "done");
        line = monitor.lines.try_iter().find(|line| line.contains("PWNED")).unwrap_or_default();
        !line.is_empty()
    });
    assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["topic"], hostile);
}

#[test]
fn hostile_figures_and_more_sources_than_there_is_room_for_do_no_harm() {
    let domain = domain();
    let mut foreign = Program::start("foreign_statistics.py", &[], domain);
    let monitor = Json::start(&["--from-statistics", "--max-topics", "40"], domain);
    wait_for("windows of a liar", || {
        assert_eq!(foreign.request("numbers"), "done");
        monitor.lines.try_iter().any(|line| line.contains("\"topic\":\"liar\""))
    });
    wait_for("report of what is left out", || {
        assert_eq!(foreign.request("sources 100"), "done");
        monitor.errors.try_iter().any(|line| line.contains("left out (--max-topics)"))
    });
    let mut sources = std::collections::BTreeSet::new();
    let started = Instant::now();
    while sources.len() < 39 {
        assert!(started.elapsed() < test_support::LIMIT, "{sources:?}");
        assert_eq!(foreign.request("sources 100"), "done");
        let objects = monitor.lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        sources.extend(objects.map(|json| json["topic"].as_str().unwrap().to_owned()));
    }
    assert!(sources.len() <= 40, "{sources:?}");
}

#[test]
fn distributions_are_merged_and_hostile_ones_are_refused() {
    let domain = domain();
    let mut foreign = Program::start("foreign_statistics.py", &[], domain);
    let monitor = Json::start(&["--from-statistics"], domain);
    let window = |foreign: &mut Program| {
        let mut last = Value::Null;
        wait_for("window", || {
            assert_eq!(foreign.request("window"), "done");
            let objects = monitor.lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
            last = objects.last().unwrap_or_default();
            last["topic"] == "/honest:/imu"
        });
        last
    };
    assert!(window(&mut foreign)["last_minute"]["message_age"].is_null());
    // Its subscription to distributions may be matched later than that to metrics: once a lie is received, it is.
    wait_for("a refusal", || {
        assert_eq!(foreign.request("lies"), "done");
        monitor.errors.try_iter().any(|line| {
            line.contains("invalid distributions, the last one message_age of /honest:/imu: ")
                || line.contains(
                    "invalid distributions, the last one jitter\\u{1b}[2J of /honest:/imu: not a metric",
                )
                || line.contains("invalid distributions, the last one a name has 100000 bytes")
        })
    });
    assert_eq!(foreign.request("distributions"), "done");
    let mut ages = Value::Null;
    wait_for("both windows", || {
        ages = window(&mut foreign)["last_minute"]["message_age"].clone();
        ages["count"].as_u64() >= Some(1180)
    });
    // Each of the other messages was a lie. Of 1180 ages, 92 % are 1 ms. The averages of both windows' percentiles are
    // 50.5 ms.
    let expected = |ages: &Value| {
        assert_eq!((&ages["count"], &ages["unit"]), (&1180.into(), &"ms".into()));
        assert_eq!((&ages["min"], &ages["max"]), (&1.0.into(), &100.0.into()));
        let quantile = |name: &str| ages[name].as_f64().unwrap();
        // The scale is 4: an error of 4.4 %.
        assert!((quantile("p50") - 1.0).abs() < 0.044 && (quantile("p90") - 1.0).abs() < 0.044, "{ages}");
        assert!((quantile("p99") - 100.0).abs() < 4.4 && (quantile("p99_9") - 100.0).abs() < 4.4, "{ages}");
    };
    expected(&ages);
    (0..3).for_each(|_| assert_eq!(foreign.request("lies"), "done"));
    expected(&window(&mut foreign)["last_minute"]["message_age"]);
}

#[test]
fn the_distributions_of_a_node_are_shown() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let distributions = ["--ros-args", "-p", "topic_statistics.distributions:=true"];
    let _listener = Process::start(program("listener"), &distributions, domain);
    let monitor = Json::start(&["--from-statistics", "/listener:/imu"], domain);
    let is_of = |json: &Value, metric: &str| {
        let last_minute = &json["last_minute"][metric];
        let [min, p50, p99, max] =
            ["min", "p50", "p99", "max"].map(|name| last_minute[name].as_f64().unwrap_or(f64::NAN));
        last_minute["count"].as_u64() >= Some(100) && min <= p50 && p50 <= p99 && p99 <= max
    };
    let imu =
        monitor.until("percentiles", |json| is_of(json, "message_age") && is_of(json, "message_period"));
    let p50 = imu["last_minute"]["message_period"]["p50"].as_f64().unwrap();
    assert!((15.0..25.0).contains(&p50), "a period of 20 ms: {imu}");
    let conditions = "/listener:/imu: period.p50>15 /listener:/imu: age.p99<10000";
    let output = run(&["--from-statistics", "--require", conditions, "--duration", "50"], domain);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Returns the resident memory of a process, in kB.
fn memory(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let held = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    held.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_flood_of_statistics_is_bounded_while_nobody_reads_what_it_writes() {
    let domain = domain();
    let mut foreign = Program::start("foreign_statistics.py", &[], domain);
    let mut child = command(&["--from-statistics", "--json"], domain)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (output, errors) = (child.stdout.take().unwrap(), test_support::lines(child.stderr.take().unwrap()));
    let monitor = Process::from(child);
    wait_for("many lines", || {
        assert_eq!(foreign.request("sources 900"), "done");
        rustix::io::ioctl_fionread(&output).unwrap() > 30_000
    });
    wait_until_full(&output);
    // More than the 10 000 that wait to be read and the 2000 that wait in the middleware.
    (0..12).for_each(|_| assert_eq!(foreign.request("flood 2000"), "done"));
    let memory = memory(monitor.id());
    assert!(memory < 300_000, "{memory} kB");
    let _lines = test_support::lines(output);
    wait_for("report of dropped messages", || {
        errors.try_iter().any(|line| line.contains("messages dropped"))
    });
}

#[test]
fn the_statistics_of_a_cpp_node_are_shown() {
    let domain = domain();
    let _node = Program::start("rclcpp_statistics.py", &[], domain);
    let monitor = Json::start(&["--from-statistics"], domain);
    // The monitor may discover the node after it has published the first metric of a window.
    let has = |json: &Value, metric: &str| json["metrics"][metric]["count"].is_number();
    let window = monitor.until("window", |json| {
        json["topic"] == "cpp_listener" && has(json, "message_age") && has(json, "message_period")
    });
    let figures = |metric: &str| {
        ["mean", "min", "max", "std_dev", "count"]
            .map(|figure| window["metrics"][metric][figure].as_f64().unwrap())
    };
    assert_eq!(figures("message_age"), [1.5, 0.5, 2.5, 0.25, 50.0]);
    assert_eq!(figures("message_period"), [20.0, 19.0, 21.0, 0.25, 50.0]);
    assert_eq!(window["rate"], 50.0);
    assert!(window["lost"].is_null() && window["publishers"].is_null(), "{window}");
    let healthy = run(
        &["--from-statistics", "--require", "age.max<3 period.min>18 rate=50", "--duration", "50"],
        domain,
    );
    assert_eq!(healthy.status.code(), Some(0), "{}", text(&healthy.stderr));
}
