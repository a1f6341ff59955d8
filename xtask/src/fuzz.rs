// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask fuzz`: the fuzz targets of the package `fuzz`, each for some time.

use std::{fs, path::Path, thread};

use anyhow::{bail, Result};

use crate::{
    checks::{passes, reason, Outcome},
    commands::succeed,
    environment::Environment,
    setup::tools,
};

const CARGO_FUZZ: &str = "0.13.2";

/// How the targets are built: quickly, because they are built once. Safe Rust handles the inputs: a sanitizer would find
/// nothing, and a stable compiler is enough. With the profile dev, macros and build scripts are those of the tests.
const BUILD: [&str; 8] =
    ["build", "--dev", "--sanitizer", "none", "--codegen-units", "16", "--fuzz-dir", "testing/fuzz"];
/// From how many seconds of a target on it is optimised: it does ten times as much, and takes twice as long to build.
const OPTIMISED_FROM: u64 = 60;

/// Builds the targets, all of them if none is named, and runs each for some seconds from its seeds.
pub fn run(environment: &Environment, project: &Path, targets: &[String], seconds: u64) -> Result<Outcome> {
    let mut all = vec![];
    for entry in fs::read_dir(project.join("testing/fuzz/fuzz_targets"))? {
        all.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    all.sort();
    if let Some(unknown) = targets.iter().find(|target| !all.contains(target)) {
        bail!("There is no fuzz target {unknown:?}: the targets are {}", all.join(", "));
    }
    let targets = if targets.is_empty() { &all } else { targets };
    let cargo_fuzz = match tools::from_crates_io(project, "cargo-fuzz", CARGO_FUZZ) {
        Ok(program) => program,
        Err(error) => return Ok(Outcome::Skipped(reason(&error))),
    };
    // Not with the tests: cargo lets one build at a time have a directory, and a test that builds a program would wait
    // for this one, which `.ci/run` gives only the time that nothing else wants.
    let place = environment.target_dir().join("fuzz");
    let mut build = environment.command(cargo_fuzz);
    build.current_dir(project).args(BUILD).arg("--target-dir").arg(&place);
    build.env("CARGO_PROFILE_DEV_INCREMENTAL", "false").env("RUSTFLAGS", "-Cdebuginfo=0");
    build.env("CARGO_PROFILE_DEV_OPT_LEVEL", if seconds < OPTIMISED_FROM { "0" } else { "1" });
    if let [target] = targets {
        build.arg(target);
    }
    succeed(&mut build)?;
    let processors = thread::available_parallelism().map_or(1, usize::from).to_string();
    let script = "processors=$1; shift; printf '%s\\n' \"$0\" | xargs -n 1 -P \"$processors\" sh xtask/src/fuzz.sh \"$@\"";
    let mut run = environment.command("sh");
    run.current_dir(project).args(["-c", script, &targets.join("\n"), &processors]);
    passes(run.arg(&place).arg(seconds.to_string()))
}
