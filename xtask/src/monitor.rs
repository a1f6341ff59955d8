// SPDX-License-Identifier: Apache-2.0

//! The program topic_monitor, built and run.

use std::{ffi::OsString, path::Path, process::ExitCode};

use anyhow::Result;

use crate::{
    commands::{cargo, exec},
    environment::Environment,
};

/// Builds topic_monitor, which is not on PATH as installed programs are, and runs it where the caller is.
/// Cargo tells of its progress: the first build takes a minute or two.
pub fn run(environment: &Environment, project: &Path, arguments: &[OsString]) -> Result<ExitCode> {
    let build = ["--release", "--package", "topic_statistics_monitor"].map(OsString::from);
    let built = cargo(environment, project, "build", &build)?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
    let program = environment.target_dir().join("release/topic_monitor");
    exec(environment.command(program).args(arguments))
}
