// SPDX-License-Identifier: Apache-2.0

//! The statistics do not change the state of the process, such as signal handlers.

use std::process::Stdio;

use crate::support::*;

/// The program of the test below. It runs a node, with all kinds of statistics or without any, until its standard input
/// ends. One subscription receives nothing, so after 15 s the library also reads the publishers of its topic.
#[test]
#[ignore = "a program of the test below"]
fn touching_listener() {
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("touching").unwrap();
    let _publisher = node.create_publisher::<Imu>("silent".best_effort()).unwrap();
    let received = |_: Imu| println!("received");
    if std::env::var_os("WITH_STATISTICS").is_none() {
        let _imu = node.create_subscription("imu", received).unwrap();
        let _silent = node.create_subscription("silent", |_: Imu| ()).unwrap();
        let _spinning = Spinning::start(executor);
        return lines(std::io::stdin()).iter().for_each(drop);
    }
    let directory = tempfile::tempdir().unwrap();
    let options = NodeStatisticsOptions::new()
        .statistics(StatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS))
        .topic_statistics_service(true)
        .log_table(true)
        .totals_file(directory.path().join("totals.yaml"));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let _imu = statistics.create_subscription("imu", received).unwrap();
    let silent = subscribe::<Imu>(&statistics, "silent");
    let _spinning = Spinning::start(executor);
    wait_for("a publisher that does not serve it", || !silent.incompatible_publishers().is_empty());
    println!("searched");
    lines(std::io::stdin()).iter().for_each(drop);
}

#[test]
fn no_state_of_the_process_is_changed() {
    let Some(library) = preload::library("touched") else { return };
    let _talker = Process::start(program("talker"), &[], domain());
    let processes = [false, true].map(|has_statistics| {
        let mut command = itself("healthy::touching_listener", domain());
        preload::preload(&mut command, &library);
        if has_statistics {
            command.env("WITH_STATISTICS", "");
        }
        let (mut process, output) = Process::spawn_printing(command.stderr(Stdio::piped()));
        let (input, log) = (process.input(), lines(process.errors()));
        (process, output, input, log)
    });
    let wait_for_line = |output: &Receiver<String>, text: &str| {
        while !output.recv_timeout(LIMIT).unwrap().ends_with(text) {}
    };
    processes.iter().for_each(|(_, output, ..)| wait_for_line(output, "received"));
    wait_for_line(&processes[1].1, "searched");
    let [plain, measured] = processes.map(|(mut process, _, input, log)| {
        drop(input);
        let mut touched: Vec<String> = log.iter().filter(|line| line.starts_with("touched: ")).collect();
        process.wait();
        touched.sort();
        touched
    });
    assert!(plain.iter().any(|line| line.contains("sigaction")), "std sets a signal handler: {plain:#?}");
    assert_eq!(measured, plain, "the same changes as plain rclrs");
}
