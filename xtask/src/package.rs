// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask package`: checks that the packages can be published, or builds the packages that users install.

use std::{
    env, fs,
    path::Path,
    process::{Command, ExitCode},
    slice,
};

use anyhow::{Context, Result};

use crate::{
    checks::{passes, skipped, Outcome},
    commands::{cargo, exec, install_toolchain, rustup, succeed},
    environment::Environment,
    setup::tools,
    workspace::{Package, Workspace},
};

/// The platforms, other than the usual one, for which the libraries must build, because rclrs supports these platforms.
const PLATFORMS: [&str; 4] =
    ["aarch64-unknown-linux-gnu", "i686-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"];

/// Checks that each package builds from its published files with the Rust version that it declares, that the
/// documentation builds without ROS as on docs.rs, and that the libraries build for other platforms.
pub fn run(environment: &Environment, project: &Path, no_skip: bool) -> Result<ExitCode> {
    let packages = Workspace::read(project)?.packages.into_iter().filter(Package::is_public);
    let packages: Vec<_> = packages.collect();

    eprintln!("-- what would be published");
    let names: Vec<_> = packages.iter().flat_map(|package| ["--package", &package.name]).collect();
    // Without `--no-verify`, cargo would also build the packages, and the dependencies with other features.
    let options = ["--locked", "--allow-dirty", "--quiet", "--no-verify"];
    for command in [&["publish", "--dry-run"][..], &["package"]] {
        succeed(&mut cargo(environment, project, [command, &options, &names].concat()))?;
    }
    let published = project.join("target/published");
    unpack(&environment.target_dir().join("package"), &published, project, &packages)?;

    let mut has_failed = false;
    let mut check = |what: &str, tool: Result<()>, mut command: Command| -> Result<()> {
        match tool {
            Ok(()) => {
                eprintln!("-- {what}");
                has_failed |= passes(&mut command)? == Outcome::Failed;
            }
            Err(error) => {
                eprintln!("skipped: {what}: {error:#}");
                has_failed |= no_skip;
            }
        }
        Ok(())
    };
    let packages = Workspace::read(&published)?.packages;
    for package in &packages {
        let mut toolchain =
            package.rust_version.clone().with_context(|| format!("rust-version of {}", package.name))?;
        if toolchain.matches('.').count() == 1 {
            toolchain += ".0";
        }
        // Checks each package alone, with all its features. In a common check, another package's features could hide an
        // error. The command is not `cargo +toolchain`, because within `cargo run`, PATH may contain a toolchain's
        // cargo before rustup's cargo.
        let mut command = environment.command("rustup");
        command.current_dir(&published).args(["run", &toolchain, "cargo", "check", "--locked", "--quiet"]);
        command.args(["--lib", "--bins", "--package", &package.name]);
        command.args(["--features", &package.feature_list("")]);
        // C code is not compiled, because nothing is linked.
        command.env("CARGO_TARGET_DIR", project.join("target/msrv")).env("CC", "true").env("AR", "true");
        let what = format!("{} with Rust {toolchain}", package.name);
        check(&what, install_toolchain(&toolchain, &[]), command)?;
    }
    let libraries: Vec<_> = packages.into_iter().filter(Package::has_library).collect();
    for library in &libraries {
        let mut doc = without_ros(project, &published, &["doc", "--no-deps"], slice::from_ref(library));
        // Only a nightly compiler, as on docs.rs, shows which feature an item needs.
        doc.env("RUSTC_BOOTSTRAP", &library.name);
        check(&format!("documentation of {} without ROS", library.name), Ok(()), doc)?;
    }
    for platform in PLATFORMS {
        let mut command = without_ros(project, &published, &["check", "--lib"], &libraries);
        command.args(["--target", platform]);
        check(&format!("the libraries for {platform}"), rustup(&["target", "add", platform]), command)?;
    }
    Ok(ExitCode::from(u8::from(has_failed)))
}

/// Builds the packages that users install, by `packaging/build.sh`. Only `ros-deb` needs ROS 2.
pub fn build(
    project: &Path,
    what: &str,
    target: Option<String>,
    no_skip: bool,
    environment: impl FnOnce() -> Result<Environment>,
) -> Result<ExitCode> {
    let mut script = if what == "ros-deb" { environment()?.command("bash") } else { Command::new("bash") };
    if what != "ros-deb" {
        let installed = target.iter().try_for_each(|target| rustup(&["target", "add", target]));
        let programs = match installed.and_then(|()| tools::of_packaging(project)) {
            Ok(programs) => programs,
            Err(error) => return Ok(skipped(&format!("the build of {what}"), &error, no_skip)),
        };
        let path = env::var_os("PATH").unwrap_or_default();
        script.env("PATH", env::join_paths([programs].into_iter().chain(env::split_paths(&path)))?);
    }
    exec(script.current_dir(project).arg("packaging/build.sh").arg(what).args(target))
}

/// Unpacks the archives of these packages into a new workspace. In this workspace, the packages depend on each other,
/// and on the versions of other crates with which the project is tested.
fn unpack(archives: &Path, to: &Path, project: &Path, packages: &[Package]) -> Result<()> {
    let _not_there = fs::remove_dir_all(to);
    fs::create_dir_all(to).with_context(|| format!("Cannot create {}", to.display()))?;
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"*-*\"]\n\n[patch.crates-io]\n".to_owned();
    for Package { name, version, .. } in packages {
        let archive = archives.join(format!("{name}-{version}.crate"));
        let mut tar = Command::new("tar");
        // All files in an archive have the same time stamp, whatever changed. With `--touch`, files get the current
        // time, so cargo notices changes.
        tar.args(["--extract", "--gzip", "--touch", "--file"]).arg(&archive).arg("--directory").arg(to);
        succeed(&mut tar)?;
        manifest += &format!("{name} = {{ path = \"{name}-{version}\" }}\n");
    }
    fs::write(to.join("Cargo.toml"), manifest)?;
    fs::copy(project.join("Cargo.lock"), to.join("Cargo.lock"))?;
    // Removes the packages that are not published from the copied lock file.
    succeed(Command::new("cargo").current_dir(to).args(["update", "--workspace", "--offline", "--quiet"]))
}

/// Returns a cargo command that builds these packages without ROS, with the features and compiler arguments of docs.rs.
fn without_ros(project: &Path, workspace: &Path, subcommand: &[&str], packages: &[Package]) -> Command {
    let docs_rs_arguments = |key| packages.iter().flat_map(move |package| package.docs_rs(key));
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
    let rustc_arguments: Vec<_> = docs_rs_arguments("rustc-args").collect();
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rustc_arguments.join("\u{1f}"));
    let ours = ["--cfg", "docsrs", "-D", "warnings"].map(str::to_owned);
    let rustdoc_arguments: Vec<_> = ours.into_iter().chain(docs_rs_arguments("rustdoc-args")).collect();
    cargo.env("CARGO_ENCODED_RUSTDOCFLAGS", rustdoc_arguments.join("\u{1f}"));
    cargo
}
