// SPDX-License-Identifier: Apache-2.0

//! Incompatible publishers of a subscription are reported with the reason and the remedy.

use rclrs_topic_statistics::Incompatibility;

use crate::support::*;

#[test]
fn each_incompatible_publisher_is_reported_once_until_it_leaves() {
    if shares_its_process() || middleware::is_no_dds("publishers with an incompatible QoS") {
        return;
    }
    warnings::collect();
    let (executor, node, statistics) = measured("careful", TopicStatisticsOptions::new());
    let logged = Received::<Log>::on(&node, "/rosout".keep_last(100));
    let reliable = subscribe::<Imu>(&statistics, "imu".keep_last(10).reliable());
    let best_effort = subscribe::<Imu>(&statistics, "imu".keep_last(10).best_effort());
    let wrong_type = subscribe::<Imu>(&statistics, "number".keep_last(10).best_effort());
    let _spinning = Spinning::start(executor);
    let publisher = Program::start("publisher.py", &["--best-effort"], domain());
    wait_for("incompatible publishers", || {
        reliable.incompatible_publishers().len() == 1 && wrong_type.incompatible_publishers().len() == 1
    });
    let [of_qos] = &reliable.incompatible_publishers()[..] else { panic!() };
    assert_eq!((of_qos.node.as_str(), of_qos.topic.as_str()), ("/publisher", "/imu"));
    assert_eq!(of_qos.reasons, [Incompatibility::Reliability]);
    let [of_type] = &wrong_type.incompatible_publishers()[..] else { panic!() };
    let [Incompatibility::Type { offered, requested }] = &of_type.reasons[..] else { panic!("{of_type:?}") };
    assert_eq!((offered.as_str(), requested.as_str()), ("std_msgs/msg/Int32", "sensor_msgs/msg/Imu"));
    let (of_qos, of_type) = (of_qos.to_string(), of_type.to_string());
    assert!(of_qos.contains("subscribe with .best_effort(), or let it publish reliable"), "{of_qos}");

    wait_for("messages", || best_effort.totals().received > 10);
    assert_eq!(reliable.totals().received, 0);
    assert!(best_effort.incompatible_publishers().is_empty());
    wait_for("warning in the node's log", || logged.has(|log| log.msg == of_qos));
    // Changes of the graph that concern other topics.
    let other = subscribe::<Int32>(&statistics, "elsewhere");
    drop(node.create_publisher::<Int32>("elsewhere").unwrap());
    wait_for("end of the change", || node.count_publishers("/elsewhere").unwrap() == 0);
    assert!(other.incompatible_publishers().is_empty());
    // Both are found at once, and logged one after the other.
    wait_for("the other warning", || warnings_of(&of_type) > 0);
    assert_eq!((warnings_of(&of_qos), warnings_of(&of_type)), (1, 1), "{:#?}", warnings::so_far());

    drop(publisher);
    wait_for("no incompatible publisher", || reliable.incompatible_publishers().is_empty());
    let _again = Program::start("publisher.py", &["--best-effort"], domain());
    wait_for("the warning again", || warnings_of(&of_qos) == 2);
    assert_eq!(warnings_of("/imu"), 2, "{:#?}", warnings::so_far());
}
