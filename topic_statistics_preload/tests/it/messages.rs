// SPDX-License-Identifier: Apache-2.0

//! Messages that nodes of rclpy, of rclrs and of C++ take and publish.

use std::{
    collections::BTreeSet,
    process::Stdio,
    sync::{Arc, Mutex},
};

use rclrs::*;
use ros_env::{sensor_msgs::msg::Imu, topic_statistics_interfaces::msg::MetricsDistribution};
use test_support::{
    command, cpp::CppNode, domain, itself, lines, nanoseconds, node, of, wait_for, Metric, Program, Reader,
    Spinning,
};

use crate::{count, extremes, settle, spawn, start};

const COUNT: f64 = 100.0;
/// Each message with this stamp has an age of that, in milliseconds.
const AGE: (&str, std::ops::Range<f64>) = ("0.5", 500.0..5000.0);

/// Takes and publishes serialized messages.
const RELAY: &str = "
import rclpy
from sensor_msgs.msg import Imu
rclpy.init()
node = rclpy.create_node('relay')
publisher = node.create_publisher(Imu, 'relayed', 1000)
subscription = node.create_subscription(Imu, 'imu', publisher.publish, 1000, raw=True)
rclpy.spin(node)
";

/// An rclrs node, until its standard input ends.
#[test]
#[ignore = "a program of the test below"]
fn rclrs_node() {
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("rclrs").unwrap();
    let _imu = node.create_subscription("imu".keep_last(1000), |_: Imu| ()).unwrap();
    let _spinning = Spinning::start(executor);
    lines(std::io::stdin()).iter().for_each(drop);
}

