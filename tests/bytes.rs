// SPDX-License-Identifier: Apache-2.0

//! Sizes of messages, compared with what the middleware delivers to another process.

use std::{collections::BTreeMap, time::Duration};

use generated_crates::{
    for_each_message,
    sample::{Interface, Source, Variant},
};
use rclrs::*;
use rclrs_topic_statistics::{
    IntoStatsSubscriptionOptions, Metric, NodeStatistics, StatsPublisher, StatsSubscription,
    TopicStatisticsOptions,
};
use rosidl_runtime_rs::Message;
use test_support::{context, domain, wait_for, Program, Spinning};

fn sizes() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().metrics([Metric::MessageSize]).publish(false)
}

#[test]
fn the_size_of_every_message_type_is_what_the_middleware_delivers() {
    let mut names = vec![];
    macro_rules! name {
        ($($name:literal => $message:ty,)*) => {$( names.push($name); )*};
    }
    for_each_message!(name);
    let known = ["std_msgs/msg/String", "sensor_msgs/msg/PointCloud2", "test_msgs/msg/WStrings"];
    assert!(known.iter().all(|name| names.contains(name)), "{names:?}");

    let domain = domain(0);
    let executor = context(domain, &[]).create_basic_executor();
    let node = executor.create_node("sizes_sent").unwrap();
    let options = sizes().publish_period(Duration::from_secs(3600));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let mut topics: Vec<Box<dyn AnyTopic>> = vec![];
    macro_rules! topic {
        ($($name:literal => $message:ty,)*) => {$(
            topics.push(Box::new(Topic::<$message>::new(&statistics)));
        )*};
    }
    for_each_message!(topic);
    let _spinning = Spinning::start(executor);
    let reader = Program::start("sizes.py", &names, domain);

    let mut delivered: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut bytes = vec![0; topics.len()];
    for (round, variant) in Variant::ALL.into_iter().enumerate() {
        topics.iter().for_each(|topic| topic.publish(variant));
        wait_for("messages, here and in the other process", || {
            while let Some(line) = reader.try_read() {
                let (name, size) = line.split_once(' ').unwrap();
                delivered.entry(name.to_owned()).or_default().push(size.parse().unwrap());
            }
            let here = topics.iter().all(|topic| topic.received() > round as u64);
            here && names.iter().all(|name| delivered.get(*name).is_some_and(|sizes| sizes.len() > round))
        });
        for ((topic, before), name) in topics.iter().zip(&mut bytes).zip(&names) {
            let sum = topic.bytes().unwrap_or_else(|| panic!("{name} {variant:?}: not known"));
            assert_eq!(sum - *before, delivered[*name][round], "{name} {variant:?}");
            *before = sum;
        }
    }
    println!("{} types of messages, {} variants each", names.len(), Variant::ALL.len());
}

/// A topic of one type, with a publisher and a subscription.
struct Topic<T: Message> {
    publisher: StatsPublisher<T>,
    subscription: StatsSubscription<T>,
}

trait AnyTopic {
    fn publish(&self, variant: Variant);
    fn received(&self) -> u64;
    fn bytes(&self) -> Option<u64>;
}

impl<T: Message + Interface> Topic<T> {
    fn new(statistics: &NodeStatistics) -> Self {
        let topic = format!("sent/{}", T::NAME);
        let topic = || topic.as_str().reliable().transient_local().keep_all();
        let subscription =
            statistics.create_subscription(topic().topic_statistics(sizes()), |_: T| ()).unwrap();
        Self { publisher: statistics.create_publisher(topic()).unwrap(), subscription }
    }
}

impl<T: Message + Interface> AnyTopic for Topic<T> {
    fn publish(&self, variant: Variant) {
        self.publisher.publish(T::sample(&mut Source::new(variant))).unwrap();
    }

    fn received(&self) -> u64 {
        self.subscription.totals().received
    }

    fn bytes(&self) -> Option<u64> {
        self.subscription.totals().bytes
    }
}
