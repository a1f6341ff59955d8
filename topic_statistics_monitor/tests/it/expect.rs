// SPDX-License-Identifier: Apache-2.0

//! `--expect` and `--print-expectations`: topics compared with a file.

use std::{cell::Cell, fs, path::PathBuf, process::Output};

use serde_json::Value;
use test_support::{domain, program, wait_for, Process, Program};

use crate::{
    run::{run, text, Json, FAST},
    terminal::Terminal,
};

/// A file of expectations, and its directory.
fn file(text: &str) -> (PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("expect.yaml");
    fs::write(&path, text).unwrap();
    (path, directory)
}

/// Waits for the change of a topic to a level. Returns the object.
fn until_change(monitor: &Json, topic: &str, level: &str) -> Value {
    monitor.until(&format!("{topic} {level}"), |json| {
        json["topic"] == topic && json["change"]["to"]["level"] == level
    })
}

/// Waits for such a status on `/diagnostics`, which an rclpy node reads.
fn until_status(reader: &Program, name: &str, level: u8, is: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    wait_for(&format!("{name} with level {level}"), || {
        while let (None, Some(line)) = (&found, reader.try_read()) {
            let array: Value = serde_json::from_str(&line).unwrap();
            let mut statuses = array["status"].as_array().unwrap().iter();
            found = statuses
                .find(|status| status["name"] == name && status["level"] == level && is(status))
                .cloned();
        }
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_rate_that_falls_a_silent_topic_and_one_that_never_comes_are_reported() {
    let domain = domain();
    let (path, _directory) = file(
        "topics:\n  /imu:\n    warn_unless: rate=50±20%\n    error_unless: rate>=20\n    stale_after: 2\n\
         \x20 /never:\n    first_message_within: 1.5\n",
    );
    let talker = Process::start(program("talker"), &FAST, domain);
    let reader = Program::start("diagnostics.py", &[], domain);
    let arguments = ["--expect", path.to_str().unwrap(), "--diagnostics", "--hardware-id", "robot7"];
    let mut monitor = Json::start(&arguments, domain);
    let (imu_level, never) = (Cell::new(None), Cell::new(false));
    monitor.until("an imu that is as expected, and a topic that does not come", |json| {
        let is_stale = json["topic"] == "/never" && json["change"]["to"]["level"] == "STALE";
        never.set(never.get() || is_stale);
        if json["topic"] == "/imu" {
            imu_level.set(Some((json["health"]["level"] == "OK", json["state"] == "good")));
        }
        never.get() && imu_level.get() == Some((true, true))
    });

    drop(talker); // killed
    until_change(&monitor, "/imu", "STALE");

    let talker = Process::start(program("talker"), &FAST, domain);
    let back = until_change(&monitor, "/imu", "WARN");
    assert!(back["change"]["to"]["message"].as_str().unwrap().starts_with("messages again"), "{back}");
    until_change(&monitor, "/imu", "OK");

    drop(talker);
    let _slow = Process::start(program("talker"), &["--ros-args", "-p", "rate:=10.0"], domain);
    until_change(&monitor, "/imu", "ERROR");
    // The first windows of the change have some messages of the fast talker, or none.
    let slow = monitor.until("the rate of the slow talker", |json| {
        let health = &json["health"];
        let rate = health["value"].as_f64().unwrap_or_default();
        json["topic"] == "/imu" && health["level"] == "ERROR" && (8.0..12.0).contains(&rate)
    });
    let health = &slow["health"];
    assert_eq!((&health["condition"], &slow["state"]), (&"rate>=20".into(), &"error".into()));
    let message = health["message"].as_str().unwrap();
    assert!(message.starts_with("rate ") && message.contains("expected at least 20"), "{message}");
    monitor.until_error("/imu: ");
    let is_of_it = |status: &Value| {
        let rate: Option<f64> =
            status["values"]["Actual frequency (Hz)"].as_str().and_then(|rate| rate.parse().ok());
        rate.is_some_and(|rate| (8.0..12.0).contains(&rate))
    };
    let status = until_status(&reader, "topic_monitor: /imu", 2, is_of_it);
    assert_eq!(status["hardware_id"], "robot7");
    assert_eq!(status["values"]["Minimum acceptable frequency (Hz)"], "40.000000", "the limit of WARN");
    let never = until_status(&reader, "topic_monitor: /never", 3, |_| true);
    assert!(never["message"].as_str().unwrap().starts_with("no message yet"), "{never}");

    monitor.signal("INT");
    assert_eq!(monitor.end(), Some(1), "there was an error at the end");
    monitor.until_error("/imu: ERROR: rate ");
}

#[test]
fn what_is_printed_is_fulfilled_by_the_topics_and_shown_in_the_live_view() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    // On a busy machine, discovery takes longer than the shorter runs.
    let print = |seconds| run(&["--print-expectations=50", "--duration", seconds, "/imu"], domain);
    let is_measured = |printed: &Output| text(&printed.stdout).contains("\"/imu\":\n    warn_unless: rate=");
    let printed = ["4", "12", "24"].into_iter().map(print).find(is_measured).expect("a rate of imu");
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    let printed = text(&printed.stdout);
    let (path, _directory) = file(&printed);
    let path = path.to_str().unwrap();
    let output = run(&["--expect", path, "--duration", "4", "--json"], domain);
    assert_eq!(output.status.code(), Some(0), "{printed}{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("\"change\""), "{printed}{}", text(&output.stdout));

    let mut terminal = Terminal::start(&["--expect", path], domain);
    terminal
        .wait("the state", |text| text.lines().any(|line| line.contains("msg/Imu") && line.contains(" OK")));
    terminal.press("\r");
    terminal.wait("its reason", |text| text.contains("health      OK: as expected"));
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn sources_of_statistics_are_judged_too_and_a_wrong_file_is_refused() {
    let domain = domain();
    let (path, _directory) = file("topics: {'/listener:/imu': {error_unless: rate>=500}}");
    let path = path.to_str().unwrap();
    let refused = run(&["--expect", path], domain);
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("for --from-statistics"), "{}", text(&refused.stderr));

    let _talker = Process::start(program("talker"), &FAST, domain);
    let listener = Process::start(program("listener"), &[], domain);
    let reader = Program::start("diagnostics.py", &[], domain);
    let monitor = Json::start(&["--from-statistics", "--expect", path, "--diagnostics"], domain);
    until_change(&monitor, "/listener:/imu", "ERROR");
    until_status(&reader, "topic_monitor: /listener:/imu", 2, |status| {
        status["values"]["message_age.average"].is_string()
    });
    drop(listener);
    until_change(&monitor, "/listener:/imu", "STALE");

    let (path, _directory) = file("topics:\n  /imu: {error_unless: rate>=fast}");
    let refused = run(&["--expect", path.to_str().unwrap()], domain);
    assert!(text(&refused.stderr).contains("expect.yaml: line 2, column 30: "), "{}", text(&refused.stderr));
}
