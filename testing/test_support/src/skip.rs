// SPDX-License-Identifier: Apache-2.0

//! Tests that this machine or this middleware cannot run.

use std::io::Write;

/// Logs that a test is skipped, with the reason.
///
/// Every skip uses this function, because its line is always visible: the harness hides the output of `eprintln!` and
/// `println!` if the test passes.
pub fn skip(what: &str, why: &str) {
    let test = std::thread::current();
    let _closed = writeln!(std::io::stderr(), "skipped: {what} ({}): {why}", test.name().unwrap_or("-"));
}
