// SPDX-License-Identifier: Apache-2.0

//! Hops: the time from a message to the publication in its callback, in real rclpy nodes.

use std::{
    process::Stdio,
    time::{SystemTime, UNIX_EPOCH},
};

use test_support::{command, domain, of, wait_for, Metric, Program, Reader};

use crate::preloaded;

const METRIC: &str = "input_to_output_ms";
const COUNT: u32 = 30;

fn start(name: &str, arguments: &[&str]) -> Program {
    let mut command = Program::command("chain.py", &[&[name], arguments].concat(), domain());
    preloaded(&mut command, &[("PERIOD", "0.3"), ("METRICS", METRIC)]);
    command.spawn().unwrap().into()
}

/// Returns the number of samples of a metric, and their sum.
fn sum(metrics: &[Metric], source: &str, metric: &str) -> (u32, f64) {
    of(metrics, source, metric)
        .filter(|window| window.count() > 0.0)
        .fold((0, 0.0), |(count, sum), window| {
            (count + window.count() as u32, sum + window.count() * window.average())
        })
}

/// Publishes one message after the other until all sources have published a window.
fn create(reader: &mut Reader, by: &mut Program, sources: &[&str]) {
    wait_for("windows", || {
        by.request("publish 1");
        reader.read_received();
        sources.iter().all(|source| of(&reader.metrics, source, METRIC).next().is_some())
    });
}

/// Reads until each source has published a window that began after this moment.
fn settle(reader: &mut Reader, sources: &[(&str, &str)]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    reader.read_until("a later window", |metrics| {
        sources.iter().all(|(source, metric)| of(metrics, source, metric).any(|window| window.start > now))
    });
}

#[test]
fn the_hops_of_a_chain_add_up_to_what_its_last_node_measures() {
    const HOPS: [&str; 3] = ["/first:/imu:/a", "/second:/a:/b", "/third:/b:/c"];
    let mut reader = Reader::start(domain());
    let mut source = Program::start("chain.py", &["source", "/imu"], domain());
    let _first = start("first", &["/imu", "/a"]);
    let _second = start("second", &["/a", "/b", "--delay", "0.03"]);
    let mut third = start("third", &["/b", "/c"]);
    create(&mut reader, &mut source, &HOPS);
    let mut measure = || {
        // Of the messages from now on, each hop has a sample.
        let last = source.request("last");
        wait_for("the last message before", || third.request("last") == last);
        settle(&mut reader, &HOPS.map(|hop| (hop, METRIC)));
        let before = HOPS.map(|hop| sum(&reader.metrics, hop, METRIC));
        third.request("age");
        source.request(&format!("publish {COUNT}"));
        reader.read_until("all samples", |metrics| {
            HOPS.iter().zip(before).all(|(hop, (before, _))| sum(metrics, hop, METRIC).0 >= before + COUNT)
        });
        let after = HOPS.map(|hop| sum(&reader.metrics, hop, METRIC));
        let means: Vec<f64> = (before.iter().zip(&after))
            .map(|((count_before, before), (count, after))| {
                assert_eq!(count - count_before, COUNT);
                (after - before) / f64::from(COUNT)
            })
            .collect();
        let whole: f64 = third.request("age").parse().unwrap();
        let added: f64 = means.iter().sum();
        assert!(means[1] >= 30.0 && means[0] > 0.0 && means[2] > 0.0, "{means:?}");
        (whole, added)
    };
    // Between the hops are the serialization of three messages, and Python's call up to the middleware. A process that is
    // held up there for long is in the whole only: then again.
    let mut measured = vec![];
    let fits = (0..5).any(|_| {
        let (whole, added) = measure();
        measured.push((whole, added));
        (whole - 5.0..=whole + 1.0).contains(&added)
    });
    assert!(fits, "measured, and the sum of the hops: {measured:.2?} ms");
}

