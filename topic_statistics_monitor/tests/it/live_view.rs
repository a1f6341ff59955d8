// SPDX-License-Identifier: Apache-2.0

//! Tests of the live view in a terminal, and of the ways in which the live view ends.

use std::fs;

use rclrs::{IntoPrimitiveOptions, Publisher};
use ros_env::sensor_msgs::msg::Imu;
use test_support::{domain, node, wait_for, Process};

use crate::{
    run::{command, piped, talker},
    terminal::Terminal,
};

#[test]
fn the_live_view_shows_what_is_expected_and_what_is() {
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (file, page) = (path("expect.yaml"), path("report.html"));
    {
        let (_executor, node) = node("sender", &[]);
        let imu: Publisher<Imu> = node.create_publisher("imu".keep_last(1000)).unwrap();
        let arguments = ["--print-expectations=90", "--period", "0.1", "--duration", "60", "/imu"];
        let mut child = piped(command(&arguments, domain));
        let printed = child.stdout.take().unwrap();
        let mut monitor = Process::from(child);
        wait_for("subscription", || node.count_subscriptions("/imu").unwrap() > 0);
        for _ in 0..100 {
            imu.publish(Imu::default()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        monitor.signal("INT");
        assert_eq!(monitor.wait().code(), Some(0));
        let printed: Vec<String> = test_support::lines(printed).iter().collect();
        assert!(printed.contains(&"  \"/imu\":".to_owned()), "{printed:?}");
        fs::write(&file, printed.join("\n")).unwrap();
    }
    let talking = talker(domain);
    let mut terminal = Terminal::start(&["--expect", &file, "--report", &page], domain);
    terminal.wait("imu as expected", |text| {
        text.lines().any(|line| line.contains("sensor_msgs/msg/Imu") && line.contains(" OK"))
    });
    assert_eq!(terminal.has_view(), Some(true));
    terminal.press("\r");
    terminal.wait_for(&["health      OK: as expected", "source_to_receive_ms", "/talker"]);
    terminal.press("\x7f");
    // The test presses no key while the size changes, because crossterm 0.29 may delay such a key.
    terminal.wait_for(&["sort topic", "/imu", "/ filter"]);
    terminal.resize(10, 200);
    terminal.wait_for(&["last minute", "/imu"]);
    terminal.resize(6, 40);
    terminal.wait("small view", |text| text.contains("/imu") && !text.contains("last minute"));
    drop(talking);
    terminal.resize(24, 80);
    terminal.wait_for(&["STALE", "1 stale", "/ filter"]);
    assert!(!fs::exists(&page).unwrap());
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("<h2>/imu</h2>") && page.contains("Rate, Hz"), "{page}");
}

#[test]
fn signals_and_a_closed_terminal_end_the_live_view() {
    let domain = domain();
    // Monitors that are started with this command ignore SIGHUP, as under nohup.
    let ignoring = ["-c", "trap '' HUP; exec \"$0\"", env!("CARGO_BIN_EXE_topic_monitor")];
    for (end, mut terminal) in
        ["close", "close, ignoring", "HUP", "TERM", "INT", "HUP, ignoring"].map(|end| {
            let is_ignoring = end.ends_with("ignoring");
            (
                end,
                if is_ignoring {
                    Terminal::start_program("sh", &ignoring, domain)
                } else {
                    Terminal::start(&[], domain)
                },
            )
        })
    {
        terminal.wait_for(&["No topic yet"]);
        match end {
            "close" | "close, ignoring" => terminal.close(),
            "HUP, ignoring" => {
                terminal.signal("HUP");
                terminal.press("/more");
                terminal.wait_for(&["filter: more"]);
                terminal.press("\x03");
            }
            signal => terminal.signal(signal),
        }
        assert_eq!(terminal.end(), 0, "{end}");
    }
}
