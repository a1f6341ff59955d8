// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask soak`: the library over real DDS for hours, with churn.
//!
//! The parent ([`run`](run::run)) starts talkers, a listener with statistics, the same listener without (the control),
//! and two readers of `/statistics`. It has the processes create and drop things, kills some and stops others, and
//! judges their reports.

mod judge;
mod listener;
mod lock;
mod measured;
mod preload;
mod reader;
mod robot;
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
    /// Runs the soak test: starts the other programs, prints a line now and then, and fails on a difference or on
    /// growth
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
    /// Runs the scenario robot: a robot of twelve processes; compares each figure that is reported with the processes'
    /// own logs
    Robot(robot::run::Options),
    /// Runs nodes in Python with the preloaded statistics, and compares their windows with their own counts
    Preload(preload::Options),
    /// Prints messages pushed by OTLP
    Collector {
        #[arg(long)]
        port: u16,
    },
    /// A process of the robot
    RobotNode {
        name: String,
        /// Distinguishes it from all others of the run
        #[arg(long)]
        incarnation: u32,
        /// The bytes of an image
        #[arg(long)]
        image: usize,
        /// Where its log is written
        #[arg(long)]
        directory: std::path::PathBuf,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().program {
        Program::Run(options) => run::run(&options),
        Program::Talker { process, incarnation } => talker::run(process, incarnation),
        Program::Listener { plain, window } => listener::run(plain, std::time::Duration::from_millis(window)),
        Program::Reader => reader::run(),
        Program::Robot(options) => robot::run::run(&options),
        Program::Preload(options) => preload::run(&options),
        Program::Collector { port } => robot::collector::run(port),
        Program::RobotNode { name, incarnation, image, directory } => {
            robot::node::run(&name, incarnation, image, &directory)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
