// SPDX-License-Identifier: Apache-2.0

//! In a healthy system the statistics log no error, and do not change the state of the process.

use std::{
    process::Stdio,
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{Metric, NodeStatistics, NodeStatisticsOptions, TopicStatisticsOptions};
use ros_env::sensor_msgs::msg::Imu;
use test_support::{domain, itself, lines, preload, program, wait_for, Process, Program, Spinning, LIMIT};

/// Longer than the 15 s without messages after which the library searches for incompatible publishers.
const SEARCHED: Duration = Duration::from_secs(18);

/// A program whose whole log is read.
struct Logged {
    what: &'static str,
    process: Process,
    log: Receiver<String>,
    lines: Vec<String>,
}

impl Logged {
    fn start(
        what: &'static str,
        program: impl AsRef<std::ffi::OsStr>,
        arguments: &[&str],
        domain: u32,
    ) -> Logged {
        let (process, log) = Process::start_logging(program, arguments, domain);
        Logged { what, process, log, lines: vec![] }
    }

    /// Reads until the log contains a text.
    fn wait_for(&mut self, text: &str) {
        while !self.lines.iter().any(|line| line.contains(text)) {
            match self.log.recv_timeout(LIMIT) {
                Ok(line) => self.lines.push(line),
                Err(error) => panic!("{}: no {text:?}: {error}; {:#?}", self.what, self.lines),
            }
        }
    }

    /// Ends it by SIGINT, as Ctrl-C does. Returns the errors of its log.
    fn end(mut self) -> Vec<String> {
        self.process.signal("INT");
        wait_for("end", || self.process.status().is_some());
        self.lines.extend(self.log.iter());
        assert!(!self.lines.is_empty(), "{} logs nothing", self.what);
        let is_error =
            |line: &String| ["[ERROR]", "[FATAL]", "panicked"].iter().any(|mark| line.contains(mark));
        self.lines.into_iter().filter(is_error).map(|line| format!("{}: {line}", self.what)).collect()
    }
}

/// Waits for a time in which nothing is expected.
fn pass(time: Duration) {
    let started = Instant::now();
    wait_for("time", || started.elapsed() >= time);
}

#[test]
fn the_demos_log_has_no_error_from_start_to_end() {
    let domain = domain();
    let all = format!(
        "metrics:=[{}]",
        Metric::OF_SUBSCRIPTIONS.iter().map(Metric::to_string).collect::<Vec<_>>().join(", ")
    );
    let mut early = Logged::start("listener before the talker", program("listener"), &[], domain);
    let mut talker = Logged::start("talker", program("talker"), &[], domain);
    early.wait_for("Receiving imu");
    talker.wait_for("Publishing");
    let arguments = ["--ros-args", "-r", "__node:=late", "-p", &all];
    let mut late = Logged::start("listener of all metrics", program("listener"), &arguments, domain);
    let arguments = ["--ros-args", "-r", "__node:=off", "-p", "topic_statistics.enabled:=false"];
    let mut off = Logged::start("listener whose statistics are off", program("listener"), &arguments, domain);
    late.wait_for("Receiving imu");
    off.wait_for("Receiving imu");
    pass(Duration::from_secs(2));
    // The graph changes, twice.
    let mut errors = late.end();
    pass(SEARCHED);
    errors.extend([off, early, talker].map(Logged::end).concat());
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn a_topic_with_rare_messages_causes_no_error_in_the_log() {
    let domain = domain();
    let mut talker =
        Logged::start("talker of 0.1 Hz", program("talker"), &["--ros-args", "-p", "rate:=0.1"], domain);
    talker.wait_for("Publishing");
    let mut listener = Logged::start("listener", program("listener"), &[], domain);
    listener.wait_for("Receiving imu");
    let errors = [listener, talker].map(Logged::end).concat();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// The program: a node with subscriptions, with all kinds of statistics or without, until its standard input ends.
#[test]
#[ignore = "a program of the test below"]
fn touching_listener() {
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("touching").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let _listening: Box<dyn std::any::Any> = if std::env::var_os("WITH_STATISTICS").is_some() {
        let options = NodeStatisticsOptions::new()
            .topic_statistics(TopicStatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS))
            .topic_statistics_service(true)
            .log_table(true)
            .totals_file(directory.path().join("totals.yaml"));
        let statistics = NodeStatistics::with_options(&node, options).unwrap();
        let silent = statistics.create_subscription("silent", |_: Imu| ()).unwrap();
        let imu = statistics.create_subscription("imu", |_: Imu| println!("received")).unwrap();
        Box::new((imu, silent, statistics))
    } else {
        let silent = node.create_subscription::<Imu, _>("silent", |_: Imu| ()).unwrap();
        Box::new((node.create_subscription::<Imu, _>("imu", |_: Imu| println!("received")).unwrap(), silent))
    };
    let _spinning = Spinning::start(executor);
    lines(std::io::stdin()).iter().for_each(drop);
}

/// Returns the changes that a process makes to its state, sorted. The graph changes while it runs.
fn touched(library: &std::path::Path, with_statistics: bool) -> Vec<String> {
    let mut command = itself("healthy::touching_listener", domain());
    preload::preload(&mut command, library);
    if with_statistics {
        command.env("WITH_STATISTICS", "");
    }
    let (mut process, output) = Process::spawn_printing(command.stdin(Stdio::piped()).stderr(Stdio::piped()));
    let (input, log) = (process.input(), lines(process.errors()));
    let publisher = Program::start("publisher.py", &[], domain());
    while !output.recv_timeout(LIMIT).unwrap().ends_with("received") {}
    pass(SEARCHED);
    drop(publisher);
    pass(SEARCHED);
    drop(input);
    let mut touched: Vec<String> = log.iter().filter(|line| line.starts_with("touched: ")).collect();
    wait_for("end", || process.status().is_some());
    touched.sort();
    touched
}

#[test]
fn log_levels_signal_handlers_and_environment_are_left_alone() {
    let Some(library) = preload::library("touched") else { return };
    let (plain, measured) = std::thread::scope(|scope| {
        let plain = scope.spawn(|| touched(&library, false));
        let measured = scope.spawn(|| touched(&library, true));
        (plain.join().unwrap(), measured.join().unwrap())
    });
    assert!(plain.iter().any(|line| line.contains("sigaction")), "std sets a signal handler: {plain:#?}");
    assert_eq!(measured, plain, "the same changes as plain rclrs");
}
