// SPDX-License-Identifier: Apache-2.0

//! The environment in which everything of ROS 2 runs: variables on top of the caller's.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{bail, Result};

/// The search paths that an environment extends.
const SEARCH_PATHS: [&str; 5] =
    ["AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH"];

/// Variables for one ROS 2: the sourced one with the project's additions, or an embedded one.
pub struct Environment {
    description: String,
    target_dir: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    prepended: Vec<(&'static str, PathBuf)>,
    hidden: Vec<PathBuf>,
}

impl Environment {
    /// Nothing but the caller's environment; `target_dir` is where cargo builds for it, so that two ROS 2 side
    /// by side do not rebuild everything in turns.
    pub fn new(description: String, target_dir: PathBuf) -> Environment {
        Environment { description, target_dir, variables: vec![], prepended: vec![], hidden: vec![] }
    }

    /// A description of this environment, in a few words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.variables.push((name, value.into()));
    }

    /// Puts a directory in front of a search path, behind those that were put there before.
    pub fn prepend(&mut self, name: &'static str, directory: impl Into<PathBuf>) {
        self.prepended.push((name, directory.into()));
    }

    /// Takes everything below these prefixes off the caller's search paths: another ROS 2 that is sourced.
    pub fn hide(&mut self, prefixes: impl IntoIterator<Item = PathBuf>) {
        self.hidden.extend(prefixes);
    }

    /// A command in this environment; the program is looked up on its PATH.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let path = self.search_path("PATH");
        // `Command` looks names up on the parent's PATH, so it is done here.
        let program = find_program(program.as_ref(), &path);
        let mut command = Command::new(program);
        for name in SEARCH_PATHS {
            command.env(name, self.search_path(name));
        }
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command.env("CARGO_TARGET_DIR", self.target_dir());
        command
    }

    /// Checks that packages are installed in a prefix on AMENT_PREFIX_PATH.
    pub fn require(&self, packages: &[&str]) -> Result<()> {
        let prefixes: Vec<PathBuf> = env::split_paths(&self.search_path("AMENT_PREFIX_PATH")).collect();
        let is_there = |package: &str| {
            prefixes.iter().any(|prefix| prefix.join("share").join(package).join("package.xml").is_file())
        };
        let missing: Vec<&str> = packages.iter().copied().filter(|package| !is_there(package)).collect();
        if !missing.is_empty() {
            let debian =
                missing.iter().map(|package| format!("ros-$ROS_DISTRO-{}", package.replace('_', "-")));
            bail!(
                "This needs the packages {}, which {} does not have; install them (on Ubuntu: `sudo apt install {}`), \
                 or use the embedded ROS 2 with --embedded",
                missing.join(", "),
                self.description,
                debian.collect::<Vec<_>>().join(" ")
            );
        }
        Ok(())
    }

    /// Where cargo builds: the caller's choice, or else a place for this environment alone.
    pub fn target_dir(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.target_dir.clone(), PathBuf::from)
    }

    /// Returns the environment as lines for a POSIX shell to evaluate.
    ///
    /// Where nothing is hidden, a search path is extended. Where another ROS 2 has to be hidden, it is replaced.
    pub fn exports(&self) -> String {
        let mut lines = String::new();
        for (name, value) in &self.variables {
            let _ = writeln!(lines, "export {name}={}", quoted(value));
        }
        for name in SEARCH_PATHS {
            if callers(name).iter().any(|directory| self.hides(directory)) {
                let ours = self.ours(name).map(Path::to_owned);
                let others = callers(name);
                let others = others.into_iter().filter(|other| !self.hides(other) && !is_cargos(other));
                let whole = env::join_paths(ours.chain(others)).unwrap_or_default();
                let _ = writeln!(lines, "export {name}={}", quoted(&whole));
                continue;
            }
            let ours: Vec<_> = self.ours(name).collect();
            if let (false, Ok(ours)) = (ours.is_empty(), env::join_paths(ours)) {
                let _ = writeln!(lines, "export {name}={}\"${{{name}:+:${name}}}\"", quoted(&ours));
            }
        }
        lines
    }

    fn ours<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Path> {
        self.prepended.iter().filter(move |(path, _)| *path == name).map(|(_, directory)| directory.as_path())
    }

    /// Ours first, then the caller's, without hidden and repeated entries.
    fn search_path(&self, name: &str) -> OsString {
        let mut directories: Vec<PathBuf> = self.ours(name).map(Path::to_owned).collect();
        for directory in callers(name) {
            if !self.hides(&directory) && !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        // Joining fails only for a directory with a colon in its name, which no search path can hold.
        env::join_paths(directories).unwrap_or_default()
    }

    fn hides(&self, directory: &Path) -> bool {
        self.hidden.iter().any(|prefix| directory.starts_with(prefix))
    }
}

/// The directories of one of the caller's search paths.
fn callers(name: &str) -> Vec<PathBuf> {
    let path = env::var_os(name).unwrap_or_default();
    env::split_paths(&path).filter(|directory| !directory.as_os_str().is_empty()).collect()
}

/// Whether `cargo run` has put a directory on LD_LIBRARY_PATH, for this program alone: its toolchain's, and where it
/// built.
fn is_cargos(directory: &Path) -> bool {
    let toolchain = env::var_os("CARGO").map(PathBuf::from);
    let toolchain = toolchain.as_deref().and_then(Path::parent).and_then(Path::parent);
    let built = env::current_exe().ok();
    let built = built.as_deref().and_then(Path::parent);
    [toolchain.map(|toolchain| toolchain.join("lib")), built.map(Path::to_owned)]
        .into_iter()
        .flatten()
        .any(|cargos| directory.starts_with(cargos))
}

fn find_program(program: &OsStr, path: &OsStr) -> PathBuf {
    let program = Path::new(program);
    if program.components().count() > 1 {
        return program.to_owned();
    }
    let found = env::split_paths(path).map(|directory| directory.join(program)).find(|file| file.is_file());
    found.unwrap_or_else(|| program.to_owned())
}

/// A value in single quotes for a POSIX shell.
fn quoted(value: &OsStr) -> String {
    format!("'{}'", value.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_comes_first_and_a_hidden_prefix_is_gone() {
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
        let of_exports = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        for path in [environment.search_path("PATH"), of_exports.into()] {
            let path: Vec<_> = env::split_paths(&path).collect();
            assert!(path[0] == Path::new("/ours/bin") && !path.contains(&hidden), "{path:?}");
        }

        let error = environment.require(&["no_such_msgs"]).unwrap_err().to_string();
        assert!(
            error.starts_with("This needs the packages no_such_msgs, which this ROS 2 does not have"),
            "{error}"
        );
        assert!(error.contains("sudo apt install ros-$ROS_DISTRO-no-such-msgs`"), "{error}");
    }
}
