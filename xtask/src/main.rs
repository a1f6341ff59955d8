// SPDX-License-Identifier: Apache-2.0

//! The project's automation, the one entrance for people: `cargo xtask <verb>`.
//!
//! It builds on any machine: it depends on nothing of ROS 2. Work with ROS 2 runs in child processes. Their
//! [`Environment`] is the caller's sourced ROS 2, or one that [`setup`] makes from PyPI wheels.

mod checks;
mod commands;
mod demo;
/// It takes no domain that a test has, nor a test its.
#[path = "../../testing/test_support/src/domain.rs"]
mod domain;
mod environment;
mod fuzz;
mod lint;
mod monitor;
mod msrv;
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
    thread,
};

use anyhow::{bail, Context, Result};
use clap::{builder::FalseyValueParser, Args, Parser, Subcommand};

use commands::{cargo, exec, models, print, soak};
use environment::Environment;
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
    /// Shows live statistics: a talker, a listener and an rclpy reader of /statistics, over real DDS
    Demo {
        /// End after this many seconds (otherwise with Ctrl-C)
        #[arg(long)]
        seconds: Option<u64>,
    },
    /// Runs the tests, without those that are statistical, that test this automation, or that build crates for
    /// themselves (arguments after `--` go to `cargo test`)
    Test {
        /// Run all tests
        #[arg(long, conflicts_with = "arguments")]
        all: bool,
        /// Build the tests, and do not run them
        #[arg(long, conflicts_with = "arguments")]
        no_run: bool,
        /// Fail if Cargo.lock has to change (not in a colcon workspace, where it has to)
        #[arg(long, conflicts_with = "arguments")]
        locked: bool,
        /// Without the tests of this package (may be repeated)
        #[arg(long, value_name = "PACKAGE", conflicts_with = "arguments")]
        exclude: Vec<String>,
        /// Without the examples in the documentation
        #[arg(long, conflicts_with = "arguments")]
        no_examples: bool,
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
    /// Checks that every package to be published builds with the Rust version that it declares
    Msrv {
        #[command(flatten)]
        skipping: Skipping,
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
    /// Looks for faults for longer than CI can: all parts, or the named ones, with the time of each
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
    /// Writes the missing and outdated Rust crates of the interface packages on AMENT_PREFIX_PATH
    ///
    /// The same as `ros_interface_crates generate`.
    Interfaces {
        /// The prefix to write to; put it first on AMENT_PREFIX_PATH
        #[arg(long, value_name = "PREFIX")]
        out: PathBuf,
    },
}

/// A verb's reaction to tools that cannot be installed.
#[derive(Args)]
struct Skipping {
    /// Fail where a tool cannot be had, instead of saying so and going on
    #[arg(long, env = "XTASK_NO_SKIP", value_parser = FalseyValueParser::new())]
    no_skip: bool,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let project = project()?;
    let environment = || setup::ensure(&cli.ros, &project);
    match cli.verb {
        Verb::Setup => {
            let environment = environment()?;
            print(&format!(
                "Ready: {}.\nNext: `cargo xtask demo`, `cargo xtask test`, `cargo xtask run -- <command>`.\n",
                environment.description()
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Demo { seconds } => {
            let environment = environment()?;
            environment.require(&["rclpy", "sensor_msgs", "std_msgs"])?;
            demo::run(&environment, &project, seconds)
        }
        Verb::Test { all, no_run, locked, exclude, no_examples, arguments } => {
            let mut environment = environment()?;
            // Tests kill processes. Their leftovers in shared memory have blocked other processes of Fast DDS for good.
            environment.set("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4");
            // They wait for other processes more than they compute.
            let threads = 3 * thread::available_parallelism().map_or(1, usize::from);
            for variable in ["NEXTEST_TEST_THREADS", "RUST_TEST_THREADS"] {
                if env::var_os(variable).is_none() {
                    environment.set(variable, threads.to_string());
                }
            }
            // With discovery limited to this host rmw_fastrtps has shared memory all the same.
            shared_memory::remove_what_nobody_uses();
            environment.require(&["geometry_msgs", "rclpy", "sensor_msgs", "std_msgs", "test_msgs"])?;
            print(&format!("Testing on {}\n", middleware(&environment)?))?;
            if !arguments.is_empty() {
                return cargo(&environment, &project, "test", &arguments);
            }
            let selection = test::Selection { all, no_run, locked, exclude, no_examples };
            test::run(&environment, &project, &selection)
        }
        Verb::Lint { checks, skipping } => lint::run(&cli.ros, &project, &checks, skipping.no_skip),
        Verb::Simulate { seed, windows } => {
            let mut arguments: Vec<OsString> = ["--release", "--quiet", "--"].map(OsString::from).into();
            arguments.extend(["--windows".into(), windows.to_string().into()]);
            arguments.extend(seed.into_iter().flat_map(|seed| ["--seed".into(), seed.to_string().into()]));
            cargo(&environment()?, &project.join("testing/simulator"), "run", &arguments)
        }
        Verb::Models { arguments } => exec(models(&environment()?, &project, false).args(arguments)),
        Verb::Fuzz { targets, seconds, skipping } => {
            let outcome = fuzz::run(&environment()?, &project, &targets, seconds)?;
            if let checks::Outcome::Skipped(reason) = &outcome {
                eprintln!("skipped: the fuzz targets: {reason}");
            }
            Ok(ExitCode::from(u8::from(outcome.is_failure(skipping.no_skip))))
        }
        Verb::Soak { hours, interval, scenario } => {
            let environment = environment()?;
            environment.require(&["diagnostic_msgs", "geometry_msgs", "rclpy", "sensor_msgs", "std_msgs"])?;
            match scenario {
                Scenario::Churn => exec(&mut soak(&environment, &project, hours, interval)),
                Scenario::Robot => {
                    let minutes = (hours * 60.0).to_string();
                    let packages = ["topic_statistics_monitor", "topic_statistics_exporter"];
                    soak_with(&environment, &project, &packages, &["robot", "--minutes", &minutes])
                }
                Scenario::Preload => {
                    let [hours, interval] = [hours, interval].map(|time| time.to_string());
                    let arguments = ["preload", "--hours", &hours, "--interval", &interval];
                    soak_with(&environment, &project, &["topic_statistics_preload"], &arguments)
                }
            }
        }
        Verb::Msrv { skipping } => {
            msrv::run(&environment()?, &project, &project.join("target/msrv"), skipping.no_skip)
        }
        Verb::Package { skipping } => package::run(&environment()?, &project, skipping.no_skip),
        Verb::PublicApi { bless, skipping } => {
            public_api::run(&environment()?, &project, bless, skipping.no_skip)
        }
        Verb::Prove { parts, skipping } => prove::run(&environment()?, &project, &parts, skipping.no_skip),
        Verb::Bench { options, arguments } => {
            if !arguments.is_empty() {
                return cargo(&environment()?, &project, "bench", &arguments);
            }
            let measure = ["--release", "--quiet", "--package", "benchmarks", "--bin", "measure", "--"];
            let arguments: Vec<OsString> = measure.into_iter().map(OsString::from).chain(options).collect();
            cargo(&environment()?, &project, "run", &arguments)
        }
        Verb::Run { command } => {
            let (program, arguments) = command.split_first().context("No command given")?;
            if program == "topic_monitor" {
                return monitor::run(&environment()?, &project, arguments);
            }
            exec(environment()?.command(program).args(arguments))
        }
        Verb::Env => {
            print(&environment()?.exports())?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Interfaces { out } => {
            let search = ros_interface_crates::Search::from_env()?;
            let report = ros_interface_crates::generate(&search, &out, &mut |_, _, _| ())?;
            print(&format!("{report}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the rmw implementation in use as it names itself: of a ROS 2 that is sourced, by RMW_IMPLEMENTATION.
fn middleware(environment: &Environment) -> Result<String> {
    let program = "from rclpy.utilities import get_rmw_implementation_identifier as rmw; print(rmw())";
    let output = environment.command("python3").args(["-c", program]).output();
    let output = output.context("python3 cannot be started; is it installed and on PATH?")?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!(
            "rclpy of {} does not start; is what RMW_IMPLEMENTATION names installed?\n{}",
            environment.description(),
            reason.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a scenario of the soak test with programs of these packages.
fn soak_with(
    environment: &Environment,
    project: &Path,
    packages: &[&str],
    arguments: &[&str],
) -> Result<ExitCode> {
    let release = ["--release", "--quiet"].map(OsString::from);
    let packages = packages.iter().flat_map(|package| ["--package", package]).map(OsString::from);
    let built =
        cargo(environment, project, "build", &release.iter().cloned().chain(packages).collect::<Vec<_>>())?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
    let arguments = std::iter::once("--").chain(arguments.iter().copied()).map(OsString::from);
    let run: Vec<OsString> = release.iter().cloned().chain(arguments).collect();
    cargo(environment, &project.join("testing/soak"), "run", &run)
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
