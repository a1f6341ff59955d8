// SPDX-License-Identifier: Apache-2.0

//! A node that uses its own statistics.

use std::{
    sync::{mpsc::Receiver, Arc},
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{Metric, NodeStatistics, TopicStatisticsOptions, WindowStatistics};
use ros_env::{sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage};
use test_support::{context, domain, program, wait_for, Process, Program, Spinning, LIMIT};

#[test]
fn windows_in_the_process_equal_the_published_ones() {
    let domain = domain(0);
    let executor = context(domain, &[]).create_basic_executor();
    let node = executor.create_node("introspective").unwrap();
    let published = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let _subscription = node
        .create_subscription::<MetricsMessage, _>("/statistics".keep_last(100), {
            let published = published.clone();
            move |message: MetricsMessage| published.lock().unwrap().push(message)
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
            i64::from(message.window_stop.sec) * 1_000_000_000 + i64::from(message.window_stop.nanosec)
                == last.window.stop
                && message.metrics_source == "message_age"
                && message.statistics[0].data == age.average
                && message.statistics[3].data == age.sample_count as f64
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
    let domain = domain(1);
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
