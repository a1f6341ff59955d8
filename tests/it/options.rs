// SPDX-License-Identifier: Apache-2.0

//! The options of a node's statistics and of a source, on real topics.

use crate::support::*;

#[test]
fn names_qos_and_states_follow_rclrs_and_the_options() {
    use StatisticsState::{Disable, Enable, NodeDefault};
    let arguments = ["--ros-args", "-r", "imu:=rear_imu", "-r", "__ns:=/robot"];
    let (_executor, node) = node("naming", &arguments);
    let qos = QoSProfile::topics_default().keep_last(7).best_effort().transient_local();
    let own = StatisticsOptions::new;
    let statistics = NodeStatistics::with_options(&node, own().qos(qos).publish_topic("own")).unwrap();
    for (name, topic) in [
        ("imu", "/robot/rear_imu"),
        ("odom", "/robot/odom"),
        ("/odom", "/odom"),
        ("~/odom", "/robot/naming/odom"),
        ("{node}/tf", "/robot/naming/tf"),
    ] {
        let plain = node.create_subscription(name, |_: Imu| ()).unwrap();
        let measured = subscribe::<Imu>(&statistics, name);
        assert_eq!((&*measured.topic_name(), &*plain.topic_name()), (topic, topic), "{name}");
        assert_eq!(measured.statistics().source_name(), format!("/robot/naming:{topic}"));
    }
    let sentence = "imu".keep_last(3).best_effort().statistics(every(2000));
    let asked = QoSProfile::topics_default().keep_last(3).best_effort();
    assert_eq!(subscribe::<Imu>(&statistics, sentence).qos(), asked);
    let mut offered = vec![];
    wait_for("publisher of the statistics", || {
        offered = node.get_publishers_info_by_topic("/robot/own").unwrap();
        !offered.is_empty()
    });
    let offered = offered[0].qos_profile;
    assert_eq!((offered.reliability, offered.durability), (qos.reliability, qos.durability));

    // Sources with equal names get numbers, unlike in rclcpp. A source that is created again reuses the name of the
    // dropped source.
    let named = |name: SourceName| subscribe::<Imu>(&statistics, "/tf".statistics(own().source_name(name)));
    let [first, second] = [(); 2].map(|()| named(SourceName::NodeAndTopic));
    drop(first);
    let again = named(SourceName::NodeAndTopic);
    assert_eq!(
        [second.statistics().source_name(), again.statistics().source_name()],
        ["/robot/naming:/tf (2)", "/robot/naming:/tf"]
    );
    assert_eq!(named(SourceName::Node).statistics().source_name(), "naming");
    assert_eq!(named(SourceName::Custom("front".to_owned())).statistics().source_name(), "front");
    let (stopwatch, counter) = (statistics.create_stopwatch("frames"), statistics.create_counter("frames"));
    let names = [stopwatch.statistics().source_name(), counter.statistics().source_name()];
    assert_eq!(names, ["/robot/naming:frames", "/robot/naming:frames (2)"]);

    let off = NodeStatistics::with_options(&node, own().state(Disable)).unwrap();
    for (state, enabled) in [(Enable, true), (Disable, false), (NodeDefault, false)] {
        let created = subscribe::<Imu>(&off, "imu".statistics(own().state(state)));
        assert_eq!(created.statistics().is_enabled(), enabled, "{state:?}");
    }
}

#[test]
fn each_source_has_its_own_windows_topic_and_ages() {
    let (executor, node, statistics) = measured("various", every(100));
    let own = StatisticsOptions::new;
    let create = |options: StatisticsOptions| {
        let imu = "imu".keep_last(1000).statistics(options);
        let imu = subscribe::<Imu>(&statistics, imu);
        let windows = Windows::collect(imu.statistics().watch());
        (imu, windows)
    };
    let (_measured, stamped) = create(own());
    let (_slow, slow) = create(every(1000));
    let (_by_source, by_source) = create(own().age_source(AgeSource::SourceTimestamp));
    let (_carried, carried) = create(own().first_period(FirstPeriod::CarriedOver));
    let elsewhere = own().publish_topic("elsewhere").age_source(AgeSource::SourceTimestamp);
    let elsewhere = subscribe::<Int32>(&statistics, "number".statistics(elsewhere));
    let headless = Windows::collect(elsewhere.statistics().watch());
    let talker = node.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
    let numbers = node.create_publisher::<Int32>("number").unwrap();
    let published = Received::<MetricsMessage>::on(&node, "/elsewhere".keep_last(1000));
    let _spinning = Spinning::start(executor);
    wait_for_subscriptions(&talker, 4);
    wait_for_subscriptions(&numbers, 1);

    // For each source, each message is in a separate window; only the source with longer windows is an exception.
    for count in 1..=3 {
        talker.publish(imu(Duration::from_secs(60))).unwrap();
        numbers.publish(Int32::default()).unwrap();
        let has_all = |windows: &&Windows| windows.total(Metric::MessageAge) == count;
        wait_for("windows with the message", || {
            [&stamped, &by_source, &carried, &headless].iter().all(has_all)
        });
    }
    assert_eq!([&stamped, &carried].map(|windows| windows.total(Metric::MessagePeriod)), [0, 2]);
    let ages = [&stamped, &by_source, &headless].map(|windows| windows.most(Metric::MessageAge));
    let is_near = |age: f64, expected: f64| (expected..expected + 5000.0).contains(&age);
    assert!(is_near(ages[0], 60_000.0) && is_near(ages[1], 0.0) && is_near(ages[2], 0.0), "{ages:?}");
    wait_for("slow windows", || slow.0.lock().unwrap().len() == 2);
    assert!(slow.0.lock().unwrap()[0].length >= Duration::from_secs(1), "none is shorter than its period");
    let lengths = stamped.0.lock().unwrap().iter().map(|window| window.length).min();
    assert!(lengths < Some(Duration::from_millis(500)));
    wait_for("windows on the other topic", || published.all().len() > 2);
    assert!(!published.has(|message| message.measurement_source_name != elsewhere.statistics().source_name()));
    drop(elsewhere);
    wait_for("end of the unused publisher", || node.count_publishers("/elsewhere").unwrap() == 0);
    assert_eq!(node.count_publishers("/statistics").unwrap(), 1);
}
