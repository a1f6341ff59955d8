// SPDX-License-Identifier: Apache-2.0

//! The program `exporter`. The code is in `lib.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    topic_statistics_exporter::main()
}
