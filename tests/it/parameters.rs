// SPDX-License-Identifier: Apache-2.0

//! The ROS parameters of a node's statistics: at the start, and at run time.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{NodeStatistics, StatisticsError, TopicStatisticsOptions, TopicStatisticsState};
use ros_env::{rcl_interfaces::msg::Log, sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage};
use serde_json::{json, Value};
use test_support::{domain, nanoseconds, node, wait_for, Program, Spinning};

const ENABLED: &str = "topic_statistics.enabled";
const PUBLISH_PERIOD: &str = "topic_statistics.publish_period";
const PUBLISH_TOPIC: &str = "topic_statistics.publish_topic";

/// Creates a node with these ROS arguments.
fn configured(arguments: &[&str]) -> (Executor, Node) {
    node("configured", &[&["--ros-args"], arguments].concat())
}

/// Subscribes to a topic of statistics. Returns the ends of the received windows, in nanoseconds.
fn window_ends(node: &Node, topic: &str) -> (Arc<Mutex<Vec<i64>>>, Subscription<MetricsMessage>) {
    let ends = Arc::new(Mutex::new(vec![]));
    let to = Arc::clone(&ends);
    let subscription = node
        .create_subscription::<MetricsMessage, _>(topic.keep_last(1000), move |message: MetricsMessage| {
            if message.metrics_source == "message_age" {
                to.lock().unwrap().push(nanoseconds(&message.window_stop));
            }
        })
        .unwrap();
    (ends, subscription)
}

/// Waits for windows of a length, in seconds. The first windows may have the previous length.
fn wait_for_windows(what: &str, ends: &Mutex<Vec<i64>>, length: f64) {
    wait_for(&format!("{what}, of {length} s"), || {
        let ends = ends.lock().unwrap();
        let [.., before, last] = ends[..] else { return false };
        ends.len() >= 4 && ((last - before) as f64 * 1e-9 - length).abs() < 0.5 * length
    });
}

#[test]
fn parameters_of_the_command_line_override_the_nodes_options() {
    let arguments =
        ["-p", "topic_statistics.publish_period:=0.2", "-p", "topic_statistics.publish_topic:=~/own"];
    let (executor, node) = configured(&arguments);
    let options =
        TopicStatisticsOptions::new().publish_period(Duration::from_secs(60)).publish_topic("other");
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let _imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let (ends, _subscription) = window_ends(&node, "/configured/own");
    let _spinning = Spinning::start(executor);
    wait_for_windows("windows", &ends, 0.2);
    assert_eq!(node.count_publishers("/other").unwrap(), 0);
}

#[test]
fn a_parameter_file_is_read() {
    let file = std::env::temp_dir().join(format!("topic_statistics_{}.yaml", std::process::id()));
    std::fs::write(&file, "configured:\n  ros__parameters:\n    topic_statistics:\n      enabled: false\n")
        .unwrap();
    let (executor, node) = configured(&["--params-file", file.to_str().unwrap()]);
    let statistics = NodeStatistics::new(&node).unwrap();
    let logged = Arc::new(Mutex::new(vec![]));
    let to = Arc::clone(&logged);
    let _rosout = node
        .create_subscription::<Log, _>("/rosout".keep_last(100).transient_local(), move |log: Log| {
            to.lock().unwrap().push(log.msg)
        })
        .unwrap();
    let imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(!imu.is_enabled());
    statistics.set_state(TopicStatisticsState::Enable);
    assert!(imu.is_enabled());
    let _spinning = Spinning::start(executor);
    let disabled = "Topic statistics are disabled by the parameter topic_statistics.enabled";
    wait_for("the line in the node's log", || logged.lock().unwrap().iter().any(|text| text == disabled));
}

#[test]
fn an_integer_is_accepted_as_publish_period() {
    let (_executor, node) = configured(&["-p", "topic_statistics.publish_period:=5"]);
    drop(NodeStatistics::new(&node).unwrap());
}

#[test]
fn an_invalid_value_at_the_start_is_an_error_with_the_name_the_value_and_the_rule() {
    let wrong = [
        (
            PUBLISH_PERIOD,
            "0.0",
            "A publish period of 0 s is not possible: it has to be from 0.001 to 86400.0 s",
        ),
        (PUBLISH_PERIOD, "-1.5", "-1.5 s is not possible"),
        (PUBLISH_PERIOD, "86401.0", "86401 s is not possible"),
        (PUBLISH_PERIOD, ".nan", "NaN s is not possible"),
        (PUBLISH_PERIOD, "soon", "is a number of seconds, like 1.0"),
        (ENABLED, "7", "it has to be true or false"),
        (PUBLISH_TOPIC, "7", "it has to be a topic name"),
    ];
    for (name, value, rule) in wrong {
        let (_executor, node) = configured(&["-p", &format!("{name}:={value}")]);
        let error = NodeStatistics::new(&node).err().unwrap();
        let StatisticsError::InvalidParameter { name: reported, node: of_node, reason } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((*reported, of_node.as_str()), (name, "/configured"), "{error}");
        assert!(reason.contains(rule), "{error}");
        assert_eq!(node.count_publishers("/statistics").unwrap(), 0, "nothing is created: {error}");
    }
    let (_executor, node) = configured(&["-p", "topic_statistics.publish_topic:=no topic"]);
    let error = NodeStatistics::new(&node).err().unwrap();
    assert!(
        matches!(&error, StatisticsError::CreatePublisher { topic, .. } if topic == "no topic"),
        "{error}"
    );
}

