// SPDX-License-Identifier: Apache-2.0

//! Simulates a few thousand windows from fixed seeds within seconds. This is a fast test of the library (for
//! cargo-mutants), and tests that equal seeds give equal results.

use std::process::Command;

/// Runs the simulator, and returns its output without the duration.
fn run(arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_simulator"))
        .args(arguments.split(' '))
        .output()
        .expect("the simulator cannot be started");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<_> = printed.lines().collect();
    lines.pop();
    lines.join("\n")
}

#[test]
fn windows_agree_with_the_oracle() {
    for seed in 1..=3 {
        run(&format!("--seed {seed} --windows 5000 --threads 2"));
    }
}

#[test]
fn equal_seeds_give_equal_figures_with_any_thread_count() {
    let simulate = |seed: u8, threads: u8| run(&format!("--seed {seed} --windows 3000 --threads {threads}"));
    let once = simulate(7, 1);
    assert!(once.contains("digest of all figures"), "{once}");
    assert_eq!(once, simulate(7, 1));
    assert_eq!(once, simulate(7, 3));
    assert_ne!(once, simulate(8, 1));
}

/// The results of a whole simulated day are in docs/laboratory.md.
#[test]
fn a_healthy_hour_has_no_alarm_and_each_fault_is_found_in_time() {
    let printed = run("--seed 1 --day 1");
    assert!(printed.contains("1.00 hours of 16 sources"), "{printed}");
}
