// SPDX-License-Identifier: Apache-2.0

//! The programs end on Ctrl-C and SIGTERM, started from a terminal, a launch file or a script.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{Metric, NodeStatistics, NodeStatisticsOptions, TopicStatisticsOptions};
use ros_env::sensor_msgs::msg::Imu;
use serde_json::Value;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    low_level::raise,
};
use test_support::{
    domain, in_a_process_of_its_own, itself, node, program, wait_for, Process, Program, Spinning,
};

/// The examples, and the monitor.
fn programs() -> Vec<(String, &'static [&'static str])> {
    let monitor = program("topic_monitor").into_os_string().into_string().unwrap();
    let mut programs: Vec<(String, &[&str])> = vec![(monitor, &["--json"])];
    programs.extend(EXAMPLES.map(|example| (example.to_owned(), &[][..])));
    programs
}

const EXAMPLES: [&str; 4] = [
    env!("CARGO_BIN_EXE_talker"),
    env!("CARGO_BIN_EXE_listener"),
    env!("CARGO_BIN_EXE_watchdog"),
    env!("CARGO_BIN_EXE_bridge"),
];

/// A node that observes the other nodes. Each run of the programs has a new one, which knows no node of an earlier run.
struct Observer {
    node: Node,
    _spinning: Spinning,
}

impl Observer {
    fn new() -> Observer {
        let (executor, node) = node("observer", &[]);
        Observer { node, _spinning: Spinning::start(executor) }
    }

    fn wait_for_programs(&self) {
        wait_for("nodes of the programs", || {
            let names = self.node.get_node_names().unwrap();
            programs()
                .iter()
                .all(|(program, _)| names.iter().any(|node| program.ends_with(&format!("/{}", node.name))))
        });
    }
}

/// Ends a process as `ros2 launch` does: by SIGINT, by SIGTERM 5 s later and by SIGKILL 5 s after that.
fn end_as_launch_does(process: &mut Process) -> ExitStatus {
    let started = Instant::now();
    process.signal("INT");
    for (after, signal) in [(5, "TERM"), (10, "KILL")] {
        while started.elapsed() < Duration::from_secs(after) {
            if let Some(status) = process.status() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        process.signal(signal);
    }
    process.wait()
}

#[test]
fn programs_end_with_0_on_the_sigint_of_a_launch_file_and_on_sigterm() {
    let domain = domain();
    for is_launch in [true, false] {
        let observer = Observer::new();
        let start = |(program, arguments): (String, &[&str])| {
            let mut command = test_support::command(&program, arguments, domain);
            // Ctrl-C on the terminal does not reach them, so that launch must signal them.
            let child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            (program, Process::from(child.unwrap()))
        };
        let mut processes: Vec<_> = programs().into_iter().map(start).collect();
        observer.wait_for_programs();
        for (program, process) in &mut processes {
            let status = if is_launch {
                end_as_launch_does(process)
            } else {
                process.signal("TERM");
                process.wait()
            };
            assert_eq!(status.code(), Some(0), "{program}, is_launch: {is_launch}: {status}");
        }
    }
}

/// A process that is the child of another process. It is killed on drop, unless it has ended.
struct Grandchild(Option<String>);

impl Grandchild {
    fn id(&self) -> &str {
        self.0.as_deref().unwrap()
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, self.id()]).status().unwrap().success());
    }

    fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Grandchild {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.signal("KILL");
        }
    }
}

/// Returns whether a process ignores SIGINT.
fn ignores_interrupts(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 << (SIGINT - 1) != 0
}