#[test]
fn each_message_of_python_and_rust_is_in_one_window() {
    const PERIOD: (&str, &str) = ("PERIOD", "0.3");
    let all = [PERIOD, ("METRICS", "all")];
    let (executor, node) = node("reader", &[]);
    let distributions = Arc::<Mutex<Vec<MetricsDistribution>>>::default();
    let to = Arc::clone(&distributions);
    let store = move |message: MetricsDistribution| to.lock().unwrap().push(message);
    let _distributions = node.create_subscription("/statistics/distribution".keep_last(1000), store).unwrap();
    let _spinning = Spinning::start(executor);
    let mut reader = Reader::start_with_depth(domain(), 1000);
    let arguments = ["--rate", "100", "--stamp-age", AGE.0, "--count", "100", "--subscribers", "5"];
    let _publisher = start("publisher.py", &arguments, &all);
    let _subscriber = start("subscriber.py", &[], &[all[0], all[1], ("DISTRIBUTIONS", "true")]);
    let simulated = ["--ros-args", "-r", "__node:=simulated", "-p", "use_sim_time:=true"];
    let _simulated = start("subscriber.py", &simulated, &all);
    let mut relay = command("python3", &["-c", RELAY], domain());
    relay.stdin(Stdio::piped()).stdout(Stdio::piped());
    let topics = ("TOPICS", "/rosout,/imu,/rel*");
    let _relay = spawn(relay, &[PERIOD, topics, ("METRICS", "message_size,message_age")]);
    let mut rclrs = itself("messages::rclrs_node", domain());
    let _rclrs = spawn(
        {
            rclrs.stdout(Stdio::piped());
            rclrs
        },
        &[PERIOD],
    );

    let [imu, publisher, simulated, rclrs] =
        ["/subscriber:/imu", "/publisher:/imu", "/simulated:/imu", "/rclrs:/imu"];
    let [raw, relayed] = ["/relay:/imu", "/relay:/relayed"];
    let expected = [
        (imu, "message_age", COUNT),
        (imu, "source_to_receive_ms", COUNT),
        (imu, "source_to_callback_ms", COUNT),
        (imu, "publication_seq_gap", COUNT - 1.0), // the first message has no gap before it
        (imu, "message_size", 0.0),                // no size is guessed
        (publisher, "publish_duration_ms", COUNT),
        (publisher, "message_size", 0.0),
        (raw, "message_age", COUNT),
        (raw, "message_size", COUNT),
        (relayed, "message_size", COUNT),
        (simulated, "source_to_callback_ms", COUNT),
        (simulated, "message_age", 0.0), // nor an age on simulated time
        (rclrs, "message_age", COUNT),
    ];
    let sources = expected.map(|(source, metric, _)| (source, metric));
    settle(&mut reader, &sources);
    // The publisher begins with the fifth subscription: all readers have found all others.
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
    // The first message of a window has no period.
    for (source, samples, periods) in
        [(imu, "message_age", "message_period"), (publisher, "publish_duration_ms", "publish_period")]
    {
        let expected: f64 = of(metrics, source, samples).map(|window| (window.count() - 1.0).max(0.0)).sum();
        assert_eq!(count(metrics, source, periods), expected, "{source}");
        let windows: Vec<&Metric> = of(metrics, source, samples).collect();
        assert!(windows.windows(2).all(|pair| pair[0].stop == pair[1].start), "{windows:#?}");
        let mean = windows.iter().map(|window| window.length()).sum::<f64>() / windows.len() as f64;
        assert!((0.2..3.0).contains(&mean), "{mean} s");
    }
    for source in [imu, raw, rclrs] {
        let (least, greatest) = extremes(metrics, source, "message_age");
        assert!(AGE.1.contains(&least) && AGE.1.contains(&greatest), "{source}: {least} to {greatest} ms");
    }
    assert_eq!(extremes(metrics, imu, "publication_seq_gap"), (0.0, 0.0));
    // The bytes of an Imu with this frame.
    assert_eq!([raw, relayed].map(|source| extremes(metrics, source, "message_size")), [(324.0, 324.0); 2]);
    let units = ["message_age", "message_size"].map(|metric| &*of(metrics, raw, metric).next().unwrap().unit);
    assert_eq!(units, ["ms", "bytes"]);
    // Hops are sources with two topics.
    let others = ["/publisher:/number", "/relay:/rosout", "/simulated:/clock"];
    let found: BTreeSet<&str> = metrics.iter().map(|metric| &*metric.source).collect();
    let all = sources.map(|(source, _)| source).into_iter().chain(others).collect::<BTreeSet<_>>();
    let found = found.into_iter().filter(|source| source.starts_with('/')).collect::<BTreeSet<_>>();
    assert_eq!(found, all);
    // A distribution is that of its window.
    let last = of(metrics, imu, "message_age").filter(|window| window.count() > 0.0).last().unwrap();
    let mut distribution = None;
    wait_for("the distribution of this window", || {
        distribution = distributions
            .lock()
            .unwrap()
            .iter()
            .find(|message: &&MetricsDistribution| {
                message.metrics_source == "message_age" && nanoseconds(&message.window_start) == last.start
            })
            .cloned();
        distribution.is_some()
    });
    let found = distribution.unwrap();
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
    let metrics = ("METRICS", "message_age,message_period,publication_seq_gap");
    let mut node = spawn(node.command(domain()), &[("PERIOD", "0.5"), metrics]);
    // Of one topic, the source that is created later has a number.
    let [subscription, publisher] = ["/cpp:/imu", "/cpp:/imu (2)"];
    let [service, client] = ["/cpp:/set_camera_info", "/cpp:/set_camera_info (2)"];
    let expected = [
        (subscription, "message_age", COUNT),
        (subscription, "publication_seq_gap", COUNT - 1.0),
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
    // Stamps are 250 ms old, and the service responds after 10 ms.
    for (source, metric, delay) in [
        (subscription, "message_age", 250.0),
        (service, "response_duration_ms", 10.0),
        (client, "round_trip_ms", 10.0),
    ] {
        let (least, _) = extremes(&reader.metrics, source, metric);
        assert!((delay..10.0 * delay).contains(&least), "{source} {metric}: {least} ms");
    }
    node.end();
}
