// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask fuzz`: the fuzz targets of the package `fuzz`, each for some time.

use std::{
    collections::VecDeque,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

use anyhow::{bail, ensure, Context, Result};

use crate::{
    checks::{passes, reason, Outcome},
    environment::Environment,
    setup::tools,
};

const CARGO_FUZZ: &str = "0.13.2";

/// How the targets are built: quickly, because they are built once. cargo-fuzz adds its own flags. With the profile dev,
/// macros and build scripts are those of the tests.
const BUILD: [(&str, &str); 2] = [("CARGO_PROFILE_DEV_INCREMENTAL", "false"), ("RUSTFLAGS", "-Cdebuginfo=0")];
/// From how many seconds of a target on it is optimised: it does ten times as much, and takes twice as long to build.
const OPTIMISED_FROM: u64 = 60;

/// Limits of an input, in bytes, and of a run, in seconds and megabytes: input from the network or from a file is
/// handled in bounded time and memory.
const LIMITS: [&str; 3] = ["-max_len=8192", "-timeout=20", "-rss_limit_mb=1024"];

/// Builds the targets, all of them if none is named, runs each for some seconds from its seeds, and prints a table.
pub fn run(environment: &Environment, project: &Path, targets: &[String], seconds: u64) -> Result<Outcome> {
    let all = all_targets(project)?;
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
    // Safe Rust handles the inputs: a sanitizer would find nothing, and a stable compiler is enough.
    build.current_dir(project).args([
        "build",
        "--dev",
        "--sanitizer",
        "none",
        "--codegen-units",
        "16",
        "--target-dir",
    ]);
    build.arg(&place).arg("--fuzz-dir").arg(project.join("testing/fuzz")).envs(BUILD);
    build.env("CARGO_PROFILE_DEV_OPT_LEVEL", if seconds < OPTIMISED_FROM { "0" } else { "1" });
    if let [target] = targets {
        build.arg(target);
    }
    if passes(&mut build)? == Outcome::Failed {
        bail!("The fuzz targets cannot be built; cargo says above why");
    }
    let programs = place.join(host()?).join("debug");

    let waiting = Mutex::new(targets.iter().collect::<VecDeque<_>>());
    let reports: Mutex<Vec<(String, Result<Report>)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                // Not in the condition, which would hold the lock while the target runs.
                let next = || lock(&waiting).pop_front();
                while let Some(target) = next() {
                    let report = fuzz(environment, project, &programs.join(target), target, seconds);
                    lock(&reports).push((target.clone(), report));
                }
            });
        }
    });

    let mut has_failed = false;
    println!("target            executions   per second   coverage   features");
    let mut reports = lock(&reports);
    reports.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (target, report) in reports.iter() {
        let report = report.as_ref().map_err(|error| anyhow::anyhow!("{target}: {error:#}"))?;
        let Report { executions, per_second, coverage, features, crash } = report;
        println!("{target:<16} {executions:>11} {per_second:>12} {coverage:>10} {features:>10}");
        if let Some(crash) = crash {
            has_failed = true;
            println!("{crash}");
        }
    }
    Ok(if has_failed { Outcome::Failed } else { Outcome::Passed })
}

/// libFuzzer's report at the end of a run.
#[derive(Debug, Default, PartialEq)]
struct Report {
    executions: u64,
    per_second: u64,
    /// Blocks and branches that were reached.
    coverage: u64,
    /// Those, how often, and compared values.
    features: u64,
    /// The report of an input that makes a target fail.
    crash: Option<String>,
}

/// Runs a target, with a corpus of its own that begins with the seeds.
fn fuzz(
    environment: &Environment,
    project: &Path,
    program: &Path,
    target: &str,
    seconds: u64,
) -> Result<Report> {
    let directory = environment.target_dir().join("fuzz").join(target);
    let corpus = directory.join("corpus");
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| format!("Cannot remove {}", directory.display()))?;
    }
    fs::create_dir_all(&corpus).with_context(|| format!("Cannot create {}", corpus.display()))?;
    let log = directory.join("log");
    let output = File::create(&log).with_context(|| format!("Cannot write {}", log.display()))?;
    // libFuzzer writes to the first corpus only, and puts a name directly behind this prefix.
    let prefix = format!("-artifact_prefix={}/", directory.display());
    let mut run = environment.command(program);
    run.arg(&corpus).arg(seeds(project, target)).args(LIMITS).arg(prefix);
    run.arg(format!("-max_total_time={seconds}"));
    run.env("RUST_BACKTRACE", "0").stdout(output.try_clone()?).stderr(output);
    let status = run.status().with_context(|| format!("{} cannot be started", program.display()))?;

    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let mut report = read(&text);
    if !status.success() {
        let input = input(&text);
        ensure!(input.is_some() || report.executions > 0, "it does not run; see {}", log.display());
        report.crash = Some(crash(target, &text, input.as_deref())?);
    }
    Ok(report)
}

