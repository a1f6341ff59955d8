// SPDX-License-Identifier: Apache-2.0

//! Messages that nodes of rclpy and of C++ take and publish.

use std::{
    collections::BTreeSet,
    process::Stdio,
    sync::{Arc, Mutex},
};

use rclrs::IntoPrimitiveOptions;
use ros_env::topic_statistics_interfaces::msg::MetricsDistribution;
use test_support::{
    command, cpp::CppNode, domain, nanoseconds, node, wait_for, windows_of, Metric, Program, Reader, Spinning,
};

use crate::{count, extremes, settle, spawn, start};

const COUNT: f64 = 100.0;

const RELAY: &str = "
import rclpy
from sensor_msgs.msg import Imu
rclpy.init()
node = rclpy.create_node('relay')
publisher = node.create_publisher(Imu, 'relayed', 1000)
subscription = node.create_subscription(Imu, 'imu', publisher.publish, 1000, raw=True)
rclpy.spin(node)
";

#[test]
fn each_message_of_python_is_in_one_window() {
    const PERIOD: (&str, &str) = ("PERIOD", "0.3");
    let all = [PERIOD, ("METRICS", "all")];
    let (executor, node) = node("reader", &[]);
    let distributions = Arc::<Mutex<Vec<MetricsDistribution>>>::default();
    let to = Arc::clone(&distributions);
    let store = move |message: MetricsDistribution| to.lock().unwrap().push(message);
    let _distributions = node.create_subscription("/statistics/distribution".keep_last(1000), store).unwrap();
    let _spinning = Spinning::start(executor);
    let mut reader = Reader::start_with_depth(domain(), 1000);
    let arguments = ["--rate", "100", "--stamp-age", "0.5", "--count", "100", "--subscribers", "4"];
    let _publisher = start("publisher.py", &arguments, &all);
    let mut subscriber = start("subscriber.py", &[], &[all[0], all[1], ("DISTRIBUTIONS", "true")]);
    let simulated = ["--ros-args", "-r", "__node:=simulated", "-p", "use_sim_time:=true"];
    let _simulated = start("subscriber.py", &simulated, &all);
    let mut relay = command("python3", &["-c", RELAY], domain());
    relay.stdin(Stdio::piped()).stdout(Stdio::piped());
    let topics = ("TOPICS", "/rosout,/imu,/rel*");
    let _relay = spawn(relay, &[PERIOD, topics, ("METRICS", "message_size,message_age")]);

    let [imu, publisher, simulated] = ["/subscriber:/imu", "/publisher:/imu", "/simulated:/imu"];
    let [raw, relayed] = ["/relay:/imu", "/relay:/relayed"];
    let expected = [
        (imu, "message_age", COUNT),
        (imu, "source_to_receive_ms", COUNT),
        (imu, "source_to_callback_ms", COUNT),
        (imu, "publication_seq_gap", COUNT - 1.0), // the first message has no gap before it
        (imu, "message_size", 0.0),                // its messages are not serialized
        (publisher, "publish_duration_ms", COUNT),
        (publisher, "message_size", 0.0),
        (raw, "message_age", COUNT),
        (raw, "message_size", COUNT),
        (relayed, "message_size", COUNT),
        (simulated, "source_to_callback_ms", COUNT),
        (simulated, "message_age", 0.0), // unknown on simulated time
    ];
    let sources = expected.map(|(source, metric, _)| (source, metric));
    settle(&mut reader, &sources);
    wait_for("the subscription to distributions", || subscriber.request("/statistics/distribution") == "1");
    // The publisher waits for four subscriptions. The fourth subscription is created only now, after the readers have
    // found all other nodes.
    let mut plain = Program::start("subscriber.py", &["--ros-args", "-r", "__node:=plain"], domain());
    wait_for("all messages", || plain.request("count").parse() == Ok(COUNT));
    reader.read_until("all samples", |metrics| {
        expected.iter().all(|(source, metric, expected)| count(metrics, source, metric) >= *expected)
    });
    settle(&mut reader, &sources);
    let metrics = &reader.metrics[..];
    for (source, metric, expected) in expected {
        assert_eq!(count(metrics, source, metric), expected, "{source} {metric}");
    }
    let windows: Vec<&Metric> = windows_of(metrics, imu, "message_age").collect();
    assert!(windows.windows(2).all(|pair| pair[0].stop == pair[1].start), "{windows:#?}");
    let mean = windows.iter().map(|window| window.length()).sum::<f64>() / windows.len() as f64;
    assert!((0.2..3.0).contains(&mean), "{mean} s");
    for source in [imu, raw] {
        let (least, greatest) = extremes(metrics, source, "message_age");
        assert!(least >= 500.0 && greatest < 10_000.0, "{source}: {least} to {greatest} ms");
    }
    assert_eq!(extremes(metrics, imu, "publication_seq_gap"), (0.0, 0.0));
    // A serialized Imu with the frame ID of the publisher has 324 bytes.
    assert_eq!([raw, relayed].map(|source| extremes(metrics, source, "message_size")), [(324.0, 324.0); 2]);
    let units =
        ["message_age", "message_size"].map(|metric| &*windows_of(metrics, raw, metric).next().unwrap().unit);
    assert_eq!(units, ["ms", "bytes"]);
    // No other source exists, and no hop: a hop would be a source with two topics in its name.
    let others = ["/publisher:/number", "/relay:/rosout", "/simulated:/clock"];
    let all: BTreeSet<&str> = sources.map(|(source, _)| source).into_iter().chain(others).collect();
    let found = metrics.iter().map(|metric| &*metric.source).filter(|source| source.starts_with('/'));
    assert_eq!(found.collect::<BTreeSet<_>>(), all);
    // The distribution of a window agrees with the statistics of the window.
    let last = windows_of(metrics, imu, "message_age").filter(|window| window.count() > 0.0).last().unwrap();
    let is_last = |message: &MetricsDistribution| {
        message.metrics_source == "message_age" && nanoseconds(&message.window_start) == last.start
    };
    wait_for("the distribution of this window", || distributions.lock().unwrap().iter().any(is_last));
    let found = distributions.lock().unwrap().iter().find(|message| is_last(message)).cloned().unwrap();
    let counts = found.positive_counts.iter().sum::<u64>() + found.zero_count;
    assert_eq!([found.count as f64, counts as f64], [last.count(); 2]);
    assert_eq!((found.minimum, found.maximum), (last.minimum(), last.maximum()));
    assert_eq!((&*found.measurement_source_name, &*found.unit), (imu, "ms"));
    assert!((found.minimum..=found.maximum).contains(&found.p50) || found.count == 1);
}

