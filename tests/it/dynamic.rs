// SPDX-License-Identifier: Apache-2.0

//! Publishers and subscriptions of types that are known only at run time.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    testing, FirstPeriod, IntoMeasuredOptions, Metric, NodeStatistics, StatisticsError,
    TopicStatisticsOptions,
};
use ros_env::std_msgs::msg::Header;
use test_support::{domain, middleware, node, wait_for, Reader, Spinning};

use crate::waiting::{read_all, Windows};

#[test]
fn dynamic_publishers_and_subscriptions_are_measured() {
    const MESSAGES: u64 = 10;
    let (executor, node) = node("dynamic", &[]);
    let options = TopicStatisticsOptions::new()
        .publish_period(Duration::from_millis(100))
        .metrics(Metric::OF_SUBSCRIPTIONS)
        .first_period(FirstPeriod::CarriedOver);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let header = || -> MessageTypeName { "std_msgs/msg/Header".try_into().unwrap() };
    let topic = || "header".keep_last(100);
    let received = Arc::new(AtomicU64::new(0));
    let accept = || {
        let received = Arc::clone(&received);
        move |message: DynamicMessage| {
            assert!(message.get("frame_id").is_some());
            received.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (of_node, of_async, of_worker) = (accept(), accept(), accept());
    let plain = statistics.create_dynamic_subscription(header(), topic(), move |message, _| of_node(message));
    let future = statistics.create_async_dynamic_subscription(header(), topic(), move |message, _| {
        of_async(message);
        async {}
    });
    let worker = node.create_worker(0_u64);
    let silent = topic().topic_statistics(TopicStatisticsOptions::new().publish(false));
    let on_worker =
        statistics.create_dynamic_worker_subscription(&worker, header(), silent, move |_, message, _| {
            of_worker(message);
        });
    let [plain, future, on_worker] = [plain, future, on_worker].map(Result::unwrap);
    let publisher = statistics.create_dynamic_publisher(header(), topic()).unwrap();
    let of_rclrs: Option<DynamicSubscription> = testing::rclrs_subscription(&plain);
    assert_eq!(of_rclrs.unwrap().topic_name(), publisher.topic_name());
    assert_eq!(plain.qos(), QoSProfile::topics_default().keep_last(100));
    let sources =
        [plain.source_name(), future.source_name(), on_worker.source_name(), publisher.source_name()];
    assert_eq!(
        sources,
        ["/dynamic:/header", "/dynamic:/header (2)", "/dynamic:/header (3)", "/dynamic:/header (4)"]
    );
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    let published = Windows::of(publisher.watch());
    let all = [&plain, &future, &on_worker].map(|subscription| Windows::of(subscription.watch()));
    wait_for("subscriptions", || publisher.get_subscription_count() == Ok(3));

    // Half of the messages have a stamp, of 1970.
    for number in 0..MESSAGES {
        let mut message = Header::default();
        message.stamp.sec = number as i32 % 2;
        message.frame_id = "abc".into();
        let message = Header::into_rmw_message(std::borrow::Cow::Owned(message)).into_owned();
        publisher.publish(DynamicMessage::convert_from_rmw_message(message).unwrap()).unwrap();
    }
    publisher.publish(DynamicMessage::new("std_msgs/msg/String".try_into().unwrap()).unwrap()).unwrap_err();
    published.wait_for(Metric::PublishDuration, MESSAGES);
    for (windows, subscription) in all.iter().zip([&plain, &future, &on_worker]) {
        windows.wait_for(Metric::CallbackDuration, MESSAGES);
        let metrics = [Metric::MessagePeriod, Metric::MessageAge, Metric::SourceToCallback];
        assert_eq!(windows.totals(metrics), [MESSAGES - 1, MESSAGES / 2, MESSAGES]);
        assert!(windows.least(Metric::MessageAge) > 1e12, "milliseconds since 1970");
        // 4 bytes each for the header, the two parts of the stamp, and the length; "abc" and a NUL.
        assert_eq!(
            (subscription.totals().received, subscription.totals().bytes),
            (MESSAGES, Some(MESSAGES * 20))
        );
        let [of_publisher] = subscription.publishers()[..] else { panic!() };
        assert_eq!(of_publisher.received, MESSAGES);
        if !middleware::lacks_sequence_numbers("losses of a dynamic subscription") {
            assert_eq!((of_publisher.lost, of_publisher.out_of_order), (Some(0), Some(0)));
        }
    }
    assert_eq!(received.load(Ordering::Relaxed), 3 * MESSAGES);
    // The clock offset and the size come after these.
    read_all(&mut reader, "/dynamic:/header (2)", &Metric::OF_SUBSCRIPTIONS[..10]);
    assert!(
        reader.metrics.iter().all(|window| window.source != "/dynamic:/header (3)"),
        "it is not published"
    );

    for name in ["no_such_msgs/msg/Imu", "sensor_msgs/msg/NoSuchType"] {
        let name = || -> MessageTypeName { name.try_into().unwrap() };
        let imu = statistics.create_dynamic_subscription(name(), "imu", |_, _| ());
        assert!(matches!(imu, Err(StatisticsError::CreateSubscription { .. })));
        let imu = statistics.create_dynamic_publisher(name(), "imu");
        assert!(matches!(imu, Err(StatisticsError::CreatePublisher { .. })));
    }
}
