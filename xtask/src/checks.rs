// SPDX-License-Identifier: Apache-2.0

//! The outcomes of checks, and a table of the outcomes.

use std::{
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// The check is not possible on this machine, for this reason.
    Skipped(String),
}

impl Outcome {
    /// Returns whether the outcome is a failure. With `no_skip`, a skipped check is a failure.
    pub fn is_failure(&self, no_skip: bool) -> bool {
        *self == Outcome::Failed || (no_skip && *self != Outcome::Passed)
    }
}

/// Returns the table: a line for each result.
pub fn table(results: &[(String, Outcome, Duration)]) -> String {
    let width = results.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
    let row = |(name, outcome, time): &(String, Outcome, Duration)| {
        let (result, reason) = match outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::Failed => ("FAILED", ""),
            Outcome::Skipped(reason) => ("skipped", reason.as_str()),
        };
        let line = format!("{name:<width$} {result:<8} {:>8.1} s  {reason}", time.as_secs_f32());
        line.trim_end().to_owned() + "\n"
    };
    results.iter().map(row).collect()
}

/// Runs a command, and returns whether it passes. The command prints its findings itself.
pub fn passes(command: &mut Command) -> Result<Outcome> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{program} cannot be started"))?;
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed })
}

/// Reports a step that is skipped because a tool cannot be installed. Returns the exit code.
pub fn skipped(what: &str, error: &anyhow::Error, no_skip: bool) -> ExitCode {
    eprintln!("skipped: {what}: {}", reason(error));
    ExitCode::from(u8::from(no_skip))
}

/// Returns the reason why a tool cannot be installed, in one line.
pub fn reason(error: &anyhow::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_shows_its_reason_and_fails_with_no_skip() {
        let skipped = Outcome::Skipped("PyPI cannot be reached".to_owned());
        assert!(skipped.is_failure(true) && !skipped.is_failure(false));
        let table = table(&[("ruff".to_owned(), skipped, Duration::from_millis(1500))]);
        assert_eq!(table, "ruff skipped       1.5 s  PyPI cannot be reached\n");
    }
}
