// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask fuzz`: the fuzz targets of the package `fuzz`, each for some time.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    sync::Mutex,
    thread,
};

use anyhow::{bail, Context, Result};

use crate::{
    checks::{passes, reason, Outcome},
    environment::Environment,
    setup::tools,
};

const CARGO_FUZZ: &str = "0.13.2";

/// How the targets are built: quickly, because they are built once. Safe Rust handles the inputs: a sanitizer would find
/// nothing, and a stable compiler is enough. With the profile dev, macros and build scripts are those of the tests.
const BUILD: [&str; 6] = ["build", "--dev", "--sanitizer", "none", "--codegen-units", "16"];
/// From how many seconds of a target on it is optimised: it does ten times as much, and takes twice as long to build.
const OPTIMISED_FROM: u64 = 60;
/// Limits of an input, in bytes, and of a run, in seconds and megabytes: input from the network or from a file is
/// handled in bounded time and memory.
const LIMITS: [&str; 3] = ["-max_len=8192", "-timeout=20", "-rss_limit_mb=1024"];

/// Builds the targets, all of them if none is named, runs each for some seconds from its seeds, and prints the last line
/// of each, or the end of its output if it has failed.
pub fn run(environment: &Environment, project: &Path, targets: &[String], seconds: u64) -> Result<Outcome> {
    let fuzz = project.join("testing/fuzz");
    let mut all = vec![];
    for entry in fs::read_dir(fuzz.join("fuzz_targets"))? {
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
    build.current_dir(project).args(BUILD).arg("--fuzz-dir").arg(&fuzz).arg("--target-dir").arg(&place);
    build.env("CARGO_PROFILE_DEV_INCREMENTAL", "false").env("RUSTFLAGS", "-Cdebuginfo=0");
    build.env("CARGO_PROFILE_DEV_OPT_LEVEL", if seconds < OPTIMISED_FROM { "0" } else { "1" });
    if let [target] = targets {
        build.arg(target);
    }
    if passes(&mut build)? == Outcome::Failed {
        bail!("The fuzz targets cannot be built; cargo says above why");
    }
    let programs = place.join(host()?).join("debug");

    let (waiting, outcome) = (Mutex::new(targets.iter()), Mutex::new(Ok(Outcome::Passed)));
    let work = || {
        // Not in the condition, which would hold the lock while the target runs.
        let next = || waiting.lock().ok()?.next();
        while let Some(target) = next() {
            let ended = one(environment, &programs.join(target), &place.join(target), &fuzz, target, seconds);
            if let (Ok(mut outcome), false) = (outcome.lock(), matches!(ended, Ok(Outcome::Passed))) {
                *outcome = ended;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    outcome.into_inner().unwrap_or(Ok(Outcome::Failed))
}

/// Runs a target, with a corpus of its own that begins with the seeds.
fn one(
    environment: &Environment,
    program: &Path,
    directory: &Path,
    fuzz: &Path,
    target: &str,
    seconds: u64,
) -> Result<Outcome> {
    let _not_there = fs::remove_dir_all(directory);
    let (corpus, log) = (directory.join("corpus"), directory.join("log"));
    fs::create_dir_all(&corpus).with_context(|| format!("Cannot create {}", corpus.display()))?;
    let output = File::create(&log)?;
    // libFuzzer writes to the first corpus only, and puts a name directly behind this prefix.
    let mut run = environment.command(program);
    run.arg(&corpus).arg(fuzz.join("seeds").join(target)).args(LIMITS);
    run.arg(format!("-artifact_prefix={}/", directory.display()));
    run.arg(format!("-max_total_time={seconds}"));
    run.env("RUST_BACKTRACE", "0").stdout(output.try_clone()?).stderr(output);
    let outcome = passes(&mut run)?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if outcome == Outcome::Passed {
        let last = text.lines().rfind(|line| line.contains(" cov: ")).unwrap_or_default();
        println!("{target:<16} {}", last.replace('\t', " "));
        return Ok(outcome);
    }
    let last: Vec<_> = text.lines().rev().take(40).collect();
    let last: Vec<_> = last.into_iter().rev().collect();
    println!(
        "FAILED: {target}\n{}\nrun it again: cargo xtask run -- cargo run --manifest-path testing/fuzz/Cargo.toml --bin \
         {target} -- FILE\nkeep it: cp FILE testing/fuzz/seeds/{target}/",
        last.join("\n")
    );
    Ok(outcome)
}

/// Returns the platform of the compiler, which is a part of where cargo-fuzz builds.
pub fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}
