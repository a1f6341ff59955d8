// SPDX-License-Identifier: Apache-2.0

//! A node that uses its own statistics, and a node with several sources of one name.

use std::{
    collections::BTreeSet,
    sync::{mpsc::Receiver, Arc, Mutex},
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    health::Expectations, Metric, NodeStatistics, SourceName, TopicStatisticsOptions, WindowStatistics,
};
use ros_env::{
    diagnostic_msgs::msg::DiagnosticArray, sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage,
};
use test_support::{
    domain, node, program, wait_for, Metric as Published, Process, Program, Reader, Spinning, LIMIT,
};

const WINDOW: Duration = Duration::from_millis(200);
/// A node has several sources of one name, as every node that subscribes and publishes `/tf` does.
const SOURCES: [&str; 3] = ["/relay:/imu", "/relay:/imu (2)", "/relay:/imu (3)"];
const MESSAGES: usize = 239;

#[test]
fn windows_in_the_process_equal_the_published_ones() {
    let domain = domain();
    let (executor, node) = node("introspective", &[]);
    let published = Arc::new(Mutex::new(vec![]));
    let _subscription = node
        .create_subscription::<MetricsMessage, _>("/statistics".keep_last(100), {
            let published = published.clone();
            move |message: MetricsMessage| published.lock().unwrap().push(Published::from(message))
        })
        .unwrap();
    let statistics = NodeStatistics::with_options(
        &node,
        TopicStatisticsOptions::new().publish_period(Duration::from_millis(100)),
    )
    .unwrap();
    let imu = statistics.create_subscription("imu".keep_last(10), |_: Imu| ()).unwrap();
    let (mut fast, mut slow) = (imu.watch(), imu.watch());
    assert!(imu.latest().is_none() && fast.borrow().is_none(), "no window has ended yet");
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "100"], domain);

    // A fast reader sees every window. On a busy machine this reader is sometimes late.
    let mut seen: Vec<Arc<WindowStatistics>> = vec![];
    wait_for("windows with messages, none of them missing", || {
        if fast.has_changed().unwrap() {
            seen.extend(fast.borrow_and_update().clone());
        }
        let last = &seen[seen.len().saturating_sub(4)..];
        last.len() == 4
            && last.iter().all(|window| window.get(Metric::MessageAge).unwrap().sample_count > 0)
            && last.windows(2).all(|pair| pair[0].window.stop == pair[1].window.start)
    });
    for (window, next) in seen.iter().zip(&seen[1..]) {
        assert!(window.window.stop <= next.window.start, "no window is seen twice: {window:?} {next:?}");
        assert!(window.get(Metric::HeaderToSource).is_none(), "the metric is not measured");
    }
    wait_for("message of the same window", || {
        let last = seen.last().unwrap();
        let age = last.get(Metric::MessageAge).unwrap();
        published.lock().unwrap().iter().any(|message| {
            message.stop == last.window.stop.as_nanoseconds()
                && message.metric == "message_age"
                && message.average() == age.average
                && message.count() == age.sample_count as f64
        })
    });
    // A slow reader sees the last window, as `latest` does.
    let last = slow.borrow_and_update().clone().unwrap();
    let latest = imu.latest().unwrap();
    assert!(last.window.start >= seen[1].window.start && latest.window.stop >= last.window.stop);

    drop(imu);
    wait_for("end of the windows", || fast.has_changed().is_err());
}

/// Reads a log until a line contains a text. Returns the lines before it.
fn wait_for_line(log: &Receiver<String>, text: &str) -> Vec<String> {
    let mut before = vec![];
    loop {
        let line =
            log.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("no {text:?}: {error}; {before:#?}"));
        if line.contains(text) {
            return before;
        }
        before.push(line);
    }
}

#[test]
fn the_watchdog_logs_late_messages_silence_and_recovery() {
    let domain = domain();
    let program = program("watchdog");
    let (_watchdog, log) = Process::start_logging(program, &["--ros-args", "-p", "age_limit:=0.3"], domain);
    wait_for_line(&log, "No messages come on /imu");
    let fresh = Program::start("publisher.py", &[], domain);
    wait_for_line(&log, "Messages on /imu come in time");
    drop(fresh);
    wait_for_line(&log, "No messages come on /imu");
    let _late = Program::start("publisher.py", &["--stamp-age", "0.5"], domain);
    let before = wait_for_line(&log, "ms old; 300.0 ms are allowed");
    assert!(!before.iter().any(|line| line.contains("WARN")), "{before:#?}");
}

