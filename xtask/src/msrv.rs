// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask msrv`: whether each package builds with the Rust version that its manifest declares.

use std::{
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{bail, Context, Result};

use crate::{
    environment::Environment,
    lint::{passes, Outcome},
    workspace::Workspace,
};

/// Checks the packages with their toolchains, which are installed where rustup can.
pub fn run(environment: &Environment, project: &Path, no_skip: bool) -> Result<ExitCode> {
    let mut has_failed = false;
    for package in Workspace::read(project)?.packages.iter().filter(|package| package.is_public()) {
        let name = &package.name;
        let Some(version) = &package.rust_version else {
            eprintln!("{name} declares no rust-version");
            has_failed = true;
            continue;
        };
        // Its toolchain has three numbers.
        let toolchain =
            if version.matches('.').count() == 1 { format!("{version}.0") } else { version.clone() };
        if let Err(error) = install(&toolchain, &["--profile", "minimal"]) {
            eprintln!("skipped: {name} with Rust {version}: {error:#}");
            has_failed |= no_skip;
            continue;
        }
        eprintln!("{name} with Rust {version}");
        // Not `cargo +toolchain`: behind `cargo run`, PATH may have a toolchain's own cargo before rustup's.
        let mut check = environment.command("rustup");
        check
            .current_dir(project)
            .args([
                "run",
                &toolchain,
                "cargo",
                "check",
                "--locked",
                "--package",
                name,
                "--features",
                &package.feature_list(),
            ])
            .args(package.targets())
            .env("CARGO_TARGET_DIR", project.join("target/msrv"));
        has_failed |= passes(&mut check)? == Outcome::Failed;
    }
    Ok(ExitCode::from(u8::from(has_failed)))
}

/// Installs a toolchain, or parts of one, if it is not there.
pub fn install(toolchain: &str, arguments: &[&str]) -> Result<()> {
    let rustup = |arguments: &[&str]| {
        let mut rustup = Command::new("rustup");
        rustup.args(arguments).stdout(Stdio::null()).output().context("there is no rustup")
    };
    // Asked, it does not install: RUSTUP_AUTO_INSTALL is for that.
    let asked = rustup(&["run", toolchain, "rustc", "--version"])?;
    if asked.status.success() {
        return Ok(());
    }
    let installed = rustup(&[&["toolchain", "install", toolchain][..], arguments].concat())?;
    if !installed.status.success() {
        let said = String::from_utf8_lossy(&installed.stderr);
        let reason =
            said.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or("rustup cannot install it");
        bail!("{}", reason.trim());
    }
    Ok(())
}
