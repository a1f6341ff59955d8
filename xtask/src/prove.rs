// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask prove`: looks for faults by tools that take too long for CI.

use std::{path::Path, process::ExitCode};

use anyhow::Result;
use clap::ValueEnum;

use crate::{
    checks::{self, passes, reason, Outcome},
    environment::Environment,
    public_api::TOOLCHAIN,
    setup::tools,
};

const CARGO_MUTANTS: &str = "27.1.0";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Undefined behaviour in unit tests (Miri)
    Miri,
    /// Data races in the tests of one process, and in the preloaded library (ThreadSanitizer)
    Races,
    /// Invalid accesses to memory in the tests of one process, and in the preloaded library (AddressSanitizer)
    Memory,
    /// Whether the tests notice a changed operator or result (cargo-mutants, .cargo/mutants.toml)
    Mutants,
}

/// Runs the parts, all of them if none is named, and prints a table with the time of each.
pub fn run(environment: &Environment, project: &Path, parts: &[Part], no_skip: bool) -> Result<ExitCode> {
    checks::run(parts, no_skip, |part| {
        let mut prove = environment.command("bash");
        prove.current_dir(project).args(["xtask/src/prove.sh", &format!("{part:?}").to_lowercase()]);
        if *part == Part::Mutants {
            match tools::from_crates_io(project, "cargo-mutants", CARGO_MUTANTS) {
                Ok(program) => prove.env("CARGO_MUTANTS", program),
                Err(error) => return Ok(Outcome::Skipped(reason(&error))),
            };
        }
        passes(prove.env("TOOLCHAIN", TOOLCHAIN))
    })
}
