// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask lint`: checks the sources without running them.

use std::{
    env,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use anyhow::Result;
use clap::ValueEnum;

use crate::{
    checks::{self, passes, reason, Outcome},
    environment::Environment,
    setup::{self, tools, RosOptions},
    workspace::Workspace,
};

mod cycles;

const CARGO_DENY: &str = "0.20.2";
/// Finds the project's shell scripts by name or first line. Runs the program in its argument on these scripts.
const SHELL_SCRIPTS: &str = r#"ours="--exclude-dir=.git --exclude-dir=.ros --exclude-dir=target"
{ grep -rlIE $ours -m1 '^#!.*\b(ba|da)?sh$' . ; grep -rlI $ours --include='*.sh' . . ; } | sort -u | xargs "$0""#;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// Rust's format (rustfmt)
    Fmt,
    /// Rust's lints, with all features (clippy)
    Clippy,
    /// Advisories, licenses, duplicates and sources of the dependencies (cargo-deny, deny.toml)
    Deny,
    /// Cycles between the modules of a package
    Cycles,
    /// Shell scripts (shellcheck)
    Shellcheck,
    /// Python (ruff, ruff.toml)
    Ruff,
    /// Spelling (typos, typos.toml)
    Typos,
}

/// Runs these checks, or all if the list is empty. With `no_skip`, a check that is not possible counts as failed.
pub fn run(options: &RosOptions, project: &Path, checks: &[Check], no_skip: bool) -> Result<ExitCode> {
    let checks = if checks.is_empty() { Check::value_variants() } else { checks };
    let mut results = vec![];
    for check in checks {
        let (name, begun) = (format!("{check:?}").to_lowercase(), Instant::now());
        eprintln!("-- {name}");
        results.push((name, one(*check, options, project)?, begun.elapsed()));
    }
    eprint!("{}", checks::table(&results));
    Ok(ExitCode::from(u8::from(results.iter().any(|(_, outcome, _)| outcome.is_failure(no_skip)))))
}

fn one(check: Check, options: &RosOptions, project: &Path) -> Result<Outcome> {
    match check {
        Check::Fmt => in_each(project, |workspace| {
            passes(Command::new("cargo").current_dir(workspace).args(["fmt", "--all", "--check"]))
        }),
        Check::Clippy => {
            let environment = setup::ensure(options, project)?;
            in_each(project, |workspace| clippy(&environment, workspace))
        }
        Check::Deny => deny(project),
        Check::Cycles => in_each(project, cycles),
        Check::Shellcheck => pypi(project, &["sh", "-c", SHELL_SCRIPTS, "shellcheck"]),
        Check::Ruff => pypi(project, &["ruff", "check", "--no-cache", "."]),
        Check::Typos => pypi(project, &["typos", "."]),
    }
}

/// Runs a command in which tools from PyPI are on PATH.
fn pypi(project: &Path, command: &[&str]) -> Result<Outcome> {
    let programs = match tools::from_pypi(project) {
        Ok(programs) => programs,
        Err(error) => return Ok(Outcome::Skipped(reason(&error))),
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([programs].into_iter().chain(env::split_paths(&path)))?;
    passes(Command::new(command[0]).args(&command[1..]).current_dir(project).env("PATH", path))
}

/// Runs a check in each workspace. Stops at the first workspace in which the check does not pass.
fn in_each(project: &Path, check: impl Fn(&Path) -> Result<Outcome>) -> Result<Outcome> {
    for workspace in ["", "xtask", "testing/fuzz", "testing/simulator", "testing/soak"] {
        let outcome = check(&project.join(workspace))?;
        if outcome != Outcome::Passed {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

/// Runs clippy with all features. So it does not check the few lines below `#[cfg(not(feature = ...))]`.
fn clippy(environment: &Environment, workspace: &Path) -> Result<Outcome> {
    let mut clippy = environment.command("cargo");
    clippy.current_dir(workspace).args(["clippy", "--locked", "--workspace", "--all-targets"]);
    for package in Workspace::read(workspace)?.packages {
        clippy.args(["--features", &package.feature_list(&format!("{}/", package.name))]);
    }
    passes(clippy.args(["--", "-D", "warnings"]))
}

/// Runs cargo-deny. The check of the advisories is skipped if their database cannot be fetched from GitHub.
fn deny(project: &Path) -> Result<Outcome> {
    let program = match tools::from_crates_io(project, "cargo-deny", CARGO_DENY) {
        Ok(program) => program,
        Err(error) => return Ok(Outcome::Skipped(reason(&error))),
    };
    let deny = |workspace: &Path, arguments: &str| {
        let mut deny = Command::new(&program);
        deny.current_dir(workspace).args(["--workspace", "--all-features", "--locked"]);
        deny.arg("--config").arg(project.join("deny.toml")).args(arguments.split(' '));
        deny
    };
    let check = |what: &str| in_each(project, |place| passes(&mut deny(place, &format!("check {what}"))));
    let checked = check("--hide-inclusion-graph bans licenses sources")?;
    if checked != Outcome::Passed {
        return Ok(checked);
    }
    if !deny(project, "fetch db").stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
        let reason = "the advisories: their database on github.com cannot be fetched";
        return Ok(Outcome::Skipped(reason.to_owned()));
    }
    check("--hide-inclusion-graph advisories")
}

/// Looks for cycles between the modules of each library and program.
fn cycles(workspace: &Path) -> Result<Outcome> {
    let mut outcome = Outcome::Passed;
    for package in Workspace::read(workspace)?.packages {
        for root in package.roots() {
            for cycle in cycles::find(root)? {
                eprintln!("{}: {cycle}", root.display());
                outcome = Outcome::Failed;
            }
        }
    }
    Ok(outcome)
}
