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

/// After this number of lines, the library writes one last line and then no more, so that it does not flood the host's
/// output. Lines about health, and all other lines, are counted separately.
const BOUND: u32 = 100;

pub fn line(text: impl Display) {
    static LINES: AtomicU32 = AtomicU32::new(0);
    write(&LINES, "the last line", text);
}

fn write(lines: &AtomicU32, last: &str, text: impl Display) {
    if let Some(line) = counted(lines, last, text) {
        // The host may have closed standard error: errors are ignored.
        let _closed = writeln!(std::io::stderr(), "{line}");
    }
}

/// Counts a line, and returns it. `None` after the last line.
fn counted(lines: &AtomicU32, last: &str, text: impl Display) -> Option<String> {
    let written = lines.fetch_add(1, Ordering::Relaxed).min(BOUND + 1);
    if written > BOUND {
        lines.store(BOUND + 1, Ordering::Relaxed);
        return None;
    }
    let last = if written == BOUND { format!(" ({last})") } else { String::new() };
    Some(format!("topic_statistics: {text}{last}"))
}

/// Writes the core's warnings, errors and changes of health as lines.
pub struct Lines {
    pub publish_health: fn(&[&Diagnosed]) -> Result<(), PublishError>,
}

impl Reports for Lines {
    fn log(&self, severity: Severity, text: &str) {
        if matches!(severity, Severity::Warn | Severity::Error) {
            line(text);
        }
    }

    fn log_health(&self, _: Severity, text: &str) {
        // Lines about health have a separate counter, so a topic whose health changes often suppresses no other lines.
        static LINES: AtomicU32 = AtomicU32::new(0);
        write(&LINES, "the last line about health; /diagnostics continues", text);
    }

    fn publish_health(&self, diagnosed: &[&Diagnosed]) -> Result<(), PublishError> {
        (self.publish_health)(diagnosed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_100_lines_one_last_line_is_written() {
        let lines = AtomicU32::new(0);
        let written: Vec<String> =
            (0..200).filter_map(|number| counted(&lines, "the last", number)).collect();
        assert_eq!(written.len(), 101);
        assert_eq!(written[99..], ["topic_statistics: 99", "topic_statistics: 100 (the last)"]);
        // The counter does not wrap, so no line is written after 2^32 lines either.
        assert!(lines.load(Ordering::Relaxed) <= BOUND + 2);
    }
}
