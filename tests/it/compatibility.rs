// SPDX-License-Identifier: Apache-2.0

//! Incompatible publishers of a subscription are reported with the reason and the remedy.

use rclrs_topic_statistics::Incompatibility;

use crate::support::*;

const BEST_EFFORT: &str =
    "Nothing is received from /publisher on /imu: it publishes best effort, and this subscription \
                           requests reliable; subscribe with .best_effort(), or let it publish reliable";
const OTHER_TYPE: &str =
    "Nothing is received from /publisher on /number: it publishes std_msgs/msg/Int32, and this \
                          subscription is of sensor_msgs/msg/Imu; one of them has the wrong topic or type";

#[test]
fn each_incompatible_publisher_is_reported_once_until_it_leaves() {
    if shares_its_process() || middleware::is_no_dds("publishers with an incompatible QoS") {
        return;
    }
    warnings::collect();
    let (executor, node) = node("careful", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();
    let logged = Received::<Log>::on(&node, "/rosout".keep_last(100));
    let reliable = statistics.create_subscription("imu".keep_last(10).reliable(), |_: Imu| ()).unwrap();
    let best_effort = statistics.create_subscription("imu".keep_last(10).best_effort(), |_: Imu| ()).unwrap();
    let wrong_type =
        statistics.create_subscription("number".keep_last(10).best_effort(), |_: Imu| ()).unwrap();
    let _spinning = Spinning::start(executor);
    let publisher = Program::start("publisher.py", &["--best-effort"], domain());
    wait_for("incompatible publishers", || {
        reliable.incompatible_publishers().len() == 1 && wrong_type.incompatible_publishers().len() == 1
    });
    let [incompatible] = &reliable.incompatible_publishers()[..] else { panic!() };
    assert_eq!((incompatible.node.as_str(), incompatible.topic.as_str()), ("/publisher", "/imu"));
    assert_eq!(incompatible.reasons, [Incompatibility::Reliability]);
    let [incompatible] = &wrong_type.incompatible_publishers()[..] else { panic!() };
    let [Incompatibility::Type { offered, requested }] = &incompatible.reasons[..] else {
        panic!("{incompatible:?}")
    };
    assert_eq!((offered.as_str(), requested.as_str()), ("std_msgs/msg/Int32", "sensor_msgs/msg/Imu"));

    wait_for("messages", || best_effort.totals().received > 10);
    assert_eq!(reliable.totals().received, 0);
    assert!(best_effort.incompatible_publishers().is_empty());
    wait_for("warning in the node's log", || logged.has(|log| log.msg == BEST_EFFORT));
    // Changes of the graph that concern other topics.
    let other = statistics.create_subscription("elsewhere", |_: Int32| ()).unwrap();
    drop(node.create_publisher::<Int32>("elsewhere").unwrap());
    wait_for("end of the change", || node.count_publishers("/elsewhere").unwrap() == 0);
    assert!(other.incompatible_publishers().is_empty());
    // Both are found at once, and logged one after the other.
    wait_for("the other warning", || warnings_of(OTHER_TYPE) > 0);
    assert_eq!((warnings_of(BEST_EFFORT), warnings_of(OTHER_TYPE)), (1, 1), "{:#?}", warnings::so_far());

    drop(publisher);
    wait_for("no incompatible publisher", || reliable.incompatible_publishers().is_empty());
    let _again = Program::start("publisher.py", &["--best-effort"], domain());
    wait_for("the warning again", || warnings_of(BEST_EFFORT) == 2);
    assert_eq!(warnings_of("/imu"), 2, "{:#?}", warnings::so_far());
}
