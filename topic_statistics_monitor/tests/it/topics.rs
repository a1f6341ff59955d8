// SPDX-License-Identifier: Apache-2.0

//! Which topics are subscribed to, and how.

use std::cell::Cell;

use rclrs::{CreateBasicExecutor, QoSReliabilityPolicy};
use serde_json::Value;
use test_support::{context, domain, middleware, wait_for, Program};

use crate::run::{command, objects, text, Json};

#[test]
fn best_effort_and_transient_local_topics_are_subscribed_to() {
    let domain = domain();
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let monitor = Json::start(&[], domain);
    let weak = monitor.until("best effort", |json| json["topic"] == "/best_effort" && json["received"] == 3);
    assert!(weak["qos"].as_str().unwrap().starts_with("best effort, volatile"), "{weak}");
    if !middleware::lacks_sequence_numbers("losses of a best-effort topic") {
        assert_eq!(weak["lost"], 0, "{weak}");
    }
    assert!(weak["metrics"]["message_age"]["mean"].as_f64().unwrap() < 1000.0, "{weak}");
    let latched =
        monitor.until("latched", |json| json["topic"] == "/latched" && json["total"]["received"] == 1);
    assert!(latched["qos"].as_str().unwrap().starts_with("reliable, transient local"), "{latched}");
    assert!(latched["metrics"]["message_age"]["mean"].is_null(), "{latched}");

    // A topic that appears later, and then a publisher that cannot serve its subscription.
    assert_eq!(publisher.request("late"), "done");
    let late = monitor.until("late", |json| json["topic"] == "/late" && json["received"].as_u64() > Some(1));
    assert!(late["qos"].as_str().unwrap().starts_with("reliable, volatile"), "{late}");
    assert_eq!(publisher.request("late"), "done");
    let two = |json: &Value| json["senders"].as_array().is_some_and(|senders| senders.len() == 2);
    // Those that have sent, and those of the graph, which is read at most once a second.
    monitor.until("two publishers", |json| json["topic"] == "/late" && two(json) && json["publishers"] == 2);
    assert_eq!(publisher.request("end"), "done");
    monitor.until("one publisher", |json| json["topic"] == "/late" && json["publishers"] == 1);
    assert_eq!(publisher.request("weak"), "done");
    // Publishers and totals have the same counts before and after it, also the publisher that has ended.
    let counts = |json: &Value| {
        let received = |object: &Value| object["received"].as_u64().unwrap();
        let senders: u64 = json["senders"].as_array().unwrap().iter().map(received).sum();
        (senders, received(&json["total"]))
    };
    let last_before = Cell::new(counts(&late));
    let again = monitor.until("a new subscription", |json| {
        if json["topic"] == "/late" && json["window_stop"].is_i64() {
            last_before.set(counts(json));
        }
        json["topic"] == "/late" && json["resubscribed"].is_object()
    });
    assert_eq!(again["resubscribed"]["type"], "std_msgs/msg/Int32", "{again}");
    assert!(again["resubscribed"]["qos"].as_str().unwrap().starts_with("best effort, volatile"), "{again}");
    monitor.until_error("/late: subscribed again, best effort, volatile");
    // Totals and publishers are read one after the other: a message that arrives between is in one of them only.
    let both = monitor.until("both, with equal counts", |json| {
        json["topic"] == "/late" && json["received"].as_u64() > Some(4) && json["publishers"] == 2 && {
            let (senders, total) = counts(json);
            senders == total
        }
    });
    assert!(both["qos"].as_str().unwrap().starts_with("best effort"), "{both}");
    assert_eq!(both["senders"].as_array().unwrap().len(), 3, "{both}");
    assert!(counts(&both).1 > last_before.get().1, "{last_before:?} before {both}");
}

