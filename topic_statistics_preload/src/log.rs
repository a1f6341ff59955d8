// SPDX-License-Identifier: Apache-2.0

//! Writes lines to standard error. The library does not use the host's logger, and does not change the logger's levels.

use std::{
    fmt::Display,
    io::Write,
    sync::atomic::{AtomicU32, Ordering},
};

use topic_statistics_core::schedule::{
    judges::Diagnosed,
    outbox::PublishError,
    scheduler::{Reports, Severity},
};

/// The largest number of lines, so that the library does not flood the host's output.
const BOUND: u32 = 100;

/// Writes a line.
pub fn line(text: impl Display) {
    static LINES: AtomicU32 = AtomicU32::new(0);
    let written = LINES.fetch_add(1, Ordering::Relaxed).min(BOUND + 1);
    if written > BOUND {
        LINES.store(BOUND + 1, Ordering::Relaxed);
        return;
    }
    let last = if written == BOUND { " (the last line)" } else { "" };
    // The host may have closed standard error.
    let _closed = writeln!(std::io::stderr(), "topic_statistics: {text}{last}");
}

/// Writes the core's warnings and errors as lines.
pub struct Lines;

impl Reports for Lines {
    fn log(&self, severity: Severity, text: &str) {
        if matches!(severity, Severity::Warn | Severity::Error) {
            line(text);
        }
    }

    fn publish_health(&self, _: &[&Diagnosed]) -> Result<(), PublishError> {
        Ok(()) // this library has no health conditions
    }
}
