//! What is dropped leaves the graph, and what cannot be created leaves nothing behind.

mod common;

use std::{
    error::Error as _,
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{NodeStatistics, StatisticsError};
use ros_env::sensor_msgs::msg::{rmw, Imu};

/// An executor on a domain of its own, and a node.
fn executor_and_node(name: &str, number: u32) -> (Executor, Node) {
    let options = InitOptions::new().with_domain_id(Some(common::domain(number) as usize));
    let context = Context::new(std::iter::empty::<String>(), options).unwrap();
    let executor = context.create_basic_executor();
    let node = executor.create_node(name).unwrap();
    (executor, node)
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < common::LIMIT, "no {what}");
        // Between two looks, each of which holds the node's lock.
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_dropped_subscription_and_dropped_statistics_leave_the_graph() {
    let (mut executor, node) = executor_and_node("dropping", 2);
    let commands = executor.commands().clone();
    let spinning = std::thread::spawn(move || drop(executor.spin(SpinOptions::default())));
    let statistics = NodeStatistics::new(&node).unwrap();
    let imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    assert_eq!(imu.topic_name(), "/imu");
    assert!(matches!(imu.qos().reliability, QoSReliabilityPolicy::Reliable));
    // The C layout is a message type like the idiomatic one.
    let raw = statistics.create_subscription("raw", |_: rmw::Imu, _: MessageInfo| ()).unwrap();
    assert_eq!(raw.topic_name(), "/raw");
    wait_for("publisher and subscription", || {
        node.count_publishers("/statistics").unwrap() == 1 && node.count_subscriptions("/imu").unwrap() == 1
    });

    drop(imu);
    wait_for("end of the subscription", || node.count_subscriptions("/imu").unwrap() == 0);
    assert_eq!(node.count_publishers("/statistics").unwrap(), 1);

    drop(statistics);
    wait_for("end of the publisher", || node.count_publishers("/statistics").unwrap() == 0);
    commands.halt_spinning();
    spinning.join().unwrap();
}

#[test]
fn a_topic_name_that_is_not_valid_is_an_error_with_the_name_and_creates_nothing() {
    let (_executor, node) = executor_and_node("failing", 3);
    let statistics = NodeStatistics::new(&node).unwrap();

    for name in ["", "1st topic", "imu/"] {
        let error = statistics.create_subscription(name, |_: Imu| ()).err().unwrap();
        assert!(
            matches!(&error, StatisticsError::CreateSubscription { topic, .. } if topic == name),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        assert!(error.to_string().contains("/failing") && error.source().is_some(), "{error}");
    }
    let names = node.get_topic_names_and_types().unwrap();
    assert!(!names.values().flatten().any(|name| name.contains("Imu")), "{names:?}");
}
