// SPDX-License-Identifier: Apache-2.0
//! The command `ros_interface_crates`.

use std::{
    io::{self, IsTerminal, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};
use ros_interface_crates::{check, generate, Error, Search};

/// Generates the Rust crates of the interface packages on AMENT_PREFIX_PATH, for rclrs and ros-env.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Writes crates for packages without a crate that fits their definition
    Generate {
        /// The prefix to write to; put it first on AMENT_PREFIX_PATH
        #[arg(long, value_name = "PREFIX")]
        out: PathBuf,
        #[command(flatten)]
        packages: Packages,
    },
    /// Checks that every package has a crate that fits its definition
    ///
    /// Exits with status 1 if there is a problem, and with status 2 if the check itself fails.
    Check {
        #[command(flatten)]
        packages: Packages,
    },
}

#[derive(Args)]
struct Packages {
    /// Only these packages and their dependencies [default: all]
    #[arg(long, num_args = 1.., value_name = "PACKAGE")]
    packages: Option<Vec<String>>,
}

impl Packages {
    fn search(self) -> Result<Search, Error> {
        Ok(self.packages.into_iter().fold(Search::from_env()?, Search::only))
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Error> {
    match cli.verb {
        Verb::Generate { out, packages } => {
            let search = packages.search()?;
            let report = generate(&search, &out, &mut show_progress)?;
            if io::stderr().is_terminal() {
                eprint!("\r\x1b[K"); // clears the progress line
            }
            println!("{report}");
            Ok(ExitCode::SUCCESS)
        }
        Verb::Check { packages } => {
            let checked = check(&packages.search()?)?;
            for (package, problem) in &checked.problems {
                println!("{package}: {problem}");
            }
            println!("{} packages checked, {} problems", checked.packages, checked.problems.len());
            Ok(if checked.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// Shows the progress in one changing line, only on a terminal.
fn show_progress(done: usize, count: usize, package: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K[{done}/{count}] {package}");
        let _ = stderr.flush();
    }
}
