// SPDX-License-Identifier: Apache-2.0

//! rclpy nodes with statistics: publishers and subscriptions.

use std::process::{Command, Stdio};

use test_support::{domain, of, wait_for, Program, Reader};

use crate::preloaded;

const SUBSCRIPTION: &str = "/subscriber:/imu";
const PUBLISHER: &str = "/publisher:/imu";
const COUNT: u32 = 200;

fn start(mut command: Command, options: &[(&str, &str)]) -> Program {
    preloaded(&mut command, options);
    command.spawn().unwrap().into()
}

fn subscriber(arguments: &[&str], options: &[(&str, &str)]) -> Program {
    start(Program::command("subscriber.py", arguments, domain()), options)
}

/// Returns the sum of the sample counts of a metric.
fn sum(reader: &Reader, source: &str, metric: &str) -> u32 {
    of(&reader.metrics, source, metric).map(|window| window.count() as u32).sum()
}

/// Reads until there are windows of these sources.
fn read_windows_of(reader: &mut Reader, sources: &[&str]) {
    reader.read_until("windows", |metrics| {
        sources.iter().all(|source| metrics.iter().any(|metric| metric.source == *source))
    });
}

/// Reads until a metric has that many samples, and its next window.
fn read_samples(reader: &mut Reader, source: &str, metric: &str, count: u32) {
    reader.read_until(&format!("{count} samples of {metric}"), |metrics| {
        let counts: Vec<u32> = of(metrics, source, metric).map(|window| window.count() as u32).collect();
        counts.iter().sum::<u32>() >= count && counts.last() == Some(&0)
    });
}

#[test]
fn each_message_that_rclpy_takes_and_publishes_is_in_one_window() {
    let mut reader = Reader::start(domain());
    let options = [("PERIOD", "0.5"), ("METRICS", "all")];
    // It begins with the second subscription: until then the reader has found both.
    let count = COUNT.to_string();
    let arguments = ["--rate", "100", "--stamp-age", "0.25", "--count", &count, "--subscribers", "2"];
    let publisher = start(Program::command("publisher.py", &arguments, domain()), &options);
    let mut measured = subscriber(&[], &options);
    read_windows_of(&mut reader, &[PUBLISHER, SUBSCRIPTION]);
    let mut plain = Program::start("subscriber.py", &[], domain());
    wait_for("all messages", || plain.request("count").parse() == Ok(COUNT));

    read_samples(&mut reader, SUBSCRIPTION, "message_age", COUNT);
    read_samples(&mut reader, PUBLISHER, "publish_duration_ms", COUNT);
    assert_eq!(measured.request("count"), count);
    for metric in ["message_age", "source_to_receive_ms", "source_to_callback_ms"] {
        assert_eq!(sum(&reader, SUBSCRIPTION, metric), COUNT, "{metric}");
    }
    // The first message has no gap before it.
    assert_eq!(sum(&reader, SUBSCRIPTION, "publication_seq_gap"), COUNT - 1);
    let is_exact = |metric: &str, source: &str| {
        // The first message of a window has no period.
        let windows = of(&reader.metrics, source, "message_age").chain(of(
            &reader.metrics,
            source,
            "publish_duration_ms",
        ));
        let expected: f64 = windows.map(|window| (window.count() - 1.0).max(0.0)).sum();
        assert_eq!(f64::from(sum(&reader, source, metric)), expected, "{metric}");
    };
    is_exact("message_period", SUBSCRIPTION);
    is_exact("publish_period", PUBLISHER);

    let unknown = |source| reader.windows(source, "message_size").iter().all(|size| size.average().is_nan());
    assert!(unknown(SUBSCRIPTION) && unknown(PUBLISHER), "no size is guessed");

    let with_messages = |source: &'static str, metric: &'static str| {
        let windows = reader.windows(source, metric).into_iter();
        windows.filter(|window| window.count() > 2.0)
    };
    for age in with_messages(SUBSCRIPTION, "message_age") {
        assert!((250.0..1000.0).contains(&age.minimum()) && age.maximum() < 2000.0, "{age:?}");
        assert_eq!(age.unit, "ms");
    }
    for gap in with_messages(SUBSCRIPTION, "publication_seq_gap") {
        assert_eq!((gap.minimum(), gap.maximum()), (0.0, 0.0), "{gap:?}");
    }
    // The messages of a window are in it, and all of it has messages, but for the first and the last window.
    for (source, metric) in [(SUBSCRIPTION, "message_period"), (PUBLISHER, "publish_period")] {
        let shares = with_messages(source, metric)
            .map(|window| window.average() * window.count() / (window.length() * 1e3));
        let shares: Vec<f64> = shares.collect();
        assert!(shares.iter().all(|share| (0.0..1.01).contains(share)), "{metric}: {shares:?}");
        assert!(shares.iter().any(|share| *share > 0.8), "{metric}: {shares:?}");
    }
    for windows in [reader.windows(SUBSCRIPTION, "message_age"), reader.windows(PUBLISHER, "publish_period")]
    {
        assert!(windows.windows(2).all(|pair| pair[0].stop == pair[1].start), "{windows:#?}");
        // Each is longer or shorter if the thread that ends it, or the one before, is held up.
        let mut lengths: Vec<f64> = windows.iter().map(|window| window.length()).collect();
        lengths.sort_by(f64::total_cmp);
        assert!((0.4..0.9).contains(&lengths[lengths.len() / 2]), "{windows:#?}");
    }
    let of_host = |metric: &test_support::Metric| metric.metric == "clock_offset_ms";
    let is_expected =
        |source: &str| ["/publisher:/imu", "/publisher:/number", SUBSCRIPTION].contains(&source);
    let others = reader.metrics.iter().find(|metric| !of_host(metric) && !is_expected(&metric.source));
    assert!(others.is_none(), "{others:?}");
    drop(publisher);
}

