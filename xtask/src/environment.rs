// SPDX-License-Identifier: Apache-2.0

//! The environment variables for commands that need ROS 2. The caller's environment is extended by them.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{ensure, Result};

use crate::files::read_dir;

/// The search paths to which an environment adds directories.
const SEARCH_PATHS: [&str; 5] =
    ["AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH"];

/// The variables for one ROS 2: the sourced ROS 2 with the project's additions, or an embedded ROS 2.
pub struct Environment {
    /// A description of the ROS 2 in a few words, for messages.
    pub description: String,
    target_dir: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    prepended: Vec<(&'static str, PathBuf)>,
    hidden: Vec<PathBuf>,
}

impl Environment {
    /// Creates an environment that does not change the caller's environment yet. Each ROS 2 has its own `target_dir`.
    /// In one common directory, cargo would build everything again after each change of the ROS 2.
    pub fn new(description: String, target_dir: PathBuf) -> Environment {
        Environment { description, target_dir, variables: vec![], prepended: vec![], hidden: vec![] }
    }

    pub fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.variables.push((name, value.into()));
    }

    /// Adds a directory to a search path: before the caller's directories, but after those added earlier.
    pub fn prepend(&mut self, name: &'static str, directory: impl Into<PathBuf>) {
        self.prepended.push((name, directory.into()));
    }

    /// Adds a prefix to the search paths, as its setup file does. Returns its directories of Python packages.
    pub fn prepend_prefix(&mut self, prefix: &Path) -> Result<Vec<PathBuf>> {
        self.prepend("AMENT_PREFIX_PATH", prefix);
        self.prepend("CMAKE_PREFIX_PATH", prefix);
        self.prepend("LD_LIBRARY_PATH", prefix.join("lib"));
        let mut packages = read_dir(&prefix.join("lib"))?;
        packages.iter_mut().for_each(|python| python.push("site-packages"));
        for version in read_dir(&prefix.join("local/lib"))? {
            packages.push(version.join("dist-packages"));
        }
        packages.retain(|directory| directory.is_dir());
        packages.iter().for_each(|directory| self.prepend("PYTHONPATH", directory));
        Ok(packages)
    }

    /// Removes directories below these prefixes, which belong to another ROS 2, from the caller's search paths.
    pub fn hide(&mut self, prefixes: impl IntoIterator<Item = PathBuf>) {
        self.hidden.extend(prefixes);
    }

    /// Returns a command that runs a program in this environment. The program is found on the PATH of this environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(SEARCH_PATHS.map(|name| (name, self.search_path(name))));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("CARGO_TARGET_DIR", self.target_dir());
        command
    }

    /// Checks that packages are installed in a prefix on AMENT_PREFIX_PATH.
    pub fn require(&self, packages: &[&str]) -> Result<()> {
        let path = self.search_path("AMENT_PREFIX_PATH");
        let is_missing = |package: &&&str| {
            let manifest = Path::new("share").join(package).join("package.xml");
            !env::split_paths(&path).any(|prefix| prefix.join(&manifest).is_file())
        };
        let missing: Vec<&str> = packages.iter().filter(is_missing).copied().collect();
        let debian = missing.iter().map(|package| format!(" ros-$ROS_DISTRO-{}", package.replace('_', "-")));
        ensure!(
            missing.is_empty(),
            "This needs the packages {}, which {} does not have; install them (on Ubuntu: `sudo apt install{}`), or use \
             the embedded ROS 2 with --embedded",
            missing.join(", "),
            self.description,
            debian.collect::<String>()
        );
        Ok(())
    }

    /// Returns the directory in which cargo builds: the caller's CARGO_TARGET_DIR or else the one of this environment.
    pub fn target_dir(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.target_dir.clone(), PathBuf::from)
    }

    /// Returns the environment as commands for a POSIX shell. The commands extend a search path, or replace it if the
    /// directories of another ROS 2 must be hidden.
    pub fn exports(&self) -> String {
        let mut lines = String::new();
        for (name, value) in &self.variables {
            let _ = writeln!(lines, "export {name}={}", quoted(value));
        }
        for name in SEARCH_PATHS {
            let ours: Vec<_> = self.ours(name).collect();
            if callers(name).iter().any(|directory| self.hides(directory)) {
                let others =
                    callers(name).into_iter().filter(|other| !self.hides(other) && !is_cargos(other));
                let whole = env::join_paths(ours.into_iter().chain(others)).unwrap_or_default();
                let _ = writeln!(lines, "export {name}={}", quoted(&whole));
            } else if !ours.is_empty() {
                let ours = env::join_paths(ours).unwrap_or_default();
                let _ = writeln!(lines, "export {name}={}\"${{{name}:+:${name}}}\"", quoted(&ours));
            }
        }
        lines
    }

    fn ours<'a>(&'a self, name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        self.prepended.iter().filter(move |(path, _)| *path == name).map(|(_, directory)| directory.clone())
    }

    /// Returns a search path without hidden and repeated directories: first the directories of this environment, then
    /// those of the caller.
    fn search_path(&self, name: &str) -> OsString {
        let mut directories: Vec<PathBuf> = self.ours(name).collect();
        for directory in callers(name) {
            if !self.hides(&directory) && !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        // Joining fails only if a directory's name contains a colon, and no search path can contain such a name.
        env::join_paths(directories).unwrap_or_default()
    }

    fn hides(&self, directory: &Path) -> bool {
        self.hidden.iter().any(|prefix| directory.starts_with(prefix))
    }
}

/// Returns the directories of one of the caller's search paths.
fn callers(name: &str) -> Vec<PathBuf> {
    let path = env::var_os(name).unwrap_or_default();
    env::split_paths(&path).filter(|directory| !directory.as_os_str().is_empty()).collect()
}

/// Returns whether `cargo run` has added a directory to LD_LIBRARY_PATH only for this program. These directories are
/// the toolchain's directory and build directories.
fn is_cargos(directory: &Path) -> bool {
    let toolchain =
        env::var_os("CARGO").and_then(|cargo| Some(Path::new(&cargo).ancestors().nth(2)?.join("lib")));
    let built = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    toolchain.into_iter().chain(built).any(|cargos| directory.starts_with(cargos))
}

/// Returns a value in single quotes for a POSIX shell.
fn quoted(value: &OsStr) -> String {
    format!("'{}'", value.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_entries_come_first_and_hidden_prefixes_are_removed() {
        let mut environment = Environment::new("this ROS 2".to_owned(), PathBuf::new());
        environment.set("ROS_DISTRO", "kil'ted");
        environment.prepend("PATH", "/ours/bin");
        let expected = "export ROS_DISTRO='kil'\\''ted'\nexport PATH='/ours/bin'\"${PATH:+:$PATH}\"\n";
        assert_eq!(environment.exports(), expected);

        let callers = env::var_os("PATH").unwrap();
        let hidden = env::split_paths(&callers).next().unwrap();
        environment.hide([hidden.clone()]);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(environment.exports() + "printf %s \"$PATH\"").env("PATH", &callers);
        let exported = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        for path in [environment.search_path("PATH"), exported.into()] {
            let path: Vec<_> = env::split_paths(&path).collect();
            assert!(path[0] == Path::new("/ours/bin") && !path.contains(&hidden), "{path:?}");
        }
        let error = environment.require(&["no_such_msgs"]).unwrap_err().to_string();
        assert!(error.contains("(on Ubuntu: `sudo apt install ros-$ROS_DISTRO-no-such-msgs`)"), "{error}");
    }
}
