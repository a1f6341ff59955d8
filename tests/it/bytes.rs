// SPDX-License-Identifier: Apache-2.0

//! The measured sizes of messages are the numbers of bytes that the middleware delivers to another process.

use std::collections::BTreeMap;

use generated_crates::{
    for_each_message,
    sample::{Interface, Source, Variant},
};
use rclrs_topic_statistics::{StatsPublisher, StatsWorkerSubscription};
use ros_env::test_msgs::msg::{UnboundedSequences, WStrings};
use rosidl_runtime_rs::Message;

use crate::waiting::*;

/// Messages with sequences of small messages. rclrs 0.8 panics when it reads such sequences with dynamic types.
const SHORT: &str = "\
    geometry_msgs/msg/Polygon geometry_msgs/msg/PolygonInstance geometry_msgs/msg/PolygonInstanceStamped \
    geometry_msgs/msg/PolygonStamped rmw_dds_common/msg/NodeEntitiesInfo \
    rmw_dds_common/msg/ParticipantEntitiesInfo sensor_msgs/msg/JoyFeedbackArray sensor_msgs/msg/PointCloud \
    statistics_msgs/msg/MetricsMessage test_msgs/msg/BoundedPlainSequences test_msgs/msg/BoundedSequences \
    test_msgs/msg/MultiNested test_msgs/msg/UnboundedSequences";

/// A topic of one type: its name, a function that publishes, and a function that returns the messages and bytes
/// received by the typed and by the dynamic subscription.
type Topic = (&'static str, Box<dyn Fn(Variant)>, Box<dyn Fn() -> [(u64, Option<u64>); 2]>);

fn topic<T: Message + Interface>(statistics: &NodeStatistics, worker: &Worker<()>) -> Topic {
    let (name, publisher) = (format!("sent/{}", T::NAME), publisher::<T>(statistics));
    let topic = || name.as_str().reliable().transient_local().keep_all();
    let typed: StatsSubscription<T> = statistics.create_subscription(topic(), |_: T| ()).unwrap();
    let dynamic = subscribe_dynamically(statistics, worker, T::NAME, topic());
    let publish = move |variant| publisher.publish(T::sample(&mut Source::new(variant))).unwrap();
    let totals = move || {
        [typed.statistics().totals().unwrap(), dynamic.statistics().totals().unwrap()]
            .map(|totals| (totals.received, totals.bytes))
    };
    (T::NAME, Box::new(publish), Box::new(totals))
}

fn publisher<T: Message + Interface>(statistics: &NodeStatistics) -> StatsPublisher<T> {
    let topic = format!("sent/{}", T::NAME);
    statistics.create_publisher(topic.as_str().reliable().transient_local().keep_all()).unwrap()
}

/// Subscribes with a dynamic type. The function is not generic, so that its closure is compiled only once.
fn subscribe_dynamically(
    statistics: &NodeStatistics,
    worker: &Worker<()>,
    message_type: &str,
    topic: PrimitiveOptions<'_>,
) -> StatsWorkerSubscription<DynamicMessage, ()> {
    let (message_type, callback) = (message_type.try_into().unwrap(), |_: &mut (), _, _| ());
    statistics.create_worker_dynamic_subscription(worker, message_type, topic, callback).unwrap()
}

#[test]
fn message_sizes_are_the_bytes_that_the_middleware_delivers() {
    let (executor, node) = node("sizes_sent", &[]);
    let options = options().metrics([Metric::MessageSize]).publish(false);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let worker = node.create_worker(());
    let mut topics = vec![];
    macro_rules! topic {
        ($($name:literal => $message:ty,)*) => {
            $( topics.push(topic::<$message>(&statistics, &worker)); )*
        };
    }
    for_each_message!(topic);
    let _spinning = Spinning::start(executor);
    let names: Vec<_> = topics.iter().map(|topic| topic.0).collect();
    for known in ["std_msgs/msg/String", "sensor_msgs/msg/PointCloud2", "test_msgs/msg/WStrings"] {
        assert!(names.contains(&known), "{names:?}");
    }
    let reader = Program::start("sizes.py", &names, domain());
    let mut delivered: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut wait_for_all = |of: &[&str], count: usize| {
        wait_for("messages in the other process", || {
            while let Some(line) = reader.try_read() {
                let (name, size) = line.split_once(' ').unwrap();
                delivered.entry(name.to_owned()).or_default().push(size.parse().unwrap());
            }
            of.iter().all(|name| delivered.get(*name).is_some_and(|sizes| sizes.len() >= count))
        });
        delivered.clone()
    };
    for (round, variant) in Variant::ALL.into_iter().enumerate() {
        topics.iter().for_each(|(_, publish, _)| publish(variant));
        let delivered = wait_for_all(&names, round + 1);
        for (name, _, totals) in &topics {
            wait_for("messages", || totals().iter().all(|(received, _)| *received > round as u64));
            let sum: u64 = delivered[*name].iter().sum();
            let dynamic = (!SHORT.split(' ').any(|short| short == *name)).then_some(sum);
            assert_eq!(totals().map(|(_, bytes)| bytes), [Some(sum), dynamic], "{name} {variant:?}");
        }
    }

    // If a string contains a NUL, some middlewares send only the text before it. The size must be the sent size.
    let texts = ["ab\0cd", "\0", "abc\0"];
    let rounds = Variant::ALL.len();
    let (plain, wide) = (publisher::<Text>(&statistics), publisher::<WStrings>(&statistics));
    let sequences = publisher::<UnboundedSequences>(&statistics);
    let windows = [plain.statistics().watch(), sequences.statistics().watch(), wide.statistics().watch()]
        .map(Windows::collect);
    for text in texts {
        plain.publish(Text { data: text.into() }).unwrap();
        let string_values = vec![text.into(), "whole".into(), text.into()];
        sequences.publish(UnboundedSequences { string_values, ..Default::default() }).unwrap();
        wide.publish(WStrings { wstring_value: text.into(), ..Default::default() }).unwrap();
    }
    let names = ["std_msgs/msg/String", "test_msgs/msg/UnboundedSequences", "test_msgs/msg/WStrings"];
    let delivered = wait_for_all(&names, rounds + texts.len());
    for (name, windows) in names.iter().zip(windows) {
        windows.wait_for(Metric::MessageSize, texts.len() as u64);
        let delivered = &delivered[*name][rounds..];
        let ends = [delivered.iter().min(), delivered.iter().max()].map(|size| *size.unwrap() as f64);
        assert_eq!([windows.least(Metric::MessageSize), windows.most(Metric::MessageSize)], ends, "{name}");
    }
}
