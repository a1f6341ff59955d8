// SPDX-License-Identifier: Apache-2.0

//! Sizes of messages, compared with the bytes that the middleware delivers to another process.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use generated_crates::{
    for_each_message,
    sample::{Interface, Source, Variant},
};
use rclrs::*;
use rclrs_topic_statistics::{
    watch, IntoMeasuredOptions, MeasuredPublisher, MeasuredSubscription, Metric, NodeStatistics,
    TopicStatisticsOptions, WindowStatistics,
};
use ros_env::{
    std_msgs::msg::{rmw, String as Text},
    test_msgs::msg::{UnboundedSequences, WStrings},
};
use rosidl_runtime_rs::Message;
use test_support::{collect, context, domain, middleware, node, wait_for, Program, Spinning, Windows};

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

    let domain = domain();
    let (executor, node) = node("sizes_sent", &[]);
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
    publisher: MeasuredPublisher<T>,
    subscription: MeasuredSubscription<T>,
    dynamic: MeasuredSubscription<DynamicMessage>,
}

trait AnyTopic {
    fn publish(&self, variant: Variant);
    fn received(&self) -> u64;
    /// The sum of the subscription of the type, and of the dynamic one.
    fn bytes(&self) -> [Option<u64>; 2];
}

impl<T: Message + Interface> Topic<T> {
    fn new(statistics: &NodeStatistics, worker: &Worker<()>) -> Self {
        let topic = format!("sent/{}", T::NAME);
        let topic = || topic.as_str().reliable().transient_local().keep_all();
        let subscription =
            statistics.create_subscription(topic().topic_statistics(sizes()), |_: T| ()).unwrap();
        let dynamic = subscribe_dynamically(statistics, worker, T::NAME, topic());
        Self { publisher: statistics.create_publisher(topic()).unwrap(), subscription, dynamic }
    }
}