#[test]
fn sources_of_equal_names_have_their_own_counts_everywhere() {
    let domain = domain();
    let (executor, node) = node("relay", &[]);
    let expected = Expectations::new().warn_unless("/imu: rate>=0".parse().unwrap());
    let options = TopicStatisticsOptions::new()
        .publish_period(WINDOW)
        .metrics([Metric::MessagePeriod, Metric::MessageSize])
        .expect(expected);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let subscribe = || statistics.create_subscription("imu".keep_last(1000), |_: Imu| ()).unwrap();
    let (first, second) = (subscribe(), subscribe());
    let publisher = statistics.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
    assert_eq!([first.source_name(), second.source_name(), publisher.source_name()], SOURCES);
    let (stopwatch, counter) = (statistics.create_stopwatch("frames"), statistics.create_counter("frames"));
    assert_eq!([stopwatch.source_name(), counter.source_name()], ["/relay:frames", "/relay:frames (2)"]);

    let diagnosed = Arc::new(Mutex::new(BTreeSet::new()));
    let _diagnostics = executor.create_node("reader").unwrap().create_subscription("/diagnostics", {
        let diagnosed = Arc::clone(&diagnosed);
        move |message: DiagnosticArray| {
            diagnosed.lock().unwrap().extend(message.status.into_iter().map(|status| status.name));
        }
    });
    let _spinning = Spinning::start(executor);
    let mut reader = Reader::start(domain);
    reader.read_until("windows", |metrics| {
        SOURCES.iter().all(|source| metrics.iter().any(|metric| metric.source == *source))
    });
    wait_for("two subscriptions", || publisher.get_subscription_count().unwrap() == 2);
    (0..MESSAGES).for_each(|_| publisher.publish(Imu::default()).unwrap());
    // Each source has its own windows, so each count is that of the messages.
    let sizes = |metrics: &[Published], source: &str| -> f64 {
        let sizes = metrics
            .iter()
            .filter(|window| window.source == source && window.metric == Metric::MessageSize.name());
        sizes.map(Published::count).sum()
    };
    reader.read_until("all messages", |metrics| {
        SOURCES.iter().all(|source| sizes(metrics, source) >= MESSAGES as f64)
    });
    let counts = SOURCES.map(|source| {
        let sizes = reader.windows(source, Metric::MessageSize.name());
        sizes.iter().map(Published::count).sum::<f64>()
    });
    assert_eq!(counts, [MESSAGES as f64; 3]);
    let mut totals: Vec<_> =
        statistics.totals().into_iter().map(|topic| (topic.source_name, topic.totals.received)).collect();
    totals.sort();
    assert_eq!(totals, [0, 1].map(|index: usize| (SOURCES[index].to_owned(), MESSAGES as u64)));
    let names = ["relay: /imu", "relay: /imu (2)", "relay: /imu (3)"].map(str::to_owned);
    wait_for("health of each source", || *diagnosed.lock().unwrap() == BTreeSet::from(names.clone()));
}

#[test]
fn a_source_that_is_created_again_continues_the_old_name() {
    let (_executor, node) = node("relay", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();
    let subscribe = || statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let [first, second] = [subscribe(), subscribe()];
    drop(first);
    assert_eq!(second.source_name(), "/relay:/imu (2)");
    let again = subscribe();
    assert_eq!(again.source_name(), "/relay:/imu");
    // Nothing is left of a subscription that could not be created.
    statistics.create_subscription("not valid", |_: Imu| ()).unwrap_err();
    drop((again, second));
    assert_eq!(subscribe().source_name(), "/relay:/imu");
}

/// rclcpp's form has the node's name alone: equal by design.
#[test]
fn the_names_of_rclcpp_are_equal() {
    let (_executor, node) = node("relay", &[]);
    let options = TopicStatisticsOptions::new().source_name(SourceName::Node);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let [first, second] = [(); 2].map(|()| statistics.create_subscription("imu", |_: Imu| ()).unwrap());
    assert_eq!([first.source_name(), second.source_name()], ["relay"; 2]);
}
