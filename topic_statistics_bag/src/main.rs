// SPDX-License-Identifier: Apache-2.0

//! The program `bag_statistics` shows the same statistics for recordings as `topic_monitor` shows for live topics.
//!
//! ```text
//!                                   ┌──▶ table, or lines and JSON of topic_statistics_observe
//!  Bag::read ──▶ rows ──▶ session ──┼──▶ conditions, expectations, page of topic_statistics_observe
//!                                   └──▶ comparison ──▶ exit status
//! ```

mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::main()
}
