// SPDX-License-Identifier: Apache-2.0

//! The program `exporter`. `lib.rs` has the code.

use std::process::ExitCode;

fn main() -> ExitCode {
    topic_statistics_exporter::main()
}