#[test]
fn a_serialized_message_has_an_age_and_a_size() {
    let mut reader = Reader::start(domain());
    let _publisher = Program::start("publisher.py", &["--stamp-age", "0.25"], domain());
    let mut subscriber =
        subscriber(&["--raw"], &[("PERIOD", "0.5"), ("METRICS", "message_age,message_size")]);
    reader.read_until("sizes", |metrics| {
        of(metrics, SUBSCRIPTION, "message_size").any(|size| size.count() > 5.0)
    });
    let ages = reader.windows(SUBSCRIPTION, "message_age");
    let age = ages.iter().find(|age| age.count() > 5.0).unwrap();
    assert!((250.0..1000.0).contains(&age.minimum()) && age.average() < 2000.0, "{age:?}");
    let bytes: f64 = subscriber.request("size").parse().unwrap();
    let sizes = reader.windows(SUBSCRIPTION, "message_size");
    let size = sizes.iter().find(|size| size.count() > 5.0).unwrap();
    assert!(bytes > 300.0 && [size.minimum(), size.maximum()] == [bytes; 2], "{bytes} bytes: {size:?}");
}

#[test]
fn a_serialized_publication_has_a_size() {
    const SCRIPT: &str = "
import sys, rclpy
from rclpy.serialization import serialize_message
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node('relay')
publisher = node.create_publisher(String, 'text', 10)
message = serialize_message(String(data='twelve bytes'))
for line in sys.stdin:
    publisher.publish(message)
    print(len(message), flush=True)
";
    let mut reader = Reader::start(domain());
    let mut command = test_support::command("python3", &["-c", SCRIPT], domain());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut relay = start(command, &[("PERIOD", "0.3"), ("METRICS", "message_size")]);
    read_windows_of(&mut reader, &["/relay:/text"]);
    let bytes: f64 = relay.request("publish").parse().unwrap();
    read_samples(&mut reader, "/relay:/text", "message_size", 1);
    let sizes = reader.windows("/relay:/text", "message_size");
    let size = sizes.iter().find(|size| size.count() > 0.0).unwrap();
    assert!(
        bytes >= 4.0 + 4.0 + 13.0 && size.average() == bytes && size.unit == "bytes",
        "{bytes}: {size:?}"
    );
}

