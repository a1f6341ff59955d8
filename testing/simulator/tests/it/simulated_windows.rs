// SPDX-License-Identifier: Apache-2.0

//! A few thousand windows from fixed seeds, in seconds and in any build: a test of the library for cargo-mutants, and
//! of the simulator's repeatability.

use std::process::Command;

/// Simulates, and returns the simulator's output without its duration.
fn simulate(seed: u64, windows: u64, threads: u64) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_simulator"))
        .args(["--seed", &seed.to_string(), "--windows", &windows.to_string()])
        .args(["--threads", &threads.to_string()])
        .output()
        .expect("the simulator cannot be started");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<_> = printed.lines().collect();
    lines.pop();
    lines.join("\n")
}

#[test]
fn windows_are_as_the_oracle_expects() {
    for seed in 1..=3 {
        simulate(seed, 5_000, 2);
    }
}

#[test]
fn the_same_seed_gives_the_same_figures_with_any_number_of_threads() {
    let once = simulate(7, 3_000, 1);
    assert!(once.contains("digest of all figures"), "{once}");
    assert_eq!(once, simulate(7, 3_000, 1));
    assert_eq!(once, simulate(7, 3_000, 3));
    assert_ne!(once, simulate(8, 3_000, 1));
}

/// docs/laboratory.md has a day.
#[test]
fn a_healthy_robot_has_no_alarm_in_an_hour_and_each_real_fault_is_found_as_soon_as_promised() {
    let output = Command::new(env!("CARGO_BIN_EXE_simulator"))
        .args(["--seed", "1", "--day", "1"])
        .output()
        .expect("the simulator cannot be started");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("1.00 hours of 16 sources"), "{printed}");
}
