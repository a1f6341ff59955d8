// SPDX-License-Identifier: Apache-2.0

//! Tests of which topics the monitor subscribes to, and with which QoS.

use std::{env, fs, os::unix::fs::symlink, path::Path};

use serde_json::Value;
use test_support::{domain, Program};

use crate::run::Json;

#[test]
fn the_qos_is_that_of_all_publishers() {
    let domain = domain();
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let monitor = Json::start(&[], domain);
    let has = |json: &Value, qos: &str| json["qos"].as_str().is_some_and(|text| text.starts_with(qos));
    for (topic, qos) in [("/best_effort", "best effort, volatile"), ("/latched", "reliable, transient local")]
    {
        let window = monitor.until_of(topic, |json| json["total"]["received"].as_u64() > Some(0));
        assert!(has(&window, qos), "{window}");
    }

    // A topic appears later. Then a publisher of this topic appears that cannot serve the monitor's subscription.
    assert_eq!(publisher.request("late"), "done");
    let wanted = Json::start(&["--best-effort", "late"], domain);
    let late = monitor.until_of("/late", |json| json["received"].as_u64() > Some(0));
    assert!(has(&late, "reliable, volatile"), "{late}");
    let late = wanted.until_of("/late", |json| json["received"].as_u64() > Some(0));
    assert_eq!(late["qos"], "best effort, volatile, depth 1000");
    assert_eq!(publisher.request("weak"), "done");
    let mut before = 0;
    let again = monitor.until("a new subscription", |json| {
        if json["topic"] == "/late" && json["window_stop"].is_i64() {
            before = json["total"]["received"].as_u64().unwrap();
        }
        json["topic"] == "/late" && json["resubscribed"].is_object()
    });
    assert_eq!(again["resubscribed"]["type"], "std_msgs/msg/Int32", "{again}");
    assert!(has(&again["resubscribed"], "best effort, volatile"), "{again}");
    monitor.until_error("/late: subscribed again, best effort, volatile");
    let is_two = |json: &Value| {
        json["publishers"] == 2 && json["senders"].as_array().is_some_and(|all| all.len() == 2)
    };
    let both = monitor.until_of("/late", is_two);
    assert!(both["total"]["received"].as_u64() > Some(before), "the totals continue: {before} {both}");
    wanted.until("two publishers", |json| {
        assert!(json["resubscribed"].is_null(), "{json}");
        is_two(json)
    });
    assert_eq!(publisher.request("end"), "done");
    monitor.until_of("/late", |json| json["publishers"] == 1);
}

#[test]
fn a_missing_package_is_named_and_other_topics_are_shown() {
    let domain = domain();
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    assert_eq!(publisher.request("unknown"), "done");
    // The test creates an ament prefix (a directory of installed packages) with the markers and share directories of
    // all packages except test_msgs.
    let prefix = tempfile::tempdir().unwrap();
    let index = Path::new("share/ament_index/resource_index/packages");
    fs::create_dir_all(prefix.path().join(index)).unwrap();
    for whole in env::split_paths(&env::var_os("AMENT_PREFIX_PATH").unwrap()) {
        let packages = fs::read_dir(whole.join(index)).into_iter().flatten().flatten();
        for package in packages.map(|entry| entry.file_name()).filter(|name| name != "test_msgs") {
            let share = Path::new("share").join(&package);
            let _there_already = fs::write(prefix.path().join(index).join(package), "");
            let _there_already = symlink(whole.join(&share), prefix.path().join(share));
        }
        if whole.join("lib/libtest_msgs__rosidl_typesupport_c.so").exists() {
            let _there_already = symlink(whole.join("lib"), prefix.path().join("lib"));
        }
    }
    let mut command = Json::command(&["unknown", "best_effort"], domain);
    command.env("AMENT_PREFIX_PATH", prefix.path());
    let mut monitor = Json::spawn(command);
    let line = monitor.until_error("/unknown has the type test_msgs/msg/BasicTypes");
    assert!(line.contains("-test-msgs, or source the workspace that has test_msgs"), "{line}");
    monitor.until_of("/best_effort", |json| json["received"].as_u64() > Some(0));
    assert_eq!(monitor.end("INT"), Some(0));
}

#[test]
fn topics_that_come_and_go_leave_no_threads() {
    let domain = domain();
    let mut publisher = Program::start("topics.py", &[], domain);
    assert_eq!(publisher.request("add /keep /a0 /a1 /b0"), "done");
    let monitor = Json::start(&["--max-topics", "3"], domain);
    monitor.until_error("1 left out (--max-topics)");
    assert_eq!(publisher.request("remove /a0 /a1"), "done");
    let threads = || fs::read_dir(format!("/proc/{}/task", monitor.process.id())).unwrap().count();
    let mut most = 0;
    for round in 0..8 {
        assert_eq!(publisher.request(&format!("remove /b{round}")), "done");
        let new = format!("/b{}", round + 1);
        assert_eq!(publisher.request(&format!("add {new}")), "done");
        monitor.until_of(&new, |json| json["received"].as_u64() > Some(0));
        if round == 1 {
            most = threads();
        }
    }
    assert!(threads() <= most + 1, "{} threads, {most} before", threads());
    monitor.until_of("/keep", |_| true);
}
