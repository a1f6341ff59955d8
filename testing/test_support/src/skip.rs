// SPDX-License-Identifier: Apache-2.0

//! Tests that this machine or this middleware cannot run.

use std::io::Write;

/// Logs what is not tested, in which test, and why.
///
/// This is the way for a test to skip, because everybody sees the line: the harness hides the output of `eprintln!` and
/// `println!` if the test passes.
pub fn skip(what: &str, why: &str) {
    let test = std::thread::current();
    let _closed = writeln!(std::io::stderr(), "skipped: {what} ({}): {why}", test.name().unwrap_or("-"));
}
