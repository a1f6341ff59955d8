// SPDX-License-Identifier: Apache-2.0

//! Options of the statistics of a node and of a source, on real topics.

use crate::support::*;

#[test]
fn names_qos_and_states_are_those_of_rclrs_and_of_the_options() {
    use TopicStatisticsState::{Disable, Enable, NodeDefault};
    let arguments = ["--ros-args", "-r", "imu:=rear_imu", "-r", "__ns:=/robot"];
    let (_executor, node) = node("naming", &arguments);
    let qos = QoSProfile::topics_default().keep_last(7).best_effort().transient_local();
    let options = TopicStatisticsOptions::new().qos(qos).publish_topic("own");
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let subscribe = |name: &str| statistics.create_subscription(name, |_: Imu| ()).unwrap();
    for (name, topic) in [
        ("imu", "/robot/rear_imu"),
        ("odom", "/robot/odom"),
        ("/odom", "/odom"),
        ("~/odom", "/robot/naming/odom"),
        ("{node}/tf", "/robot/naming/tf"),
    ] {
        let (plain, measured) =
            (node.create_subscription::<Imu, _>(name, |_: Imu| ()).unwrap(), subscribe(name));
        assert_eq!((&*measured.topic_name(), &*plain.topic_name()), (topic, topic), "{name}");
        assert_eq!(measured.source_name(), format!("/robot/naming:{topic}"));
    }
    let mut whole = SubscriptionOptions::new("whole");
    whole.qos = QoSProfile::sensor_data_default();
    let whole = statistics.create_subscription(whole, |_: Imu| ()).unwrap();
    assert_eq!(whole.qos(), QoSProfile::sensor_data_default());
    let sentence = "imu".keep_last(3).best_effort().topic_statistics(every(2000));
    let sentence = statistics.create_subscription(sentence, |_: Imu| ()).unwrap();
    assert_eq!(sentence.qos(), QoSProfile::topics_default().keep_last(3).best_effort());
    let mut offered = vec![];
    wait_for("publisher of the statistics", || {
        offered = node.get_publishers_info_by_topic("/robot/own").unwrap();
        !offered.is_empty()
    });
    let offered = offered[0].qos_profile;
    assert_eq!((offered.reliability, offered.durability), (qos.reliability, qos.durability));

    // Equal names have numbers, and a source that is created again continues the old name. rclcpp's are equal.
    let [first, second] = ["/tf"; 2].map(subscribe);
    drop(first);
    let again = subscribe("/tf");
    assert_eq!([second.source_name(), again.source_name()], ["/robot/naming:/tf (2)", "/robot/naming:/tf"]);
    let (stopwatch, counter) = (statistics.create_stopwatch("frames"), statistics.create_counter("frames"));
    let names = [stopwatch.source_name(), counter.source_name()];
    assert_eq!(names, ["/robot/naming:frames", "/robot/naming:frames (2)"]);
    let named = |name: SourceName| {
        let options = "/tf".topic_statistics(TopicStatisticsOptions::new().source_name(name));
        statistics.create_subscription(options, |_: Imu| ()).unwrap().source_name().to_owned()
    };
    assert_eq!(named(SourceName::Node), "naming");
    assert_eq!(named(SourceName::Custom("front".to_owned())), "front");

    for node_enabled in [true, false] {
        statistics.set_state(node_enabled.into());
        for (state, enabled) in [(Enable, true), (Disable, false), (NodeDefault, node_enabled)] {
            let options = "imu".topic_statistics(TopicStatisticsOptions::new().state(state));
            let own = statistics.create_subscription(options, |_: Imu| ()).unwrap();
            assert_eq!(own.is_enabled(), enabled, "{state:?}, the node's: {node_enabled}");
            again.set_state(state);
            assert_eq!(again.is_enabled(), enabled, "{state:?} by set_state, the node's: {node_enabled}");
        }
    }
    drop(statistics);
    let off = TopicStatisticsOptions::new().state(Disable);
    let off = NodeStatistics::with_options(&node, off).unwrap();
    assert!(!off.create_subscription("imu", |_: Imu| ()).unwrap().is_enabled());
}

