// SPDX-License-Identifier: Apache-2.0

//! The warnings in the node's log. The library logs each warning once, when its reason arises.

use std::collections::BTreeMap;

use crate::equal::{ensure, equal};

/// How often the library logged each kind of warning, and how often the oracle expected it.
#[derive(Debug, Default)]
pub struct Warnings {
    given: BTreeMap<&'static str, u64>,
    expected: BTreeMap<&'static str, u64>,
    offset: Option<i64>,
    /// The time of the last warning about failed publications, and the total number of failures.
    failures_at: Option<i64>,
    pub failures: u64,
}

impl Warnings {
    /// For each kind of warning, a part of its text.
    const KINDS: [(&'static str, &'static str); 7] = [
        ("step", "The system clock was stepped by"),
        ("reception", "does not report when a message was received"),
        ("numbers", "does not number messages"),
        ("publishers", "it has more than 256 publishers"),
        ("simulated stamps", "only one of the stamps and the system clock is before the year 2000"),
        ("system stamps", "the header stamps are on the system clock"),
        ("samples", "were counted without being measured"),
    ];

    pub fn expect(&mut self, kind: &'static str) {
        *self.expected.entry(kind).or_default() += 1;
    }

    /// Expects the warning about a step of the system clock, after which its offset is `offset`, unless this warning
    /// was already expected for another source.
    pub fn expect_step(&mut self, offset: i64) {
        // Each source reads the offset itself, so readings differ slightly.
        if self.offset.replace(offset).is_none_or(|before| offset.abs_diff(before) > 50_000) {
            self.expect("step");
        }
    }

    pub fn receive(&mut self, warning: &str, now: i64) -> Result<(), String> {
        if let Some((count, _)) = warning.split_once(" messages of topic statistics could not be published") {
            let is_early = self.failures_at.replace(now).is_some_and(|at| now - at < 1_000_000_000);
            self.failures += count.parse::<u64>().map_err(|error| format!("{warning}: {error}"))?;
            return ensure(!is_early, || format!("warned again in a second: {warning}"));
        }
        if warning.contains("simulated time jumps again and again") {
            return Ok(()); // the oracle does not know exactly when each jump is found
        }
        let kind = Self::KINDS.iter().find(|(_, text)| warning.contains(text));
        let (kind, _) = kind.ok_or_else(|| format!("a warning of no kind: {warning}"))?;
        *self.given.entry(kind).or_default() += 1;
        Ok(())
    }

    pub fn check(&self) -> Result<(), String> {
        equal("warnings", &self.given, &self.expected)
    }
}
