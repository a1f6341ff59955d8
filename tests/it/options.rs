// SPDX-License-Identifier: Apache-2.0

//! Options of the statistics of a node and of a subscription, on real topics.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    AgeSource, FirstPeriod, IntoMeasuredOptions, Metric, NodeStatistics, SourceName, StatisticsError,
    TopicStatisticsOptions, TopicStatisticsState,
};
use ros_env::{sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage, std_msgs::msg::Int32};
use test_support::{domain, middleware, node, wait_for, Metric as Window, Program, Spinning};

fn options() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new()
}

/// The messages received on a topic of statistics.
struct Published {
    messages: Arc<Mutex<Vec<Window>>>,
    _subscription: Subscription<MetricsMessage>,
}

impl Published {
    fn on(node: &Node, topic: &str) -> Published {
        let messages = Arc::new(Mutex::new(vec![]));
        let to = Arc::clone(&messages);
        let store = move |message: MetricsMessage| to.lock().unwrap().push(message.into());
        let subscription =
            node.create_subscription::<MetricsMessage, _>(topic.keep_last(1000), store).unwrap();
        Published { messages, _subscription: subscription }
    }

    /// Returns the messages of a source and metric.
    fn of(&self, source: &str, metric: Metric) -> Vec<Window> {
        test_support::of(&self.messages.lock().unwrap(), source, metric.name()).cloned().collect()
    }

    /// Returns all sources of the messages.
    fn sources(&self) -> Vec<String> {
        let mut sources: Vec<String> =
            self.messages.lock().unwrap().iter().map(|message| message.source.clone()).collect();
        sources.sort();
        sources.dedup();
        sources
    }

    fn len(&self) -> usize {
        self.messages.lock().unwrap().len()
    }
}

#[test]
fn each_subscription_can_have_its_own_period_topic_and_source_name() {
    let (executor, node) = node("various", &[]);
    let [fast, slow] = [100, 300].map(Duration::from_millis);
    let statistics = NodeStatistics::with_options(&node, options().publish_period(fast)).unwrap();
    let of_node = Published::on(&node, "/statistics");
    let own_topic = Published::on(&node, "/own_statistics");

    let _default = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let _slow = statistics
        .create_subscription("slow".topic_statistics(options().publish_period(slow)), |_: Imu| ())
        .unwrap();
    let on = |name| options().publish_topic("own_statistics").source_name(name);
    let custom = statistics
        .create_subscription("imu".topic_statistics(on(SourceName::Custom("front".to_owned()))), |_: Imu| ())
        .unwrap();
    let bare =
        statistics.create_subscription("imu".topic_statistics(on(SourceName::Node)), |_: Imu| ()).unwrap();
    assert_eq!((custom.source_name(), bare.source_name()), ("front", "various"));
    let _spinning = Spinning::start(executor);

    let windows = |source: &str| of_node.of(source, Metric::MessageAge);
    wait_for("windows of both lengths", || windows("/various:/slow").len() >= 6);
    assert_eq!(of_node.sources(), ["/various:/imu", "/various:/slow"]);
    for (source, period) in [("/various:/imu", 0.1), ("/various:/slow", 0.3)] {
        let windows = windows(source);
        // The first window began at the creation of the subscription. On a busy machine some windows are longer, and
        // the next are shorter.
        let mut lengths: Vec<f64> = windows[1..].iter().map(Window::length).collect();
        lengths.sort_by(f64::total_cmp);
        let median = lengths[lengths.len() / 2];
        assert!((median - period).abs() < 0.2 * period, "{source}: {lengths:?}");
        for (window, next) in windows.iter().zip(&windows[1..]) {
            assert_eq!(window.stop, next.start, "{source}");
        }
    }
    wait_for("windows on the other topic", || own_topic.sources() == ["front", "various"]);

    // Each topic has one publisher, while a source uses it.
    let publishers = |topic: &str| node.count_publishers(topic).unwrap();
    wait_for("publishers in the graph", || {
        (publishers("/statistics"), publishers("/own_statistics")) == (1, 1)
    });
    drop(custom);
    wait_for("windows of the other source of the topic", || {
        let bare = own_topic.of("various", Metric::MessageAge).len();
        std::thread::sleep(fast * 3);
        own_topic.of("various", Metric::MessageAge).len() > bare
    });
    assert_eq!(publishers("/own_statistics"), 1);
    drop(bare);
    wait_for("end of the unused publisher", || publishers("/own_statistics") == 0);
    assert_eq!(publishers("/statistics"), 1);
}

