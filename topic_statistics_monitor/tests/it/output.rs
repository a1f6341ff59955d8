// SPDX-License-Identifier: Apache-2.0

//! Lines and JSON on standard output, `--require` and `--publish`.

use std::{
    io::{BufRead, BufReader, Read},
    process::{ChildStdout, Stdio},
    time::{Duration, Instant},
};

use rclrs::CreateBasicExecutor;
use serde_json::Value;
use test_support::{domain, middleware, preload, program, wait_for, Process, Reader};

use crate::{
    run::{command, objects, run, text, Json, FAST},
    terminal::Terminal,
};

#[test]
fn lines_have_a_header_end_after_the_duration_and_with_their_reader() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let output = run(&["--duration", "10", "/im?"], domain); // also on a busy machine
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert!(lines[1].starts_with("topic "), "{lines:#?}");
    assert!(lines.len() >= 4 && lines[2..].iter().all(|line| line.starts_with("/imu ")), "{lines:#?}");
    assert_eq!(output.status.code(), Some(0));

    let mut child =
        command(&["--period", "0.2"], domain).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().is_ok());
    drop(lines);
    let mut status = None;
    wait_for("end with the reader", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(!errors.contains("ipe"), "{errors}");
}

#[test]
fn once_writes_one_whole_window_of_each_topic() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let length =
        |object: &Value| object["window_stop"].as_i64().unwrap() - object["window_start"].as_i64().unwrap();
    // A busy machine may hold up the talker or the monitor for the whole of a window: then there is another try.
    let is_undisturbed = |object: &Value| {
        (900_000_000..1_200_000_000).contains(&length(object))
            && (30.0..70.0).contains(&object["rate"].as_f64().unwrap())
    };
    let once = || {
        let output = run(&["--once", "--json", "imu", "chatter"], domain);
        (objects(&output), output)
    };
    let is_whole = |(windows, _): &(Vec<Value>, _)| windows.iter().all(is_undisturbed);
    let (windows, output) = (0..5).map(|_| once()).find(is_whole).expect("an undisturbed window");
    assert_eq!(windows.len(), 2, "{windows:#?}");
    for window in &windows {
        let rate = window["rate"].as_f64().unwrap();
        let received = window["received"].as_f64().unwrap();
        assert!((rate * length(window) as f64 / 1e9 - received).abs() < 0.1, "{window}");
        assert_eq!(window["nodes"][0], "/talker");
        assert_eq!(window["senders"][0]["node"], "/talker");
    }
    assert_eq!(output.status.code(), Some(0));
}

/// Starts the monitor so that it writes JSON to a pipe that nobody reads. Returns both once the pipe is full.
pub fn start_unread(arguments: &[&str], domain: u32) -> (Process, ChildStdout) {
    let arguments = [&["--json", "--period", "0.1"], arguments].concat();
    let mut child = command(&arguments, domain).stdout(Stdio::piped()).spawn().unwrap();
    let unread = child.stdout.take().unwrap();
    wait_until_full(&unread);
    (Process::from(child), unread)
}

/// Waits until a pipe is full.
pub fn wait_until_full(pipe: &ChildStdout) {
    let (mut waiting, mut since) = (0, Instant::now());
    wait_for("full pipe", || {
        let waits = rustix::io::ioctl_fionread(pipe).unwrap();
        if waits != waiting {
            (waiting, since) = (waits, Instant::now());
        }
        waiting > 0 && since.elapsed() > Duration::from_secs(2)
    });
}