/// Reads the last line of libFuzzer's progress: `#4096 DONE cov: 100 ft: 200 corp: 3/4b lim: 5 exec/s: 6 rss: 7Mb`.
fn read(log: &str) -> Report {
    let last = log.lines().rfind(|line| line.starts_with('#') && line.contains(" cov: ")).unwrap_or_default();
    let words: Vec<&str> = last.split_whitespace().collect();
    let after = |name: &str| {
        let value = words.iter().position(|word| *word == name).and_then(|index| words.get(index + 1));
        value.and_then(|value| value.parse().ok()).unwrap_or_default()
    };
    Report {
        executions: words.first().and_then(|word| word[1..].parse().ok()).unwrap_or_default(),
        per_second: after("exec/s:"),
        coverage: after("cov:"),
        features: after("ft:"),
        crash: None,
    }
}

/// Returns the file with the input that makes a target fail, as written by libFuzzer.
fn input(log: &str) -> Option<PathBuf> {
    log.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path.trim().into())
}

/// Returns the report of a failure: the reason, the input, and how to run it again.
fn crash(target: &str, log: &str, input: Option<&Path>) -> Result<String> {
    let panic = log.lines().skip_while(|line| !line.contains(" panicked at ")).take(2);
    let error = log.lines().filter(|line| line.contains("ERROR: libFuzzer"));
    let reason: Vec<&str> = panic.chain(error).collect();
    let Some(file) = input else { return Ok(format!("FAILED: {}", reason.join("\n"))) };
    let bytes = fs::read(file).with_context(|| format!("Cannot read {}", file.display()))?;
    Ok(format!(
        "FAILED: {}\ninput: {}\nrun it again: cargo xtask run -- cargo run \
         --manifest-path testing/fuzz/Cargo.toml --bin {target} -- {file}\n\
         keep it: cp {file} testing/fuzz/seeds/{target}/",
        reason.join("\n"),
        bytes.escape_ascii(),
        file = file.display()
    ))
}

fn seeds(project: &Path, target: &str) -> PathBuf {
    project.join("testing/fuzz/seeds").join(target)
}

/// Returns the names of the targets.
fn all_targets(project: &Path) -> Result<Vec<String>> {
    let directory = project.join("testing/fuzz/fuzz_targets");
    let entries = fs::read_dir(&directory).with_context(|| format!("Cannot read {}", directory.display()))?;
    let mut targets = vec![];
    for entry in entries {
        targets.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    targets.sort();
    Ok(targets)
}

/// Returns the platform of the compiler, which is a part of where cargo-fuzz builds.
pub fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_progress_is_read() {
        let log = "INFO: seed\n#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                   #4096\tDONE   cov: 614 ft: 3778 corp: 746/172Kb lim: 3971 exec/s: 36867 rss: 31Mb\nDone 4096 runs";
        let report =
            Report { executions: 4096, per_second: 36867, coverage: 614, features: 3778, crash: None };
        assert_eq!(read(log), report);
        assert_eq!(read("INFO: seed\n"), Report::default());
    }

    #[test]
    fn a_failure_has_its_reason_and_its_input_and_how_to_run_it_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("crash-1");
        fs::write(&file, b"a\x1b\xff").unwrap();
        let log = format!(
            "\nthread '<unnamed>' (1) panicked at testing/fuzz/src/check.rs:19:9:\n\
             a warning has '\\u{{2}}'\nnote: run with\n\
             ==1== ERROR: libFuzzer: deadly signal\nartifact_prefix='x/'; Test unit written to {}\n",
            file.display()
        );
        assert_eq!(input(&log), Some(file.clone()));
        let text = crash("names", &log, Some(&file)).unwrap();
        for expected in [
            "a warning has",
            "deadly signal",
            r"input: a\x1b\xff",
            "--bin names -- /",
            "crash-1 testing/fuzz/seeds/names/",
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
    }

    #[test]
    fn every_target_has_seeds() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for target in all_targets(project).unwrap() {
            let seeds = fs::read_dir(seeds(project, &target)).unwrap();
            assert!(seeds.count() > 0, "{target}");
        }
    }

    /// The target directory is one, and cargo builds the targets as programs for the test of the seeds. A target named
    /// `exporter` replaced the exporter there.
    #[test]
    fn no_target_has_the_name_of_a_program() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut cargo = Command::new("cargo");
        cargo.current_dir(project).args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata: serde_json::Value =
            serde_json::from_slice(&cargo.output().unwrap().stdout).expect("what cargo prints");
        let packages = metadata["packages"].as_array().unwrap();
        let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
        let programs: Vec<_> = targets
            .filter(|target| target["kind"][0] == "bin")
            .map(|target| target["name"].as_str().unwrap())
            .collect();
        assert!(programs.contains(&"topic_monitor"), "{programs:?}");
        for target in all_targets(project).unwrap() {
            assert!(!programs.contains(&target.as_str()), "{target}");
        }
    }
}
