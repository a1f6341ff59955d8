// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask msrv`: whether each package builds with the Rust version that its manifest declares.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{bail, Context, Result};
use serde::Deserialize;

use crate::{
    environment::Environment,
    lint::{passes, Outcome},
};

/// What `cargo metadata` prints, as far as it matters here.
#[derive(Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
}

#[derive(Deserialize)]
pub struct Package {
    pub name: String,
    manifest_path: PathBuf,
    rust_version: Option<String>,
    /// The registries that it may be published to; None is any.
    publish: Option<Vec<String>>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

impl Metadata {
    /// Reads the workspace's members.
    pub fn read(project: &Path) -> Result<Metadata> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(project).args(["metadata", "--no-deps", "--format-version", "1"]);
        let output = cargo.stderr(Stdio::inherit()).output().context("cargo cannot be started")?;
        if !output.status.success() {
            bail!("The workspace cannot be read; cargo says above why");
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Package {
    /// Whether it may be published.
    pub fn is_public(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Returns where its manifest is.
    pub fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Whether it has a library that other packages can use.
    pub fn has_library(&self) -> bool {
        let is_library = |kind: &String| ["lib", "rlib"].contains(&kind.as_str());
        self.targets.iter().any(|target| target.kind.iter().any(is_library))
    }

    /// The targets that its users build, as arguments to cargo.
    fn targets(&self) -> Vec<&'static str> {
        let has = |kind: &str| self.targets.iter().any(|target| target.kind.iter().any(|of| of == kind));
        let library = (has("lib") || has("proc-macro")).then_some("--lib");
        library.into_iter().chain(has("bin").then_some("--bins")).collect()
    }
}

/// Checks the packages with their toolchains, which are installed where rustup can.
pub fn run(environment: &Environment, project: &Path, no_skip: bool) -> Result<ExitCode> {
    let mut has_failed = false;
    for package in Metadata::read(project)?.packages.iter().filter(|package| package.is_public()) {
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
            .args(["run", &toolchain, "cargo", "check", "--locked", "--all-features", "--package", name])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_to_be_published_are_checked_with_what_their_users_build() {
        let package = |publish: &str, kinds: &str| {
            let text = format!(
                r#"{{"name": "p", "manifest_path": "/p/Cargo.toml", "rust_version": "1.85", "publish": {publish}, "targets": [{kinds}]}}"#
            );
            serde_json::from_str::<Package>(&text).unwrap()
        };
        assert!(package("null", "").is_public() && !package("[]", "").is_public());
        let both = package("null", r#"{"kind": ["lib"]}, {"kind": ["bin"]}, {"kind": ["test"]}"#);
        assert_eq!(both.targets(), ["--lib", "--bins"]);
        assert_eq!(package("null", r#"{"kind": ["bin"]}"#).targets(), ["--bins"]);
        assert!(both.has_library() && !package("null", r#"{"kind": ["bin"]}"#).has_library());
    }
}
