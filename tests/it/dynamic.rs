// SPDX-License-Identifier: Apache-2.0

//! Subscriptions of types that are known only at run time, and statistics that are not published.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc, Arc,
    },
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    testing, IntoMeasuredOptions, Metric, NodeStatistics, StatisticsError, TopicStatisticsOptions,
};
use test_support::{collect, domain, middleware, node, program, wait_for, Process, Reader, Spinning};

fn options() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS).publish_period(Duration::from_millis(250))
}

#[test]
fn a_dynamic_subscription_is_measured_like_any_other() {
    let domain = domain();
    let (executor, node) = node("dynamic", &[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let worker = node.create_worker(0_u64);
    let (sender, messages) = mpsc::channel();
    let imu = statistics.create_dynamic_worker_subscription(
        &worker,
        "sensor_msgs/msg/Imu".try_into().unwrap(),
        "imu".keep_last(100),
        move |count: &mut u64, message: DynamicMessage, _| {
            *count += 1;
            let _ = sender.send((*count, message.get("header").is_some()));
        },
    );
    let imu = imu.unwrap();
    let chatter = statistics.create_dynamic_worker_subscription(
        &worker,
        "std_msgs/msg/String".try_into().unwrap(),
        "chatter".keep_last(100).topic_statistics(TopicStatisticsOptions::new().publish(false)),
        |_: &mut u64, _, _| (),
    );
    let chatter = chatter.unwrap();
    assert_eq!(imu.topic_name(), "/imu");
    assert_eq!(imu.qos(), QoSProfile::topics_default().keep_last(100));

    let _spinning = Spinning::start(executor);
    let mut reader = Reader::start(domain);
    let _talker = Process::start(
        program("talker"),
        &["--ros-args", "-p", "rate:=100.0", "-p", "stamp_age:=0.05"],
        domain,
    );
    let mut latest = None;
    wait_for("window", || {
        latest = imu.latest();
        latest.as_ref().is_some_and(|window| window.get(Metric::MessageAge).unwrap().sample_count > 20)
            && chatter
                .latest()
                .is_some_and(|window| window.get(Metric::MessagePeriod).unwrap().sample_count > 20)
    });
    let window = latest.unwrap();
    let age = window.get(Metric::MessageAge).unwrap();
    assert!(age.minimum >= 50.0, "stamped 50 ms in the past: {age:?}");
    for metric in [Metric::MessagePeriod, Metric::SourceToCallback, Metric::CallbackDuration] {
        assert!(window.get(metric).unwrap().sample_count > 0, "{metric:?}");
    }
    assert!(
        middleware::lacks_reception_timestamps("delays of a dynamic subscription")
            || window.get(Metric::SourceToReceive).unwrap().sample_count > 0
    );
    assert!(
        chatter.latest().unwrap().get(Metric::MessageAge).unwrap().average.is_nan(),
        "the type has no header"
    );
    assert_eq!(messages.recv().unwrap(), (1, true));

    // The totals of windows, of the subscription and of the publisher agree.
    assert!(window.totals.unwrap().received > 0 && window.totals.unwrap().received <= imu.totals().received);
    let [talker] = imu.publishers()[..] else { panic!("{:?}", imu.publishers()) };
    assert!(talker.received >= window.totals.unwrap().received && talker.gid != [0; 16], "{talker:?}");
    if !middleware::lacks_sequence_numbers("losses of a dynamic subscription") {
        assert_eq!((talker.lost, talker.out_of_order), (Some(0), Some(0)));
    }

    reader.read_until("window of imu", |metrics| {
        metrics.iter().any(|window| {
            window.source == "/dynamic:/imu" && window.metric == "message_age" && window.count() > 20.0
        })
    });
    assert!(reader.metrics.iter().all(|window| window.source != "/dynamic:/chatter"), "it is not published");
}

/// The forms of a node's scope, with a publisher of the same kind: every message is measured once by each.
#[test]
fn dynamic_publishers_and_subscriptions_of_a_node_are_measured() {
    const MESSAGES: u64 = 50;
    let (executor, node) = node("dynamic", &[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let header = || "std_msgs/msg/Header".try_into().unwrap();
    let stamped = |number: i32| {
        let mut message = DynamicMessage::new(header()).unwrap();
        let Some(ValueMut::Simple(SimpleValueMut::String(frame))) = message.get_mut("frame_id") else {
            panic!()
        };
        *frame = format!("frame {number}").as_str().into();
        message
    };
    let count = Arc::new(AtomicU64::new(0));
    let counted = || {
        let count = Arc::clone(&count);
        move || count.fetch_add(1, Ordering::Relaxed)
    };
    let (of_plain, of_async) = (counted(), counted());
    let plain =
        statistics.create_dynamic_subscription(header(), "header".keep_last(100), move |message, _| {
            assert!(message.get("frame_id").is_some());
            of_plain();
        });
    let plain = plain.unwrap();
    let delayed =
        statistics.create_async_dynamic_subscription(header(), "header".keep_last(100), move |_, _| {
            of_async();
            async {}
        });
    let delayed = delayed.unwrap();
    let publisher = statistics.create_dynamic_publisher(header(), "header".keep_last(100)).unwrap();
    let of_rclrs: Option<DynamicSubscription> = testing::rclrs_subscription(&plain);
    assert_eq!(of_rclrs.unwrap().topic_name(), publisher.topic_name());
    let sources = [plain.source_name(), delayed.source_name(), publisher.source_name()];
    assert_eq!(sources, ["/dynamic:/header", "/dynamic:/header (2)", "/dynamic:/header (3)"]);
    let windows = collect(publisher.watch());
    let durations = || -> u64 {
        let windows = windows.lock().unwrap();
        windows.iter().map(|window| window.get(Metric::PublishDuration).unwrap().sample_count).sum()
    };
    let _spinning = Spinning::start(executor);
    wait_for("subscriptions", || publisher.get_subscription_count() == Ok(2));
    let mut published = 0;
    wait_for("windows of all", || {
        if published < MESSAGES {
            publisher.publish(stamped(published as i32)).unwrap();
            published += 1;
        }
        plain.totals().received == MESSAGES && delayed.totals().received == MESSAGES
    });
    // A message is received before its callback.
    wait_for("callbacks", || count.load(Ordering::Relaxed) >= 2 * MESSAGES);
    assert_eq!(count.load(Ordering::Relaxed), 2 * MESSAGES);
    let other = DynamicMessage::new("std_msgs/msg/String".try_into().unwrap()).unwrap();
    publisher.publish(other).unwrap_err();
    wait_for("windows of the publisher", || durations() >= MESSAGES);
    assert_eq!(durations(), MESSAGES, "the failed publication is not measured");
    for subscription in [&plain, &delayed] {
        let [totals] = subscription.publishers()[..] else { panic!("{:?}", subscription.publishers()) };
        assert_eq!(totals.received, MESSAGES);
        wait_for("window", || {
            subscription.latest().is_some_and(|window| window.totals.unwrap().received == MESSAGES)
        });
        let window = subscription.latest().unwrap();
        assert_eq!(window.get(Metric::MessageAge).unwrap().sample_count, 0, "the stamp is not set");
    }
}

#[test]
fn statistics_that_are_not_published_have_no_publisher() {
    let (executor, node) = node("silent", &[]);
    let statistics = NodeStatistics::with_options(&node, options().publish(false)).unwrap();
    let worker = node.create_worker(());
    let imu = statistics.create_dynamic_worker_subscription(
        &worker,
        "sensor_msgs/msg/Imu".try_into().unwrap(),
        "imu",
        |_: &mut (), _, _| (),
    );
    let imu = imu.unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("window", || imu.latest().is_some());
    assert_eq!(node.count_publishers("/statistics").unwrap(), 0);
}

#[test]
fn a_missing_message_type_is_an_error() {
    let (_executor, node) = node("dynamic", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();
    let worker = node.create_worker(());
    for name in ["no_such_msgs/msg/Imu", "sensor_msgs/msg/NoSuchType"] {
        let imu = statistics.create_dynamic_worker_subscription(
            &worker,
            name.try_into().unwrap(),
            "imu",
            |_: &mut (), _, _| (),
        );
        let Err(error) = imu else { panic!("{name}") };
        assert!(matches!(error, StatisticsError::CreateSubscription { .. }), "{error}");
        let imu = statistics.create_dynamic_publisher(name.try_into().unwrap(), "imu");
        assert!(matches!(imu, Err(StatisticsError::CreatePublisher { .. })));
    }
}
