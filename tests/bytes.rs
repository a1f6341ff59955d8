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

/// Messages with sequences of small messages, which rclrs 0.8 cannot read of a type that is known only at run time.
const SHORT: [&str; 13] = [
    "geometry_msgs/msg/Polygon",
    "geometry_msgs/msg/PolygonInstance",
    "geometry_msgs/msg/PolygonInstanceStamped",
    "geometry_msgs/msg/PolygonStamped",
    "rmw_dds_common/msg/NodeEntitiesInfo",
    "rmw_dds_common/msg/ParticipantEntitiesInfo",
    "sensor_msgs/msg/JoyFeedbackArray",
    "sensor_msgs/msg/PointCloud",
    "statistics_msgs/msg/MetricsMessage",
    "test_msgs/msg/BoundedPlainSequences",
    "test_msgs/msg/BoundedSequences",
    "test_msgs/msg/MultiNested",
    "test_msgs/msg/UnboundedSequences",
];

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
    let worker = node.create_worker(());
    let mut topics: Vec<Box<dyn AnyTopic>> = vec![];
    macro_rules! topic {
        ($($name:literal => $message:ty,)*) => {$(
            topics.push(Box::new(Topic::<$message>::new(&statistics, &worker)));
        )*};
    }
    for_each_message!(topic);
    let _spinning = Spinning::start(executor);
    let reader = Program::start("sizes.py", &names, domain);

    let mut delivered: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut sums = vec![0; topics.len()];
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
        for ((topic, sum), name) in topics.iter().zip(&mut sums).zip(&names) {
            *sum += delivered[*name][round];
            let dynamic = (!SHORT.contains(name)).then_some(*sum);
            assert_eq!(topic.bytes(), [Some(*sum), dynamic], "{name} {variant:?}");
        }
    }
    println!("{} types of messages, {} variants each", names.len(), Variant::ALL.len());
}

/// A topic of one type, with a publisher and two subscriptions.
struct Topic<T: Message> {
    publisher: StatsPublisher<T>,
    subscription: StatsSubscription<T>,
    dynamic: StatsSubscription<DynamicMessage>,
}

trait AnyTopic {
    fn publish(&self, variant: Variant);
    fn received(&self) -> u64;
    /// The sum of the subscription of the type, and of the one that knows it only at run time.
    fn bytes(&self) -> [Option<u64>; 2];
}

impl<T: Message + Interface> Topic<T> {
    fn new(statistics: &NodeStatistics, worker: &Worker<()>) -> Self {
        let topic = format!("sent/{}", T::NAME);
        let topic = || topic.as_str().reliable().transient_local().keep_all();
        let subscription =
            statistics.create_subscription(topic().topic_statistics(sizes()), |_: T| ()).unwrap();
        let dynamic = statistics.create_dynamic_worker_subscription(
            worker,
            T::NAME.try_into().unwrap(),
            topic().topic_statistics(sizes()),
            |_: &mut (), _, _| (),
        );
        Self {
            publisher: statistics.create_publisher(topic()).unwrap(),
            subscription,
            dynamic: dynamic.unwrap(),
        }
    }
}

impl<T: Message + Interface> AnyTopic for Topic<T> {
    fn publish(&self, variant: Variant) {
        self.publisher.publish(T::sample(&mut Source::new(variant))).unwrap();
    }

    fn received(&self) -> u64 {
        self.subscription.totals().received.min(self.dynamic.totals().received)
    }

    fn bytes(&self) -> [Option<u64>; 2] {
        [self.subscription.totals().bytes, self.dynamic.totals().bytes]
    }
}
