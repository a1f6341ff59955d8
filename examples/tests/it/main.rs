// SPDX-License-Identifier: Apache-2.0

//! Runs the example programs on real topics, and ends them by signals.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rclrs::*;
use rclrs_topic_statistics::{NodeStatistics, NodeStatisticsOptions};
use ros_env::sensor_msgs::msg::Joy;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    low_level::raise,
};
use test_support::{
    domain, node, preload, program, wait_for, windows_of, Metric, Process, Reader, Spinning, LIMIT,
};

/// The programs under test, with arguments: the examples, and topic_monitor.
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("talker", &["--ros-args", "-p", "rate:=20.0", "-p", "stamp_age:=10.0"]),
    ("listener", &[]),
    ("watchdog", &[]),
    ("bridge", &["--ros-args", "-p", "slow_call:=0.03", "-r", "__ns:=/car"]),
    ("topic_monitor", &["--json"]),
];

/// Some calls of the bridge, and the shortest possible duration of each call in ms.
const CALLS: [(&str, f64); 4] =
    [("get_imu", 1.0), ("get_lidar_data/rear", 5.0), ("get_image/right", 38.0), ("set_car_controls", 1.0)];
const TOPICS: [&str; 5] = ["joint_states", "imu", "gps", "lidar", "image"];

#[test]
fn programs_publish_statistics_and_exit_with_0() {
    let domain = domain();
    // The middleware of this reader prints to standard output. The reader must keep the middleware's text out of its
    // own output.
    let mut reader = Reader::command(domain, 1000);
    if let Some(library) = preload::library("noisy_rcl") {
        preload::preload(&mut reader, &library);
    }
    let mut reader: Reader = reader.spawn().unwrap().into();
    let (executor, driver) = node("driver", &[]);
    let commands = driver.create_publisher::<Joy>("/car/control_command").unwrap();
    let drive = move || drop(commands.publish(Joy::default()));
    let _timer = driver.create_timer_repeating(Duration::from_millis(50), drive).unwrap();
    let _spinning = Spinning::start(executor);
    let mut processes =
        PROGRAMS.map(|(name, arguments)| (name, Process::start_logging(program(name), arguments, domain)));

    let busy = |read: &[Metric], source: &str, metric: &str| {
        windows_of(read, source, metric).find(|window| window.count() >= 2.0).cloned()
    };
    let listener = ["message_age", "message_period"];
    reader.read_until("windows of everything", |read| {
        listener.iter().all(|metric| busy(read, "/listener:/imu", metric).is_some())
            && busy(read, "/listener:/chatter", "message_period").is_some()
            && busy(read, "/car/bridge:/car/control_command", "message_period").is_some()
            && CALLS
                .iter()
                .all(|(call, _)| busy(read, &format!("/car/bridge:{call}"), "duration_ms").is_some())
            && TOPICS
                .iter()
                .all(|topic| busy(read, &format!("/car/bridge:/car/{topic}"), "publish_period").is_some())
    });
    for (call, least) in CALLS {
        let window = busy(&reader.metrics, &format!("/car/bridge:{call}"), "duration_ms").unwrap();
        assert!((least..least + 1000.0).contains(&window.minimum()), "{window:?}");
    }
    let [ages, periods] = listener.map(|metric| reader.windows("/listener:/imu", metric));
    for age in &ages {
        let types: Vec<u64> = age.points.iter().map(|(data_type, _)| *data_type).collect();
        assert_eq!((&*types, &*age.unit), (&[1, 3, 2, 5, 4][..], "ms"), "{age:?}");
        let is_right = age.count() == 0.0 || age.minimum() >= 10_000.0 && age.maximum() < 60_000.0;
        assert!(is_right, "stamped 10 s in the past: {age:?}");
        // The two metrics of a window are published in two messages. The second message may not have been received yet.
        for period in periods.iter().filter(|period| period.start == age.start) {
            assert_eq!(period.count(), (age.count() - 1.0).max(0.0), "n ages, n-1 periods: {age:?}");
        }
    }
    assert!(ages.windows(2).all(|pair| pair[0].stop == pair[1].start), "no gap: {ages:#?}");
    // std_msgs/String has no header, so its messages have no age.
    assert!(windows_of(&reader.metrics, "/listener:/chatter", "message_age").all(|age| age.count() == 0.0));
    let (_, (_, log)) = &processes[3];
    let is_error = |line: &String| ["[ERROR]", "[FATAL]", "panicked"].iter().any(|mark| line.contains(mark));
    wait_for("row of the table", || {
        let line = log.recv_timeout(LIMIT).unwrap();
        assert!(!is_error(&line), "{line}");
        line.starts_with("/car/bridge:get_lidar_data/rear ")
    });

    for (name, (process, log)) in &mut processes {
        process.signal("TERM");
        assert_eq!(process.wait().code(), Some(0), "{name}");
        let errors: Vec<String> = log.iter().filter(is_error).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
    drop(processes);

    let (executor, node) = node("observer", &[]);
    let _spinning = Spinning::start(executor);
    let scripts = PROGRAMS.map(|(name, arguments)| {
        let path = program(name);
        // If a shell without job control starts a process with &, the process ignores SIGINT. It must still end.
        let script = r#""$0" "$@" > /dev/null 2>&1 & echo $!; wait $!; echo $?"#;
        let arguments = [&["-c", script, path.to_str().unwrap()], arguments].concat();
        let mut shell = test_support::command("sh", &arguments, domain);
        let mut shell = shell.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines().map(Result::unwrap);
        (name, lines.next().unwrap(), lines, Process::from(shell))
    });
    wait_for("nodes of the programs", || {
        let nodes = node.get_node_names().unwrap();
        PROGRAMS.iter().all(|(name, _)| nodes.iter().any(|node| node.name == *name))
    });
    for (name, id, mut lines, _shell) in scripts {
        assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
        assert_eq!(lines.next().as_deref(), Some("0"), "{name}");
    }
}

#[test]
fn statistics_go_on_in_a_long_callback_and_two_signals_end_it() {
    let domain = domain();
    let mut reader = Reader::start(domain);
    let _talker = Process::start(env!("CARGO_BIN_EXE_talker"), &[], domain);
    let slow = ["--ros-args", "-p", "callback_duration:=60.0"];
    let (mut listener, log) = Process::start_logging(env!("CARGO_BIN_EXE_listener"), &slow, domain);
    wait_for("callback", || log.recv_timeout(LIMIT).unwrap().contains("Receiving imu"));
    let blocked = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    reader.read_until("windows while the callback blocks", |read| {
        windows_of(read, "/listener:/imu", "message_age").filter(|window| window.start > blocked).count() >= 2
    });

    let started = Instant::now();
    listener.signal("INT");
    // Signals within a second count as one signal.
    wait_for("end", || {
        listener.signal("TERM");
        listener.status().is_some()
    });
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(listener.wait().signal(), Some(SIGTERM));
}

#[test]
fn a_signal_before_spinning_ends_the_program_and_writes_files() {
    if test_support::shares_its_process() {
        return;
    }
    for signal in [SIGINT, SIGTERM] {
        let until_signal = rclrs_topic_statistics_examples::until_signal().unwrap();
        raise(signal).unwrap();
        let (mut executor, node) = node("late", &[]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("totals.yaml");
        let options = NodeStatisticsOptions::new().totals_file(&file);
        let statistics = NodeStatistics::with_options(&node, options).unwrap();
        executor.spin(until_signal).first_error().unwrap();
        drop(statistics);
        assert!(std::fs::read_to_string(&file).unwrap().contains("/late"));
    }
}
