// SPDX-License-Identifier: Apache-2.0

//! A progress bar on standard error, which is shown only on a terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use topic_statistics_bag::Progress;

use super::error::print_error;

pub struct Bar(ProgressBar);

impl Bar {
    /// Shows a progress bar if standard error is a terminal, unless the program also prints lines to a terminal.
    pub fn new(has_lines: bool) -> Self {
        let is_shown = io::stderr().is_terminal() && !(has_lines && io::stdout().is_terminal());
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let template = "{bar:30} {bytes}/{total_bytes}  {binary_bytes_per_sec}  {eta} left";
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        Self(bar)
    }

    pub fn set(&self, progress: Progress) {
        self.0.set_length(progress.total);
        self.0.set_position(progress.done);
    }

    /// Prints a line above the bar.
    pub fn print(&self, text: &str) {
        self.0.suspend(|| print_error(text));
    }

    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
