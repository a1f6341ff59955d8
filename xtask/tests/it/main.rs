// SPDX-License-Identifier: Apache-2.0

//! The automation itself: what it sets up, runs and ends, the pages whose commands a user pastes, and the tests of the
//! Python packages.

#[path = "../../../testing/test_support/src/domain.rs"]
mod domain;
mod pages;
mod ros2_verbs;
mod verbs;

use std::{io::Write as _, process::Command};

/// Whether a command succeeds, and its output.
fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    (output.status.success(), text)
}

/// Says something, not by `println!`, which the test harness keeps to itself.
fn note(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}
