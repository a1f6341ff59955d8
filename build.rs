// SPDX-License-Identifier: Apache-2.0

//! Reports which interface packages are missing, and what to do, before the compiler reports unresolved imports.

use std::{env, path::PathBuf};

/// The packages that the library uses, with the way to get each one where a distribution's package is missing.
const PACKAGES: [(&str, &str); 3] = [
    ("diagnostic_msgs", "it is a package of every distribution: on Ubuntu `sudo apt install ros-$ROS_DISTRO-diagnostic-msgs`"),
    ("statistics_msgs", "it is a package of every distribution: on Ubuntu `sudo apt install ros-$ROS_DISTRO-statistics-msgs`"),
    (
        "topic_statistics_interfaces",
        "it is in msg/ of this repository: `colcon build --packages-select topic_statistics_interfaces`, then \
         `source install/setup.bash`",
    ),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=AMENT_PREFIX_PATH");
    if env::var_os("CARGO_FEATURE_USE_ROS_SHIM").is_some() {
        return;
    }
    let prefixes = env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let prefixes: Vec<PathBuf> =
        env::split_paths(&prefixes).filter(|path| !path.as_os_str().is_empty()).collect();
    if prefixes.is_empty() {
        println!("cargo::error=AMENT_PREFIX_PATH is not set, so there is no ROS 2: `source /opt/ros/<distro>/setup.bash` first");
        return;
    }
    for (package, remedy) in PACKAGES {
        let is_there = |file: &str| {
            prefixes.iter().any(|prefix| prefix.join("share").join(package).join(file).is_file())
        };
        if is_there("rust/Cargo.toml") {
            continue;
        }
        if is_there("package.xml") {
            println!(
                "cargo::error=The interface package {package} has no Rust crate on AMENT_PREFIX_PATH: \
                 `ros_interface_crates generate --out ~/rust_interfaces`, then \
                 `export AMENT_PREFIX_PATH=~/rust_interfaces:$AMENT_PREFIX_PATH`"
            );
        } else {
            println!("cargo::error=The interface package {package} is not on AMENT_PREFIX_PATH: {remedy}");
        }
    }
}
