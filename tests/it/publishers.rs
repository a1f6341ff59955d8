// SPDX-License-Identifier: Apache-2.0

//! Statistics of publishers.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    AgeSource, FirstPeriod, IntoMeasuredOptions, Metric, NodeStatistics, SourceName, StatisticsError,
    TopicStatisticsOptions, TopicStatisticsState,
};
use ros_env::std_msgs::msg::{
    rmw::{Int32, String as RmwText},
    String as Text,
};
use test_support::{domain, middleware, node, wait_for, Reader, Spinning};

use crate::waiting::{read_all, Windows};

#[test]
fn every_form_of_publishing_is_measured() {
    const SIZE: [Metric; 2] = [Metric::PublishDuration, Metric::MessageSize];
    let (executor, node) = node("driver", &[]);
    // What is only of subscriptions is no error of the node's options.
    let of_node = TopicStatisticsOptions::new()
        .publish_period(Duration::from_millis(100))
        .metrics([Metric::MessageAge, Metric::MessageSize])
        .age_source(AgeSource::SourceTimestamp)
        .first_period(FirstPeriod::CarriedOver);
    let statistics = NodeStatistics::with_options(&node, of_node.clone()).unwrap();
    let texts = statistics.create_publisher::<Text>("text".keep_last(100)).unwrap();
    let layouts = statistics.create_publisher::<RmwText>("text".keep_last(100)).unwrap();
    let numbers = statistics.create_publisher::<Int32>("number".keep_last(100)).unwrap();
    let [of_texts, of_layouts, of_numbers] =
        [texts.watch(), layouts.watch(), numbers.watch()].map(Windows::of);
    assert_eq!((texts.topic_name(), texts.source_name()), ("/text".to_owned(), "/driver:/text"));
    assert_eq!(layouts.source_name(), "/driver:/text (2)");
    let received = Arc::new(AtomicU64::new(0));
    let add = || {
        let received = Arc::clone(&received);
        move |count: usize| {
            received.fetch_add(count as u64, Ordering::Relaxed);
        }
    };
    let (add_text, add_number) = (add(), add());
    let _text = node.create_subscription("text".keep_last(100), move |text: Text| add_text(text.data.len()));
    let _number = node
        .create_subscription("number".keep_last(100), move |number: Int32| add_number(number.data as usize));
    let mut ready = texts.notify_on_subscriber_ready();
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    wait_for("a subscriber", || matches!(ready.try_recv(), Ok(Some(()))));
    wait_for("subscriptions", || {
        [texts.get_subscription_count(), layouts.get_subscription_count(), numbers.get_subscription_count()]
            == [Ok(1), Ok(1), Ok(1)]
    });

    // Size on the wire: 4 bytes each for the header and the length, the text, and a NUL.
    let mut bytes = 0;
    for text in ["", "abc", "abcd"] {
        let owned = Text { data: text.to_owned() };
        texts.publish(&owned).unwrap();
        texts.publish(owned).unwrap();
        let layout = RmwText { data: text.into() };
        layouts.publish(&layout).unwrap();
        layouts.publish(layout).unwrap();
        match numbers.can_loan_messages() {
            true => {
                let mut number = numbers.borrow_loaned_message().unwrap();
                number.data = 1000;
                assert_eq!(number.data, 1000);
                number.publish().unwrap();
            }
            false => numbers.publish(Int32 { data: 1000 }).unwrap(),
        }
        bytes += 2 * middleware::padded(4 + 4 + text.len() as u64 + 1);
    }
    wait_for("all messages", || received.load(Ordering::Relaxed) == 3 * 1000 + 4 * (3 + 4));
    for (windows, count, bytes) in [(&of_texts, 6, bytes), (&of_layouts, 6, bytes), (&of_numbers, 3, 3 * 8)] {
        windows.wait_for(Metric::MessageSize, count);
        assert_eq!(windows.totals([Metric::PublishDuration, Metric::PublishPeriod]), [count, count - 1]);
        assert!(windows.least(Metric::PublishDuration) > 0.0);
        let sizes = windows.all(Metric::MessageSize);
        let sum: f64 = sizes.iter().map(|size| size.average * size.sample_count as f64).sum();
        assert_eq!(sum.round() as u64, bytes);
    }
    wait_for("silence", || texts.latest().unwrap().count == 0);
    let silent = texts.latest().unwrap();
    assert!(SIZE.iter().all(|metric| silent.get(*metric).unwrap().average.is_nan()), "{silent:?}");
    texts.publish(Text::default()).unwrap();
    read_all(&mut reader, "/driver:/text", &SIZE);

    let off = TopicStatisticsOptions::new()
        .metrics([Metric::PublishPeriod])
        .source_name(SourceName::Custom("front".to_owned()))
        .state(TopicStatisticsState::Disable);
    let off = statistics.create_publisher::<Int32>("number".topic_statistics(off)).unwrap();
    let of_off = Windows::of(off.watch());
    off.publish(Int32 { data: 1 }).unwrap();
    off.set_state(TopicStatisticsState::NodeDefault);
    assert!(off.is_enabled() && off.source_name() == "front");
    off.publish(Int32 { data: 1 }).unwrap();
    of_off.wait_for(Metric::PublishDuration, 1);
    assert_eq!(off.latest().unwrap().get(Metric::MessageSize), None, "it is not asked for");

    let error = |own: TopicStatisticsOptions| {
        statistics.create_publisher::<Int32>("number".topic_statistics(own)).err().unwrap()
    };
    assert_eq!(
        error(of_node).to_string(),
        "A publisher has no metric \"message_age\": it has publish_period, publish_duration_ms, message_size"
    );
    let aged = error(TopicStatisticsOptions::new().age_source(AgeSource::HeaderStamp));
    assert_eq!(aged.to_string(), "A publisher has no age_source: it receives no messages");
    let never = error(TopicStatisticsOptions::new().publish_period(Duration::ZERO));
    assert!(matches!(never, StatisticsError::InvalidPublishPeriod { .. }), "{never}");
    let unnamed = statistics.create_publisher::<Int32>("no topic").err().unwrap();
    assert!(matches!(&unnamed, StatisticsError::CreatePublisher { topic, .. } if topic == "no topic"));
}
