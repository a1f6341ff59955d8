// SPDX-License-Identifier: Apache-2.0

//! The program `topic_monitor`: see `lib.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    topic_statistics_monitor::main()
}
