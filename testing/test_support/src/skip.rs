// SPDX-License-Identifier: Apache-2.0

//! Skips the tests that this machine or this middleware cannot run.

use std::io::Write;

/// Logs that a test is skipped, with the reason.
///
/// Every skip must use this function, because its line is always visible. The harness hides what a passed test prints
/// by `eprintln!` and `println!`.
pub fn skip(what: &str, why: &str) {
    let test = std::thread::current();
    let _closed = writeln!(std::io::stderr(), "skipped: {what} ({}): {why}", test.name().unwrap_or("-"));
}
