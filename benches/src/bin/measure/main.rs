// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask bench`: measures the cost of statistics. Prints tables in Markdown, or writes docs/performance.md.
//!
//! A module per measurement. A measurement of processes starts this program again, once for each of them.

mod contention;
mod end_to_end;
mod exporter;
mod listener;
mod machine;
mod memory;
mod messages;
mod monitor;
mod page;
mod process;
mod scale;
mod soak;
mod statistics_load;
mod table;
mod talker;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The cost of statistics. Run it in the project's folder, in the environment of ROS 2: `cargo xtask bench`.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measures messages and windows, and counts allocations, bytes and instructions; ends with a line for scripts
    Messages,
    /// Measures a listener process, with statistics and without
    EndToEnd {
        /// How many pairs of runs
        #[arg(long, default_value_t = 8)]
        pairs: usize,
        /// How long each run is
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
    /// Measures a node with 1 to 1000 subscriptions
    Scale {
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Measures records of real-time priority, while the thread that ends windows is preempted
    Contention {
        #[arg(long, default_value_t = 30.0)]
        seconds: f64,
    },
    /// Records 1e8 messages; receives for a minute, and for ten
    Soak {
        #[arg(long, default_value_t = 600.0)]
        seconds: f64,
    },
    /// Measures topic_monitor beside an rclpy subscriber
    Monitor {
        #[arg(long, default_value_t = 20.0)]
        seconds: f64,
    },
    /// Measures the exporter beside an rclpy exporter
    Exporter {
        #[arg(long, default_value_t = 30.0)]
        seconds: f64,
    },
    /// Measures the heap of a node's statistics
    Memory,
    /// Writes docs/performance.md
    Write,
    #[command(flatten)]
    Process(Process),
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
}

fn main() -> Result<()> {
    match Cli::parse().verb {
        Verb::Messages => {
            let messages = messages::measure(&[])?;
            println!("{}\n{}", messages.table(), messages.line());
        }
        Verb::EndToEnd { pairs, seconds } => {
            println!("{}", end_to_end::table(&end_to_end::measure(pairs, seconds)?));
        }
        Verb::Scale { seconds } => println!("{}", scale::table(&scale::measure(seconds)?)),
        Verb::Contention { seconds } => println!("{}", contention::measure(seconds)?.table()),
        Verb::Soak { seconds } => println!("{}", soak::table(&soak::measure(seconds)?)),
        Verb::Monitor { seconds } => println!("{}", monitor::measure(seconds)?),
        Verb::Exporter { seconds } => println!("{}", exporter::measure(seconds)?),
        Verb::Memory => println!("{}", memory::table(&memory::measure()?)),
        Verb::Write => page::write()?,
        Verb::Process(process) => run(process)?,
    }
    Ok(())
}

fn run(process: Process) -> Result<()> {
    match process {
        Process::Talker(options) => talker::run(&options),
        Process::Listener(options) => listener::run(&options),
        Process::Many { subscriptions, seconds } => scale::run(subscriptions, seconds),
        Process::Statistics => statistics_load::run(),
        Process::Heap => memory::run(),
    }
}
