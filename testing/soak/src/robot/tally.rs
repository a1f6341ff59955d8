// SPDX-License-Identifier: Apache-2.0

//! Counts of comparisons, and the differences.

use std::collections::BTreeMap;

/// The result of the comparisons of one kind.
#[derive(Default)]
struct Row {
    compared: u64,
    unknown: u64,
    differences: Vec<String>,
}

/// Counts comparisons by reported figure.
#[derive(Default)]
pub struct Tally {
    report: &'static str,
    rows: BTreeMap<(&'static str, &'static str), Row>,
}

impl Tally {
    /// Sets the report that is compared from now on.
    pub fn report(&mut self, report: &'static str) -> &mut Self {
        self.report = report;
        self
    }

    pub fn check(&mut self, what: &'static str, is_right: bool, fault: impl FnOnce() -> String) {
        self.check_known(what, true, is_right, fault);
    }

    /// Returns all differences.
    pub fn differences(&self) -> Vec<String> {
        let line = |(report, what): &(&str, &str), row: &Row| {
            row.differences
                .iter()
                .map(|difference| format!("{report}, {what}: {difference}"))
                .collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(|(key, row)| line(key, row)).collect()
    }

    /// As `check`, unless the figure is unknown.
    pub fn check_known(
        &mut self,
        what: &'static str,
        is_known: bool,
        is_right: bool,
        fault: impl FnOnce() -> String,
    ) {
        let row = self.rows.entry((self.report, what)).or_default();
        if !is_known {
            row.unknown += 1;
            return;
        }
        row.compared += 1;
        if !is_right {
            row.differences.push(fault());
        }
    }

    /// Prints a table of the comparisons.
    pub fn print(&self) {
        println!("\n| report | figure | compared | not known | differences |\n|---|---|---|---|---|");
        for ((report, what), row) in &self.rows {
            println!(
                "| {report} | {what} | {} | {} | {} |",
                row.compared,
                row.unknown,
                row.differences.len()
            );
        }
    }
}
