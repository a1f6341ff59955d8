// SPDX-License-Identifier: Apache-2.0

//! What the library does to its host: nothing.

use std::{fs, process::Command};

use test_support::{command, domain, of, preload, wait_for, Program, Reader};

use crate::preloaded;

/// Runs a command to its end, with the library or without it. Returns its status, and what it prints.
fn run(mut command: Command, options: Option<&[(&str, &str)]>) -> (Option<i32>, String, String) {
    if let Some(options) = options {
        preloaded(&mut command, options);
    }
    let output = command.output().unwrap();
    let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), printed, errors)
}

fn python(script: &str) -> Command {
    command("python3", &["-c", script], domain())
}

/// Returns the names of the threads of a process without numbers such as ports, sorted.
pub fn threads(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let mut names: Vec<String> =
        names.map(|name| name.trim().replace(|digit: char| digit.is_ascii_digit(), "")).collect();
    names.sort();
    names
}

#[test]
fn in_a_process_without_ros_nothing_is_initialised() {
    // Wrong options are not even read.
    let wrong = [("PERIOD", "0")];
    assert_eq!(run(Command::new("true"), Some(&wrong)), (Some(0), String::new(), String::new()));
    let threads = "import os; print(len(os.listdir('/proc/self/task'))); raise SystemExit(5)";
    assert_eq!(run(python(threads), Some(&wrong)), (Some(5), "1\n".to_owned(), String::new()));
    // rclpy's libraries are loaded, and there is no node.
    let loaded = "import os, rclpy; print(len(os.listdir('/proc/self/task')))";
    assert_eq!(run(python(loaded), Some(&wrong)), run(python(loaded), None));
}

#[test]
fn a_process_has_one_thread_more() {
    let mut reader = Reader::start(domain());
    let subscriber = |with_statistics| {
        let mut command = Program::command("subscriber.py", &[], domain());
        if with_statistics {
            preloaded(&mut command, &[("PERIOD", "0.3")]);
        }
        Program::from(command.spawn().unwrap())
    };
    let mut measured = subscriber(true);
    reader.read_until("windows", |metrics| !metrics.is_empty());
    measured.request("count");
    let mut plain = subscriber(false);
    plain.request("count");
    wait_for("the same threads and one more", || {
        let mut expected = threads(plain.id());
        expected.push("topic_stats".to_owned());
        expected.sort();
        threads(measured.id()) == expected
    });
    for signal in [2, 15] {
        assert!(blocks(measured.id(), "topic_stats", signal), "signals are for the host's own threads");
        assert!(!blocks(measured.id(), "python3", signal));
    }
}

/// Returns whether the first thread of that name blocks a signal.
fn blocks(process: u32, name: &str, signal: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let mut statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let status = statuses.find(|status| status.starts_with(&format!("Name:\t{name}\n"))).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
    u64::from_str_radix(blocked, 16).unwrap() & 1 << (signal - 1) != 0
}

const NODE: &str = "
import rclpy
from std_msgs.msg import Int32
rclpy.init()
node = rclpy.create_node('talker')
publisher = node.create_publisher(Int32, 'number', 10)
publisher.publish(Int32())
subscription = node.create_subscription(Int32, 'number', print, 10)
node.destroy_node()
rclpy.shutdown()
print('done')
";