#[test]
fn on_simulated_time_an_age_is_not_guessed() {
    let mut reader = Reader::start(domain());
    let _publisher = Program::start("publisher.py", &[], domain());
    let arguments = ["--ros-args", "-p", "use_sim_time:=true"];
    let _subscriber =
        subscriber(&arguments, &[("PERIOD", "0.5"), ("METRICS", "message_age,source_to_callback_ms")]);
    reader.read_until("delays", |metrics| {
        of(metrics, SUBSCRIPTION, "source_to_callback_ms").any(|delay| delay.count() > 5.0)
    });
    let ages = reader.windows(SUBSCRIPTION, "message_age");
    assert!(
        !ages.is_empty() && ages.iter().all(|age| age.count() == 0.0 && age.average().is_nan()),
        "{ages:#?}"
    );
}

#[test]
fn the_nodes_of_a_process_share_a_publisher_that_outlives_the_first_one() {
    let mut reader = Reader::start(domain());
    let _publisher = Program::start("publisher.py", &[], domain());
    let mut nodes = subscriber(&["--nodes", "3", "--destroy-first"], &[("PERIOD", "0.3")]);
    let others = ["/subscriber_1:/imu", "/subscriber_2:/imu"];
    read_windows_of(&mut reader, &[SUBSCRIPTION, others[0], others[1]]);
    nodes.request("destroy the first one");
    let has_messages = |metrics: &[test_support::Metric], source: &str, after: i64| {
        of(metrics, source, "message_period").any(|window| window.start > after && window.count() > 5.0)
    };
    let destroyed = reader.metrics.iter().map(|metric| metric.stop).max().unwrap();
    // Some windows are lost until the reader has found the new publisher.
    reader.read_until("windows of the others", |metrics| {
        others.iter().all(|source| has_messages(metrics, source, destroyed + 1_000_000_000))
    });
    assert!(!has_messages(&reader.metrics, SUBSCRIPTION, destroyed + 1_000_000_000));
    nodes.end();
}

#[test]
fn only_the_topics_that_are_wanted_are_measured() {
    let mut reader = Reader::start(domain());
    let options = [("PERIOD", "0.3"), ("TOPICS", "/num*,/rosout")];
    let _publisher = start(Program::command("publisher.py", &[], domain()), &options);
    reader.read_until("windows", |metrics| metrics.len() > 20);
    let mut sources: Vec<&str> = reader.metrics.iter().map(|metric| &*metric.source).collect();
    sources.sort_unstable();
    sources.dedup();
    assert_eq!(sources, ["/publisher:/number", "/publisher:/rosout"]);
}

#[test]
fn a_process_that_does_not_end_its_nodes_exits_as_without_statistics() {
    const SCRIPT: &str = "
import os, sys, time, rclpy
from std_msgs.msg import Int32
rclpy.init()
node = rclpy.create_node('leaving')
publisher = node.create_publisher(Int32, 'number', 10)
end = time.monotonic() + 0.3
while time.monotonic() < end:
    publisher.publish(Int32())
    time.sleep(0.001)
EXIT
";
    for exit in ["sys.exit(3)", "os._exit(3)", "pass", "os.abort()", "os.kill(os.getpid(), 2); time.sleep(9)"]
    {
        let run = |with_statistics: bool| {
            let script = SCRIPT.replace("EXIT", exit);
            let mut command = test_support::command("python3", &["-c", &script], domain());
            if with_statistics {
                preloaded(&mut command, &[("PERIOD", "0.001")]);
            }
            let output = command.stderr(Stdio::piped()).output().unwrap();
            (output.status, String::from_utf8_lossy(&output.stderr).contains("topic_statistics"))
        };
        assert_eq!(run(true), (run(false).0, false), "{exit}");
    }
}