#[test]
fn enabled_and_publish_period_can_be_set_at_run_time_and_invalid_values_are_rejected() {
    let (executor, node) = configured(&[]);
    let options = TopicStatisticsOptions::new().publish_period(Duration::from_millis(500));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let (ends, _subscription) = window_ends(&node, "/statistics");
    let _spinning = Spinning::start(executor);
    let mut operator = Program::start("parameters.py", &["/configured"], domain());
    let mut request =
        |command: Value| -> Value { serde_json::from_str(&operator.request(&command.to_string())).unwrap() };
    let windows = |what: &str, length: f64| {
        ends.lock().unwrap().clear();
        wait_for_windows(what, &ends, length);
    };

    windows("windows of the options' length", 0.5);
    assert_eq!(request(json!(["get", PUBLISH_PERIOD])), 0.5);
    assert_eq!(request(json!(["set", PUBLISH_PERIOD, 0.1])), json!([true, ""]));
    windows("shorter windows", 0.1);
    assert_eq!(request(json!(["set", PUBLISH_PERIOD, 1])), json!([true, ""]), "a whole number");
    windows("longer windows", 1.0);

    for (value, rule) in [
        (json!(0.0), "A publish period of 0 s is not possible: it has to be from 0.001 to 86400.0 s"),
        (json!(-1), "-1 s is not possible"),
        (json!(1e9), "1000000000 s is not possible"),
        (json!("soon"), "A publish period is a number of seconds, like 1.0"),
        (json!(true), "A publish period is a number of seconds, like 1.0"),
    ] {
        let answer = request(json!(["set", PUBLISH_PERIOD, value]));
        assert_eq!(answer[0], false, "{value}");
        assert!(answer[1].as_str().unwrap().contains(rule), "{value}: {answer}");
        assert_eq!(request(json!(["get", PUBLISH_PERIOD])), 1, "the old value is kept");
    }
    assert_eq!(request(json!(["set", PUBLISH_TOPIC, "elsewhere"])), json!([false, "Parameter is read only"]));
    assert_eq!(request(json!(["get", PUBLISH_TOPIC])), "/statistics");
    assert_eq!(request(json!(["set", ENABLED, 7]))[0], false);

    assert_eq!(request(json!(["set", ENABLED, false])), json!([true, ""]));
    assert!(!imu.is_enabled());
    assert_eq!(request(json!(["set", PUBLISH_PERIOD, 0.1])), json!([true, ""]), "set while disabled");
    ends.lock().unwrap().clear();
    assert_eq!(request(json!(["set", ENABLED, true])), json!([true, ""]));
    assert!(imu.is_enabled());
    windows("windows again", 0.1);

    // Values that the program sets are visible as parameters.
    statistics.set_state(TopicStatisticsState::Disable);
    statistics.set_publish_period(Duration::from_secs(3)).unwrap();
    assert_eq!(request(json!(["get", ENABLED])), false);
    assert_eq!(request(json!(["get", PUBLISH_PERIOD])), 3.0);
    let descriptor = request(json!(["describe", PUBLISH_PERIOD]));
    assert!(descriptor[0].as_str().unwrap().starts_with("Seconds"), "{descriptor}");
    assert!(descriptor[1].as_str().unwrap().contains("0.001 to 86400"), "{descriptor}");
    assert_eq!(request(json!(["describe", PUBLISH_TOPIC]))[2], true);
}

#[test]
fn the_second_statistics_of_a_node_use_their_options_and_no_parameters() {
    let (_executor, node) = configured(&["-p", "topic_statistics.enabled:=false"]);
    let first = NodeStatistics::new(&node).unwrap();
    let second = NodeStatistics::new(&node).unwrap();
    let [of_first, of_second] =
        [&first, &second].map(|statistics| statistics.create_subscription("imu", |_: Imu| ()).unwrap());
    assert!(!of_first.is_enabled() && of_second.is_enabled());
    second.set_state(TopicStatisticsState::Disable);
    second.set_publish_period(Duration::from_secs(2)).unwrap();
    assert!(!of_second.is_enabled());
    drop(first);
    // The parameters can be declared again.
    drop(NodeStatistics::new(&node).unwrap());
}
