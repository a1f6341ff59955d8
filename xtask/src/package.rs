// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask package`: whether the packages are ready to be published.

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
    slice,
};

use anyhow::{ensure, Context, Result};

use crate::{
    checks::{passes, Outcome},
    environment::Environment,
    msrv,
    workspace::{Package, Workspace},
};

/// The other platforms for which the libraries have to build: rclrs's platforms.
const PLATFORMS: [&str; 4] =
    ["aarch64-unknown-linux-gnu", "i686-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"];

/// Checks what would be published: that each package builds from its published files with the Rust version that it
/// declares, that the documentation builds without ROS as on docs.rs, and that the libraries build for other platforms.
pub fn run(environment: &Environment, project: &Path, no_skip: bool) -> Result<ExitCode> {
    let packages = Workspace::read(project)?.packages.into_iter().filter(Package::is_public);
    let packages: Vec<_> = packages.collect();

    eprintln!("-- what would be published");
    let of_all: Vec<_> = packages.iter().flat_map(|package| ["--package", &package.name]).collect();
    // cargo would build each package to verify it, and for most of them also what they depend on, with other features.
    let options = ["--locked", "--allow-dirty", "--quiet", "--no-verify"];
    for command in [&["publish", "--dry-run"][..], &["package"]] {
        let mut cargo = environment.command("cargo");
        cargo.current_dir(project).args(command).args(options).args(&of_all);
        if passes(&mut cargo)? == Outcome::Failed {
            return Ok(ExitCode::FAILURE);
        }
    }
    let published = project.join("target/published");
    unpack(&environment.target_dir().join("package"), &published, project, &packages)?;
    let checked = msrv::run(environment, &published, &project.join("target/msrv"), no_skip)?;
    let mut has_failed = checked != ExitCode::SUCCESS;

    let libraries: Vec<_> =
        Workspace::read(&published)?.packages.into_iter().filter(Package::has_library).collect();
    for library in &libraries {
        eprintln!("-- documentation of {} without ROS", library.name);
        let mut doc = without_ros(project, &published, &["doc", "--no-deps"], slice::from_ref(library));
        // docs.rs has a nightly compiler, which the badges of features need.
        doc.env("RUSTC_BOOTSTRAP", &library.name);
        has_failed |= passes(&mut doc)? == Outcome::Failed;
    }
    // Together, so that what they depend on is compiled once for each platform.
    let mut check = without_ros(project, &published, &["check", "--lib"], &libraries);
    for platform in PLATFORMS {
        match install(platform) {
            Ok(()) => {
                eprintln!("-- the libraries for {platform}");
                check.args(["--target", platform]);
            }
            Err(error) => {
                eprintln!("skipped: the libraries for {platform}: {error:#}");
                has_failed |= no_skip;
            }
        }
    }
    has_failed |= passes(&mut check)? == Outcome::Failed;
    Ok(ExitCode::from(u8::from(has_failed)))
}

/// Unpacks the archives of these packages, and makes a workspace of them in which they depend on each other, and on the
/// versions that the project is tested with.
fn unpack(archives: &Path, to: &Path, project: &Path, packages: &[Package]) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("Cannot remove {}", to.display()))?;
    }
    fs::create_dir_all(to).with_context(|| format!("Cannot create {}", to.display()))?;
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"*-*\"]\n\n[patch.crates-io]\n".to_owned();
    for Package { name, version, .. } in packages {
        let archive = archives.join(format!("{name}-{version}.crate"));
        let mut tar = Command::new("tar");
        // All files in an archive have the same time; with the current one, cargo sees that they have changed.
        tar.args(["--extract", "--gzip", "--touch", "--file"]).arg(&archive).arg("--directory").arg(to);
        ensure!(passes(&mut tar)? == Outcome::Passed, "{} cannot be unpacked", archive.display());
        manifest += &format!("{name} = {{ path = \"{name}-{version}\" }}\n");
    }
    fs::write(to.join("Cargo.toml"), manifest)?;
    fs::copy(project.join("Cargo.lock"), to.join("Cargo.lock"))?;
    // Removes the packages of the project that are not published.
    let mut update = Command::new("cargo");
    update.current_dir(to).args(["update", "--workspace", "--offline", "--quiet"]);
    ensure!(passes(&mut update)? == Outcome::Passed, "the versions of dependencies cannot be kept");
    Ok(())
}

