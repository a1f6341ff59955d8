// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask msrv`: whether each package builds with the Rust version that its manifest declares.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, ExitCode, Output},
};

use anyhow::{bail, Context, Result};

use crate::{
    checks::{passes, Outcome},
    environment::Environment,
    workspace::{Package, Workspace},
};

/// Checks the packages that may be published with their toolchains, which are installed where rustup can.
///
/// Each package is checked alone, with all its features: what another package enables in a common dependency does not
/// help it.
pub fn run(environment: &Environment, workspace: &Path, target: &Path, no_skip: bool) -> Result<ExitCode> {
    let mut has_failed = false;
    let mut of_toolchains: BTreeMap<String, Vec<Package>> = BTreeMap::new();
    for package in Workspace::read(workspace)?.packages.into_iter().filter(Package::is_public) {
        match &package.rust_version {
            // A toolchain has three numbers.
            Some(version) if version.matches('.').count() == 1 => {
                of_toolchains.entry(format!("{version}.0")).or_default().push(package);
            }
            Some(version) => of_toolchains.entry(version.clone()).or_default().push(package),
            None => {
                eprintln!("{} declares no rust-version", package.name);
                has_failed = true;
            }
        }
    }
    for (toolchain, packages) in of_toolchains {
        let names: Vec<_> = packages.iter().map(|package| &*package.name).collect();
        if let Err(error) = install(&toolchain, &["--profile", "minimal"]) {
            eprintln!("skipped: {} with Rust {toolchain}: {error:#}", names.join(", "));
            has_failed |= no_skip;
            continue;
        }
        for package in &packages {
            eprintln!("-- {} with Rust {toolchain}", package.name);
            // Not `cargo +toolchain`: behind `cargo run`, PATH may have a toolchain's own cargo before rustup's.
            let mut check = environment.command("rustup");
            check.current_dir(workspace).args(["run", &toolchain, "cargo", "check", "--locked", "--quiet"]);
            check.args(["--lib", "--bins", "--package", &package.name]);
            check.args(["--features", &package.feature_list()]).env("CARGO_TARGET_DIR", target);
            check.env("CC", "true").env("AR", "true"); // C is not checked, and nothing is linked with it
            has_failed |= passes(&mut check)? == Outcome::Failed;
        }
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
