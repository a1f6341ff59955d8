// SPDX-License-Identifier: Apache-2.0

//! The build script reports missing interface packages, and the command that adds each.

use std::{fs, path::Path, process::Command};

/// Runs the build script with an AMENT_PREFIX_PATH. Returns the errors that it reports to cargo.
fn errors(directory: &Path, prefix: Option<&Path>, has_shim: bool) -> Vec<String> {
    let script = directory.join("build-script");
    if !script.is_file() {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
        let status = Command::new(rustc).args(["--edition=2021", "-o"]).args([&script, &source]).status();
        assert!(status.unwrap().success());
    }
    let mut command = Command::new(script);
    command.env_remove("AMENT_PREFIX_PATH").env_remove("CARGO_FEATURE_USE_ROS_SHIM");
    if let Some(prefix) = prefix {
        command.env("AMENT_PREFIX_PATH", prefix);
    }
    if has_shim {
        command.env("CARGO_FEATURE_USE_ROS_SHIM", "1");
    }
    let output = command.output().unwrap();
    assert!(output.status.success());
    let output = String::from_utf8(output.stdout).unwrap();
    output.lines().filter_map(|line| line.strip_prefix("cargo::error=")).map(str::to_owned).collect()
}

fn write(file: &Path) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "").unwrap();
}

#[test]
fn a_missing_interface_package_or_crate_is_reported_with_the_command_that_adds_it() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let prefix = directory.join("prefix");
    let share = prefix.join("share");

    let [error] = &errors(directory, None, false)[..] else { panic!("one error without ROS") };
    assert!(error.contains("source /opt/ros/"), "{error}");

    write(&share.join("statistics_msgs/package.xml"));
    write(&share.join("diagnostic_msgs/rust/Cargo.toml"));
    let [no_crate, no_package] = &errors(directory, Some(&prefix), false)[..] else { panic!("two errors") };
    assert!(
        no_crate.contains("statistics_msgs has no Rust crate")
            && no_crate.contains("ros_interface_crates generate --out"),
        "{no_crate}"
    );
    assert!(
        no_package.contains("topic_statistics_interfaces is not on AMENT_PREFIX_PATH")
            && no_package.contains("colcon build --packages-select topic_statistics_interfaces"),
        "{no_package}"
    );

    for package in ["statistics_msgs", "topic_statistics_interfaces"] {
        write(&share.join(package).join("rust/Cargo.toml"));
    }
    assert_eq!(errors(directory, Some(&prefix), false), [""; 0]);
}

#[test]
fn the_shim_needs_no_interface_package() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(errors(directory.path(), None, true), [""; 0]);
}
