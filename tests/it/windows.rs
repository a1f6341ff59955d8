// SPDX-License-Identifier: Apache-2.0

//! A node reads its own statistics. All reports have the same figures as the node reads.

use std::collections::BTreeSet;

use rclrs_topic_statistics::TopicTotals;
use ros_env::diagnostic_msgs::msg::DiagnosticArray;
use test_support::Metric as Published;

use crate::{
    conformance::{are_same, figures},
    support::*,
};

/// Several sources of the node have the same topic, as in every node that subscribes to `/tf` and also publishes it.
#[test]
fn every_report_has_the_windows_of_the_process() {
    if shares_its_process() {
        return;
    }
    const NAMES: [&str; 3] = ["/relay:/imu", "/relay:/imu (2)", "/relay:/imu (3)"];
    const MESSAGES: u64 = 239;
    let expected = Expectations::new().warn_unless("/imu: rate>=0".parse().unwrap());
    let metrics = [Metric::MessagePeriod, Metric::MessageSize, Metric::ClockOffset];
    let options =
        NodeStatisticsOptions::new().statistics(every(200).metrics(metrics).expect(expected)).log_table(true);
    let (executor, _node, statistics) = measured("relay", options);
    let [first, second] = [(); 2].map(|()| subscribe::<Imu>(&statistics, "imu".keep_last(1000)));
    let publisher = statistics.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
    let counter = statistics.create_counter("frames");
    let sources = [first.statistics(), second.statistics(), publisher.statistics()];
    assert_eq!(sources.map(|source| source.source_name()), NAMES);
    assert!(
        first.statistics().latest().is_none() && first.statistics().watch().borrow().is_none(),
        "no window has ended yet"
    );
    let watched = sources.map(|source| Windows::collect(source.watch()));
    let listener = executor.create_node("reader").unwrap();
    let diagnosed = Received::<DiagnosticArray>::on(&listener, "/diagnostics");
    let logged = Received::<Log>::on(&listener, "/rosout".keep_last(100).transient_local());
    let _spinning = Spinning::start(executor);
    let mut reader = Reader::start(domain());
    reader.read_until("windows", |metrics| {
        NAMES.iter().all(|name| metrics.iter().any(|metric| metric.source == *name))
    });
    wait_for("subscriptions", || publisher.get_subscription_count().unwrap() == 2);
    for number in 1..=MESSAGES {
        publisher.publish(Imu::default()).unwrap();
        counter.add(3);
        if number % 8 == 0 {
            // The test waits for each eighth message before it sends the next message, so that messages are recorded
            // even while a window ends.
            let is_received = |topic: TopicTotals| topic.totals.received == number;
            wait_for("messages", || statistics.totals().into_iter().all(is_received));
        }
    }
    let counts = |metrics: &[Published]| {
        NAMES.map(|name| {
            test_support::windows_of(metrics, name, "message_size").map(Published::count).sum::<f64>()
        })
    };
    reader.read_until("all messages", |metrics| counts(metrics).iter().sum::<f64>() >= 3.0 * MESSAGES as f64);
    assert_eq!(counts(&reader.metrics), [MESSAGES as f64; 3]);
    assert_eq!(watched.each_ref().map(|windows| windows.total(Metric::MessageSize)), [MESSAGES; 3]);
    let totals = statistics.totals().into_iter().map(|topic| (topic.source_name, topic.totals.received));
    let totals: BTreeSet<_> = totals.collect();
    assert_eq!(totals, [0, 1].map(|index: usize| (NAMES[index].into(), MESSAGES)).into());

    for message in reader.metrics.iter().filter(|message| message.metric != "clock_offset_ms") {
        let Some(index) = NAMES.iter().position(|name| *name == message.source) else { continue };
        let windows = watched[index].0.lock().unwrap();
        let stop = |window: &WindowStatistics| window.window.stop.as_nanoseconds();
        let window = windows.iter().find(|window| stop(window) == message.stop).unwrap();
        let summary = window.get(message.metric.parse().unwrap()).unwrap();
        assert_eq!(message.start, window.window.start.as_nanoseconds());
        let deviation = message.standard_deviation();
        let theirs = [message.average(), message.minimum(), message.maximum(), deviation, message.count()];
        assert!(are_same(theirs, figures(summary), 0.0), "{message:?} {window:?}");
    }
    // The clock offset is published once per window for the whole node, with the host name as the source.
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let clocks = reader.windows(hostname.trim(), "clock_offset_ms");
    assert!(reader
        .metrics
        .iter()
        .all(|one| one.metric != "clock_offset_ms" || one.source == hostname.trim()));
    assert!(clocks.len() > 1 && clocks.windows(2).all(|pair| pair[0].stop == pair[1].start), "{clocks:?}");

    wait_for("health of each source", || {
        let statuses = diagnosed.all().into_iter().flat_map(|message| message.status);
        let names: BTreeSet<_> = statuses.map(|status| status.name).collect();
        names == ["relay: /imu", "relay: /imu (2)", "relay: /imu (3)"].map(str::to_owned).into()
    });
    wait_for("a table in the node's log", || {
        logged.has(|log| {
            let rows: BTreeSet<_> = log.msg.lines().map(|line| line.split("  ").next().unwrap()).collect();
            let has_rows = NAMES.iter().chain(&["/relay:frames"]).all(|name| rows.contains(name));
            log.name == "relay" && log.msg.starts_with("Topic statistics of 200ms:\n") && has_rows
        })
    });
    let windows = first.statistics().watch();
    drop(first);
    wait_for("end of the windows", || windows.has_changed().is_err());
}

#[test]
fn the_watchdog_logs_late_messages_silence_and_recovery() {
    let arguments = ["--ros-args", "-p", "age_limit:=1.0"];
    let (_watchdog, log) = Process::start_logging(program("watchdog"), &arguments, domain());
    let expect = |text: &str| {
        let mut lines = std::iter::from_fn(|| log.recv_timeout(LIMIT).ok());
        lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text:?}"));
    };
    expect("No messages come on /imu");
    let fresh = Program::start("publisher.py", &[], domain());
    expect("Messages on /imu come in time");
    drop(fresh);
    expect("No messages come on /imu");
    let _late = Program::start("publisher.py", &["--stamp-age", "5"], domain());
    expect("ms old; 1000.0 ms are allowed");
}