/// Not generic: its closure is compiled once, and not for each type.
fn subscribe_dynamically(
    statistics: &NodeStatistics,
    worker: &Worker<()>,
    message_type: &str,
    topic: PrimitiveOptions<'_>,
) -> MeasuredSubscription<DynamicMessage> {
    let (message_type, options) = (message_type.try_into().unwrap(), topic.topic_statistics(sizes()));
    let callback = |_: &mut (), _, _| ();
    statistics.create_dynamic_worker_subscription(worker, message_type, options, callback).unwrap()
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

/// The size of these texts in `std_msgs/String`: 4 bytes each for the header and the length, the text, and a NUL.
const TEXTS: [(&str, u64); 3] = [("", 9), ("abc", 12), ("abcd", 13)];

#[test]
fn every_form_of_a_callback_and_of_publishing_has_the_sizes() {
    let sizes_of_texts = TEXTS.map(|(text, size)| (text, middleware::padded(size)));
    let (executor, node) = node("forms", &[]);
    let options = sizes().publish_period(Duration::from_millis(100));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let (worker, topic) = (node.create_worker(()), || "text".reliable().transient_local().keep_all());
    let subscriptions = [
        statistics.create_subscription(topic(), |_: Text| ()).unwrap(),
        statistics.create_subscription(topic(), |_: Box<Text>| ()).unwrap(),
        statistics.create_async_subscription(topic(), |_: Text, _: MessageInfo| async {}).unwrap(),
        statistics.create_worker_subscription(&worker, topic(), |_: Text| ()).unwrap(),
    ];
    // Fast DDS loans types of fixed size only.
    let loaned = "number".reliable().transient_local().keep_last(10);
    let loaned = statistics.create_subscription(loaned, |_: ReadOnlyLoanedMessage<rmw::Int32>| ()).unwrap();
    let texts = statistics.create_publisher::<Text>(topic()).unwrap();
    let layouts = statistics.create_publisher::<rmw::String>(topic()).unwrap();
    let numbers = statistics
        .create_publisher::<rmw::Int32>("number".reliable().transient_local().keep_last(10))
        .unwrap();
    let [mut of_texts, mut of_layouts] = [texts.watch(), layouts.watch()].map(Sizes::of);
    let mut of_numbers = Sizes::of(numbers.watch());
    let _spinning = Spinning::start(executor);

    for (text, size) in sizes_of_texts {
        let text = Text { data: text.to_owned() };
        texts.publish(&text).unwrap();
        assert_eq!(of_texts.next(), size, "{text:?}, borrowed");
        layouts.publish(rmw::String { data: text.data.as_str().into() }).unwrap();
        assert_eq!(of_layouts.next(), size, "{text:?}, in the C layout");
        texts.publish(text).unwrap();
        assert_eq!(of_texts.next(), size, "owned");
    }
    match numbers.can_loan_messages() {
        true => numbers.borrow_loaned_message().unwrap().publish().unwrap(),
        false => numbers.publish(rmw::Int32::default()).unwrap(),
    }
    assert_eq!(of_numbers.next(), 8);

    let bytes = 3 * sizes_of_texts.iter().map(|(_, size)| size).sum::<u64>();
    let count = 3 * sizes_of_texts.len() as u64;
    for (form, subscription) in subscriptions.iter().enumerate() {
        wait_for("messages", || subscription.totals().received == count);
        assert_eq!(subscription.totals().bytes, Some(bytes), "form {form}");
    }
    wait_for("the number", || loaned.totals().received == 1);
    assert_eq!(loaned.totals().bytes, Some(8));
}

/// The sizes of publications, each of which is in a window of its own.
struct Sizes {
    windows: Windows,
    read: usize,
}

impl Sizes {
    fn of(watched: watch::Receiver<Option<Arc<WindowStatistics>>>) -> Self {
        Self { windows: collect(watched), read: 0 }
    }

    /// Waits for the next window with a publication. Returns its size.
    fn next(&mut self) -> u64 {
        let mut found = None;
        wait_for("window with a publication", || {
            let windows = self.windows.lock().unwrap();
            found = windows[self.read..].iter().find(|window| window.count > 0).cloned();
            self.read = windows.len();
            found.is_some()
        });
        let window = found.unwrap();
        let size = window.get(Metric::MessageSize).unwrap();
        assert_eq!((window.count, size.sample_count, size.minimum), (1, 1, size.maximum), "{window:?}");
        let bandwidth = size.average / window.length.as_secs_f64();
        assert!((window.bandwidth() / bandwidth - 1.0).abs() < 1e-9, "{}", window.bandwidth());
        size.average as u64
    }
}

#[test]
fn a_string_with_a_nul_inside_is_as_long_as_it_is_sent() {
    let texts = ["ab\0cd", "\0", "abc\0"];
    let names = ["std_msgs/msg/String", "test_msgs/msg/UnboundedSequences", "test_msgs/msg/WStrings"];
    let domain = domain();
    let executor = context(domain, &[]).create_basic_executor();
    let options = sizes().publish_period(Duration::from_millis(100));
    let statistics = NodeStatistics::with_options(&executor.create_node("nul").unwrap(), options).unwrap();
    let _spinning = Spinning::start(executor);
    let reader = Program::start("sizes.py", &names, domain);
    let delivered = || reader.read("size of a message").split_once(' ').unwrap().1.parse::<u64>().unwrap();
    macro_rules! check {
        ($name:expr, $message:ty, |$text:ident| $fields:expr) => {
            let topic = format!("sent/{}", $name);
            let publisher = statistics
                .create_publisher::<$message>(topic.as_str().reliable().transient_local().keep_all())
                .unwrap();
            let mut sizes = Sizes::of(publisher.watch());
            for $text in texts {
                publisher.publish($fields).unwrap();
                assert_eq!(sizes.next(), delivered(), "{} of {:?}", $name, $text);
            }
        };
    }
    check!(names[0], Text, |text| Text { data: text.into() });
    check!(names[1], UnboundedSequences, |text| UnboundedSequences {
        string_values: vec![text.into(), "whole".into(), text.into()],
        ..Default::default()
    });
    check!(names[2], WStrings, |text| WStrings { wstring_value: text.into(), ..Default::default() });
}

#[test]
fn sizes_that_are_not_asked_for_are_unknown() {
    let (executor, node) = node("unasked", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();
    let text = statistics.create_subscription("text", |_: Text| ()).unwrap();
    let publisher = statistics.create_publisher::<Text>("text").unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("a message", || {
        publisher.publish(Text::default()).unwrap();
        text.totals().received > 0
    });
    assert_eq!(text.totals().bytes, None);
    // Only the latest window is seen: each has some.
    wait_for("a window with messages", || {
        publisher.publish(Text::default()).unwrap();
        publisher.latest().is_some_and(|window| window.count > 0)
    });
    let window = publisher.latest().unwrap();
    assert!(window.get(Metric::MessageSize).is_none() && window.bandwidth().is_nan(), "{window:?}");
}
