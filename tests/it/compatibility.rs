// SPDX-License-Identifier: Apache-2.0

//! Incompatible publishers of a subscription are reported with the reason and the remedy.

use std::sync::{Arc, Mutex};

use rclrs::*;
use rclrs_topic_statistics::{Incompatibility, NodeStatistics};
use ros_env::{rcl_interfaces::msg::Log, sensor_msgs::msg::Imu, std_msgs::msg::Int32};
use test_support::{
    domain, in_a_process_of_its_own, middleware, node, wait_for, warnings, Program, Spinning,
};

const BEST_EFFORT: &str =
    "Nothing is received from /publisher on /imu: it publishes best effort, and this subscription \
                           requests reliable; subscribe with .best_effort(), or let it publish reliable";
const OTHER_TYPE: &str =
    "Nothing is received from /publisher on /number: it publishes std_msgs/msg/Int32, and this \
                          subscription is of sensor_msgs/msg/Imu; one of them has the wrong topic or type";

#[test]
fn each_incompatible_publisher_is_reported_once_until_it_leaves() {
    in_a_process_of_its_own(|| {
        if middleware::is_no_dds("publishers with an incompatible QoS") {
            return;
        }
        warnings::collect();
        let domain = domain();
        let (executor, node) = node("careful", &[]);
        let statistics = NodeStatistics::new(&node).unwrap();
        let logged = Arc::new(Mutex::new(vec![]));
        let _rosout = node
            .create_subscription::<Log, _>("/rosout".keep_last(100), {
                let logged = Arc::clone(&logged);
                move |log: Log| logged.lock().unwrap().push(log.msg)
            })
            .unwrap();
        let reliable = statistics.create_subscription("imu".keep_last(10).reliable(), |_: Imu| ()).unwrap();
        let best_effort =
            statistics.create_subscription("imu".keep_last(10).best_effort(), |_: Imu| ()).unwrap();
        let wrong_type =
            statistics.create_subscription("number".keep_last(10).best_effort(), |_: Imu| ()).unwrap();
        let _spinning = Spinning::start(executor);
        let reported = |text: &str| warnings::so_far().iter().filter(|warning| *warning == text).count();

        let publisher = Program::start("publisher.py", &["--best-effort"], domain);
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
        wait_for("warning in the node's log", || logged.lock().unwrap().iter().any(|log| log == BEST_EFFORT));
        // Changes of the graph that concern other topics.
        let other = statistics.create_subscription("elsewhere", |_: Int32| ()).unwrap();
        drop(node.create_publisher::<Int32>("elsewhere").unwrap());
        wait_for("end of the change", || node.count_publishers("/elsewhere").unwrap() == 0);
        assert!(other.incompatible_publishers().is_empty());
        // Both are found at once, and logged one after the other.
        wait_for("the other warning", || reported(OTHER_TYPE) > 0);
        assert_eq!((reported(BEST_EFFORT), reported(OTHER_TYPE)), (1, 1), "{:#?}", warnings::so_far());

        drop(publisher);
        wait_for("no incompatible publisher", || reliable.incompatible_publishers().is_empty());
        let _again = Program::start("publisher.py", &["--best-effort"], domain);
        wait_for("the warning again", || reported(BEST_EFFORT) == 2);
        assert_eq!(warnings::so_far().iter().filter(|warning| warning.contains("/imu")).count(), 2);

        // The publisher may be older than the subscription.
        let late = statistics.create_subscription("imu".keep_last(10), |_: Imu| ()).unwrap();
        wait_for("incompatible publisher", || late.incompatible_publishers().len() == 1);
    });
}