#[test]
fn programs_that_a_script_started_in_the_background_end_with_0() {
    let domain = domain();
    for signal in ["TERM", "INT"] {
        let observer = Observer::new();
        let mut scripts = vec![];
        for (program, arguments) in programs() {
            // A shell without job control makes processes that it starts with & ignore SIGINT.
            let script = r#"sleep 600 & echo $!; "$0" "$@" > /dev/null 2>&1 & echo $!; wait $!; echo $?"#;
            let arguments = [&["-c", script, program.as_str()], arguments].concat();
            let mut child =
                test_support::command("sh", &arguments, domain).stdout(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut line = move || lines.next().unwrap().unwrap();
            let (sleep, started) = (Grandchild(Some(line())), Grandchild(Some(line())));
            wait_for("ignored SIGINT", || ignores_interrupts(sleep.id()));
            scripts.push((program, started, Process::from(child), line));
        }
        observer.wait_for_programs();
        for (program, started, mut script, mut line) in scripts {
            started.signal(signal);
            assert_eq!(line(), "0", "{program}, SIG{signal}");
            started.has_ended();
            assert!(script.wait().success());
        }
    }
}

const FILE: &str = "TEST_SIGNALS_FILE";

#[test]
#[ignore = "is the program of the next test"]
fn a_node_loses_messages_until_a_signal() {
    let until_signal = rclrs_topic_statistics_examples::until_signal().unwrap();
    let mut executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("lossy").unwrap();
    let options = NodeStatisticsOptions::new()
        .topic_statistics(TopicStatisticsOptions::new().metrics([Metric::PublicationSeqGap]))
        .max_event_rate(0.001) // one event only, at the end
        .topic_statistics_service(true)
        .totals_file(std::env::var(FILE).unwrap());
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let slow = |_: Imu| std::thread::sleep(Duration::from_millis(50));
    let _imu =
        statistics.create_worker_subscription(&node.create_worker(()), "imu".keep_last(1), slow).unwrap();
    executor.spin(until_signal).first_error().unwrap();
}

#[test]
fn pending_losses_are_published_and_the_totals_file_is_written_on_a_signal() {
    let domain = domain();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("totals.yaml");
    let mut reader = Program::start("losses.py", &[], domain);
    let _publisher = Program::start("publisher.py", &["--subscribers", "1"], domain);
    let mut node = itself("signals::a_node_loses_messages_until_a_signal", domain);
    let mut node = Process::spawn(node.env(FILE, &file).stdout(Stdio::null()));

    let json = |line: String| serde_json::from_str::<Value>(&line).unwrap();
    let mut lost = 0;
    wait_for("losses", || {
        lost = json(reader.request("totals /lossy"))["totals"][0]["lost"].as_u64().unwrap_or(0);
        lost > 0
    });
    node.signal("INT");
    assert!(node.wait().success());

    let published = json(reader.read("last event"))["event"][0][1].as_u64().unwrap();
    let totals = std::fs::read_to_string(file).unwrap();
    assert!(published >= lost && totals.contains(&format!("messages_lost: {published}\n")), "{totals}");
}

#[test]
fn a_signal_that_comes_before_the_executor_spins_ends_it() {
    in_a_process_of_its_own(|| {
        for signal in [SIGINT, SIGTERM] {
            let until_signal = rclrs_topic_statistics_examples::until_signal().unwrap();
            raise(signal).unwrap();
            let (mut executor, _node) = node("late", &[]);
            executor.spin(until_signal).first_error().unwrap();
        }
    });
}

#[test]
fn a_second_signal_ends_a_program_whose_callback_goes_on() {
    let domain = domain();
    let _talker = Process::start(env!("CARGO_BIN_EXE_talker"), &[], domain);
    let slow = ["--ros-args", "-p", "callback_duration:=60.0"];
    let (mut listener, log) = Process::start_logging(env!("CARGO_BIN_EXE_listener"), &slow, domain);
    let is_in_callback = |line: String| line.contains("Receiving imu");
    wait_for("callback", || log.recv_timeout(test_support::LIMIT).is_ok_and(is_in_callback));

    let started = Instant::now();
    listener.signal("INT");
    // Signals within a second count as one.
    let mut status = None;
    wait_for("end", || {
        listener.signal("TERM");
        status = listener.status();
        status.is_some()
    });
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(status.unwrap().signal(), Some(SIGTERM));
}
