// SPDX-License-Identifier: Apache-2.0

//! Tests of lines, JSON, exit status, conditions and the report on live topics.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    process::ChildStdout,
};

use rclrs::{IntoPrimitiveOptions, Publisher};
use ros_env::sensor_msgs::msg::Imu;
use serde_json::Value;
use test_support::{domain, middleware, node, preload, Process};

use crate::{
    run::{command, objects, piped, talker, text, wait_until_full},
    terminal::Terminal,
};

#[test]
fn runs_end_with_their_lines_status_and_report() {
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let [page, junit] = ["report.html", "tests.xml"].map(|name| directory.path().join(name));
    let _talker = talker(domain);
    let runs: [(&[&str], i32, &str); 8] = [
        (&["--once", "--plain", "/im?"], 0, ""),
        (&["--once", "--json", "imu", "chatter"], 0, ""),
        (&["--require", "/imu:rate>=5 /imu:age.max<60s /chatter:received>0", "--timeout", "50"], 0, ""),
        (
            &["nobody", "--require", "rate>0", "--timeout", "3", "--junit", junit.to_str().unwrap()],
            1,
            "there is no topic /nobody yet; waiting",
        ),
        (&["nobody", "--once", "--duration", "1"], 1, "nothing was measured on /nobody: there is no topic"),
        (&["--ros-args", "-r", "__node:=not/a/name"], 3, "topic_monitor: "),
        (&["--ros-args", "-p", "use_sim_time:=maybe"], 3, "use_sim_time is \"maybe\": it has to be true or"),
        (&["--ros-args", "-p", "any:=[]"], 3, "The parameter any is []: a list has to have an element"),
    ];
    let started = runs.map(|(arguments, ..)| piped(command(arguments, domain)));
    let report = ["imu", "--period", "0.1", "--require", "rate>=1000", "--report", page.to_str().unwrap()];
    let mut reporting = piped(command(&report, domain));
    let outputs = started.map(|child| child.wait_with_output().unwrap());
    for ((arguments, status, error), output) in runs.iter().zip(&outputs) {
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*status), "{arguments:?}: {errors}");
        assert!(errors.contains(error), "{arguments:?}: {errors}");
    }
    let tests = fs::read_to_string(junit).unwrap();
    let failed = "classname=\"/nobody\">\n            <failure message=\"rate is - (there is no topic";
    assert!(tests.contains(failed), "{tests}");
    let lines = text(&outputs[0].stdout);
    assert!(lines.lines().count() == 3 && lines.contains("\ntopic ") && lines.contains("\n/imu "), "{lines}");
    let windows = objects(&outputs[1].stdout);
    assert_eq!(windows.len(), 2, "{windows:#?}");
    for window in windows {
        assert_eq!([&window["nodes"][0], &window["senders"][0]["node"]], ["/talker"; 2]);
        assert!(window["received"].as_u64() > Some(0) && window["rate"].as_f64() > Some(5.0), "{window}");
    }

    // The page of `--report` is written even if the reader of the lines closes the pipe.
    assert!(!page.exists());
    let mut lines = BufReader::new(reporting.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("/imu ")));
    drop(lines);
    let output = reporting.wait_with_output().unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "the exit status says that the condition failed");
    assert!(errors.contains("/imu: rate>=1000 failed in ") && !errors.contains("ipe"), "{errors:?}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<h2>/imu</h2>") && page.ends_with("</html>"), "{page}");
}

#[test]
fn standard_output_has_nothing_of_the_middleware() {
    let Some(library) = preload::library("noisy_rcl") else { return };
    let domain = domain();
    let _talker = talker(domain);
    let preload = format!("LD_PRELOAD={}", library.display());
    let monitor = [&preload, env!("CARGO_BIN_EXE_topic_monitor"), "imu"];
    let mut terminal = Terminal::start_program("env", &monitor, domain);
    let mut once = command(&["--once", "--json", "imu"], domain);
    preload::preload(&mut once, &library);
    let output = once.output().unwrap();
    let errors = text(&output.stderr);
    assert!(errors.contains("noise: from rcl_init") && errors.contains("noise: from a thread"), "{errors}");
    let objects = objects(&output.stdout); // Each line is a JSON object.
    assert_eq!((objects.len(), &objects[0]["topic"]), (1, &"/imu".into()));

    terminal.wait("topic", |text| text.contains("sensor_msgs/msg/Imu"));
    let view = terminal.text();
    assert!(!view.contains("noise") && view.starts_with(" 1 topic "), "{view}");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.wait("noise before or after the view", |text| text.contains("noise"));
}

#[test]
fn windows_that_nobody_reads_are_counted() {
    let (_executor, node) = node("sender", &[]);
    let imu: Publisher<Imu> = node.create_publisher("imu".keep_last(1000)).unwrap();
    let send = || imu.publish(Imu::default()).unwrap();
    let arguments = ["--json", "--period", "0.1", "imu"];
    let mut child = piped(command(&arguments, domain()));
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut monitor = Process::from(child);
    let mut last = Value::Null;
    loop {
        let window = next(&mut output);
        if window["total"]["received"].as_u64().unwrap_or(0) == 0 {
            send();
        } else if window["received"] == 0 && last["received"] == 0 {
            break;
        }
        last = window;
    }
    let expected = last["total"]["received"].as_u64().unwrap() + 300;
    wait_until_full(output.get_ref());
    (0..300).for_each(|_| send());
    wait_until_full(output.get_ref()); // The monitor receives the messages while its output blocks.
    let mut windows = std::iter::repeat_with(|| next(&mut output));
    let window = windows.find(|window| window["total"]["received"] == expected).unwrap();
    // The figures of the last minute and the losses also include the windows that the monitor could not write.
    assert_eq!(window["received"], 0, "{window}");
    assert_eq!(window["last_minute"]["message_period"]["count"], expected - 1, "{window}");
    if !middleware::lacks_sequence_numbers("losses while nobody reads") {
        assert_eq!(window["lost"], 0, "{window}");
    }
    wait_until_full(output.get_ref());
    monitor.signal("TERM");
    let status = monitor.wait();
    assert!(status.signal() == Some(15) || status.code() == Some(0), "{status}");
}

fn next(output: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}
