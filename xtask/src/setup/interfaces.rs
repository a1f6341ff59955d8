// SPDX-License-Identifier: Apache-2.0

//! The interface packages of this repository.

use std::{env, ffi::OsString, fs, path::Path};

use anyhow::{Context, Result};

use super::{child, workshop::Workshop};
use crate::{environment::Environment, files::read_dir};

/// The interface packages that `msg/` defines: one that distributions contain, but no wheel, and our own one.
pub const INTERFACE_PACKAGES: [&str; 2] = ["statistics_msgs", "topic_statistics_interfaces"];

/// Runs the step that builds an interface package of this repository, and installs the package to `overlay`. Before the
/// first package, `begin` makes the overlay. `arguments` are additional arguments for CMake.
///
/// The package is built in a temporary directory and not below `overlay`, because rosidl reads paths in the build
/// directory with CMake's `file(STRINGS)`, which cuts the paths at the first non-ASCII character.
pub fn build(
    workshop: &mut Workshop,
    environment: &Environment,
    arguments: &[OsString],
    project: &Path,
    package: &str,
    overlay: &Path,
    begin: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let source = project.join("msg").join(package);
    let mut content = vec![];
    for directory in [source.clone(), source.join("msg"), source.join("srv")] {
        for file in read_dir(&directory)?.into_iter().filter(|file| file.is_file()) {
            content.push(fs::read(&file).with_context(|| format!("Cannot read {}", file.display()))?);
        }
    }
    let inputs: Vec<&[u8]> = content.iter().map(Vec::as_slice).collect();
    let (log, what) = (workshop.log(package), format!("Building the interface package {package}"));
    workshop.step(package, &inputs, &what, || {
        if package == INTERFACE_PACKAGES[0] {
            begin()?;
        }
        let place = Some(env::temp_dir()).filter(|place| place.to_str().is_some_and(str::is_ascii));
        let build = tempfile::Builder::new().prefix("xtask-").tempdir_in(place.unwrap_or("/tmp".into()))?;
        let mut configure = environment.command("cmake");
        configure.arg("-S").arg(&source).arg("-B").arg(build.path()).args(arguments);
        configure.args(["-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Release"]);
        child::run(configure.arg(definition("CMAKE_INSTALL_PREFIX", overlay)), &log)?;
        let mut install = environment.command("cmake");
        install.arg("--build").arg(build.path()).args(["--parallel", "--target", "install"]);
        child::run(&mut install, &log)?;
        Ok("for C, C++ and Python".to_owned())
    })
}

/// Returns a definition (`-DNAME=VALUE`) for CMake's command line.
pub fn definition(name: &str, value: &Path) -> OsString {
    let mut definition = OsString::from(format!("-D{name}="));
    definition.push(value);
    definition
}
