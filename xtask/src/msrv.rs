// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask msrv`: whether each package builds with the Rust version that its manifest declares.

use std::{
    path::Path,
    process::{Command, ExitCode, Output},
};

use anyhow::{bail, Context, Result};

use crate::{
    checks::{passes, Outcome},
    environment::Environment,
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

/// Installs a toolchain, if it is not there.
pub fn install(toolchain: &str, arguments: &[&str]) -> Result<()> {
    // Asked, it does not install: RUSTUP_AUTO_INSTALL is for that.
    if rustup(&["run", toolchain, "rustc", "--version"])?.status.success() {
        return Ok(());
    }
    succeeds(rustup(&[&["toolchain", "install", toolchain][..], arguments].concat())?)
}

/// Installs the missing components of a toolchain.
pub fn add_components(toolchain: &str, components: &[&str]) -> Result<()> {
    succeeds(rustup(&[&["component", "add", "--toolchain", toolchain][..], components].concat())?)
}

fn rustup(arguments: &[&str]) -> Result<Output> {
    Command::new("rustup").args(arguments).output().context("there is no rustup")
}

fn succeeds(output: Output) -> Result<()> {
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let reason = errors
            .lines()
            .find_map(|line| line.strip_prefix("error: "))
            .unwrap_or("rustup cannot install it");
        bail!("{}", reason.trim());
    }
    Ok(())
}