#[test]
fn each_source_has_its_own_windows_topic_ages_and_state() {
    let (executor, node) = node("various", &[]);
    let statistics = NodeStatistics::with_options(&node, every(100)).unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let subscribe = |options: TopicStatisticsOptions| {
        let calls = Arc::clone(&calls);
        let count = move |_: Imu| {
            calls.fetch_add(1, Ordering::Relaxed);
        };
        let imu = "imu".keep_last(1000).topic_statistics(options);
        let imu = statistics.create_subscription(imu, count).unwrap();
        let windows = collect(imu.watch());
        (imu, windows)
    };
    let own = TopicStatisticsOptions::new;
    let all = || own().metrics([Metric::MessageAge, Metric::MessagePeriod, Metric::PublicationSeqGap]);
    let (by_stamp, stamped) = subscribe(all());
    let (_slow, slow) = subscribe(every(1000));
    let (_by_source, by_source) = subscribe(own().age_source(AgeSource::SourceTimestamp));
    let (_carried, carried) = subscribe(own().first_period(FirstPeriod::CarriedOver));
    let elsewhere = "imu".topic_statistics(own().publish_topic("own_statistics"));
    let elsewhere = statistics.create_subscription(elsewhere, |_: Imu| ()).unwrap();
    let number = own().age_source(AgeSource::SourceTimestamp);
    let number = statistics.create_subscription("number".topic_statistics(number), |_: Int32| ()).unwrap();
    let headless = collect(number.watch());
    let talker = node.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
    let numbers = node.create_publisher::<Int32>("number").unwrap();
    let published = Received::<MetricsMessage>::on(&node, "/own_statistics".keep_last(1000));
    let _spinning = Spinning::start(executor);
    wait_for_subscriptions(&talker, 5);
    wait_for_subscriptions(&numbers, 1);

    // Each message is in a window of its own, unless the windows are longer.
    for count in 1..=3 {
        talker.publish(imu(Duration::from_secs(60))).unwrap();
        numbers.publish(Int32::default()).unwrap();
        wait_for("windows with the message", || {
            [&stamped, &by_source, &carried, &headless]
                .iter()
                .all(|windows| samples(windows, Metric::MessageAge) == count)
        });
    }
    assert_eq!((samples(&stamped, Metric::MessagePeriod), samples(&carried, Metric::MessagePeriod)), (0, 2));
    assert!((60_000.0..65_000.0).contains(&largest(&stamped, Metric::MessageAge)), "a minute by the stamp");
    for windows in [&by_source, &headless] {
        let age = largest(windows, Metric::MessageAge);
        assert!((0.0..5000.0).contains(&age), "{age} ms by the source timestamp");
    }
    wait_for("slow windows", || slow.lock().unwrap().len() == 2);
    let first = |windows: &Windows| windows.lock().unwrap()[0].length;
    assert!(first(&slow) >= Duration::from_secs(1), "no first window is shorter than its period");
    let lengths = stamped.lock().unwrap().iter().map(|window| window.length).min();
    assert!(lengths < Some(Duration::from_millis(500)));
    wait_for("windows on the other topic", || published.all().len() > 2);
    let is_own = |message: &MetricsMessage| message.measurement_source_name != elsewhere.source_name();
    assert!(!published.has(is_own), "{:?}", published.all());
    drop(elsewhere);
    wait_for("end of the unused publisher", || node.count_publishers("/own_statistics").unwrap() == 0);
    assert_eq!(node.count_publishers("/statistics").unwrap(), 1);

    // What comes while the statistics of a source are disabled is not measured, and not lost.
    let publish = |count: u64| {
        let called = calls.load(Ordering::Relaxed);
        (0..count).for_each(|_| talker.publish(imu(Duration::ZERO)).unwrap());
        wait_for("all calls", || calls.load(Ordering::Relaxed) == called + 4 * count);
    };
    by_stamp.set_state(TopicStatisticsState::Disable);
    let window = || by_stamp.latest().unwrap().window;
    let (last, others) = (window(), carried.lock().unwrap().len());
    publish(10);
    wait_for("windows of another source", || carried.lock().unwrap().len() > others + 3);
    assert_eq!((window(), by_stamp.totals().received), (last, 3));
    by_stamp.set_state(TopicStatisticsState::NodeDefault);
    publish(10);
    assert_eq!(by_stamp.totals().received, 13);
    if !middleware::lacks_sequence_numbers("messages while statistics are disabled") {
        assert_eq!(by_stamp.totals().lost, Some(0));
    }
}
