// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask bench`: measures the cost of statistics. Prints tables in Markdown, or writes docs/performance.md.
//!
//! Each measurement has a module. If a measurement needs several processes, this program starts itself again for each
//! process.

mod contention;
mod end_to_end;
mod listener;
mod machine;
mod memory;
mod messages;
mod page;
mod preload;
mod probe;
mod process;
mod scale;
mod soak;
mod table;
mod talker;

use anyhow::Result;
use clap::{Arg, ArgAction, Command};
use table::Table;

/// A measurement: the option, the help text, the seconds of each run, and the function.
type Measurement = (&'static str, &'static str, f64, fn(f64) -> Result<Table>);

const MEASUREMENTS: [Measurement; 7] = [
    ("end-to-end", "talker and listener processes, with statistics and without", 5.0, end_to_end::measure),
    ("scale", "a node with 1 to 1000 subscriptions", 10.0, scale::measure),
    ("contention", "a record while the windows' end cannot run", 30.0, contention::measure),
    ("soak", "1e8 messages, then a listener for ten minutes: their memory", 600.0, soak::measure),
    ("memory", "the heap of a node's statistics", 0.0, memory::measure),
    (
        "preload",
        "what the preloaded library adds to a message, a callback and a timer, in ns",
        0.0,
        preload::measure,
    ),
    ("probe", "what an observer of a topic does to its subscriber", 10.0, probe::measure),
];

fn main() -> Result<()> {
    // A measurement runs this program again with the name of a process, and with options as JSON.
    if let [_, process, options] = &std::env::args().collect::<Vec<_>>()[..] {
        match process.as_str() {
            "talker" => return talker::run(serde_json::from_str(options)?),
            "listener" => return listener::run(serde_json::from_str(options)?),
            "many" => return scale::run(serde_json::from_str(options)?),
            "heap" => return memory::run(),
            _ => {}
        }
    }
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).help(help).action(ArgAction::SetTrue).group("measurement")
    };
    let seconds = clap::value_parser!(f64);
    let matches = Command::new("measure")
        .bin_name("cargo xtask bench")
        .about("Measures the cost of statistics; by default that of a message and of a window in the library")
        .arg(flag("write", "Measure in twenty minutes what docs/performance.md needs, and write it"))
        .args(MEASUREMENTS.map(|(name, help, ..)| flag(name, help)))
        .arg(Arg::new("seconds").long("seconds").value_parser(seconds).help("How long each run is"))
        .get_matches();
    if matches.get_flag("write") {
        return page::write();
    }
    let table = match MEASUREMENTS.into_iter().find(|(name, ..)| matches.get_flag(name)) {
        Some((_, _, seconds, measure)) => measure(*matches.get_one("seconds").unwrap_or(&seconds))?,
        None => messages::measure(&[])?.table(),
    };
    println!("{table}");
    Ok(())
}
