// SPDX-License-Identifier: Apache-2.0

//! Commands that several verbs of `cargo xtask` run, and the printing of output.

use std::{
    ffi::OsStr,
    io::{ErrorKind, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{ensure, Context, Result};

use crate::{checks, environment::Environment};

/// Returns a cargo subcommand that runs in the workspace in `directory`, with the variables of the environment.
pub fn cargo<A: AsRef<OsStr>>(
    environment: &Environment,
    directory: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = environment.command("cargo");
    command.current_dir(directory).args(arguments);
    command
}

/// Runs a command to its end. Errors if it fails.
pub fn succeed(command: &mut Command) -> Result<()> {
    let outcome = checks::passes(command)?;
    ensure!(outcome == checks::Outcome::Passed, "{} has failed", command.get_program().display());
    Ok(())
}

/// Returns a command that runs another command at a low priority; the caller adds that command as arguments. The
/// priority is not the lowest one: with that priority, the command would take hours on a busy machine.
pub fn nice(environment: &Environment) -> Command {
    let mut command = environment.command("nice");
    command.args(["-n", "5"]);
    command
}

/// The crates whose code runs in the models of concurrent code.
const MODELLED: &str =
    "crossbeam-queue crossbeam-utils generator loom scoped-tls topic_statistics_core tracing-core";

/// Returns the command that runs the models of concurrent code at a [low priority](nice). The caller adds arguments.
pub fn models(environment: &Environment, project: &Path, locked: bool) -> Command {
    let mut models = nice(environment);
    models
        .current_dir(project)
        .args(["cargo", "test", "--package", "topic_statistics_core", "--lib"])
        .args(locked.then_some("--locked"))
        // A model runs its code a hundred thousand times, which would take minutes without optimisation.
        .args(MODELLED.split(' ').flat_map(|package| {
            ["--config".to_owned(), format!("profile.dev.package.{package}.opt-level=2")]
        }))
        // Tests outside of the models are skipped, because the types of the model checker have no effect there.
        .args(["--", "--skip", "tests::"])
        // For every interleaving, each model maps and unmaps a stack for each thread. If two models run in one process,
        // they wait for each other in these system calls. So it is faster to run one model after the other.
        .env("RUST_TEST_THREADS", "1")
        .env("CARGO_TARGET_DIR", environment.target_dir().join("models"))
        .env("RUSTFLAGS", "--cfg topic_statistics_loom");
    models
}

/// Installs a toolchain if it is missing. Adds these components to the toolchain.
pub fn install_toolchain(toolchain: &str, components: &[&str]) -> Result<()> {
    let add = ["component", "add", "--toolchain", toolchain];
    // `rustup run` does not install a missing toolchain, unless RUSTUP_AUTO_INSTALL is set.
    rustup(&["run", toolchain, "rustc", "--version"])
        .or_else(|_| rustup(&["toolchain", "install", toolchain, "--profile", "minimal"]))
        .and_then(|()| if components.is_empty() { Ok(()) } else { rustup(&[&add, components].concat()) })
        .with_context(|| format!("{toolchain} cannot be installed"))
}

/// Runs rustup without showing its output.
pub fn rustup(arguments: &[&str]) -> Result<()> {
    let output = Command::new("rustup").args(arguments).output().context("there is no rustup")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.lines().find_map(|line| line.strip_prefix("error: "));
    ensure!(output.status.success(), "{}", reason.unwrap_or("rustup cannot install it").trim());
    Ok(())
}

/// Replaces this process by a command. So the command receives the signals for this process, and its exit status
/// becomes the exit status of this process. Returns only if the command cannot be started.
pub fn exec(command: &mut Command) -> Result<ExitCode> {
    let error = command.exec();
    let program = Path::new(command.get_program()).display();
    Err(error).with_context(|| format!("{program} cannot be started; is it installed and on PATH?"))
}

/// Prints to standard output. It is no error if the reader has ended, as in `cargo xtask env | head -1`.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("Cannot write to standard output"),
    }
}