#[test]
fn a_wrong_option_is_named_once_and_the_process_runs_untouched() {
    for (name, value, expected) in [
        ("PERIOD", "-1", "a number of seconds is expected, 0.001 to 86400"),
        ("METRICS", "latency", "`all` is expected, or some of message_age, message_period"),
        ("TOPICS", "a b", "names of topics are expected"),
        ("PUBLISH_TOPIC", "x", "a topic that begins with / is expected"),
    ] {
        let (status, printed, errors) = run(python(NODE), Some(&[(name, value)]));
        assert_eq!((status, &*printed), (Some(0), "done\n"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        let named = format!("TOPIC_STATISTICS_{name} is {value:?}: {expected}");
        assert!(
            errors.starts_with("topic_statistics: no topic statistics in process ")
                && errors.contains(&named),
            "{errors}"
        );
    }
    assert_eq!(run(python(NODE), Some(&[])), (Some(0), "done\n".to_owned(), String::new()));
}

#[test]
fn without_statistics_msgs_it_steps_aside_and_says_so() {
    // A prefix without that package, as if it were not installed: its libraries are not found.
    let mut hidden = python(NODE);
    let without = |name: &str| {
        let paths = std::env::var_os(name).unwrap_or_default();
        let is_there = |path: &std::path::PathBuf| {
            ["", "lib"]
                .iter()
                .any(|folder| path.join(folder).join("libstatistics_msgs__rosidl_typesupport_c.so").exists())
        };
        std::env::join_paths(std::env::split_paths(&paths).filter(|path| !is_there(path))).unwrap()
    };
    for name in ["LD_LIBRARY_PATH", "AMENT_PREFIX_PATH"] {
        hidden.env(name, without(name));
    }
    let (status, printed, errors) = run(hidden, Some(&[]));
    assert_eq!((status, &*printed), (Some(0), "done\n"), "{errors}");
    assert!(
        errors.lines().count() == 1 && errors.contains("the package statistics_msgs is not found"),
        "{errors}"
    );
}

#[test]
fn children_of_fork_and_exec_live_as_without_it() {
    // The child of fork uses the node that it got, and exits; the one of exec has statistics of its own.
    const SCRIPT: &str = "
import os, subprocess, sys, time, rclpy
from std_msgs.msg import Int32
rclpy.init()
node = rclpy.create_node('parent')
publisher = node.create_publisher(Int32, 'number', 10)
publisher.publish(Int32())
child = os.fork()
if child == 0:
    threads = len(os.listdir('/proc/self/task'))
    os._exit(threads)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
child = os.fork()
if child == 0:
    sys.exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(subprocess.run([sys.executable, '-c', 'print(6)']).returncode)
publisher.publish(Int32())
node.destroy_node()
rclpy.shutdown()
";
    let plain = run(python(SCRIPT), None);
    assert_eq!(run(python(SCRIPT), Some(&[("PERIOD", "0.001")])), plain);
    assert!(plain.1.starts_with("1\n"), "{plain:?}");
}

#[test]
fn statistics_go_on_in_the_parent_of_fork() {
    const SCRIPT: &str = "
import os, time, rclpy
from std_msgs.msg import Int32
rclpy.init()
node = rclpy.create_node('parent')
publisher = node.create_publisher(Int32, 'number', 10)
if os.fork() == 0:
    time.sleep(600)
while True:
    publisher.publish(Int32())
    time.sleep(0.01)
";
    let mut reader = Reader::start(domain());
    let mut script = command("setsid", &["python3", "-c", SCRIPT], domain());
    preloaded(&mut script, &[("PERIOD", "0.3")]);
    let process = test_support::Process::spawn(&mut script);
    reader.read_until("windows", |metrics| {
        of(metrics, "/parent:/number", "publish_period").filter(|window| window.count() > 10.0).count() > 2
    });
    let group = format!("-{}", process.id());
    assert!(Command::new("kill").args(["-s", "KILL", "--", &group]).status().unwrap().success());
}

#[test]
fn log_levels_signal_handlers_and_environment_are_left_alone() {
    let Some(touched) = preload::library("touched") else { return };
    let touched = |with_statistics: bool| {
        let mut command = python(NODE);
        preload::preload(&mut command, &touched);
        if with_statistics {
            let both = format!("{}:{}", touched.display(), crate::library().display());
            command.env("LD_PRELOAD", both);
        }
        let (status, _, errors) = run(command, None);
        assert_eq!(status, Some(0), "{errors}");
        errors.lines().filter(|line| line.starts_with("touched: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = touched(false);
    assert!(plain.iter().any(|line| line.contains("sigaction")), "Python sets a signal handler: {plain:#?}");
    assert_eq!(touched(true), plain);
}
