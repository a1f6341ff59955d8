// SPDX-License-Identifier: Apache-2.0

//! Tests of parts of topic_monitor without ROS: the terminal of the live view, and the page of `--report` in a browser.

mod page;
#[allow(dead_code, reason = "the tests that start the monitor use all of it")]
mod terminal;

use std::time::{Duration, Instant};

use terminal::Terminal;
use topic_statistics_monitor::testing::{take_stdout, Input, LiveTerminal, Screen};

/// Shows the live view in a terminal, and panics when a key is pressed.
#[test]
#[ignore = "runs in a terminal, for the tests below"]
fn live_view() {
    let output = take_stdout().unwrap();
    let mut live = LiveTerminal::start(&output).unwrap();
    let input = Input::start().unwrap();
    for seconds in 1.. {
        let mut screen = Screen::default();
        screen.notice = Some(format!("drawn {seconds} times"));
        live.terminal.draw(|frame| screen.draw(frame, &[], Instant::now())).unwrap();
        if let Some(key) = input.next(Duration::from_millis(20)).unwrap() {
            panic!("panics at a key: {key:?}");
        }
    }
}

fn start() -> Terminal {
    let program = std::env::current_exe().unwrap();
    // Backtraces are disabled, because a backtrace would not fit the screen.
    let program = ["RUST_BACKTRACE=0", program.to_str().unwrap()];
    let test = ["--ignored", "--exact", "--nocapture", "live_view"];
    let terminal = Terminal::start_program("env", &[&program[..], &test].concat(), 0);
    terminal.wait_for(&["No topic yet"]);
    assert_eq!(terminal.has_view(), Some(true));
    terminal
}

#[test]
fn a_panic_restores_the_terminal_and_is_reported() {
    let mut terminal = start();
    terminal.press("p");
    assert_eq!(terminal.end(), 101);
    terminal.wait_for(&["panics at a key"]);
}

#[test]
fn an_incomplete_escape_sequence_holds_nothing_up() {
    let mut terminal = start();
    terminal.press("\x1b[1;"); // The rest of the sequence is missing, as on a slow connection.
    let drawn = |text: &str| -> u32 {
        let number = text.split("drawn ").nth(1).and_then(|rest| rest.split(' ').next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let before = drawn(&terminal.text());
    terminal.wait("further screens", |text| drawn(text) > before + 20);
}
