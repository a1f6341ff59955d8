// SPDX-License-Identifier: Apache-2.0

//! Starts processes, and reads their reports and how much processor time and memory they use.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{ensure, Context, Result};
use nix::time::{clock_gettime, ClockId};
use serde::{de::DeserializeOwned, Serialize};

/// Returns the command that runs a program in the ROS domain of this measurement, on this machine only.
///
/// Unlike the tests' processes, the program uses the default transports of Fast DDS, as users do.
pub fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command
        .env("ROS_DOMAIN_ID", test_support::domain().to_string())
        .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        .stdin(Stdio::null());
    command
}

/// Returns the command that runs this program as a process of a measurement, with its options.
pub fn itself(process: &str, options: &impl Serialize) -> Result<Command> {
    // `cargo test` may have replaced this program's file, because it rebuilds the file with the features of
    // dev-dependencies. /proc/self/exe is always the running program.
    let mut command = command("/proc/self/exe");
    command.arg(process).arg(serde_json::to_string(options)?);
    Ok(command)
}

/// Runs this program as a process of a measurement. Returns the report that the process prints.
pub fn report<T: DeserializeOwned>(process: &str, options: &impl Serialize) -> Result<T> {
    read_report(&mut itself(process, options)?)
}

pub fn read_report<T: DeserializeOwned>(command: &mut Command) -> Result<T> {
    serde_json::from_str(&output(command)?).context("The report of a process cannot be read")
}

pub fn cargo(arguments: &[&str]) -> Result<String> {
    output(Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).args(arguments))
}

/// Builds a program of the workspace for release. Returns its path.
pub fn build(package: &str, program: &str) -> Result<PathBuf> {
    cargo(&["build", "--quiet", "--release", "--package", package])?;
    Ok(env::current_exe()?.with_file_name(program))
}

pub fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("{program} cannot be started"))?;
    ensure!(output.status.success(), "{program} failed ({})", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// Returns the CPU time of a process or a thread in seconds, from the files in its directory in /proc. `with_children`
/// adds the CPU time of ended children.
pub fn cpu(directory: impl AsRef<Path>, with_children: bool) -> Result<f64> {
    let stat = fs::read_to_string(directory.as_ref().join("stat"))?;
    // The process name before these fields may contain spaces, so the fields are counted from the end of the name. A
    // tick is 1/100 s (USER_HZ).
    let (_, fields) = stat.rsplit_once(") ").context("/proc/PID/stat has an unknown format")?;
    let ticks = fields.split(' ').skip(11).take(if with_children { 4 } else { 2 }).map(str::parse::<f64>);
    Ok(ticks.collect::<Result<Vec<_>, _>>()?.iter().sum::<f64>() / 100.0)
}

/// Returns the memory of a process (`self` or a process id) in kB. `field` is `VmRSS`, or `VmHWM` for the peak.
pub fn memory(process: &str, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(line
        .and_then(|line| line.split_whitespace().next())
        .context("/proc/PID/status has an unknown format")?
        .parse()?)
}
