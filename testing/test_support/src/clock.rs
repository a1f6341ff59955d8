// SPDX-License-Identifier: Apache-2.0

//! Clocks of whole processes that a test can step and suspend.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicI64, Ordering},
};

use tempfile::NamedTempFile;

use super::preload;

/// The clocks of a simulated host. All processes that are started with this value share these clocks.
///
/// The system clock can be stepped while the processes run. All other processes, including the test itself, use the
/// clocks of the machine.
pub struct SteppedClock {
    library: PathBuf,
    shift: NamedTempFile,
    realtime: AtomicI64,
}

impl SteppedClock {
    /// Creates clocks without a shift. Returns `None` and logs the reason if there is no C compiler.
    pub fn new() -> Option<SteppedClock> {
        let library = preload::library("clock_shift")?;
        let shift = NamedTempFile::new().unwrap();
        shift.as_file().set_len(16).unwrap();
        Some(SteppedClock { library, shift, realtime: AtomicI64::new(0) })
    }

    pub fn preload(&self, command: &mut Command) {
        preload::preload(command, &self.library);
        command.env("CLOCK_SHIFT", self.shift.path());
    }

    /// Steps the system clock by this number of nanoseconds.
    pub fn step(&self, nanoseconds: i64) {
        let realtime = self.realtime.fetch_add(nanoseconds, Ordering::Relaxed) + nanoseconds;
        self.set(0, realtime);
    }

    /// Simulates that the host was suspended for this number of nanoseconds. CLOCK_MONOTONIC does not count this time.
    pub fn suspend(&self, nanoseconds: i64) {
        self.set(1, nanoseconds);
        self.step(nanoseconds);
    }

    fn set(&self, index: u64, value: i64) {
        let file: &File = self.shift.as_file();
        file.write_all_at(&value.to_ne_bytes(), 8 * index).unwrap();
    }
}