#[test]
fn only_the_callback_of_a_message_makes_a_hop_whatever_the_executor_and_its_timers_do() {
    for threads in ["1", "4"] {
        let mut reader = Reader::start(domain());
        let arguments = ["/imu", "/called", "--timed", "/timed", "--stored", "/number", "--threads", threads];
        let name = format!("node_{threads}");
        let mut node = start(&name, &arguments);
        let mut source = Program::start("chain.py", &["source", "/imu"], domain());
        let mut other = Program::start("chain.py", &["other", "/number"], domain());
        let hop = format!("/{name}:/imu:/called");
        create(&mut reader, &mut source, &[&hop]);
        let before = sum(&reader.metrics, &hop, METRIC).0;
        other.send("publish 100");
        source.request("publish 100");
        let timed = format!("/{name}:/timed");
        reader.read_until("samples", |metrics| {
            sum(metrics, &hop, METRIC).0 >= before + 100
                && sum(metrics, &timed, "publish_duration_ms").0 >= 100
        });
        other.read("answer");
        settle(&mut reader, &[(&hop, METRIC)]);
        let count = node.request("count").parse::<u32>().unwrap();
        let samples = sum(&reader.metrics, &hop, METRIC).0;
        assert!((before + 100..=count).contains(&samples), "{samples} samples, {count} publications");
        let hops: Vec<&Metric> = reader.metrics.iter().filter(|metric| metric.metric == METRIC).collect();
        assert!(hops.iter().all(|metric| metric.source == hop), "{hops:#?}");
        drop(other);
    }
}

#[test]
fn of_two_inputs_that_a_program_takes_by_itself_none_is_taken_for_the_cause() {
    const SCRIPT: &str = "
import ctypes, sys, time, rclpy
from sensor_msgs.msg import Imu
rclpy.init()
node = rclpy.create_node('fusion')
inputs = [node.create_subscription(Imu, topic, lambda message: None, 100) for topic in ('a', 'b')]
publishers = [node.create_publisher(Imu, topic, 100) for topic in ('a', 'b')]
output = node.create_publisher(Imu, 'out', 10)
# The functions as a C++ program calls them.
functions = ctypes.CDLL(None)
def take(index):
    publishers[index].publish(Imu())
    while inputs[index].handle.take_message(Imu, False) is None:
        time.sleep(0.001)
for line in sys.stdin:
    for step in line.split():
        if step in '01':
            take(int(step))
        elif step == 'wait':
            rclpy.spin_once(node, timeout_sec=0)
        elif step == 'start':
            functions.ros_trace_callback_start(None, ctypes.c_bool(False))
        elif step == 'end':
            functions.ros_trace_callback_end(None)
        elif step == 'timer':
            functions.rcl_timer_call(None)
            ctypes.CDLL('librcutils.so').rcutils_reset_error()
        else:
            output.publish(Imu())
    print('done', flush=True)
";
    const HOP: &str = "/fusion:/a:/out";
    const SOURCES: [(&str, &str); 2] = [(HOP, METRIC), ("/fusion:/out", "publish_duration_ms")];
    let mut reader = Reader::start(domain());
    let mut command = command("python3", &["-c", SCRIPT], domain());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    preloaded(&mut command, &[("PERIOD", "0.3"), ("METRICS", METRIC)]);
    let mut fusion: Program = command.spawn().unwrap().into();
    wait_for("the hop", || {
        fusion.request("wait 0 publish wait");
        reader.read_received();
        of(&reader.metrics, HOP, METRIC).next().is_some()
    });
    let mut publish = |steps: &str| loop {
        // In windows of their own.
        settle(&mut reader, &SOURCES);
        let (before, (hops, _)) = (reader.metrics.len(), sum(&reader.metrics, HOP, METRIC));
        fusion.request(steps);
        settle(&mut reader, &SOURCES);
        let of_steps = of(&reader.metrics[before..], "/fusion:/out", "publish_duration_ms");
        match of_steps.filter(|window| window.count() > 0.0).count() {
            0 => panic!("no publication"),
            1 => return sum(&reader.metrics, HOP, METRIC).0 - hops,
            _ => continue, // a window ended between two steps
        }
    };
    assert_eq!(publish("wait 0 publish"), 1, "one input");
    assert_eq!(publish("wait 0 1 publish"), 0, "two inputs, and nothing says which of them is worked on");
    assert_eq!(publish("wait 0 publish wait 1 0 publish"), 0, "no mean of some of the messages");
    assert_eq!(
        publish("wait 0 start publish end"),
        0,
        "by a tracepoint of rclcpp, the callback is another one"
    );
    assert_eq!(publish("wait 0 start end publish"), 0, "the callback has returned");
    assert_eq!(publish("wait 0 wait publish"), 0, "another round");
    assert_eq!(publish("wait 0 publish timer publish"), 1, "a timer has been called");
}