#[test]
fn the_statistics_publisher_has_the_qos_of_the_options() {
    let (_executor, node) = node("offering", &[]);
    let qos = QoSProfile::topics_default().keep_last(7).best_effort().transient_local();
    let _statistics = NodeStatistics::with_options(&node, options().qos(qos)).unwrap();
    let mut offered = vec![];
    wait_for("publisher", || {
        offered = node.get_publishers_info_by_topic("/statistics").unwrap();
        !offered.is_empty()
    });
    assert_eq!(offered[0].qos_profile.reliability, QoSReliabilityPolicy::BestEffort);
    assert_eq!(offered[0].qos_profile.durability, QoSDurabilityPolicy::TransientLocal);
}

#[test]
fn ages_and_first_periods_follow_the_options() {
    let domain = domain();
    let (executor, node) = node("choosy", &[]);
    let window = options().publish_period(Duration::from_millis(100));
    let statistics = NodeStatistics::with_options(&node, window).unwrap();
    let published = Published::on(&node, "/statistics");
    let named = |name: &str| options().source_name(SourceName::Custom(name.to_owned()));
    let create = |options: TopicStatisticsOptions| {
        statistics.create_subscription("imu".topic_statistics(options), |_: Imu| ()).unwrap()
    };
    let _by_stamp = create(named("by stamp"));
    let _by_source = create(named("by source").age_source(AgeSource::SourceTimestamp));
    let _carried = create(named("carried").first_period(FirstPeriod::CarriedOver));
    let _headless = statistics
        .create_subscription(
            "number".topic_statistics(named("headless").age_source(AgeSource::SourceTimestamp)),
            |_: Int32| (),
        )
        .unwrap();
    let _spinning = Spinning::start(executor);
    // One message per second: no window has two messages, unless something is held up for most of a second.
    let _publisher = Program::start("publisher.py", &["--rate", "1", "--stamp-age", "60"], domain);

    let with_samples = |source: &str, metric| -> Vec<Window> {
        published.of(source, metric).into_iter().filter(|window| window.count() > 0.0).collect()
    };
    wait_for("periods across the end of a window", || {
        with_samples("carried", Metric::MessagePeriod).len() >= 3
    });
    let (periods, ages) =
        (with_samples("carried", Metric::MessagePeriod), with_samples("carried", Metric::MessageAge));
    for period in periods {
        // The longest one begins in the window of the message before. (The system clock may be a little off.)
        let index = ages.iter().position(|age| age.start == period.start).unwrap();
        let [before, own] = [&ages[index.saturating_sub(1)], &ages[index]];
        let least = (own.start - before.stop) as f64 * 1e-6 - 10.0;
        let most = (own.stop - before.start) as f64 * 1e-6 + 10.0;
        assert!((least..most).contains(&period.maximum()), "{least} to {most} ms: {period:?}");
    }
    for period in with_samples("by stamp", Metric::MessagePeriod) {
        let ages = with_samples("by stamp", Metric::MessageAge);
        let age = ages.iter().find(|age| age.start == period.start).unwrap();
        assert_eq!(period.count(), age.count() - 1.0, "none across the end of a window: {period:?}");
    }
    assert!(with_samples("by stamp", Metric::MessageAge).len() >= 3);
    for age in with_samples("by stamp", Metric::MessageAge) {
        assert!(age.minimum() >= 60_000.0, "a minute by the stamp: {age:?}");
    }
    for source in ["by source", "headless"] {
        assert!(with_samples(source, Metric::MessageAge).len() >= 3, "{source}");
        for age in with_samples(source, Metric::MessageAge) {
            assert!((0.0..1000.0).contains(&age.minimum()), "by the source timestamp: {age:?}");
        }
    }
}

