// SPDX-License-Identifier: Apache-2.0

//! Compares everything that was reported with the logs of the processes, and prints the result.

use std::path::Path;

use anyhow::{ensure, Result};

use super::{alarms, exporter, log, reports, reports::Wire, scenario::TOPICS, tally::Tally, windows};

pub fn run(directory: &Path, sizes: &[u64]) -> Result<()> {
    let processes = log::read(directory)?;
    let wire = Wire::read(directory)?;
    let mut tally = Tally::default();
    let size =
        |topic: &str| TOPICS.iter().position(|known| known.name == topic).map_or(0, |index| sizes[index]);
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
    tally.print();
    let differences = tally.differences();
    let shown: Vec<&str> = differences.iter().map(String::as_str).take(40).collect();
    std::fs::write(directory.join("differences.txt"), differences.join("\n"))?;
    ensure!(differences.is_empty(), "{} differences; the first:\n{}", differences.len(), shown.join("\n"));
    println!("\npassed");
    Ok(())
}
