// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask demo`, with the ROS 2 in which the tests run as the sourced one.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write as _},
    net::UdpSocket,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Starts the demo; the variable MARK identifies its processes.
fn demo(mark: &str, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["demo"])
        .args(arguments)
        .env("MARK", mark)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The processes with that mark that are alive: their command lines and environments.
fn marked(mark: &str) -> Vec<(String, String)> {
    let variable = format!("MARK={mark}");
    let mut found = vec![];
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
        let environment = String::from_utf8_lossy(&read("environ")).into_owned();
        if environment.split('\0').any(|entry| entry == variable) {
            found.push((String::from_utf8_lossy(&read("cmdline")).into_owned(), environment));
        }
    }
    found
}

/// The command lines of the processes with that mark that are alive.
fn alive(mark: &str) -> Vec<String> {
    marked(mark).into_iter().map(|(command, _)| command).collect()
}

#[test]
fn the_demo_shows_every_metric_as_plain_lines_and_ends_after_its_seconds() {
    let mark = format!("seconds-{}", std::process::id());
    let output = demo(&mark, &["--seconds", "20"]).wait_with_output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));

    assert!(output.status.success(), "{text}{errors}");
    assert!(text.starts_with("source "), "{text}");
    assert!(!text.contains('\x1b'), "no control characters in a pipe: {text}");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for (source, metric) in [
        ("imu", "message_age"),
        ("imu", "message_period"),
        ("chatter", "message_age"),
        ("chatter", "message_period"),
    ] {
        let row = |row: &&Vec<&str>| row[0] == format!("/listener:/{source}") && row[1] == metric;
        let averages: Vec<&str> = rows.iter().filter(row).map(|row| row[5]).collect();
        assert!(!averages.is_empty(), "{source} {metric} in {text}");
        let is_nan = averages.iter().all(|average| *average == "NaN");
        assert_eq!(is_nan, (source, metric) == ("chatter", "message_age"), "{source} {metric}: {averages:?}");
    }
    assert_eq!(alive(&mark), Vec::<String>::new());
}

#[test]
fn the_demo_ends_on_ctrl_c_and_leaves_no_process() {
    let mark = format!("interrupt-{}", std::process::id());
    let mut child = demo(&mark, &[]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("source "));
    assert!(alive(&mark).len() >= 4, "the demo, the talker, the listener, the reader: {:?}", alive(&mark));

    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();

    assert!(child.wait().unwrap().success());
    assert_eq!(alive(&mark), Vec::<String>::new());
}

#[test]
fn a_demo_that_is_killed_leaves_no_process() {
    let mark = format!("killed-{}", std::process::id());
    let mut child = demo(&mark, &[]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("source "));
    assert!(alive(&mark).len() >= 4, "the demo, the talker, the listener, the reader: {:?}", alive(&mark));

    child.kill().unwrap();
    child.wait().unwrap();

    let deadline = Instant::now() + Duration::from_secs(10);
    while !alive(&mark).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", alive(&mark));
        std::thread::sleep(Duration::from_millis(10)); // between two looks
    }
}

#[test]
fn a_demo_without_metrics_fails_with_the_reason() {
    let mark = format!("none-{}", std::process::id());
    let output = demo(&mark, &["--seconds", "0"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("error: No statistics came in 0 s"), "{errors}");
    assert_eq!(alive(&mark), Vec::<String>::new());
}

#[test]
fn the_demo_takes_no_domain_that_a_program_uses() {
    let mark = format!("domain-{}", std::process::id());
    let start = || {
        // The shell's id becomes the demo's, and decides the domain that the demo asks for first.
        let mut shell = Command::new("sh")
            .args(["-c", "read go && exec \"$0\" demo", env!("CARGO_BIN_EXE_xtask")])
            .env("MARK", &mark)
            .env_remove("ROS_DOMAIN_ID")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let domain = 1 + shell.id() * 16 % 101;
        // As the first participant on that domain. Another test may have it, and end before the demo looks.
        let Ok(program) = UdpSocket::bind(("127.0.0.1", 7410 + 250 * domain as u16)) else {
            drop(shell.stdin.take());
            shell.wait().unwrap();
            return None;
        };
        Some((shell, domain, program))
    };
    let (mut child, domain, _program) = (0..100).find_map(|_| start()).expect("a domain that is not in use");
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("source "));

    let processes = marked(&mark);
    let variables = processes.iter().flat_map(|(_, environment)| environment.split('\0'));
    let domains: BTreeSet<_> = variables.filter_map(|entry| entry.strip_prefix("ROS_DOMAIN_ID=")).collect();
    assert_eq!(domains.len(), 1, "of the talker, the listener and the reader: {domains:?}");
    assert!(!domains.contains(domain.to_string().as_str()), "{domains:?}");

    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let domains: Vec<_> = domains.into_iter().collect();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(&format!("ROS_DOMAIN_ID={} cargo xtask run -- topic_monitor", domains[0])),
        "{said}"
    );
}