#[test]
fn the_state_of_a_subscription_overrides_the_state_of_the_node() {
    use TopicStatisticsState::{Disable, Enable, NodeDefault};
    let (_executor, node) = node("stating", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();
    for node_enabled in [true, false] {
        statistics.set_state(node_enabled.into());
        for (state, enabled) in [(Enable, true), (Disable, false), (NodeDefault, node_enabled)] {
            let imu = statistics
                .create_subscription("imu".topic_statistics(options().state(state)), |_: Imu| ())
                .unwrap();
            assert_eq!(imu.is_enabled(), enabled, "{state:?}, the node's: {node_enabled}");
            statistics.set_state((!node_enabled).into());
            assert_eq!(imu.is_enabled(), if state == NodeDefault { !node_enabled } else { enabled });
            statistics.set_state(node_enabled.into());
            for (state, enabled) in [(Disable, false), (NodeDefault, node_enabled), (Enable, true)] {
                imu.set_state(state);
                assert_eq!(imu.is_enabled(), enabled, "{state:?} by set_state, the node's: {node_enabled}");
            }
        }
    }
    drop(statistics);
    let off = NodeStatistics::with_options(&node, options().state(Disable)).unwrap();
    assert!(!off.create_subscription("imu", |_: Imu| ()).unwrap().is_enabled());
}

#[test]
fn disabled_statistics_publish_nothing_and_restart_when_they_are_enabled() {
    let domain = domain();
    let (executor, node) = node("switching", &[]);
    let published = Published::on(&node, "/statistics");
    let statistics = NodeStatistics::with_options(
        &node,
        options().publish_period(Duration::from_millis(200)).first_period(FirstPeriod::CarriedOver),
    )
    .unwrap();
    let calls = Arc::new(Mutex::new(0));
    let imu = statistics
        .create_subscription(
            "imu".keep_last(1000).topic_statistics(options().metrics([
                Metric::MessagePeriod,
                Metric::PublicationSeqGap,
                Metric::TimeSinceLastMessage,
            ])),
            {
                let calls = Arc::clone(&calls);
                move |_: Imu| *calls.lock().unwrap() += 1
            },
        )
        .unwrap();
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "100"], domain);
    let periods = || published.of("/switching:/imu", Metric::MessagePeriod);
    let received = |at_least: u64| {
        wait_for("messages", || imu.totals().received >= at_least);
        imu.totals().received
    };
    received(50);
    wait_for("windows with messages", || periods().iter().filter(|window| window.count() > 0.0).count() >= 2);

    imu.set_state(TopicStatisticsState::Disable);
    let disabled = Instant::now();
    let (published_before, received_before) = (published.len(), imu.totals().received);
    let called = *calls.lock().unwrap();
    // Longer than a busy machine holds up a message or the end of a window.
    wait_for("three seconds of messages that are not measured", || {
        *calls.lock().unwrap() > called + 100 && disabled.elapsed() >= Duration::from_secs(3)
    });
    // At the time of the change, the metrics of two windows and one message may have been in progress.
    assert!(
        published.len() <= published_before + 6,
        "{} messages in three seconds",
        published.len() - published_before
    );
    assert!(imu.totals().received <= received_before + 1);

    let windows_before = periods().len();
    let disabled = disabled.elapsed().as_secs_f64();
    imu.set_state(TopicStatisticsState::NodeDefault);
    received(received_before + 50);
    wait_for("windows", || periods().len() >= windows_before + 3);
    for window in &periods()[windows_before..] {
        let longest = window.maximum();
        let is_short = longest.is_nan() || longest < disabled * 1e3;
        assert!(is_short, "no period includes the disabled time: {window:?}");
        assert!(window.length() < disabled, "no window includes the disabled time: {window:?}");
    }
    if !middleware::lacks_sequence_numbers("messages while statistics are disabled") {
        assert_eq!(imu.totals().lost, Some(0), "messages while disabled are not lost");
    }
}

