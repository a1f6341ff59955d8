// SPDX-License-Identifier: Apache-2.0

//! The live view: its figures, its keys and its highlights.

use std::time::Duration;

use test_support::{domain, middleware, program, wait_for, Process, Program};

use crate::{
    run::FAST,
    terminal::{Monitor, Terminal},
};

#[test]
fn the_live_view_shows_sorts_filters_details_resizes_and_quits() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let mut terminal = Terminal::start(&[], domain);
    let first_topic =
        |text: &str| text.lines().nth(3).map(|line| line.trim_start_matches(['>', '!', ' ']).to_owned());
    let is_first =
        |topic: &'static str| move |text: &str| first_topic(text).is_some_and(|line| line.starts_with(topic));

    terminal.wait("rows with figures", |text| {
        let has_rate = |topic: &str| text.lines().any(|line| line.contains(topic) && line.contains(" 50."));
        has_rate("/chatter") && has_rate("/imu") && text.contains("sensor_msgs/msg/Imu") && text.contains('█')
    });
    assert!(terminal.has_terminal());
    let row = terminal.text().lines().find(|line| line.contains("/imu ")).unwrap().to_owned();
    let mean: f64 = row.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!((18.0..22.0).contains(&mean), "a period of 20 ms: {row}");

    assert!(is_first("/chatter")(&terminal.text()));
    terminal.press("r");
    terminal.wait("reversed order", is_first("/imu"));
    terminal.press("r");
    terminal.wait("order", is_first("/chatter"));
    terminal.press("ssss"); // topic, state, rate, period, age: the imu has one
    terminal.wait("order by age", |text| text.contains("sort age") && is_first("/imu")(text));

    terminal.press("/chat");
    terminal.wait("filtered rows", |text| text.contains("filter: chat") && !text.contains("/imu"));
    terminal.press("\x1b");
    terminal.wait("all rows", |text| text.contains("/imu") && text.contains("/chatter"));

    terminal.press("g\r");
    terminal.wait("details", |text| {
        text.contains("source_to_receive_ms")
            && text.contains("publication_seq_gap")
            && text.lines().any(|line| line.ends_with("/talker") && line.len() > 60)
    });
    terminal.press("\x7f");
    // The details do not name the other topic. (A key that is pressed together with a change of the size may wait in
    // crossterm 0.29 until the next key.)
    terminal.wait("list", |text| text.contains("sort age") && text.contains("/chatter"));

    terminal.resize(10, 200);
    terminal.wait("wide view", |text| text.contains("last minute") && text.contains("/imu"));
    terminal.resize(6, 40);
    terminal.wait("small view", |text| text.contains("/imu") && !text.contains("last minute"));
    terminal.resize(24, 80);
    // The end of the line of keys, which the small view cuts off: the size has changed before the next key (see above).
    terminal.wait("view", |text| text.contains("/chatter") && text.contains("/ filter"));

    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_topic_that_went_silent_stands_out_and_control_c_ends() {
    let domain = domain();
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let mut terminal = Terminal::start(&[], domain);
    terminal.wait("best-effort topic with a rate", |text| {
        text.lines().any(|line| line.contains("/best_effort") && line.contains("10.0"))
    });
    assert_eq!(publisher.request("pause"), "done");
    terminal.wait("STALE", |text| text.contains("STALE") && text.contains("1 stale"));
    terminal.press("\x03");
    assert_eq!(terminal.end(), 0);
}

/// Stops the monitor while 20 messages arrive on `/best_effort`, more than it has room for.
fn lose_messages(publisher: &mut Program, monitor: &Monitor) {
    let mut count = || publisher.request("count").parse::<u64>().unwrap();
    monitor.signal("STOP");
    let before = count();
    wait_for("20 messages", || count() >= before + 20);
    monitor.signal("CONT");
}

#[test]
fn a_topic_with_losses_stands_out_and_shows_whose_they_are() {
    if middleware::lacks_sequence_numbers("losses in the live view") {
        return;
    }
    let domain = domain();
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let mut terminal = Terminal::start(&["--depth", "5", "best_effort"], domain);
    terminal.wait("rate", |text| text.contains("10.0"));
    // If the monitor takes them as fast as they leave the socket after the stop, none is lost: then again.
    let has_losses = (0..20).any(|_| {
        lose_messages(&mut publisher, &terminal.monitor);
        let is_lossy = |text: &str| text.contains("LOSS ") && text.contains("1 with losses");
        terminal.shows_within(Duration::from_secs(3), is_lossy)
    });
    assert!(has_losses, "no LOSS on\n{}", terminal.text());
    terminal.press("\r");
    terminal.wait("losses of the publisher", |text| {
        let sender = text.lines().find(|line| line.ends_with("/qos_publisher") && line.len() > 60);
        let lost = sender.and_then(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
        lost.is_some_and(|lost| lost > 0)
    });
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

/// Prints the screens of the READMEs and of docs/topic_monitor.md.
#[test]
#[ignore = "cargo xtask test -- -p topic_statistics_monitor --test it -- --ignored --nocapture screenshot"]
fn screenshot() {
    let domain = domain();
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let _talker = Process::start(program("talker"), &["--ros-args", "-p", "rate:=100.0"], domain);
    assert_eq!(publisher.request("late"), "done");
    let mut terminal = Terminal::start(&["--depth", "5"], domain);
    let wait = |terminal: &Terminal, seconds| {
        let started = std::time::Instant::now();
        terminal.wait("time", |_| started.elapsed().as_secs() >= seconds);
    };
    wait(&terminal, 30);
    lose_messages(&mut publisher, &terminal.monitor);
    wait(&terminal, 20);
    println!("{}", terminal.text());
    assert_eq!(publisher.request("pause"), "done");
    wait(&terminal, 8);
    println!("{}", terminal.text());
    terminal.press("jj\r");
    wait(&terminal, 2);
    println!("{}", terminal.text());
    terminal.press("h");
    wait(&terminal, 2);
    println!("{}", terminal.text());
}