/// Runs a subcommand of cargo that sees no ROS on these packages, with the features and the compiler's arguments that
/// docs.rs gives them.
fn without_ros(project: &Path, workspace: &Path, subcommand: &[&str], packages: &[Package]) -> Command {
    let arguments: Vec<_> = packages.iter().flat_map(|package| package.docs_rs("rustc-args")).collect();
    let mut cargo = Command::new("cargo");
    cargo.current_dir(workspace).args(subcommand).args(["--quiet", "--locked"]);
    for package in packages {
        cargo.args(["--package", &package.name]);
        for feature in package.docs_rs("features") {
            cargo.arg("--features").arg(format!("{}/{feature}", package.name));
        }
    }
    for variable in ["AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "ROS_DISTRO", "RUSTFLAGS"] {
        cargo.env_remove(variable);
    }
    cargo.env("CARGO_TARGET_DIR", project.join("target/docs-rs"));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", arguments.join("\u{1f}"));
    let of_rustdoc = packages.iter().flat_map(|package| package.docs_rs("rustdoc-args"));
    let of_rustdoc: Vec<_> =
        ["--cfg", "docsrs", "-D", "warnings"].map(str::to_owned).into_iter().chain(of_rustdoc).collect();
    cargo.env("CARGO_ENCODED_RUSTDOCFLAGS", of_rustdoc.join("\u{1f}"));
    cargo
}

/// Installs the standard library of a platform, if it is not there.
fn install(platform: &str) -> Result<()> {
    let mut rustup = Command::new("rustup");
    let output = rustup.args(["target", "add", platform]).stdin(Stdio::null()).output();
    let output = output.context("there is no rustup")?;
    anyhow::ensure!(output.status.success(), "rustup cannot install its standard library");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_library_is_packed_with_every_file_that_its_sources_include() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["package", "--list", "--allow-dirty", "--package", "rclrs_topic_statistics"]);
        let output = cargo.current_dir(project).output().unwrap();
        let packed = String::from_utf8(output.stdout).unwrap();
        let packed: Vec<_> = packed.lines().collect();
        let mut included = 0;
        for source in packed.iter().filter(|file| file.ends_with(".rs")) {
            let text = fs::read_to_string(project.join(source)).unwrap();
            for file in text.split("include_str!(\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
                let path = project.join(source).with_file_name(file).canonicalize().unwrap();
                let path = path.strip_prefix(project).unwrap().to_str().unwrap();
                assert!(packed.contains(&path), "{source} includes {path}, which is not packed");
                included += 1;
            }
        }
        assert!(included > 10, "the pages whose examples are compiled");
    }

    #[test]
    fn packages_are_unpacked_anew_and_depend_on_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let [project, archives, to] = ["project", "archives", "to"].map(|name| directory.path().join(name));
        let mut packages = vec![];
        for (name, dependency) in [("below", ""), ("above", "[dependencies]\nbelow = \"0.1\"\n")] {
            let package = archives.join(format!("{name}-0.1.0"));
            fs::create_dir_all(package.join("src")).unwrap();
            let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n{dependency}");
            fs::write(package.join("Cargo.toml"), manifest).unwrap();
            fs::write(package.join("src/lib.rs"), "").unwrap();
            let mut tar = Command::new("tar");
            tar.args(["--create", "--gzip", "--mtime=2006-07-24", "--file"])
                .arg(package.with_extension("0.crate"));
            tar.arg("--directory").arg(&archives).arg(package.file_name().unwrap());
            assert!(tar.status().unwrap().success());
            let json = format!(
                r#"{{"name": "{name}", "version": "0.1.0", "manifest_path": "/p", "features": {{}}, "targets": []}}"#
            );
            packages.push(serde_json::from_str(&json).unwrap());
        }
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join("Cargo.lock"), "version = 4\n").unwrap();
        let begun = SystemTime::now() - Duration::from_secs(1); // a file's time may be coarser
        unpack(&archives, &to, &project, &packages).unwrap();
        fs::write(to.join("below-0.1.0/src/of_an_earlier_state.rs"), "").unwrap();
        unpack(&archives, &to, &project, &packages).unwrap();

        let sources = to.join("below-0.1.0/src");
        assert_eq!(fs::read_dir(&sources).unwrap().count(), 1);
        let changed = fs::metadata(sources.join("lib.rs")).unwrap().modified().unwrap();
        assert!(changed >= begun, "cargo would not compile it again: {changed:?}");
        let lock = fs::read_to_string(to.join("Cargo.lock")).unwrap();
        assert!(lock.contains(r#" "below","#) && !lock.contains("source ="), "{lock}");
    }
}