#[test]
fn names_and_qos_are_resolved_as_in_rclrs() {
    let arguments = ["--ros-args", "-r", "imu:=rear_imu", "-r", "__ns:=/robot"];
    let (_executor, node) = node("naming", &arguments);
    let statistics = NodeStatistics::new(&node).unwrap();
    let string = "string".to_owned();
    let topic = |name: &str| {
        let plain = node.create_subscription::<Imu, _>(name, |_: Imu| ()).unwrap();
        let measured = statistics.create_subscription(name, |_: Imu| ()).unwrap();
        assert_eq!(measured.topic_name(), plain.topic_name());
        assert_eq!(measured.source_name(), format!("{}:{}", node.fully_qualified_name(), plain.topic_name()));
        measured.topic_name()
    };
    assert_eq!(topic("imu"), "/robot/rear_imu", "remapped, in the namespace of the node");
    assert_eq!(topic("odom"), "/robot/odom");
    assert_eq!(topic("/odom"), "/odom");
    assert_eq!(topic("~/odom"), "/robot/naming/odom");
    assert_eq!(topic("{node}/odom"), "/robot/naming/odom");
    assert_eq!(topic(&string), "/robot/string");

    let mut subscription_options = SubscriptionOptions::new("whole");
    subscription_options.qos = QoSProfile::sensor_data_default();
    let whole = statistics.create_subscription(subscription_options, |_: Imu| ()).unwrap();
    assert_eq!(whole.qos(), QoSProfile::sensor_data_default());
    let owned = statistics.create_subscription(&string, |_: Imu| ()).unwrap();
    assert_eq!(owned.topic_name(), "/robot/string");
    let slow = options().publish_period(Duration::from_secs(2));
    let sentence = statistics
        .create_subscription("imu".keep_last(3).best_effort().topic_statistics(slow), |_: Imu| ())
        .unwrap();
    assert_eq!(sentence.qos(), QoSProfile::topics_default().keep_last(3).best_effort());
}

#[test]
fn invalid_options_are_errors_with_the_value_and_the_rule_and_create_nothing() {
    let (_executor, node) = node("wrong", &[]);
    let error = |options| NodeStatistics::with_options(&node, options).err().unwrap();
    for (period, text) in [(Duration::ZERO, "0ns"), (Duration::MAX, "18446744073709551615.999999999s")] {
        let error = error(options().publish_period(period));
        assert!(
            matches!(error, StatisticsError::InvalidPublishPeriod { period: reported } if reported == period)
        );
        assert_eq!(
            error.to_string(),
            format!("A publish period of {text} is not possible: it has to be from 1 ms to a day (86400 s)")
        );
    }
    for topic in ["", "1st", "statistics/"] {
        let error = error(options().publish_topic(topic));
        assert!(
            matches!(&error, StatisticsError::CreatePublisher { topic: reported, .. } if reported == topic),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("{topic:?}")), "{error}");
        assert!(error.to_string().contains("a topic name has letters"), "{error}");
    }
    let error = error(options().source_name(SourceName::Custom(String::new())));
    assert!(matches!(error, StatisticsError::EmptySourceName));

    // After these errors the parameters can be declared, and no publisher is in the graph.
    assert_eq!(node.count_publishers("/statistics").unwrap(), 0);
    let statistics = NodeStatistics::new(&node).unwrap();
    for wrong in [
        options().publish_period(Duration::from_micros(999)),
        options().publish_topic("not valid"),
        options().source_name(SourceName::Custom(String::new())),
    ] {
        assert!(statistics.create_subscription("imu".topic_statistics(wrong), |_: Imu| ()).is_err());
    }
    wait_for("publisher in the graph", || node.count_publishers("/statistics").unwrap() == 1);
    assert_eq!(node.count_subscriptions("/imu").unwrap(), 0);
    assert!(statistics.set_publish_period(Duration::from_secs(86_401)).is_err());
    statistics.set_publish_period(Duration::from_secs(86_400)).unwrap();
    statistics.set_publish_period(Duration::from_millis(1)).unwrap();
}
