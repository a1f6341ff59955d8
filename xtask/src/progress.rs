//! The progress of a long step: a bar on a terminal, plain lines when piped.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// One step of several, on standard error.
pub struct Step {
    label: String,
    started: Instant,
    bar: ProgressBar,
}

impl Step {
    /// Announces step `number` of `count`, of `length` equal parts (0 if they cannot be counted).
    pub fn start(number: usize, count: usize, what: &str, length: usize) -> Step {
        let label = format!("[{number}/{count}] {what}");
        let bar = if !std::io::stderr().is_terminal() {
            eprintln!("{label}");
            ProgressBar::hidden()
        } else if length == 0 {
            ProgressBar::new_spinner().with_style(style("{spinner} {prefix} {elapsed} {wide_msg:.dim}"))
        } else {
            ProgressBar::new(length as u64)
                .with_style(style("{prefix} [{bar:24}] {pos}/{len} {elapsed} {wide_msg:.dim}"))
        };
        bar.set_prefix(label.clone());
        bar.enable_steady_tick(Duration::from_millis(200));
        Step { label, started: Instant::now(), bar }
    }

    /// `done` parts are done; `message` names the present work.
    pub fn advance(&self, done: usize, message: &str) {
        self.bar.set_position(done as u64);
        self.bar.set_message(message.to_owned());
    }

    /// The step is done; `outcome` is its result.
    pub fn finish(self, outcome: &str) {
        self.bar.finish_and_clear();
        eprintln!("{}: {outcome} ({:.1} s)", self.label, self.started.elapsed().as_secs_f32());
    }
}

/// The bars' templates are constants above; a wrong one falls back to indicatif's own.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
