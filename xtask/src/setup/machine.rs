// SPDX-License-Identifier: Apache-2.0

//! What a machine needs for an embedded ROS 2, and the remedy if it is missing.

use std::{env, ffi::OsStr, path::Path, process::Command};

use anyhow::{bail, ensure, Context, Result};

/// The disk space that an embedded ROS 2 needs, including pip's temporary files.
const DISK_BYTES: u64 = 1 << 30;
const SOURCED_WORKS: &str =
    "the wheels are for x86-64 Linux with glibc 2.28 or later only; a ROS 2 that you install \
     and source yourself works here: source it and run the same command";
const INSTALL_PYTHON: &str = "install Python 3.10 to 3.13 (on Debian and Ubuntu: `sudo apt install python3 \
     python3-venv python3-dev`), or name an interpreter: `PYTHON=python3.12 cargo xtask setup`";

/// A Python script that prints the facts which `check_facts` reads, one fact per line.
const PROBE: &str = r#"
import importlib.util, os, platform, sys, sysconfig
print(*sys.version_info[:2], sep=".")
print(*platform.libc_ver())
print(all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")))
print(os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
"#;

/// Checks that an embedded ROS 2 can be made from PyPI wheels in `directory` on this machine.
pub fn check(directory: &Path) -> Result<()> {
    let (os, arch) = (env::consts::OS, env::consts::ARCH);
    ensure!((os, arch) == ("linux", "x86_64"), "There are no ROS 2 wheels for {arch} {os}: {SOURCED_WORKS}");
    let python = env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    check_python(&python)?;
    // CMake looks for these compilers if CXX is not set.
    let chosen = env::var("CXX").unwrap_or_else(|_| "c++ g++ clang++".to_owned());
    check_compiler(&chosen)?;
    let file_system = rustix::fs::statvfs(directory)?;
    check_space(directory, file_system.f_bavail.saturating_mul(file_system.f_frsize))
}

fn check_python(python: &OsStr) -> Result<()> {
    let name = python.display();
    let output = Command::new(python).args(["-c", PROBE]).output();
    let output = output.with_context(|| format!("{name} was not found; {INSTALL_PYTHON}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} does not work: {}", errors.trim());
    check_facts(&name.to_string(), &String::from_utf8_lossy(&output.stdout))
}

fn check_facts(name: &str, facts: &str) -> Result<()> {
    let facts: Vec<_> = facts.lines().collect();
    let [version, libc, has_venv, has_headers] = facts[..] else { bail!("{name} printed {facts:?}") };
    /// Returns the major and the minor number of a version.
    fn numbers(version: &str) -> Option<(u32, u32)> {
        let mut numbers = version.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
    let python = numbers(version).unwrap_or_default();
    let age = if python > (3, 13) { "new" } else { "old" };
    ensure!(
        ((3, 10)..=(3, 13)).contains(&python),
        "{name} is Python {version}, which is too {age} for the ROS 2 wheels: they need 3.10 to 3.13; {INSTALL_PYTHON}"
    );
    let has_glibc = libc.strip_prefix("glibc ").and_then(numbers).is_some_and(|version| version >= (2, 28));
    let libc = if libc.trim().is_empty() { "a C library that is not glibc" } else { libc };
    ensure!(has_glibc, "There are no ROS 2 wheels for this machine ({libc}): {SOURCED_WORKS}");
    let missing = |what: &str, package: &str| {
        format!("{name} has no {what}; install it (on Debian and Ubuntu: `sudo apt install {package}`)")
    };
    ensure!(has_venv == "True", "{}", missing("venv module", "python3-venv"));
    // The Python part of the interface packages is compiled with these headers.
    ensure!(has_headers == "True", "{}", missing("C headers (Python.h)", "python3-dev"));
    Ok(())
}

fn check_compiler(names: &str) -> Result<()> {
    let works = |name| Command::new(name).arg("--version").output().is_ok_and(|it| it.status.success());
    ensure!(
        names.split(' ').any(works),
        "No C++ compiler was found (tried {names}); install one (on Debian and Ubuntu: `sudo apt install g++`), or name \
         it by the variable CXX"
    );
    Ok(())
}

fn check_space(directory: &Path, free: u64) -> Result<()> {
    ensure!(
        free >= DISK_BYTES,
        "The disk is too full: {} has {} MiB free, and an embedded ROS 2 needs {} MiB; free some space, or choose \
         another place with --ros-dir",
        directory.display(),
        free >> 20,
        DISK_BYTES >> 20
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/errors.md lists these messages.
    #[test]
    fn a_missing_requirement_is_reported_with_a_remedy() {
        const GOOD: &str = "3.11\nglibc 2.36\nTrue\nTrue\n";
        let check = |from: &str, to: &str| check_facts("python3", &GOOD.replacen(from, to, 1));
        for (from, to) in [("3.11", "3.10"), ("3.11", "3.13"), ("2.36", "2.28")] {
            check(from, to).unwrap();
        }
        let refused = |from, to| check(from, to).unwrap_err();
        let (python, compiler) = (check_python(OsStr::new("no-such-python")), check_compiler("no-such-c++"));
        let full = check_space(Path::new("/here"), 10 << 20);
        for (error, expected) in [
            (refused("3.11", "3.9"), "python3 is Python 3.9, which is too old for the ROS 2 wheels: "),
            (refused("3.11", "3.14"), "3.14, which is too new"),
            (refused("2.36", "2.27"), "There are no ROS 2 wheels for this machine (glibc 2.27): "),
            (refused("glibc 2.36", ""), "not glibc): the wheels are for x86-64 Linux"),
            (refused("True\nT", "False\nT"), "python3 has no venv module; install it (on Debian and Ub"),
            (refused("True\nTrue", "True\nFalse"), "python3 has no C headers (Python.h); install it"),
            (python.unwrap_err(), "no-such-python was not found; install Python"),
            (compiler.unwrap_err(), "No C++ compiler was found (tried no-such-c++); install one"),
            (full.unwrap_err(), "/here has 10 MiB free, and an embedded ROS 2 needs 1024 MiB"),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
