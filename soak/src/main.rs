// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask soak`: the library over real DDS for hours, with churn.
//!
//! The parent ([`run`](run::run)) starts talkers, a listener with statistics, the same listener without (the control), and two
//! readers of `/statistics`. It has the processes create and drop things, kills some and stops others, and judges what they report.

mod judge;
mod listener;
mod measured;
mod reader;
mod run;
mod talker;
mod windows;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A soak test of rclrs_topic_statistics.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    /// Runs the soak test: starts the other programs, prints a line now and then, and fails on a difference or on growth
    Run(run::Options),
    /// Publishes on the topics of one process, 100 Hz each; the first number of its messages is its own count
    Talker {
        /// Which of the processes
        #[arg(long)]
        process: usize,
        /// Distinguishes it from all others of the run
        #[arg(long)]
        incarnation: u64,
    },
    /// Subscribes to every topic, with statistics
    Listener {
        /// Without statistics: the control of the memory
        #[arg(long)]
        plain: bool,
        /// The windows' length in ms
        #[arg(long)]
        window: u64,
    },
    /// Reads /statistics
    Reader,
}

fn main() -> ExitCode {
    let result = match Cli::parse().program {
        Program::Run(options) => run::run(&options),
        Program::Talker { process, incarnation } => talker::run(process, incarnation),
        Program::Listener { plain, window } => listener::run(plain, std::time::Duration::from_millis(window)),
        Program::Reader => reader::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
