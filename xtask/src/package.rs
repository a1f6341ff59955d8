// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask package`: whether the packages are ready to be published.

use std::{
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result};

use crate::{
    checks::{passes, Outcome},
    environment::Environment,
    workspace::{Package, Workspace},
};

/// The platforms beside this one for which the libraries have to build: those of rclrs.
const PLATFORMS: [&str; 4] =
    ["aarch64-unknown-linux-gnu", "i686-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"];

/// Checks that each package builds from what would be published, that the documentation builds without ROS as on docs.rs, and that
/// the libraries build for other platforms.
pub fn run(environment: &Environment, project: &Path, no_skip: bool) -> Result<ExitCode> {
    let packages: Vec<_> =
        Workspace::read(project)?.packages.into_iter().filter(Package::is_public).collect();

    eprintln!("-- what would be published");
    let mut publish = environment.command("cargo");
    publish.current_dir(project).args(["publish", "--dry-run", "--locked", "--allow-dirty", "--quiet"]);
    publish.args(packages.iter().flat_map(|package| ["--package", &package.name]));
    let mut has_failed = passes(&mut publish)? == Outcome::Failed;

    for package in packages.iter().filter(|package| package.has_library()) {
        eprintln!("-- documentation of {} without ROS", package.name);
        let mut doc = without_ros(project, package);
        doc.args(["doc", "--no-deps"]);
        has_failed |= passes(with_features(&mut doc, package))? == Outcome::Failed;

        let mut check = without_ros(project, package);
        check.args(["check", "--lib"]);
        for platform in PLATFORMS {
            match install(platform) {
                Ok(()) => {
                    eprintln!("-- {} for {platform}", package.name);
                    check.args(["--target", platform]);
                }
                Err(error) => {
                    eprintln!("skipped: {} for {platform}: {error:#}", package.name);
                    has_failed |= no_skip;
                }
            }
        }
        // Together, so that they wait for each other's crates no longer than they have to.
        has_failed |= passes(with_features(&mut check, package))? == Outcome::Failed;
    }
    Ok(ExitCode::from(u8::from(has_failed)))
}

/// Returns a cargo that sees no ROS, with the compiler's arguments that docs.rs gives it.
fn without_ros(project: &Path, package: &Package) -> Command {
    let arguments = package.docs_rs("rustc-args").join("\u{1f}");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(project).env("CARGO_TARGET_DIR", project.join("target/docs-rs"));
    for variable in ["AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "ROS_DISTRO", "RUSTFLAGS"] {
        cargo.env_remove(variable);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", arguments).env("RUSTDOCFLAGS", "--cfg docsrs -D warnings");
    cargo
}

fn with_features<'a>(cargo: &'a mut Command, package: &Package) -> &'a mut Command {
    cargo.args(["--quiet", "--locked", "--package", &package.name]);
    cargo.args(["--features", &package.docs_rs("features").join(",")])
}

/// Installs the standard library of a platform, if it is not there.
fn install(platform: &str) -> Result<()> {
    let mut rustup = Command::new("rustup");
    let output = rustup.args(["target", "add", platform]).stdin(Stdio::null()).output();
    let output = output.context("there is no rustup")?;
    anyhow::ensure!(output.status.success(), "rustup cannot install its standard library");
    Ok(())
}
