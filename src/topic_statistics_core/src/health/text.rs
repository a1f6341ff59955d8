// SPDX-License-Identifier: Apache-2.0

//! Writes the health of a source as one sentence.

use std::{fmt, time::Duration};

use super::{Cause, Health, Missing};
use crate::{
    condition::{Condition, Figures},
    escape::Escaped,
};

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::NoMessageYet => f.write_str("no message yet")?,
            Cause::AsExpected => f.write_str("as expected")?,
            Cause::Condition { condition, value, missing } => violation(f, condition, *value, *missing)?,
            Cause::Silence => f.write_str("no message any more")?,
            Cause::MessagesAgain => f.write_str("messages again, not yet for long enough")?,
        }
        match self.window {
            Some(_) => write!(f, ", since {}", Seconds(self.lasting)),
            None => Ok(()),
        }
    }
}

/// Writes `rate 41.2 Hz, expected 90 to 110`.
fn violation(
    f: &mut fmt::Formatter<'_>,
    condition: &Condition,
    value: f64,
    missing: Option<Missing>,
) -> fmt::Result {
    write!(f, "{} ", Escaped(condition.name()))?;
    let unit = condition.quantity().unit();
    match missing {
        Some(missing) => write!(f, "not measured, because {missing}")?,
        None if unit.is_empty() => write!(f, "{}", Figures(value))?,
        None => write!(f, "{} {unit}", Figures(value))?,
    }
    write!(f, ", expected {}", condition.expectation())
}

/// A duration, written for human readers.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match self.0.as_secs() {
            0..10 => write!(f, "{} s", Figures((seconds * 10.0).round() / 10.0)),
            10..600 => write!(f, "{seconds:.0} s"),
            600..36_000 => write!(f, "{:.0} min", seconds / 60.0),
            _ => write!(f, "{:.0} h", seconds / 3600.0),
        }
    }
}
