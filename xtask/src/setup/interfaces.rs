// SPDX-License-Identifier: Apache-2.0

//! The interface packages of this repository.

use std::{ffi::OsString, fs, path::Path, process::Command};

use anyhow::{Context, Result};

use super::{
    child,
    files::{read_dir, remove},
};
use crate::progress::Step;

/// The interface packages that are defined in `msg/`: one that every distribution has, but no wheel, and our own.
pub const INTERFACE_PACKAGES: [&str; 2] = ["statistics_msgs", "topic_statistics_interfaces"];

/// The content of every file of our definition of an interface package.
pub fn interface_sources(project: &Path, package: &str) -> Result<Vec<Vec<u8>>> {
    let package = project.join("msg").join(package);
    let mut files = vec![];
    for directory in [package.clone(), package.join("msg"), package.join("srv")] {
        files.extend(read_dir(&directory)?);
    }
    files.retain(|file| file.is_file());
    files
        .iter()
        .map(|file| fs::read(file).with_context(|| format!("Cannot read {}", file.display())))
        .collect()
}

/// Builds an interface package that is defined here, and installs it to `overlay`.
///
/// It is built in `directory`, or, if that path is not ASCII, in a temporary directory: rosidl reads files of the build
/// directory by CMake's `file(STRINGS)`, which cuts their paths at the first character that is not ASCII.
///
/// `cmake` gives a CMake command in the environment of the ROS 2 that it is built with; `definitions` are further
/// arguments to its first run; `source` is where the package is defined.
pub fn build_interfaces(
    cmake: impl Fn() -> Result<Command>,
    definitions: &[OsString],
    source: &Path,
    directory: &Path,
    overlay: &Path,
    step: &mut Step,
    log: &Path,
) -> Result<String> {
    let is_ascii = |path: &Path| path.to_str().is_some_and(str::is_ascii);
    let temporary; // until it is built
    let build = if is_ascii(directory) {
        directory.join("build")
    } else {
        let place = Some(std::env::temp_dir()).filter(|place| is_ascii(place)).unwrap_or("/tmp".into());
        temporary = tempfile::Builder::new()
            .prefix("xtask-")
            .tempdir_in(&place)
            .with_context(|| format!("Cannot create a directory in {}", place.display()))?;
        temporary.path().join("build")
    };
    remove(&build)?;
    step.advance(0, "configuring");
    let mut configure = cmake()?;
    configure
        .arg("-S")
        .arg(source)
        .arg("-B")
        .arg(&build)
        .args(["-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Release"])
        .arg(cmake_definition("CMAKE_INSTALL_PREFIX", overlay))
        .args(definitions);
    child::run(&mut configure, log, |line| step.advance(0, line))?;
    let mut install = cmake()?;
    install.arg("--build").arg(&build).args(["--parallel", "--target", "install"]);
    child::run(&mut install, log, |line| step.advance(0, line))?;
    remove(&build)?;
    Ok("for C, C++ and Python".to_owned())
}

/// A definition on CMake's command line.
pub fn cmake_definition(name: &str, value: &Path) -> OsString {
    let mut definition = OsString::from(format!("-D{name}="));
    definition.push(value);
    definition
}