#[test]
fn topics_that_come_and_go_take_a_bounded_number_of_threads() {
    let domain = domain();
    let mut publisher = Program::start("topics.py", &[], domain);
    assert_eq!(publisher.request("add /keep /a0 /a1 /a2"), "done");
    let monitor = Json::start(&["--max-topics", "3"], domain);
    monitor.until_error("1 left out (--max-topics)");
    let mut most = 0;
    for round in 0..8 {
        let new = format!("/b{round}");
        let old: Vec<String> = if round == 0 {
            vec!["/a0".to_owned(), "/a1".to_owned(), "/a2".to_owned()]
        } else {
            vec![format!("/b{}", round - 1)]
        };
        assert_eq!(publisher.request(&format!("remove {}", old.join(" "))), "done");
        assert_eq!(publisher.request(&format!("add {new}")), "done");
        monitor.until(&new, |json| json["topic"] == *new && json["received"].as_u64() > Some(0));
        if round == 1 {
            most = monitor.threads();
        }
    }
    assert!(monitor.threads() <= most + 1, "{} threads, {most} before", monitor.threads());
    monitor.until("/keep", |json| json["topic"] == "/keep");
}

#[test]
fn best_effort_is_requested_of_reliable_publishers_too_if_that_is_wanted() {
    let domain = domain();
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    assert_eq!(publisher.request("late"), "done");
    let monitor = Json::start(&["--best-effort", "late"], domain);
    let late = monitor.until("late", |json| json["received"].as_u64() > Some(1));
    assert_eq!(late["qos"], "best effort, volatile, depth 1000");
    // In the middleware's words.
    let observer = context(domain, &[]).create_basic_executor().create_node("observer").unwrap();
    wait_for("a subscription", || !observer.get_subscriptions_info_by_topic("/late").unwrap().is_empty());
    let subscribed = observer.get_subscriptions_info_by_topic("/late").unwrap();
    let reliability: Vec<_> =
        subscribed.iter().map(|subscription| subscription.qos_profile.reliability).collect();
    assert_eq!(reliability, [QoSReliabilityPolicy::BestEffort]);
    // A publisher that offers no more than best effort needs no other subscription.
    assert_eq!(publisher.request("weak"), "done");
    monitor.until("two publishers", |json| {
        assert!(json["resubscribed"].is_null(), "{json}");
        json["senders"].as_array().is_some_and(|senders| senders.len() == 2)
    });
}

#[test]
fn an_unknown_type_names_the_package_that_is_missing() {
    let domain = domain();
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    assert_eq!(publisher.request("unknown"), "done");
    // A prefix with the markers of all packages but test_msgs, and with the files that these packages share:
    // rmw_zenoh_cpp, for example, reads its configuration there.
    let prefix = std::env::temp_dir().join(format!("topic_monitor-{}", std::process::id()));
    let index = prefix.join("share/ament_index/resource_index/packages");
    std::fs::create_dir_all(&index).unwrap();
    for whole in std::env::split_paths(&std::env::var_os("AMENT_PREFIX_PATH").unwrap()) {
        let Ok(packages) = std::fs::read_dir(whole.join("share/ament_index/resource_index/packages")) else {
            continue;
        };
        for package in packages.flatten().filter(|package| package.file_name() != "test_msgs") {
            let _there_already = std::fs::write(index.join(package.file_name()), "");
            let share = std::path::Path::new("share").join(package.file_name());
            let _there_already = std::os::unix::fs::symlink(whole.join(&share), prefix.join(share));
        }
        if whole.join("lib/libtest_msgs__rosidl_typesupport_c.so").exists() {
            let _there_already = std::os::unix::fs::symlink(whole.join("lib"), prefix.join("lib"));
        }
    }
    let output = command(&["unknown", "best_effort", "--duration", "15", "--json"], domain) // also on a busy machine
        .env("AMENT_PREFIX_PATH", &prefix)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&prefix).unwrap();
    let errors = text(&output.stderr);
    assert!(
        errors.contains("/unknown has the type test_msgs/msg/BasicTypes, and the package test_msgs"),
        "{errors}"
    );
    assert!(errors.contains("-test-msgs, or source the workspace that has test_msgs"), "{errors}");
    assert!(
        objects(&output).iter().any(|json| json["topic"] == "/best_effort"),
        "the others are shown: {errors}"
    );
    assert_eq!(output.status.code(), Some(0));
}
