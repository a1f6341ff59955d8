// SPDX-License-Identifier: Apache-2.0

//! The library reports publishers that cannot serve a subscription, with the reason and the fix.

use rclrs_topic_statistics::Incompatibility;

use crate::support::*;

#[test]
fn each_incompatible_publisher_is_reported_once_until_it_leaves() {
    if shares_its_process() || middleware::is_no_dds("publishers with an incompatible QoS") {
        return;
    }
    warnings::collect();
    let (executor, node, statistics) = measured("careful", StatisticsOptions::new());
    let logged = Received::<Log>::on(&node, "/rosout".keep_last(100));
    let reliable = subscribe::<Imu>(&statistics, "imu".keep_last(10).reliable());
    let best_effort = subscribe::<Imu>(&statistics, "imu".keep_last(10).best_effort());
    let wrong_type = subscribe::<Imu>(&statistics, "number".keep_last(10).best_effort());
    let drivers = context(domain(), &[]).create_basic_executor(); // DDS participants have only one type per topic
    let driver = drivers.create_node("publisher").unwrap();
    let imus = driver.create_publisher::<Imu>("imu".best_effort()).unwrap();
    let numbers = driver.create_publisher::<Int32>("number".best_effort()).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("incompatible publishers", || {
        imus.publish(Imu::default()).unwrap();
        [&reliable, &wrong_type].iter().all(|imu| imu.incompatible_publishers().len() == 1)
    });
    let [qos_report] = &reliable.incompatible_publishers()[..] else { panic!() };
    assert_eq!((qos_report.node.as_str(), qos_report.topic.as_str()), ("/publisher", "/imu"));
    assert_eq!(qos_report.reasons, [Incompatibility::Reliability]);
    let [type_report] = &wrong_type.incompatible_publishers()[..] else { panic!() };
    let [Incompatibility::Type { offered, requested }] = &type_report.reasons[..] else {
        panic!("{type_report:?}")
    };
    assert_eq!((offered.as_str(), requested.as_str()), ("std_msgs/msg/Int32", "sensor_msgs/msg/Imu"));
    let texts = [qos_report.to_string(), type_report.to_string()];
    assert!(texts[0].contains("subscribe with .best_effort(), or let it publish reliable"), "{texts:?}");
    for text in &texts {
        wait_for("warning in the node's log", || logged.has(|log| log.msg == *text));
        assert_eq!(warnings_of(text), 1, "{:#?}", warnings::so_far());
    }
    assert!(
        best_effort.statistics().totals().unwrap().received > 10
            && best_effort.incompatible_publishers().is_empty()
    );
    assert_eq!(reliable.statistics().totals().unwrap().received, 0);
    drop((imus, numbers));
    wait_for("no incompatible publisher", || reliable.incompatible_publishers().is_empty());
}
