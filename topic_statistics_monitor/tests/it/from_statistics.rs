// SPDX-License-Identifier: Apache-2.0

//! Tests of `--publish` and `--from-statistics`, with messages of the monitor, of nodes, and of a malicious process.

use std::{fs, time::Duration};

use rclrs::CreateBasicExecutor;
use rclrs_topic_statistics::{NodeStatistics, StatsExecutor};
use test_support::{context, domain, wait_for, Process, Program, Spinning};

use crate::{
    run::{command, piped, talker, text, wait_until_full, Json},
    terminal::Terminal,
};

#[test]
fn a_monitor_reads_what_another_one_and_nodes_publish() {
    let domain = domain();
    let _talker = talker(domain);
    let silent = Json::start(&["imu", "--ros-args", "-r", "__node:=silent"], domain);
    silent.until("window", |json| json["received"].as_u64() > Some(0));
    let observer = context(domain, &[]).create_basic_executor().create_node("observer").unwrap();
    let publishers = |topic: &str| observer.count_publishers(topic).unwrap();
    wait_for("the graph", || publishers("/imu") > 0);
    assert_eq!((publishers("/statistics"), publishers("/statistics/distribution")), (0, 0));

    let reading = Json::start(&["--from-statistics", "/*:/imu"], domain);
    let _publishing = Json::start(&["--publish", "imu"], domain);
    let imu = reading.until("rate, percentiles and bytes", |json| {
        json["last_minute"]["message_age"]["p50"].is_f64()
            && json["bandwidth"].as_f64() > Some(0.0)
            && json["rate"].as_f64() > Some(5.0)
    });
    assert_eq!(imu["topic"], "/topic_monitor:/imu");
    let condition = ["--from-statistics", "--require", "/topic_monitor:/imu: rate>5", "--timeout", "50"];
    let output = command(&condition, domain).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));

    let executor = context(domain, &[]).create_executor(StatsExecutor::single_threaded());
    let node = executor.create_node("robot").unwrap();
    let _statistics = NodeStatistics::new(&node).unwrap();
    let block = || std::thread::sleep(Duration::from_millis(50));
    let _timers = [
        node.create_timer_repeating(Duration::from_millis(10), || {}).unwrap(),
        node.create_timer_repeating(Duration::from_millis(200), block).unwrap(),
    ];
    let _spinning = Spinning::start(executor);
    let mut terminal = Terminal::start(&["--from-statistics", "/robot:*"], domain);
    terminal.wait_for(&["/robot:executor"]);
    terminal.press("\r");
    let lines =
        ["busy: spin ", "longest: timer 200ms on spin, ", "timer 10ms waited ", " ms for timer 200ms"];
    terminal.wait_for(&lines);
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn hostile_statistics_are_reported_and_bounded() {
    let domain = domain();
    let mut foreign = Program::start("foreign_statistics.py", &[], domain);
    let terminal = Terminal::start(&["--from-statistics", "--max-topics", "40"], domain);
    terminal.wait_for(&["0 sources"]);
    terminal.resize(60, 400);
    for (order, expected) in [
        ("names", "\\u{202e}"),
        ("names", " refused, the last one"),
        ("numbers", "liar"),
        ("lies", " refused, the last one message_age of /honest:/imu"),
        ("sources 100", "left out (--max-topics)"),
    ] {
        wait_for(expected, || {
            assert_eq!(foreign.request(order), "done");
            terminal.text().contains(expected)
        });
    }
    assert!(!terminal.text().lines().any(|line| line.contains("PWNED") && !line.contains("\\u{7}")));

    // Fails if the monitor's memory is not limited: a process sends many messages while the output of the monitor
    // blocks.
    let mut child = piped(command(&["--from-statistics", "--json"], domain));
    let (output, errors) = (child.stdout.take().unwrap(), test_support::lines(child.stderr.take().unwrap()));
    let monitor = Process::from(child);
    wait_for("many lines", || {
        assert_eq!(foreign.request("sources 900"), "done");
        rustix::io::ioctl_fionread(&output).unwrap() > 30_000
    });
    wait_until_full(&output);
    // 24 000 messages are more than the 10 000 that fit the monitor's queue and the 2000 that fit the middleware.
    (0..12).for_each(|_| assert_eq!(foreign.request("flood 2000"), "done"));
    let status = fs::read_to_string(format!("/proc/{}/status", monitor.id())).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let memory: u64 = memory.split_whitespace().next().unwrap().parse().unwrap();
    assert!(memory < 300_000, "{memory} kB");
    let _lines = test_support::lines(output);
    wait_for("report of dropped messages", || errors.try_iter().any(|line| line.contains(" dropped")));
}