#[test]
fn each_message_of_cpp_is_in_one_window() {
    let Some(node) = CppNode::compile() else { return };
    let mut reader = Reader::start(domain());
    let metrics = ("METRICS", "message_age,message_period,publication_seq_gap,callback_duration_ms");
    let mut node = spawn(node.command(domain()), &[("PERIOD", "0.5"), metrics]);
    // If a node has two sources with the same topic, the name of the source that is created later ends with a number.
    let [subscription, publisher] = ["/cpp:/imu", "/cpp:/imu (2)"];
    let [service, client] = ["/cpp:/set_camera_info", "/cpp:/set_camera_info (2)"];
    let expected = [
        (subscription, "message_age", COUNT),
        (subscription, "publication_seq_gap", COUNT - 1.0),
        (subscription, "callback_duration_ms", COUNT),
        (publisher, "publish_duration_ms", COUNT),
        (service, "response_duration_ms", COUNT),
        (client, "source_to_callback_ms", COUNT),
        (client, "round_trip_ms", COUNT),
    ];
    let sources = expected.map(|(source, metric, _)| (source, metric));
    settle(&mut reader, &sources);
    assert_eq!(node.request("100"), "100");
    settle(&mut reader, &sources);
    for (source, metric, expected) in expected {
        assert_eq!(count(&reader.metrics, source, metric), expected, "{source} {metric}");
    }
    // Stamps are 250 ms old, the callback starts after 10 ms and takes 10 ms, and the service responds after 10 ms.
    let least = |source, metric| extremes(&reader.metrics, source, metric).0;
    let (duration, round_trip) = (least(service, "response_duration_ms"), least(client, "round_trip_ms"));
    assert!(10.0 <= duration && duration <= round_trip && round_trip < 5000.0, "{duration}, {round_trip} ms");
    assert!((260.0..5000.0).contains(&least(subscription, "message_age")));
    assert!((10.0..5000.0).contains(&least(subscription, "callback_duration_ms")));
    node.end();
}
