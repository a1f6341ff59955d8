// SPDX-License-Identifier: Apache-2.0

//! Checks that memory does not grow while the library records 1e8 messages. Also compares the memory of a listener at
//! 2000 Hz after a long run and after a short run.

use anyhow::Result;

use crate::{
    end_to_end::listen,
    listener::{Listened, Runtime, Scope, Statistics},
    process::cargo,
    table::Table,
    talker::Kind,
};

/// Records 1e8 messages. Then a listener runs for a tenth of `seconds`, and another listener for all `seconds`.
pub fn measure(seconds: f64) -> Result<Table> {
    std::env::set_var("MESSAGES", "25000000"); // for each of the test's four recorders
    let test = ["test", "--release", "--quiet", "--package", "benchmarks", "--test", "it"];
    cargo(&[&test[..], &["--", "message::a_message_allocates_nothing"]].concat())?;
    eprintln!("100000000 messages recorded: memory constant, every message in its window");
    let mut table =
        Table::new("2000 Hz, all metrics | messages | windows | gaps between windows | peak memory, MB");
    for seconds in [seconds / 10.0, seconds] {
        let setting = (Statistics::All, Scope::Node, Runtime::Basic);
        let Listened { received, windows, gaps, peak_kb, .. } = listen(Kind::Imu, 2000.0, setting, seconds)?;
        let peak = peak_kb as f64 / 1e3;
        table.row(format!("{seconds:.0} s | {received} | {windows} | {gaps} | {peak:.2}"));
    }
    Ok(table)
}
