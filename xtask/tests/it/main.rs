// SPDX-License-Identifier: Apache-2.0

//! Tests of the automation itself, of the documentation pages whose commands users paste, and of the Python packages.

#[path = "../../../testing/test_support/src/domain.rs"]
mod domain;
mod pages;
mod ros2_verbs;
mod verbs;

use std::{io::Write as _, process::Command};

/// Runs a command. Returns whether it succeeds, and its output.
fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    (output.status.success(), text)
}

/// Prints a line that is visible although the test passes. (The test harness captures `println!`.)
fn note(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}
