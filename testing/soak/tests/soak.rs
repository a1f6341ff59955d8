// SPDX-License-Identifier: Apache-2.0

//! The soak test itself, for about a minute and with short windows.

use std::process::Command;

/// In ms. While a reader is stopped for 2 s, and then until the next heartbeat of Fast DDS (at most 3 s), the history
/// of 2000 messages has to hold all windows for it: 51 subscriptions with three metrics are 306 messages a second.
const WINDOW: &str = "500";

#[test]
fn a_short_run_passes_and_its_lines_have_the_senders_losses() {
    let output = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["run", "--hours", "0.0135", "--interval", "5", "--window", WINDOW])
        .output()
        .expect("the soak test cannot be started");
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let column = |name: &str| lines[1].iter().position(|heading| *heading == name).unwrap();
    let rows = &lines[2..lines.len() - 1];
    assert!(rows.len() >= 5, "{printed}");
    let last = |name: &str| rows[rows.len() - 1][column(name)].parse::<u64>().unwrap();
    for row in rows {
        assert_eq!(row[column("lost")], row[column("truth")], "{printed}");
        assert_eq!(row[column("missing")], "0", "{printed}");
    }
    assert!(last("messages") > 100_000, "{printed}");
    assert!(last("lost") > 5_000, "messages are lost while the worker is held up: {printed}");
    assert!(last("killed") > 0, "{printed}");
}

#[test]
fn a_short_run_of_nodes_with_the_preloaded_library_has_their_own_counts() {
    // The launcher, and the library beside it.
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package", "topic_statistics_preload"]);
    let project = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    assert!(build.current_dir(project).status().is_ok_and(|status| status.success()));
    let output = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["preload", "--hours", "0.002", "--interval", "1", "--cycle", "3"])
        .output()
        .expect("the soak test cannot be started");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    let last = |name: &str| {
        let column = lines[0].iter().position(|heading| *heading == name).unwrap();
        lines[lines.len() - 2][column].parse::<u64>().unwrap()
    };
    assert!(last("messages") > 500 && last("calls") > 50 && last("killed") > 0, "{printed}");
    assert_eq!(last("allocations"), 0, "{printed}");
}

#[test]
fn a_short_day_of_the_robot_has_no_figure_that_differs_from_its_logs() {
    for name in ["topic_monitor", "exporter"] {
        test_support::program(name);
    }
    // Small images: other tests run beside it.
    let output = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["robot", "--minutes", "0.8", "--image", "100000"])
        .output()
        .expect("the robot cannot be started");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let compared = |report: &str| {
        let rows = printed.lines().filter(|line| line.starts_with(&format!("| {report} |")));
        let column = |line: &str| line.split('|').nth(3).unwrap().trim().parse::<u64>().unwrap();
        rows.map(column).sum::<u64>()
    };
    for report in ["windows in the process", "/statistics", "/diagnostics", "/metrics", "topic_monitor"] {
        assert!(compared(report) > 50, "{report}: {printed}");
    }
}
