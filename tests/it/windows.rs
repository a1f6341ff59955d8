// SPDX-License-Identifier: Apache-2.0

//! A node that uses its own statistics, and whose reports have the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::Receiver,
};

use rclrs::*;
use rclrs_topic_statistics::{
    health::Expectations, Metric, NodeStatistics, NodeStatisticsOptions, Timestamp,
};
use ros_env::{diagnostic_msgs::msg::DiagnosticArray, rcl_interfaces::msg::Log, sensor_msgs::msg::Imu};
use test_support::{
    collect, domain, node, program, shares_its_process, wait_for, Metric as Published, Process, Program,
    Reader, Spinning, LIMIT,
};

use crate::support::{every, samples, Received};

/// A node has several sources of one name, as every node that subscribes and publishes `/tf` does.
#[test]
fn every_report_has_the_windows_of_the_process() {
    if shares_its_process() {
        return;
    }
    const NAMES: [&str; 3] = ["/relay:/imu", "/relay:/imu (2)", "/relay:/imu (3)"];
    const MESSAGES: u64 = 239;
    let (executor, node) = node("relay", &[]);
    let expected = Expectations::new().warn_unless("/imu: rate>=0".parse().unwrap());
    let metrics = [Metric::MessagePeriod, Metric::MessageSize, Metric::ClockOffset];
    let options = NodeStatisticsOptions::new()
        .topic_statistics(every(200).metrics(metrics).expect(expected))
        .log_table(true);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let subscribe = || statistics.create_subscription("imu".keep_last(1000), |_: Imu| ()).unwrap();
    let (first, second) = (subscribe(), subscribe());
    let publisher = statistics.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
    let counter = statistics.create_counter("frames");
    assert_eq!([first.source_name(), second.source_name(), publisher.source_name()], NAMES);
    assert!(first.latest().is_none() && first.watch().borrow().is_none(), "no window has ended yet");
    let watched = [first.watch(), second.watch(), publisher.watch()].map(collect);
    let listener = executor.create_node("reader").unwrap();
    let diagnosed = Received::<DiagnosticArray>::on(&listener, "/diagnostics");
    let logged = Received::<Log>::on(&listener, "/rosout".keep_last(100).transient_local());
    let _spinning = Spinning::start(executor);
    let mut reader = Reader::start(domain());
    reader.read_until("windows", |metrics| {
        NAMES.iter().all(|name| metrics.iter().any(|metric| metric.source == *name))
    });
    wait_for("subscriptions", || publisher.get_subscription_count().unwrap() == 2);
    for _ in 0..MESSAGES {
        publisher.publish(Imu::default()).unwrap();
        counter.add(3);
    }
    let counts = |metrics: &[Published]| {
        NAMES.map(|name| test_support::of(metrics, name, "message_size").map(Published::count).sum::<f64>())
    };
    reader.read_until("all messages", |metrics| counts(metrics).iter().sum::<f64>() >= 3.0 * MESSAGES as f64);
    assert_eq!(counts(&reader.metrics), [MESSAGES as f64; 3]);
    assert_eq!(watched.each_ref().map(|windows| samples(windows, Metric::MessageSize)), [MESSAGES; 3]);
    let mut totals: Vec<_> =
        statistics.totals().into_iter().map(|topic| (topic.source_name, topic.totals.received)).collect();
    totals.sort();
    assert_eq!(totals, [0, 1].map(|index: usize| (NAMES[index].to_owned(), MESSAGES)));

    let by_name: BTreeMap<_, _> = NAMES.into_iter().zip(&watched).collect();
    let at = Timestamp::as_nanoseconds;
    for message in reader.metrics.iter().filter(|message| by_name.contains_key(message.source.as_str())) {
        let windows = by_name[message.source.as_str()].lock().unwrap();
        let window = windows.iter().find(|window| at(window.window.stop) == message.stop).unwrap();
        let summary = window.get(message.metric.parse().unwrap()).unwrap();
        let (average, count) = (summary.average, summary.sample_count as f64);
        let is_same =
            message.average().total_cmp(&average).is_eq() || average.is_nan() && message.average().is_nan();
        assert!(is_same && message.count() == count, "{message:?} {window:?}");
        assert_eq!(message.start, at(window.window.start));
    }
    // The offset of the clock is published once per window and node.
    let clocks: Vec<_> =
        reader.metrics.iter().filter(|message| message.metric == "clock_offset_ms").collect();
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(!clocks.is_empty() && clocks.iter().all(|clock| clock.source == hostname.trim()), "{clocks:?}");
    assert!(clocks.windows(2).all(|pair| pair[0].stop == pair[1].start), "{clocks:?}");

    wait_for("health of each source", || {
        let statuses = diagnosed.all().into_iter().flat_map(|message| message.status);
        let names: BTreeSet<_> = statuses.map(|status| status.name).collect();
        names == ["relay: /imu", "relay: /imu (2)", "relay: /imu (3)"].map(str::to_owned).into()
    });
    let table = "Topic statistics of 200ms:\n";
    wait_for("a table in the node's log", || {
        logged.has(|log| {
            let rows = log.msg.lines().map(|line| line.split("  ").next().unwrap());
            let rows: BTreeSet<_> = rows.collect();
            let has_rows = NAMES.iter().chain(&["/relay:frames"]).all(|name| rows.contains(name));
            log.name == "relay" && log.msg.starts_with(table) && has_rows
        })
    });
    let windows = first.watch();
    drop(first);
    wait_for("end of the windows", || windows.has_changed().is_err());
}

/// Reads a log until a line contains a text. Returns the lines before it.
fn wait_for_line(log: &Receiver<String>, text: &str) -> Vec<String> {
    let mut before = vec![];
    loop {
        let line = log.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no {text:?}: {before:#?}"));
        if line.contains(text) {
            return before;
        }
        before.push(line);
    }
}

#[test]
fn the_watchdog_logs_late_messages_silence_and_recovery() {
    let domain = domain();
    let arguments = ["--ros-args", "-p", "age_limit:=1.0"];
    let (_watchdog, log) = Process::start_logging(program("watchdog"), &arguments, domain);
    wait_for_line(&log, "No messages come on /imu");
    let fresh = Program::start("publisher.py", &[], domain);
    wait_for_line(&log, "Messages on /imu come in time");
    drop(fresh);
    wait_for_line(&log, "No messages come on /imu");
    let _late = Program::start("publisher.py", &["--stamp-age", "5"], domain);
    let before = wait_for_line(&log, "ms old; 1000.0 ms are allowed");
    assert!(!before.iter().any(|line| line.contains("WARN")), "{before:#?}");
}
