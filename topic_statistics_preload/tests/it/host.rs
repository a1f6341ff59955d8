// SPDX-License-Identifier: Apache-2.0

//! The library adds a thread to a process with nodes, and changes nothing else in the process. The library still
//! publishes after the end of the node on which it created its publishers.

use std::{collections::BTreeSet, fs};

use test_support::{command, domain, preload, wait_for, windows_of, Program, Reader};

use crate::{output, preloaded, settle, start};

/// A program that has a node, forks, and then starts another program. Each test appends the end of the program.
const SCRIPT: &str = "
import os, subprocess, sys, time, rclpy
from std_msgs.msg import Int32
rclpy.init()
node = rclpy.create_node('talker')
publisher = node.create_publisher(Int32, 'number', 10)
subscription = node.create_subscription(Int32, 'number', print, 10)
for _ in range(100):
    publisher.publish(Int32())
    time.sleep(0.001)
child = os.fork()
if child == 0:
    os._exit(len(os.listdir('/proc/self/task')))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(subprocess.run([sys.executable, '-c', 'print(6)']).returncode, flush=True)
publisher.publish(Int32())
";

#[test]
fn forks_and_exits_log_levels_and_signal_handlers_are_as_without_it() {
    let Some(touched) = preload::library("touched") else { return };
    for exit in [
        "node.destroy_node(); rclpy.shutdown()",
        "sys.exit(3)",
        "os._exit(3)",
        "os.abort()",
        "os.kill(os.getpid(), 2); time.sleep(9)",
    ] {
        let run = |with_statistics: bool| {
            let mut command = command("python3", &["-c", &[SCRIPT, exit].concat()], domain());
            preload::preload(&mut command, &touched);
            if with_statistics {
                preloaded(&mut command, &[("PERIOD", "0.001")]);
                let both = format!("{}:{}", touched.display(), preload::statistics().display());
                command.env("LD_PRELOAD", both);
            }
            let (status, printed, errors) = output(&mut command);
            let lines =
                errors.lines().filter(|line| line.contains("touched") || line.contains("topic_statistics"));
            (status, printed, lines.map(str::to_owned).collect::<Vec<_>>())
        };
        let plain = run(false);
        assert!(
            plain.2.iter().any(|line| line.contains("sigaction")),
            "Python sets a signal handler: {plain:#?}"
        );
        assert!(plain.1.starts_with("1\n"), "{plain:?}");
        assert_eq!(run(true), plain, "{exit}");
    }
}

#[test]
fn nodes_share_one_thread_without_signals_and_publishers_that_outlive_the_first() {
    let mut reader = Reader::start_with_depth(domain(), 1000);
    let diagnostics = Program::start("diagnostics.py", &[], domain());
    // Reads /diagnostics up to an array with exactly these statuses.
    let wait_for_statuses = |expected: &[&str]| {
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        loop {
            let line = diagnostics.read("statuses");
            let names = line.split("\"name\": \"").skip(1).filter_map(|rest| rest.split('"').next());
            if names.collect::<BTreeSet<_>>() == expected {
                return;
            }
        }
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, "topics: {imu: {}, /not_used_here: {}}").unwrap();
    let arguments = ["--nodes", "3", "--destroy-first"];
    let options = [("EXPECT", file.path().to_str().unwrap()), ("PERIOD", "0.3")];
    let mut measured = start("subscriber.py", &arguments, &options);
    let [first, second, third] =
        ["", "_1", "_2"].map(|name| (format!("/subscriber{name}:/imu"), "message_age"));
    settle(&mut reader, &[&first, &second, &third].map(Clone::clone));
    wait_for_statuses(&["subscriber: /imu", "subscriber_1: /imu", "subscriber_2: /imu"]);
    let mut plain = Program::start("subscriber.py", &arguments, domain());
    for nodes in [&mut plain, &mut measured] {
        nodes.request("destroy the first one");
    }
    let mut own = None;
    wait_for("the same threads and one more", || {
        let mut measured = threads(measured.id());
        let place = measured.iter().position(|(name, _)| name == "topic_stats");
        own = place.map(|place| measured.remove(place));
        measured == threads(plain.id())
    });
    let blocked = own.unwrap().1;
    assert!([2, 15].iter().all(|signal| blocked & 1 << (signal - 1) != 0), "{blocked:x}");
    let destroyed = settle(&mut reader, &[second, third]);
    assert!(windows_of(&reader.metrics, &first.0, first.1).all(|window| window.start < destroyed));
    wait_for_statuses(&["subscriber_1: /imu", "subscriber_2: /imu"]);
}

/// Returns the name of each thread of a process, and a mask of the signals that the thread blocks. Digits are removed
/// from the names, because some names contain numbers such as ports.
pub fn threads(process: u32) -> Vec<(String, u64)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let thread = |status: String| {
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        let name = field("Name:").replace(|digit: char| digit.is_ascii_digit(), "");
        (name, u64::from_str_radix(&field("SigBlk:"), 16).unwrap())
    };
    let mut threads: Vec<_> = statuses.map(thread).collect();
    threads.sort();
    threads
}
