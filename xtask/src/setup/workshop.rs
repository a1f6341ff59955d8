// SPDX-License-Identifier: Apache-2.0

//! A directory that is made step by step, by one process at a time.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{ensure, Context, Result};
use ros_interface_crates::Search;
use sha2::{Digest, Sha256};

use crate::files::{read_dir, remove, write_whole};

/// A directory whose content is made in steps. Only one process at a time works in it.
pub struct Workshop {
    directory: PathBuf,
    /// A hash of the inputs of all steps so far.
    fingerprint: String,
    /// For each step so far, the path of its stamp and the content that the stamp must have.
    stamps: Vec<(PathBuf, String)>,
    count: usize,
    /// The lock of the directory: it is held from the first step that must run until the workshop is dropped. Children
    /// inherit the lock. So if only this process is killed, the next process waits for the remaining children.
    lock: Option<File>,
}

impl Workshop {
    /// Opens `directory`, whose content is made in `count` steps.
    pub fn open(directory: &Path, count: usize) -> Result<Workshop> {
        fs::create_dir_all(directory.join("steps")).with_context(|| {
            format!("Cannot create {}; choose another place with --ros-dir", directory.display())
        })?;
        let (directory, fingerprint) = (directory.to_owned(), String::new());
        Ok(Workshop { directory, fingerprint, stamps: vec![], count, lock: None })
    }

    /// Locks the directory. Waits until no other process works in it.
    pub fn lock(&mut self) -> Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = self.directory.join("lock");
        let lock = File::create(&path).with_context(|| format!("Cannot create {}", path.display()))?;
        if lock.try_lock().is_err() {
            eprintln!("Another process is working in {}; waiting for it to end", self.directory.display());
            lock.lock().context("Cannot lock the setup")?;
        }
        rustix::io::fcntl_setfd(&lock, rustix::io::FdFlags::empty())?;
        self.lock = Some(lock);
        // The stamps of the earlier steps were checked before the lock was taken. So they are checked again.
        let is_unchanged = self.stamps.iter().all(|(stamp, made_from)| is_done(stamp, made_from));
        ensure!(is_unchanged, "Another process has changed {}; run it again", self.directory.display());
        Ok(())
    }

    /// Runs a step, unless its stamp shows that it was done with the same inputs and after the same earlier steps. When
    /// `make` runs, the directory may contain the leftovers of an interrupted run.
    pub fn step(
        &mut self,
        name: &str,
        inputs: &[&[u8]],
        what: &str,
        make: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        self.fingerprint = fingerprint(&self.fingerprint, inputs);
        let stamp = self.stamp(name);
        if !is_done(&stamp, &self.fingerprint) {
            self.lock()?;
        }
        self.stamps.push((stamp.clone(), self.fingerprint.clone()));
        // Another process may have done this step while this process waited for the lock.
        if is_done(&stamp, &self.fingerprint) {
            return Ok(());
        }
        // The later steps must run again, because they depend on this step.
        for later in read_dir(&self.directory.join("steps"))? {
            if later == stamp || !self.stamps.iter().any(|(earlier, _)| *earlier == later) {
                remove(&later)?;
            }
        }
        let (label, started) = (format!("[{}/{}] {what}", self.stamps.len(), self.count), Instant::now());
        eprintln!("{label}");
        let outcome = make()?;
        write_whole(&stamp, self.fingerprint.as_bytes())?;
        eprintln!("{label}: {outcome} ({:.1} s)", started.elapsed().as_secs_f32());
        Ok(())
    }

    /// Returns the path of a step's stamp, a file that exists when the step is complete.
    fn stamp(&self, name: &str) -> PathBuf {
        self.directory.join("steps").join(name)
    }

    /// Returns the path of the log with the output of a step's commands.
    pub fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// Removes the stamp of a step, so that the step runs again.
    pub fn forget(&mut self, name: &str) -> Result<()> {
        self.lock()?;
        remove(&self.stamp(name))
    }

    /// Runs the step that generates the missing Rust interface crates of the packages in `prefixes`, into `overlay`.
    pub fn write_interface_crates(
        &mut self,
        prefixes: &[PathBuf],
        overlay: &Path,
        inputs: &[u8],
    ) -> Result<()> {
        let generator = ros_interface_crates::generator();
        let inputs = [generator.as_bytes(), inputs];
        self.step("interfaces", &inputs, "Generating the Rust interface crates", || {
            for entry in read_dir(&overlay.join("share"))? {
                remove(&entry.join("rust"))?;
            }
            remove(&overlay.join("share/ament_index/resource_index/rust_packages"))?;
            let search = Search::new(prefixes.iter().cloned());
            let report = ros_interface_crates::generate(&search, overlay, &mut |_, _, _| ())?;
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

/// Returns whether a step's stamp shows that it was done with these inputs.
fn is_done(stamp: &Path, fingerprint: &str) -> bool {
    fs::read_to_string(stamp).is_ok_and(|done| done == fingerprint)
}

/// Returns a hash of the inputs of a step and of the steps before it.
pub fn fingerprint(before: &str, inputs: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    hash.update(before);
    for input in inputs {
        hash.update(input.len().to_le_bytes());
        hash.update(input);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
