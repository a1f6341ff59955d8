// SPDX-License-Identifier: Apache-2.0

//! When the system clock is stepped, each value of the statistics is correct or NaN.
//!
//! The test steps the clock of one process, the stepped host. Readers run on the machine's clock, which is not stepped.
//! The core's unit tests and the simulator check exact values. These tests only find values that contain the step. Such
//! values are easy to recognize, because each step is far longer than any delay.

use std::{collections::BTreeMap, time::Duration};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoStatsOptions, Metric as Measured, NodeStatistics, NodeStatisticsOptions, SourceName,
    StatisticsOptions,
};
use ros_env::sensor_msgs::msg::Imu;
use saphyr::{LoadableYamlNode, Yaml};
use test_support::{
    clock::SteppedClock, domain, itself, lines, node, Metric, Process, Program, Reader, Spinning,
};

const S: i64 = 1_000_000_000;

/// A change of the clock of a host, in seconds.
#[derive(Clone, Copy)]
enum Change {
    Step(i64),
    Suspend(i64),
}

/// The range of correct figures in ms. A figure that contains a step is wrong by a second or more.
const RIGHT: std::ops::Range<f64> = -250.0..5000.0;
/// The range of the ages of simulated stamps, in ms. The simulator stamps each message a simulated second in the past.
const SIMULATED_AGE: std::ops::Range<f64> = 500.0..5000.0;

/// The source name of a subscription to messages that the stepped host itself publishes.
const OWN: &str = "/stepped:/own";
/// The source name of a second subscription to these messages. The callback of this subscription is slow, so its queue
/// of ten messages is always full.
const QUEUED: &str = "queued";
/// The source name of a subscription to messages from a process whose clock is not stepped.
const FOREIGN: &str = "/stepped:/foreign";
/// The source name of a subscription to messages with simulated stamps, from a process whose clock is not stepped.
const SIMULATED: &str = "/simulated:/imu";
/// The environment variable with the path of the file of totals, for the stepped host.
const TOTALS: &str = "HOST_TOTALS";
const PERIOD: Duration = Duration::from_millis(50);

/// For each source, the metrics that the test waits for. These metrics have samples with any middleware.
const METRICS: [(&str, &[&str]); 4] = [
    (OWN, &["message_period", "callback_duration_ms", "header_to_source_ms", "message_age"]),
    (QUEUED, &["message_period", "callback_duration_ms", "source_to_callback_ms", "message_age"]),
    (FOREIGN, &["message_period", "source_to_callback_ms", "message_age"]),
    (SIMULATED, &["message_period", "source_to_callback_ms", "message_age"]),
];

/// Starts to publish messages with stamps at 20 Hz.
fn start_talker(node: &Node, topic: &str) -> Timer {
    let publisher = node.create_publisher::<Imu>(topic.keep_last(100)).unwrap();
    let clock = node.get_clock();
    let publish = move || {
        let mut imu = Imu::default();
        imu.header.stamp = clock.now().to_ros_msg().unwrap();
        // Fast DDS may refuse to publish while the clock is stepped forward. If so, this message is not sent.
        drop(publisher.publish(imu));
    };
    node.create_timer_repeating(PERIOD, publish).unwrap()
}

/// The program of the stepped host. The program ends when its standard input ends.
#[test]
#[ignore = "is the host of the other test"]
fn stepped_host() {
    // The variable ROS_DOMAIN_ID contains the domain of the test.
    let create = |name: &str, arguments: &[&str]| {
        let arguments = arguments.iter().map(|argument| argument.to_string());
        let executor = Context::new(arguments, InitOptions::default()).unwrap().create_basic_executor();
        let node = executor.create_node(name).unwrap();
        (executor, node)
    };
    let (executor, stepped) = create("stepped", &[]);
    let (simulated_executor, simulated) = create("simulated", &["--ros-args", "-p", "use_sim_time:=true"]);
    let windows = || {
        let windows = StatisticsOptions::new().publish_period(Duration::from_millis(500));
        windows.metrics(Measured::OF_SUBSCRIPTIONS)
    };
    let options = NodeStatisticsOptions::from(windows()).totals_file(std::env::var(TOTALS).unwrap());
    let statistics = NodeStatistics::with_options(&stepped, options).unwrap();
    let simulated = NodeStatistics::with_options(&simulated, windows()).unwrap();
    let _talker = start_talker(&stepped, "own");
    let _own = statistics.create_subscription("own".keep_last(10), |_: Imu| ()).unwrap();
    let _foreign = statistics.create_subscription("foreign".keep_last(10), |_: Imu| ()).unwrap();
    let _simulated = simulated.create_subscription("imu".keep_last(10), |_: Imu| ()).unwrap();
    // The callback takes longer than the period of the messages, so that messages wait in the middleware's queue.
    let slow = |_: Imu| std::thread::sleep(PERIOD + PERIOD / 2);
    let named = windows().source_name(SourceName::Custom(QUEUED.to_owned()));
    let (worker, topic) = (stepped.create_worker(()), "own".keep_last(10).statistics(named));
    let _queued = statistics.create_worker_subscription(&worker, topic, slow).unwrap();
    let _spinning = [executor, simulated_executor].map(Spinning::start);
    lines(std::io::stdin()).iter().for_each(drop);
}

