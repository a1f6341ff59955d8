// SPDX-License-Identifier: Apache-2.0

//! The progress of a long step: a line on standard error, rewritten on a terminal.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

/// One step of several.
pub struct Step {
    label: String,
    started: Instant,
    /// When it was shown last; none if that is no terminal.
    shown: Option<Instant>,
}

impl Step {
    /// Announces step `number` of `count`.
    pub fn start(number: usize, count: usize, what: &str) -> Step {
        let (label, started) = (format!("[{number}/{count}] {what}"), Instant::now());
        let is_terminal = std::io::stderr().is_terminal();
        eprint!("{label}{}", if is_terminal { "" } else { "\n" });
        Step { label, started, shown: is_terminal.then_some(started) }
    }

    /// Shows what it does.
    pub fn advance(&mut self, message: &str) {
        if self.shown.is_some_and(|shown| shown.elapsed() > Duration::from_millis(100)) {
            let message: String = message.trim().chars().filter(|c| !c.is_control()).take(50).collect();
            eprint!("\r\x1b[K{} ({} s) {message}", self.label, self.started.elapsed().as_secs());
            self.shown = Some(Instant::now());
        }
    }

    /// The step is done; `outcome` is its result.
    pub fn finish(self, outcome: &str) {
        let erase = if self.shown.is_some() { "\r\x1b[K" } else { "" };
        eprintln!("{erase}{}: {outcome} ({:.1} s)", self.label, self.started.elapsed().as_secs_f32());
    }
}
