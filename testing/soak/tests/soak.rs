// SPDX-License-Identifier: Apache-2.0

//! Runs each soak test for about a minute.

use std::process::Command;

/// Runs a soak test, and asserts that it passes. Returns the words of the printed lines.
fn passes(arguments: &str) -> Vec<Vec<String>> {
    let mut soak = Command::new(env!("CARGO_BIN_EXE_soak"));
    let output = soak.args(arguments.split(' ')).output().expect("the soak test cannot be started");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// Returns the number after the word `heading` in the last line but one.
fn last(lines: &[Vec<String>], heading: &str) -> u64 {
    let line = &lines[lines.len() - 2];
    line[1 + line.iter().position(|word| word == heading).unwrap()].parse().unwrap()
}

/// A reader is stopped for 2 s. It requests missed messages at the next heartbeat of Fast DDS, at most 3 s later. The
/// history of 2000 messages must hold the windows of these 5 s. With 51 subscriptions and short windows, these are 306
/// messages per second.
#[test]
fn churn() {
    let lines = passes("run --hours 0.0135 --interval 5 --cycle 4 --window 500");
    assert_eq!(last(&lines, "lost"), last(&lines, "truth"), "{lines:?}");
    let are_lost = last(&lines, "lost") > 5_000 && last(&lines, "killed") > 0;
    assert!(last(&lines, "messages") > 100_000 && are_lost, "{lines:?}");
}

#[test]
fn preloaded_nodes() {
    // Builds the launcher `topic_statistics`, and the library beside it.
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package", "topic_statistics_preload"]);
    let project = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    assert!(build.current_dir(project).status().is_ok_and(|status| status.success()));
    let lines = passes("preload --hours 0.002 --interval 1 --cycle 3");
    let [messages, calls, killed] = ["messages", "calls", "killed"].map(|heading| last(&lines, heading));
    assert!(messages > 500 && calls > 50 && killed > 0, "{lines:?}");
}

#[test]
fn a_day_of_the_robot() {
    let _programs = ["topic_monitor", "exporter"].map(test_support::program);
    // The images are smaller than usual, because other tests run at the same time.
    let lines = passes("robot --minutes 0.8 --image 100000");
    for report in ["process", "/statistics", "/diagnostics", "/metrics", "topic_monitor"] {
        let row = lines.iter().find(|line| line.iter().rev().nth(3).is_some_and(|word| word == report));
        let compared: u64 = row.map_or(0, |row| row[row.len() - 2].parse().unwrap());
        assert!(compared > 50, "{report}: {lines:?}");
    }
}
