// SPDX-License-Identifier: Apache-2.0

//! The caller's sourced ROS 2, and an overlay with the parts that it lacks.

use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{ensure, Result};

use super::{
    interfaces::{self, INTERFACE_PACKAGES},
    workshop::{fingerprint, Workshop},
};
use crate::{
    environment::Environment,
    files::{read_dir, remove},
};

/// The distributions that rclrs 0.8 supports, and whose interface packages have type descriptions.
const DISTROS: [&str; 4] = ["jazzy", "kilted", "lyrical", "rolling"];

/// A ROS 2 in the caller's environment.
pub struct Sourced {
    distro: String,
    /// The prefixes, in the order of AMENT_PREFIX_PATH.
    pub prefixes: Vec<PathBuf>,
}

impl Sourced {
    /// Finds the sourced ROS 2. Returns `None` if AMENT_PREFIX_PATH or ROS_DISTRO is not set.
    pub fn from_env() -> Result<Option<Sourced>> {
        let path = env::var_os("AMENT_PREFIX_PATH").filter(|path| !path.is_empty());
        let distro = env::var("ROS_DISTRO").ok().filter(|distro| !distro.is_empty());
        let (Some(path), Some(distro)) = (path, distro) else { return Ok(None) };
        Ok(Some(Sourced { distro, prefixes: env::split_paths(&path).collect() }))
    }

    fn check(&self) -> Result<()> {
        ensure!(
            self.distro != "humble",
            "The ROS 2 that is sourced is Humble, which installs no type descriptions of its interfaces; the Rust \
             interface crates are generated from them; source Jazzy or later, or use the embedded ROS 2 with --embedded"
        );
        ensure!(
            DISTROS.contains(&self.distro.as_str()),
            "The ROS 2 that is sourced is {:?} (ROS_DISTRO), which this project does not support; it supports {}; source \
             one of these, or use the embedded ROS 2 with --embedded",
            self.distro,
            DISTROS.join(", ")
        );
        ensure!(
            self.has("lib/librcl.so"),
            "AMENT_PREFIX_PATH names no prefix with lib/librcl.so: {:?}; source a whole ROS 2, or use the embedded one \
             with --embedded",
            self.prefixes
        );
        Ok(())
    }

    fn has(&self, file: &str) -> bool {
        self.prefixes.iter().any(|prefix| prefix.join(file).exists())
    }

    /// Returns what the generated interface crates depend on: the names of the packages, and the sizes and modification
    /// times of their definitions and crates.
    fn interfaces(&self) -> Result<Vec<u8>> {
        let mut state = String::new();
        for prefix in &self.prefixes {
            for index in read_dir(&prefix.join("share/ament_index/resource_index/rosidl_interfaces"))? {
                let package = prefix.join("share").join(index.file_name().unwrap_or_default());
                state += &format!("{}\n", package.display());
                for name in fs::read_to_string(&index)?.lines().chain(["rust/Cargo.toml"]) {
                    if let Ok(file) = fs::metadata(package.join(name)) {
                        state += &format!("{name} {} {} {}\n", file.len(), file.mtime(), file.mtime_nsec());
                    }
                }
            }
        }
        Ok(state.into_bytes())
    }
}

/// Makes the parts that the sourced ROS 2 lacks.
pub fn ensure(sourced: &Sourced, ros_dir: &Path, project: &Path) -> Result<Environment> {
    sourced.check()?;
    let first = sourced.prefixes.first().map(|prefix| prefix.display().to_string()).unwrap_or_default();
    eprintln!("Using the ROS 2 that is sourced: {} ({first})", sourced.distro);

    let prefixes: Vec<&[u8]> =
        sourced.prefixes.iter().map(|prefix| prefix.as_os_str().as_encoded_bytes()).collect();
    let name = format!("sourced-{}-{}", sourced.distro, &fingerprint("", &prefixes)[..8]);
    let directory = ros_dir.join(&name);
    let overlay = directory.join("overlay");
    let mut workshop = Workshop::open(&directory, 1 + INTERFACE_PACKAGES.len())?;

    for package in INTERFACE_PACKAGES {
        let begin = || remove(&overlay);
        if sourced.has(&format!("share/{package}/package.xml")) {
            let what = format!("Looking for the interface package {package}");
            workshop.step(package, &[], &what, || {
                let is_first = package == INTERFACE_PACKAGES[0];
                (if is_first { begin() } else { Ok(()) }).map(|()| "it is there".to_owned())
            })?;
        } else {
            let caller = Environment::new(String::new(), directory.clone());
            interfaces::build(&mut workshop, &caller, &[], project, package, &overlay, begin)?;
        }
    }
    let mut searched = vec![overlay.clone()];
    searched.extend_from_slice(&sourced.prefixes);
    workshop.write_interface_crates(&searched, &overlay, &sourced.interfaces()?)?;

    let description = format!("the ROS 2 that is sourced, {} ({first})", sourced.distro);
    let mut environment = Environment::new(description, project.join("target/ros").join(name));
    // If a search path changes, cargo compiles the interface crates again. So this is done only if necessary.
    if overlay.join("share").is_dir() {
        environment.prepend_prefix(&overlay)?;
    }
    Ok(environment)
}
