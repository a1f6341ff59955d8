// SPDX-License-Identifier: Apache-2.0

//! The ends of the monitor: signals, a closed terminal or pipe, a panic.

use std::{
    env,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use test_support::{domain, program, wait_for, Process, LIMIT};
use topic_statistics_monitor::testing::{take_stdout, Input, LiveTerminal, Screen};

use crate::{
    output::start_unread,
    run::{Json, FAST, WITHOUT_HANG_UP},
    terminal::Terminal,
};

#[test]
fn a_panic_restores_the_terminal_and_is_reported() {
    // A backtrace would not fit the screen.
    let program = env::current_exe().unwrap();
    let program = ["RUST_BACKTRACE=0", program.to_str().unwrap()];
    let test = ["--ignored", "--exact", "--nocapture", "ending::a_live_view_that_panics"];
    let mut terminal = Terminal::start_program("env", &[&program[..], &test].concat(), domain());
    terminal.wait("view", |text| text.contains("No topic yet"));
    assert!(terminal.has_terminal());
    terminal.press("p");
    assert_eq!(terminal.end(), 101);
    terminal.wait("message", |text| text.contains("panics at a key"));
}

/// The terminal of the live view, in a process that panics.
#[test]
#[ignore = "panics in a terminal, for the test above"]
fn a_live_view_that_panics() {
    let output = take_stdout().unwrap();
    let mut live = LiveTerminal::start(&output).unwrap();
    let input = Input::start().unwrap();
    live.terminal.draw(|frame| Screen::default().draw(frame, &[], Instant::now())).unwrap();
    let key = input.next(LIMIT).unwrap();
    panic!("panics at a key: {key:?}");
}

#[test]
fn a_closed_terminal_ends_it_and_a_signal_restores_the_terminal() {
    let domain = domain();
    let view = |text: &str| text.contains("No topic yet");
    for is_hung_up in [true, false] {
        let start = if is_hung_up { Terminal::start } else { Terminal::start_without_hang_up };
        let terminal = start(&[], domain);
        terminal.wait("view", view);
        assert_eq!(terminal.close().end(), 0, "with SIGHUP: {is_hung_up}");
    }
    for signal in ["HUP", "TERM", "INT"] {
        let mut terminal = Terminal::start(&[], domain);
        terminal.wait("view", view);
        terminal.monitor.signal(signal);
        assert_eq!(terminal.end(), 0, "SIG{signal}");
    }
}

#[test]
fn an_incomplete_escape_sequence_holds_nothing_up() {
    let mut terminal = Terminal::start(&["--duration", "8"], domain());
    terminal.wait("view", |text| text.contains("No topic yet"));
    terminal.press("\x1b[1;"); // And no more, as over a slow line.
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_signal_ends_it_while_nobody_reads_what_it_writes() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let (mut monitor, _unread) = start_unread(&[], domain);
    monitor.signal("TERM");
    let status = monitor.wait();
    assert!(status.signal() == Some(15) || status.code() == Some(0), "{status}");
}

#[test]
fn a_hang_up_that_is_ignored_stays_so() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let arguments = [&WITHOUT_HANG_UP[..], &["--json", "--period", "0.25"]].concat();
    let mut child = test_support::command("sh", &arguments, domain).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut monitor = Process::from(child);
    assert!(lines.next().unwrap().is_ok());
    monitor.signal("HUP");
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(3) {
        assert!(lines.next().unwrap().is_ok());
    }
    monitor.signal("INT");
    assert_eq!(monitor.wait().code(), Some(0));
}

#[test]
fn an_interrupt_ends_it_cleanly() {
    let domain = domain();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let mut monitor = Json::start(&[], domain);
    monitor.until("window", |json| json["topic"] == "/imu");
    let id = monitor.child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let mut status = None;
    wait_for("end", || {
        status = monitor.child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
}
