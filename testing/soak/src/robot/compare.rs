// SPDX-License-Identifier: Apache-2.0

//! Compares everything that was reported with the logs of the processes, and prints the result.

use std::{collections::BTreeMap, path::Path};

use anyhow::{ensure, Result};

use super::{alarms, exporter, log, reports, reports::Wire, scenario::TOPICS, windows};

/// The result of the comparisons of one kind.
#[derive(Default)]
pub struct Row {
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
        let of = |(report, what): &(&str, &str), row: &Row| {
            row.differences.iter().map(|of| format!("{report}, {what}: {of}")).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(|(key, row)| of(key, row)).collect()
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
}

pub fn run(directory: &Path, sizes: &[u64]) -> Result<()> {
    let processes = log::read(directory)?;
    let wire = Wire::read(directory)?;
    let mut tally = Tally::default();
    let size = |topic: &str| TOPICS.iter().position(|of| of.name == topic).map_or(0, |index| sizes[index]);
    let (mut sent, mut received, mut lost) = (0, 0, 0);
    let percentiles = windows::Percentiles::of(&wire);
    for source in processes.iter().flat_map(|process| process.sources.values()) {
        tally.report("windows in the process");
        match source.is_publisher {
            true => windows::publisher(source, size(&source.topic), &mut tally),
            false => windows::subscription(source, size(&source.topic), &percentiles, &mut tally),
        }
        sent += source.sent.len();
        received += source.received.len();
        lost += source.windows.last().map_or(0, |window| window.totals[1].max(0));
    }
    reports::statistics(&wire, &processes, &mut tally);
    reports::distributions(&wire, &processes, &mut tally);
    reports::losses(&wire, &processes, &mut tally);
    reports::rows(directory, &wire, &processes, &mut tally)?;
    reports::monitor(directory, &processes, &size, &mut tally)?;
    exporter::compare(directory, &wire, &processes, &mut tally)?;
    alarms::of_nodes(&processes, &mut tally);
    alarms::diagnostics(&wire, &processes, &mut tally);
    alarms::of_monitor(directory, &wire, &mut tally)?;
    println!("{sent} messages sent, {received} received in callbacks, {lost} of them lost");
    println!("\n| report | figure | compared | not known | differences |\n|---|---|---|---|---|");
    for ((report, what), row) in &tally.rows {
        println!("| {report} | {what} | {} | {} | {} |", row.compared, row.unknown, row.differences.len());
    }
    let differences = tally.differences();
    let shown: Vec<&str> = differences.iter().map(String::as_str).take(40).collect();
    std::fs::write(directory.join("differences.txt"), differences.join("\n"))?;
    ensure!(differences.is_empty(), "{} differences; the first:\n{}", differences.len(), shown.join("\n"));
    println!("\npassed");
    Ok(())
}
