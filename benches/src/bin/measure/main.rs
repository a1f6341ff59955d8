// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask bench`: measures the cost of statistics. Prints tables in Markdown, or writes docs/performance.md.
//!
//! A module per measurement. A measurement of processes starts this program again, once for each of them.

mod bags;
mod contention;
mod end_to_end;
mod exporter;
mod listener;
mod machine;
mod memory;
mod messages;
mod monitor;
mod page;
mod preload;
mod probe;
mod process;
mod scale;
mod soak;
mod statistics_load;
mod table;
mod talker;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures the cost of statistics; by default that of a message and of a window in the library, and counts
/// allocations, bytes and instructions. Arguments after `--` go to `cargo bench`, and no table is printed.
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench")]
struct Cli {
    /// Measure everything once, for twenty minutes, and write docs/performance.md
    #[arg(long, group = "measurement")]
    write: bool,
    /// Measure talker and listener processes, with statistics and without
    #[arg(long, group = "measurement")]
    end_to_end: bool,
    /// Measure a node with 1 to 1000 subscriptions
    #[arg(long, group = "measurement")]
    scale: bool,
    /// Measure how long a record takes while a thread of a priority in between keeps the windows' end from running
    #[arg(long, group = "measurement")]
    contention: bool,
    /// Record 1e8 messages, receive for ten minutes, and look at the memory
    #[arg(long, group = "measurement")]
    soak: bool,
    /// Measure the heap of a node's statistics
    #[arg(long, group = "measurement")]
    memory: bool,
    /// Measure topic_monitor beside a minimal rclpy subscriber: 20 topics at 100 Hz, one at 5000 Hz, images
    #[arg(long, group = "measurement")]
    monitor: bool,
    /// Measure the exporter beside a minimal rclpy exporter: 1000 sources of 10 metrics, scraped every 5 s
    #[arg(long, group = "measurement")]
    exporter: bool,
    /// Measure bag_statistics beside the crate `mcap`, rosbag-doctor and rosbags: 1 GB of a camera and a lidar, 10
    /// million small messages
    #[arg(long, group = "measurement")]
    bag: bool,
    /// Measure what an observer of a topic does to its subscriber: topic_monitor, a recording, the preloaded library,
    /// rclpy
    #[arg(long, group = "measurement")]
    probe: bool,
    /// Measure what a message and a call cost with the preloaded library, of a middleware that does nothing
    #[arg(long, group = "measurement")]
    preload: bool,
    /// How many pairs of runs of --end-to-end
    #[arg(long, default_value_t = 8)]
    pairs: usize,
    /// How long each run is [default: 5 end to end, 10 at scale, 20 of the monitor, 10 of the probe, 30 of the
    /// exporter, 30 under contention, 600 soaking]
    #[arg(long)]
    seconds: Option<u32>,
    #[command(subcommand)]
    process: Option<Process>,
}

/// The processes that are measured, and those that send messages to them.
#[derive(Subcommand)]
enum Process {
    #[command(hide = true)]
    Talker(talker::Options),
    #[command(hide = true)]
    Listener(listener::Options),
    #[command(hide = true)]
    Many { subscriptions: usize, seconds: u64 },
    #[command(hide = true)]
    Statistics,
    #[command(hide = true)]
    Heap,
    #[command(hide = true)]
    ReadBag { reader: bags::Reader, file: PathBuf },
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let seconds = |default: u32| f64::from(cli.seconds.unwrap_or(default));
    match cli.process {
        Some(Process::Talker(options)) => return talker::run(&options),
        Some(Process::Listener(options)) => return listener::run(&options),
        Some(Process::Many { subscriptions, seconds }) => return scale::run(subscriptions, seconds),
        Some(Process::Statistics) => return statistics_load::run(),
        Some(Process::Heap) => return memory::run(),
        Some(Process::ReadBag { reader, file }) => return bags::read(reader, &file),
        None if cli.write => return page::write(),
        None => {}
    }
    let table = if cli.end_to_end {
        end_to_end::table(&end_to_end::measure(cli.pairs, seconds(5))?)
    } else if cli.scale {
        scale::table(&scale::measure(seconds(10) as u64)?)
    } else if cli.contention {
        contention::measure(seconds(30))?.table()
    } else if cli.soak {
        soak::table(&soak::measure(seconds(600))?)
    } else if cli.memory {
        memory::table(&memory::measure()?)
    } else if cli.monitor {
        return monitor::measure(seconds(20));
    } else if cli.bag {
        bags::measure()?
    } else if cli.probe {
        probe::measure(seconds(10))?
    } else if cli.preload {
        preload::measure()?
    } else if cli.exporter {
        exporter::measure(seconds(30))?
    } else {
        let messages = messages::measure(&[])?;
        println!("{}", messages.table());
        println!("{}", messages.line());
        return Ok(());
    };
    println!("{table}");
    Ok(())
}
