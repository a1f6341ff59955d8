// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask soak`: runs the library over real DDS for hours, while processes and entities come and go.
//!
//! The parent process ([`run`](run::run)) starts talkers, a listener with statistics, the same listener without
//! statistics (the control), and two readers of `/statistics`. The parent makes these processes create and drop
//! entities, kills and stops some of the processes, and checks their reports.

mod listener;
mod measured;
mod preload;
mod reader;
mod robot;
mod run;
mod talker;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// A soak test of rclrs_topic_statistics.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    /// Runs the soak test: prints a line from time to time, and fails on a difference or on growth
    Run(measured::Options),
    /// Runs a robot of ten processes. Each process checks its own windows and health. Compares all reports with these
    /// windows and this health
    Robot {
        #[arg(long)]
        minutes: f64,
        /// The bytes of a camera's image
        #[arg(long, default_value_t = 1_000_000)]
        image: usize,
    },
    /// Runs nodes in Python with the preloaded statistics, and compares their windows with their own counts
    Preload(measured::Options),
    /// A process with publishers, whose messages have numbers
    #[command(hide = true)]
    Talker { process: usize, incarnation: u64 },
    /// Subscribes to every topic, with statistics or without (the control). The length of windows is in ms
    #[command(hide = true)]
    Listener { plain: u8, window: u64 },
    /// Reads /statistics
    #[command(hide = true)]
    Reader,
    /// A process of the robot
    #[command(hide = true)]
    RobotNode { name: String, incarnation: u32, image: usize, directory: std::path::PathBuf },
}

fn main() -> Result<()> {
    match Cli::parse().program {
        Program::Run(options) => run::run(&options),
        Program::Talker { process, incarnation } => talker::run(process, incarnation),
        Program::Listener { plain, window } => {
            listener::run(plain == 1, std::time::Duration::from_millis(window))
        }
        Program::Reader => reader::run(),
        Program::Robot { minutes, image } => robot::run::run(minutes, image),
        Program::Preload(options) => preload::run(&options),
        Program::RobotNode { name, incarnation, image, directory } => {
            robot::node::run(&name, incarnation, image, &directory)
        }
    }
}
