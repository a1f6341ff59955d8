// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask package`: whether the packages are ready to be published.

use std::{
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result};

use crate::{
    checks::{passes, Outcome},
    environment::Environment,
    workspace::{Package, Workspace},
};

/// The other platforms for which the libraries have to build: rclrs's platforms.
const PLATFORMS: [&str; 4] =
    ["aarch64-unknown-linux-gnu", "i686-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"];

/// Checks that each package builds from its published files, that the documentation builds without ROS as on docs.rs,
/// and that the libraries build for other platforms.
pub fn run(environment: &Environment, project: &Path, no_skip: bool) -> Result<ExitCode> {
    let packages: Vec<_> =
        Workspace::read(project)?.packages.into_iter().filter(Package::is_public).collect();

    eprintln!("-- what would be published");
    let of_all: Vec<_> = packages.iter().flat_map(|package| ["--package", &package.name]).collect();
    forget_unpacked(&cargo_home()?, &packages)?;
    // Its build results are removed, too: cargo assumes that an unpacked package never changes.
    let mut clean = environment.command("cargo");
    let has_cleaned = passes(clean.current_dir(project).args(["clean", "--quiet"]).args(&of_all))?;
    let mut publish = environment.command("cargo");
    publish.current_dir(project).args(["publish", "--dry-run", "--locked", "--allow-dirty", "--quiet"]);
    let is_ready = passes(publish.args(of_all))?;
    let mut has_failed = [has_cleaned, is_ready].contains(&Outcome::Failed);

    for package in packages.iter().filter(|package| package.has_library()) {
        eprintln!("-- documentation of {} without ROS", package.name);
        let mut doc = without_ros(project, package);
        // docs.rs has a nightly compiler, which the badges of features need.
        doc.args(["doc", "--no-deps"]).env("RUSTC_BOOTSTRAP", &package.name);
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

/// Removes cargo's unpacked copies of these packages from the last check.
///
/// Where a package depends on another one, cargo checks it with that one's archive. It unpacks the archive into its
/// home, in a directory that is named after the path of the project and the version alone. If the directory exists, it
/// builds what is there.
fn forget_unpacked(cargo_home: &Path, packages: &[Package]) -> Result<()> {
    let sources = cargo_home.join("registry/src");
    let registries = match fs::read_dir(&sources) {
        Ok(registries) => registries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("Cannot read {}", sources.display())),
    };
    for registry in registries {
        let registry = registry?.path();
        // A directory of archives has no host name before the hash.
        if !registry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('-')) {
            continue;
        }
        for package in packages {
            let unpacked = registry.join(format!("{}-{}", package.name, package.version));
            if unpacked.exists() {
                fs::remove_dir_all(&unpacked)
                    .with_context(|| format!("Cannot remove {}", unpacked.display()))?;
            }
        }
    }
    Ok(())
}

/// Returns where cargo keeps unpacked packages.
fn cargo_home() -> Result<PathBuf> {
    let default = || Some(env::home_dir()?.join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(default).context("there is no home directory")
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

#[cfg(test)]
mod tests {
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
    fn what_cargo_unpacked_of_an_earlier_state_is_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let package =
            r#"{"name": "p", "version": "0.1.0", "manifest_path": "/p", "features": {}, "targets": []}"#;
        let packages = [serde_json::from_str(package).unwrap()];
        forget_unpacked(home.path(), &packages).unwrap(); // nothing was unpacked yet
        let directory = |name: &str| {
            let path = home.path().join("registry/src").join(name);
            fs::create_dir_all(path.join("src")).unwrap();
            path
        };
        let stale = directory("-0f6ba3d744af37a3/p-0.1.0");
        let kept = [
            directory("-0f6ba3d744af37a3/q-0.1.0"),
            directory("-0f6ba3d744af37a3/p-0.2.0"),
            directory("index.crates.io-1949cf8c6b5b557f/p-0.1.0"),
        ];
        forget_unpacked(home.path(), &packages).unwrap();
        assert!(!stale.exists() && kept.iter().all(|path| path.exists()));
    }
}
