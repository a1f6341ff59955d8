// SPDX-License-Identifier: Apache-2.0

//! The program topic_monitor on a host whose clock is stepped.

use std::process::Command;

use serde_json::Value;
use test_support::{clock::SteppedClock, domain, node, program, wait_for, Process, LIMIT};

use crate::{Change, RIGHT, S};

/// Returns the wrong figures in topic_monitor's line about a topic with 20 Hz.
fn wrong_figures(line: &str) -> Vec<String> {
    let json: Value = serde_json::from_str(line).unwrap();
    let time = |name: &str| json[name].as_i64().unwrap();
    let mut wrong = vec![];
    let mut check = |name: &str, figure: &Value, is_right: bool| {
        if !is_right {
            wrong.push(format!("{name} {figure} in {line}"));
        }
    };
    let rate = &json["rate"];
    check("state", &json["state"], json["state"] == "good");
    check("rate", rate, rate.as_f64().is_some_and(|rate| (2.0..200.0).contains(&rate)));
    check("window", rate, (1..5 * S).contains(&(time("window_stop") - time("window_start"))));
    for part in ["metrics", "last_minute"] {
        for (metric, figures) in json[part].as_object().unwrap() {
            // The clock offset depends on the machine.
            for name in ["mean", "min", "p50", "p99", "max"].iter().filter(|_| metric != "clock_offset_ms") {
                let is_right = figures[name].as_f64().is_none_or(|figure| RIGHT.contains(&figure));
                check(&format!("{part} {metric} {name}"), &figures[name], is_right);
            }
        }
    }
    wrong
}

#[test]
fn topic_monitor_reports_no_wrong_value_after_clock_steps() {
    let Some(clock) = SteppedClock::new() else { return };
    let domain = domain();
    let command = |name: &str, arguments: &[&str]| -> Command {
        let mut command = test_support::command(program(name), arguments, domain);
        clock.preload(&mut command);
        command
    };
    let _talker = Process::spawn(&mut command("talker", &["--ros-args", "-p", "rate:=20.0"]));
    let _listener = Process::spawn(&mut command("listener", &[]));
    let arguments: [&[&str]; 2] = [&["imu", "--json", "--period", "0.25"], &["--json", "--from-statistics"]];
    let monitors = arguments
        .map(|arguments| (arguments, Process::spawn_printing(&mut command("topic_monitor", arguments))));
    let mut faults = vec![];
    let mut read = |number: usize, check: bool| {
        for (arguments, (_, output)) in &monitors {
            for _ in 0..number {
                let line = output.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no line of {arguments:?}"));
                let wrong = if check { wrong_figures(&line) } else { vec![] };
                faults.extend(wrong.into_iter().map(|wrong| format!("{arguments:?}: {wrong}")));
            }
        }
    };
    read(6, false); // these windows began before the first message
    for change in [Change::Step(-60), Change::Step(3600), Change::Step(-1), Change::Suspend(30)] {
        change.apply(&clock);
        read(6, true);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));

    let (_executor, node) = node("observer", &[]);
    let subscriptions = || node.count_subscriptions("/imu").unwrap();
    wait_for("listener and monitor", || subscriptions() == 2);
    let conditions = "rate>2 rate<200 period.max<5000 age.max<5000 age.min>-250 silent<5000";
    let arguments = ["imu", "--require", conditions, "--duration", "20"];
    let mut judge = Process::spawn(&mut command("topic_monitor", &arguments));
    wait_for("subscription", || subscriptions() == 3);
    clock.step(-3600 * S);
    // After a step back, topic_monitor does not wait until the clock reaches the old time again.
    assert_eq!(judge.wait().code(), Some(0));
}
