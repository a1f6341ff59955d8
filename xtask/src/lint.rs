// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask lint`: everything about the sources that can be judged without running them.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::{
    checks::{self, passes, reason, Outcome},
    environment::Environment,
    ros_options::RosOptions,
    setup::{self, tools},
    workspace::Workspace,
};

mod circles;

const CARGO_DENY: &str = "0.20.2";

/// Directories with nothing of ours in them, anywhere in the project.
const NOT_OURS: [&str; 4] = [".git", ".ros", "__pycache__", "target"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// Rust's format (rustfmt)
    Fmt,
    /// Rust's lints, with all features (clippy)
    Clippy,
    /// Advisories, licenses, duplicates and sources of the dependencies (cargo-deny, deny.toml)
    Deny,
    /// Circles between the modules of a package
    Circles,
    /// Shell scripts (shellcheck)
    Shellcheck,
    /// Python (ruff, ruff.toml)
    Ruff,
    /// Spelling (typos, typos.toml)
    Typos,
}

/// Makes the checks, all of them if none is named.
///
/// With `no_skip`, a check that cannot be made has failed.
pub fn run(options: &RosOptions, project: &Path, checks: &[Check], no_skip: bool) -> Result<ExitCode> {
    checks::run(checks, no_skip, |check| one(*check, options, project))
}

fn one(check: Check, options: &RosOptions, project: &Path) -> Result<Outcome> {
    match check {
        Check::Fmt => in_each(&workspaces(project), |workspace| {
            passes(Command::new("cargo").current_dir(workspace).args(["fmt", "--all", "--check"]))
        }),
        Check::Clippy => {
            let environment = setup::ensure(options, project)?;
            in_each(&workspaces(project), |workspace| clippy(&environment, workspace))
        }
        Check::Deny => deny(project),
        Check::Circles => circles(project),
        Check::Shellcheck => pypi(project, "shellcheck", &shell_scripts(project)?),
        Check::Ruff => pypi(project, "ruff", &["check", "--no-cache", "."]),
        Check::Typos => pypi(project, "typos", &["."]),
    }
}

/// The directories of the project's workspaces.
fn workspaces(project: &Path) -> [PathBuf; 5] {
    ["", "xtask", "testing/fuzz", "testing/simulator", "testing/soak"]
        .map(|directory| project.join(directory))
}

/// Makes a check in each workspace, until it does not pass in one.
fn in_each(workspaces: &[PathBuf], check: impl Fn(&Path) -> Result<Outcome>) -> Result<Outcome> {
    for workspace in workspaces {
        let outcome = check(workspace)?;
        if outcome != Outcome::Passed {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

/// Runs clippy with all features. A line that is there only without one is not linted: there are two.
fn clippy(environment: &Environment, workspace: &Path) -> Result<Outcome> {
    let mut clippy = environment.command("cargo");
    clippy.current_dir(workspace).args(["clippy", "--locked", "--workspace", "--all-targets"]);
    for package in Workspace::read(workspace)?.packages {
        clippy.args(["--features", &package.qualified_features()]);
    }
    passes(clippy.args(["--", "-D", "warnings"]))
}

/// Runs cargo-deny; the advisories need their database, which is on GitHub.
fn deny(project: &Path) -> Result<Outcome> {
    let program = match tools::from_crates_io(project, "cargo-deny", CARGO_DENY) {
        Ok(program) => program,
        Err(error) => return Ok(Outcome::Skipped(reason(&error))),
    };
    let deny = |workspace: &Path| {
        let mut deny = Command::new(&program);
        deny.current_dir(workspace).args(["--workspace", "--all-features", "--locked"]);
        deny.arg("--config").arg(project.join("deny.toml"));
        deny
    };
    let check = |workspace: &Path, what: &[&str]| {
        passes(deny(workspace).args(["check", "--hide-inclusion-graph"]).args(what))
    };
    let workspaces = workspaces(project);
    let checked = in_each(&workspaces, |workspace| check(workspace, &["bans", "licenses", "sources"]))?;
    if checked != Outcome::Passed {
        return Ok(checked);
    }
    let fetched = deny(project).args(["fetch", "db"]).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !fetched.success() {
        return Ok(Outcome::Skipped(
            "the advisories: their database on github.com cannot be fetched".to_owned(),
        ));
    }
    in_each(&workspaces, |workspace| check(workspace, &["advisories"]))
}

/// Looks for circles between the modules of each library and program.
fn circles(project: &Path) -> Result<Outcome> {
    let mut outcome = Outcome::Passed;
    for workspace in workspaces(project) {
        for package in Workspace::read(&workspace)?.packages {
            for root in package.roots() {
                for circle in circles::find(root)? {
                    eprintln!("{}: {circle}", package.name);
                    outcome = Outcome::Failed;
                }
            }
        }
    }
    Ok(outcome)
}

/// Runs a tool from PyPI on the project.
fn pypi(project: &Path, tool: &str, arguments: &[impl AsRef<OsStr>]) -> Result<Outcome> {
    match tools::from_pypi(project) {
        Ok(programs) => passes(Command::new(programs.join(tool)).current_dir(project).args(arguments)),
        Err(error) => Ok(Outcome::Skipped(reason(&error))),
    }
}

/// The shell scripts of the project, by name or by first line, sorted.
fn shell_scripts(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut scripts = vec![];
    let entries = fs::read_dir(directory).with_context(|| format!("Cannot read {}", directory.display()))?;
    for entry in entries {
        let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        let kind = entry?;
        if kind.is_dir()
            && !path.file_name().is_some_and(|name| NOT_OURS.iter().any(|other| name == OsStr::new(other)))
        {
            scripts.extend(shell_scripts(&path)?);
        } else if kind.is_file() && is_shell_script(&path)? {
            scripts.push(path);
        }
    }
    scripts.sort();
    Ok(scripts)
}

fn is_shell_script(path: &Path) -> Result<bool> {
    if path.extension().is_some_and(|extension| extension == "sh") {
        return Ok(true);
    }
    let content = fs::read(path).with_context(|| format!("Cannot read {}", path.display()))?;
    let first_line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(first_line.starts_with(b"#!") && (first_line.ends_with(b"sh")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_scripts_are_found_by_name_and_by_first_line_and_not_in_build_products() {
        let directory = tempfile::tempdir().unwrap();
        let file = |path: &str, content: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            path
        };
        let expected =
            [file(".ci/run", "#!/usr/bin/env bash\n"), file("a/b.sh", "echo"), file("c", "#!/bin/sh\n")];
        file("target/d.sh", "");
        file("e.py", "#!/usr/bin/env python3\n");

        assert_eq!(shell_scripts(directory.path()).unwrap(), expected);
    }
}
