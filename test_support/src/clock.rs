// SPDX-License-Identifier: Apache-2.0

//! A clock of the tests' own, for whole processes.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicI64, Ordering},
};

use tempfile::NamedTempFile;

use super::preload;

/// The clocks of the processes that were started with it: a host's.
///
/// The system clock can be stepped while they run. Processes without it, as the test's own, have the machine's clocks.
pub struct SteppedClock {
    library: PathBuf,
    shift: NamedTempFile,
    realtime: AtomicI64,
}

impl SteppedClock {
    /// Creates clocks that are not shifted yet; None, with a line that says so, where there is no C compiler.
    pub fn new() -> Option<SteppedClock> {
        let Some(library) = preload::library("clock_shift") else {
            eprintln!("skipped: stepping the clock of a process, because there is no C compiler (cc, or CC)");
            return None;
        };
        let shift = NamedTempFile::new().unwrap();
        shift.as_file().set_len(32).unwrap();
        Some(SteppedClock { library, shift, realtime: AtomicI64::new(0) })
    }

    /// Has a program run on these clocks.
    pub fn preload(&self, command: &mut Command) {
        preload::preload(command, &self.library);
        command.env("CLOCK_SHIFT", self.shift.path());
    }

    /// Steps the system clock by so many nanoseconds.
    pub fn step(&self, nanoseconds: i64) {
        let realtime = self.realtime.fetch_add(nanoseconds, Ordering::Relaxed) + nanoseconds;
        self.set(0, realtime);
    }

    /// Has the host slept for so many nanoseconds, which CLOCK_MONOTONIC does not count.
    pub fn suspend(&self, nanoseconds: i64) {
        self.set(1, nanoseconds);
        self.step(nanoseconds);
    }

    /// Has all clocks run fast from now on.
    pub fn slew(&self, parts_per_million: i64) {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        self.set(3, now.tv_sec() * 1_000_000_000 + now.tv_nsec());
        self.set(2, parts_per_million);
    }

    /// Returns by how many nanoseconds the system clock was stepped so far.
    pub fn stepped(&self) -> i64 {
        self.realtime.load(Ordering::Relaxed)
    }

    fn set(&self, index: u64, value: i64) {
        let file: &File = self.shift.as_file();
        file.write_all_at(&value.to_ne_bytes(), 8 * index).unwrap();
    }
}