#[test]
fn a_window_has_its_own_rate_after_a_time_in_which_nobody_read() {
    let is_unnumbered = middleware::lacks_sequence_numbers("losses after a time in which nobody read");
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let (_monitor, unread) = start_unread(&["imu"], domain);
    let started = Instant::now();
    wait_for("time without a reader", || started.elapsed() >= Duration::from_secs(5));
    let lines = BufReader::new(unread).lines().map_while(Result::ok);
    let objects = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let number = |object: &Value, field: &str| object[field].as_f64();
    let (mut before, mut after_gap) = (None::<Value>, 0);
    for object in objects.take_while(|_| started.elapsed() < test_support::LIMIT) {
        let stop_before = before.as_ref().map(|before| before["window_stop"].as_i64().unwrap());
        let missed = stop_before.map_or(0, |stop| object["window_start"].as_i64().unwrap() - stop);
        // 5 messages in 0.1 s, and more after a delay of the talker.
        let received = number(&object, "received").unwrap();
        assert!(received <= 40.0 && number(&object, "rate").unwrap() <= 400.0, "{object}");
        assert!(is_unnumbered || number(&object, "lost") == Some(0.0), "{object}");
        if missed > 3_000_000_000 || after_gap > 0 {
            after_gap += 1;
        }
        if after_gap > 5 {
            return;
        }
        before = Some(object);
    }
    panic!("no window after a gap");
}

#[test]
fn conditions_decide_about_the_exit_status() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let has_losses = !middleware::lacks_sequence_numbers("conditions on losses");
    let losses = if has_losses { "lost=0" } else { "received>0" };
    let conditions = format!("/imu:rate>=40 /imu:age.max<10000 /chatter:{losses}");
    let fulfilled = run(&["--require", &conditions, "--duration", "50"], domain);
    assert_eq!(fulfilled.status.code(), Some(0), "{}", text(&fulfilled.stderr));
    let conditions = format!("rate>=1000 {losses}");
    let failed = run(&["imu", "--require", &conditions, "--timeout", "12"], domain);
    assert_eq!(failed.status.code(), Some(1));
    let errors = text(&failed.stderr);
    assert!(
        errors.contains("/imu: rate>=1000 fails: rate is ") && !errors.contains(&format!("{losses} fails")),
        "{errors}"
    );
    let missing = run(&["nobody", "--require", "rate>0", "--duration", "3"], domain);
    assert_eq!(missing.status.code(), Some(1));
    let errors = text(&missing.stderr);
    assert!(errors.contains("there is no topic /nobody yet; waiting for it"), "{errors}");
}

#[test]
fn windows_are_published_if_asked_for_and_only_then() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let mut reader = Reader::start(domain);
    let silent = Json::start(&["imu", "--ros-args", "-r", "__node:=silent"], domain);
    silent.until("window", |json| json["received"].as_u64() > Some(5));
    let node = test_support::context(domain, &[]).create_basic_executor().create_node("observer").unwrap();
    let publishers = |topic: &str| node.count_publishers(topic).unwrap();
    wait_for("the graph", || publishers("/imu") > 0);
    assert_eq!((publishers("/statistics"), publishers("/statistics/distribution")), (0, 0));
    let _publishing = Json::start(&["--publish", "imu"], domain);
    let has_gaps = !middleware::lacks_sequence_numbers("gaps that the monitor publishes");
    reader.read_until("windows of the monitor", |metrics| {
        let has = |metric: &str| metrics.iter().any(|window| window.metric == metric && window.count() > 5.0);
        has("message_age") && has("message_period") && (!has_gaps || has("publication_seq_gap"))
    });
    assert!(reader.metrics.iter().any(|window| window.source == "/topic_monitor:/imu"));
    let reading = Json::start(&["--from-statistics", "/topic_monitor:/imu"], domain);
    reading.until("percentiles and bytes of the monitor", |json| {
        json["last_minute"]["message_age"]["count"].as_u64() > Some(5)
            && json["bandwidth"].as_f64() > Some(0.0)
    });
    assert!(
        reader.metrics.iter().all(|window| !window.source.starts_with("/silent")),
        "{:#?}",
        reader.metrics
    );
}

