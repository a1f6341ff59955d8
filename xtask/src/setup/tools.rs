// SPDX-License-Identifier: Apache-2.0

//! The tools of `cargo xtask lint`, `fuzz` and `test`, in pinned versions, in `target/tools`.
//!
//! Each is installed once, from the registry that has it ready-made: PyPI, or else crates.io.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{ensure, Result};

use super::{
    child,
    files::{remove, write_whole},
    workshop::Workshop,
};

/// Pip's requirements, with hashes.
const REQUIREMENTS: &str = include_str!("../../requirements/lint.txt");
/// A tool that runs for a second need not be optimised, and no debugger will look at it. It builds in about a minute.
const QUICKLY: [(&str, &str); 5] = [
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
];

/// Installs the tools that PyPI has; returns the directory of their programs.
pub fn from_pypi(project: &Path) -> Result<PathBuf> {
    let directory = project.join("target/tools/pypi");
    let mut workshop = Workshop::open(&directory, 1)?;
    let venv = directory.join("venv");
    if !venv.join("bin/python3").exists() {
        // Its interpreter has gone, or the directory was cleaned.
        workshop.forget("lint")?;
    }
    let inputs = [directory.as_os_str().as_encoded_bytes(), REQUIREMENTS.as_bytes()];
    let log = workshop.log("lint");
    workshop.step("lint", &inputs, "Installing tools from PyPI", 0, |_| {
        remove(&venv)?;
        let python = env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
        child::run(Command::new(python).args(["-I", "-m", "venv"]).arg(&venv), &log, |_| ())?;
        let file = directory.join("lint.txt");
        write_whole(&file, REQUIREMENTS.as_bytes())?;
        let mut pip = Command::new(venv.join("bin/python3"));
        pip.args([
            "-I",
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
            "--retries",
            "3",
        ])
        .args(["--require-hashes", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off", "-r"])
        .arg(file);
        child::run(&mut pip, &log, |_| ())?;
        Ok(venv.display().to_string())
    })?;
    Ok(venv.join("bin"))
}

/// Installs a program from crates.io; returns its path.
pub fn from_crates_io(project: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let directory = project.join("target/tools").join(name);
    let mut workshop = Workshop::open(&directory, 1)?;
    let program = directory.join("bin").join(name);
    if !program.is_file() {
        workshop.forget(name)?;
    }
    let log = workshop.log(name);
    let what = format!("Building {name} {version} from crates.io (about a minute)");
    workshop.step(name, &[version.as_bytes()], &what, 0, |step| {
        let build = directory.join("build");
        let mut install = Command::new("cargo");
        install
            .current_dir(&directory)
            .args(["install", "--locked", "--force", "--version", version, "--root"])
            .arg(&directory)
            .arg("--target-dir")
            .arg(&build)
            .arg(name)
            .envs(QUICKLY);
        let mut compiled = 0;
        child::run(&mut install, &log, |line| {
            compiled += usize::from(line.trim_start().starts_with("Compiling"));
            step.advance(compiled, line.trim_start());
        })?;
        ensure!(program.is_file(), "{name} {version} has no program {}", program.display());
        fs::remove_dir_all(build)?;
        Ok(program.display().to_string())
    })?;
    Ok(program)
}