/// Returns texts about the wrong windows of a metric. A window must start at the stop of the previous window, except
/// after a step.
fn faults(windows: &[&Metric], steps: &[i64]) -> Vec<String> {
    let (source, metric) = (&*windows[0].source, &*windows[0].metric);
    let is_age = ["message_age", "header_to_callback_ms"].contains(&metric);
    let is_simulated = is_age && source == SIMULATED;
    let begins_at_sender = is_age || ["source_to_receive_ms", "source_to_callback_ms"].contains(&metric);
    // Whether the metric compares a time of an unstepped host with a time of the stepped host.
    let is_across = begins_at_sender && [FOREIGN, SIMULATED].contains(&source) && !is_simulated;
    let is_within_host = ["header_to_source_ms", "receive_to_callback_ms"].contains(&metric);
    let uses_clock = !is_simulated && (begins_at_sender || is_within_host);
    let right = match uses_clock {
        _ if is_simulated => SIMULATED_AGE,
        true => RIGHT,
        false => 0.0..RIGHT.end,
    };
    let (mut seen, mut stop, mut faults) = (vec![], windows[0].start, vec![]);
    for window in windows {
        let gap = window.start - stop;
        stop = window.stop;
        let is_of_step = gap.abs() > S / 1000;
        if is_of_step {
            seen.push((gap as f64 / S as f64).round() as i64);
        }
        let offset = if is_across { seen.iter().sum::<i64>() as f64 * 1e3 } else { 0.0 };
        let is_right = |figure: f64| figure.is_nan() || right.contains(&(figure - offset));
        let figures = [window.minimum(), window.average(), window.maximum()];
        // If the clock was stepped in a window, this window must have no age.
        let has_age_of_step = is_of_step && uses_clock && window.count() > 0.0;
        if has_age_of_step || !figures.into_iter().all(is_right) || window.length() >= 5.0 {
            faults.push(format!("after steps of {seen:?} s: {window:?}"));
        }
    }
    if seen != steps {
        faults.push(format!("{source}: gaps of {seen:?} s; steps of {steps:?} s"));
    }
    faults
}

#[test]
fn clock_steps_and_a_suspend_make_no_figure_wrong() {
    // A step of one second back is what a system without leap seconds does at a leap second.
    let changes = [Change::Step(-60), Change::Step(3600), Change::Step(-1), Change::Suspend(30)];
    let Some(clock) = SteppedClock::new() else { return };
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let file = directory.path().join("totals.yaml");
    let mut reader = Reader::start_with_depth(domain, 2000); // holds the windows of a pause of the reader
    let mut simulator = Program::start("simulator.py", &["--stamp-age", "1.0"], domain);
    simulator.send("begin");
    let (executor, talker) = node("talker", &[]);
    let _foreign = (start_talker(&talker, "foreign"), Spinning::start(executor));
    let mut command = itself("stepped_host", domain);
    command.env(TOTALS, &file).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    clock.preload(&mut command);
    let mut process = Process::spawn(&mut command);
    let log = lines(process.errors());

    // After each change of the clock, the test waits for windows with samples of each metric.
    let metrics = METRICS.iter().flat_map(|(source, all)| all.iter().map(move |metric| (*source, *metric)));
    let metrics: Vec<(&str, &str)> = metrics.collect();
    let (mut counts, mut seen) = (vec![0; metrics.len()], 0);
    for change in [None].into_iter().chain(changes.map(Some)) {
        match change {
            Some(Change::Step(seconds)) => clock.step(seconds * S),
            Some(Change::Suspend(seconds)) => clock.suspend(seconds * S),
            None => {}
        }
        let before = counts.clone();
        // The reader may be a window behind when the clock is changed, so the test waits for three windows.
        reader.read_until("windows of each metric", |read| {
            for window in read[seen..].iter().filter(|window| window.count() > 0.0) {
                let is_it = |(source, metric): &_| window.source == *source && window.metric == *metric;
                metrics.iter().position(is_it).into_iter().for_each(|metric| counts[metric] += 1);
            }
            seen = read.len();
            counts.iter().zip(&before).all(|(count, before)| *count >= before + 3)
        });
    }
    drop(process.input());
    assert!(process.wait().success());

    let steps = changes.map(|(Change::Step(seconds) | Change::Suspend(seconds))| seconds);
    let mut windows: BTreeMap<(&str, &str), Vec<&Metric>> = BTreeMap::new();
    for window in
        reader.metrics.iter().filter(|window| METRICS.iter().any(|metrics| metrics.0 == window.source))
    {
        windows.entry((&window.source, &window.metric)).or_default().push(window);
    }
    let faults: Vec<String> = windows.values().flat_map(|windows| faults(windows, &steps)).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults[..faults.len().min(60)].join("\n"));

    let size = |line: String| -> Option<i64> {
        let (node, size) = line.split_once("The system clock was stepped by ")?;
        let size: f64 = size.split(" s: ").next()?.parse().ok()?;
        node.contains("[stepped]").then_some(size.round() as i64)
    };
    assert_eq!(log.iter().filter_map(size).collect::<Vec<_>>(), steps, "one warning for each step");
    let text = std::fs::read_to_string(file).unwrap();
    let file = &Yaml::load_from_str(&text).unwrap()[0];
    let topics = file["topics"].as_sequence().unwrap();
    assert_eq!(topics.len(), 3);
    for topic in topics {
        let [first, last] = ["first_message", "last_message"].map(|time| topic[time].as_integer().unwrap());
        assert!((0..600 * S).contains(&(last - first)), "no step is in between: {topic:?}");
        let rate = topic["messages_rate"].as_floating_point().unwrap();
        assert!((1.0..200.0).contains(&rate), "{topic:?}");
    }
}