#[test]
fn a_run_that_measured_nothing_is_no_success() {
    let domain = domain();
    for (arguments, expected) in [
        (&["nobody", "--once"][..], "nothing was measured on /nobody: there is no topic /nobody yet"),
        (&["--once", "--json"], "nothing was measured: there was no topic"),
        (&["--print-expectations"], "nothing was measured: there was no topic"),
        (
            &["nobody", "--print-expectations"],
            "nothing was measured on /nobody: there is no topic /nobody yet",
        ),
    ] {
        let output = run(&[arguments, &["--duration", "2"]].concat(), domain);
        let errors = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
    // Without --once, a run lasts as long as requested. It reports patterns without a match.
    assert_eq!(run(&["nobody", "--duration", "2"], domain).status.code(), Some(0));
    for (arguments, expected) in [
        (&["/cam*", "nobody"][..], "no topic matches /cam* yet; waiting for one"),
        (&[], "there is no topic yet; waiting for one"),
        (&["--from-statistics"], "there is no source of statistics yet; waiting for one"),
        (
            &["--from-statistics", "--require", "*:/imu: rate>5"],
            "no source of statistics matches /*:/imu yet",
        ),
    ] {
        let output = run(&[arguments, &["--duration", "3"]].concat(), domain);
        let errors = text(&output.stderr);
        assert_eq!(errors.matches(expected).count(), 1, "{arguments:?}: {errors}");
    }
}

#[test]
fn wrong_usage_is_reported_with_what_is_right() {
    for (arguments, expected) in [
        (&["--require", "rte>=90"][..], "there is no metric \"rte\"; perhaps rate is meant"),
        (&["--require", "age.mx<5"], "it has to be one of mean, min, max, std, count"),
        (&["--require", "rate>=fast"], "number, such as 90 or 0.5, not \"fast\""),
        (&["imu//front"], "no part without a character"),
        (&["9imu"], "no part of a topic's name starts with a digit"),
        (&["imu-front"], "letters, digits, _ and / only, not '-'"),
        (&["--period", "0"], "more than 0 seconds"),
        (&["--period", "-1"], "more than 0 seconds"),
        (&["--duration", "-1"], "more than 0 seconds"),
        (&["--depth", "-1"], "1..=100000"),
        (&["--max-topics", "-1"], "1..=10000"),
    ] {
        let output = run(arguments, domain());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = run(&["--once", "--ros-args", "-r", "__node:=not/a/name"], domain());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("topic_monitor: "), "{}", text(&output.stderr));
}

#[test]
fn what_a_middleware_writes_to_standard_output_is_not_in_the_output_of_the_monitor() {
    let Some(library) = preload::library("noisy_rcl") else { return };
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let run = |arguments: &[&str]| {
        let mut command = command(arguments, domain);
        preload::preload(&mut command, &library);
        let output = command.output().unwrap();
        let errors = text(&output.stderr);
        assert!(
            errors.contains("noise: from rcl_init") && errors.contains("noise: from a thread"),
            "{errors}"
        );
        output
    };
    let output = run(&["--once", "--json", "imu"]);
    let objects = objects(&output); // Each line is one.
    assert_eq!((objects.len(), &objects[0]["topic"]), (1, &"/imu".into()));

    let lines = text(&run(&["--once", "--plain", "imu"]).stdout);
    assert!(lines.lines().count() == 3 && !lines.contains("noise"), "{lines}");

    // A busy machine may hold up the discovery: then there is another try.
    let print = || run(&["--print-expectations", "imu", "--duration", "5"]);
    let printed = (0..5).map(|_| print()).find(|output| output.status.success()).expect("a message");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &printed.stdout).unwrap();
    let judged = run(&["--expect", file.path().to_str().unwrap(), "--json", "--duration", "1"]);
    assert!(matches!(judged.status.code(), Some(0 | 1)), "it cannot be read: {}", text(&judged.stderr));

    let mut terminal = Terminal::start_preloaded(&library, &["imu"], domain);
    terminal.wait("topic", |text| text.contains("sensor_msgs/msg/Imu"));
    let view = terminal.text();
    assert!(!view.contains("noise") && view.starts_with(" 1 topic "), "{view}");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.wait("noise before or after the view", |text| text.contains("noise"));
}
