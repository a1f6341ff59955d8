// SPDX-License-Identifier: Apache-2.0

//! Writes docs/performance.md: the text of `benches/performance.md`, with a figure of one run in place of each
//! `{name}`.

use std::{collections::BTreeMap, fs, time::Instant};

use anyhow::{ensure, Context, Result};

use crate::{machine::Start, messages, Measurement, MEASUREMENTS};

const TEMPLATE: &str = include_str!("../../../performance.md");
const PAGE: &str = "docs/performance.md";

/// The measurements on the page: the command line option of each measurement, and its seconds per run.
const TABLES: [(&str, f64); 6] = [
    ("memory", 0.0),
    ("end-to-end", 2.5),
    ("scale", 6.0),
    ("soak", 50.0),
    ("contention", 20.0),
    ("probe", 10.0),
];

/// Runs all measurements of the page once, in about twenty minutes. Writes the page.
pub fn write() -> Result<()> {
    let (started, start) = (Instant::now(), Start::now()?);
    eprintln!("messages and windows, with the build ...");
    let messages = messages::measure(&["--warm-up-time", "1", "--measurement-time", "2"])?;
    let mut figures: BTreeMap<String, String> = messages.figures().into_iter().collect();
    figures.insert("messages".to_owned(), messages.table().to_string());
    for (option, seconds) in TABLES {
        eprintln!("[{:.0} s] {option} ...", started.elapsed().as_secs_f64());
        let is_it = |(name, ..): &&Measurement| *name == option;
        let (.., measure) = MEASUREMENTS.iter().find(is_it).context("There is no such measurement")?;
        figures.insert(option.replace('-', "_"), measure(seconds)?.to_string());
    }
    figures.extend(start.end()?);
    let mut page = TEMPLATE.to_owned();
    for (name, figure) in figures {
        let place = format!("{{{name}}}");
        ensure!(page.contains(&place), "benches/performance.md has no place for {place}");
        page = page.replace(&place, figure.trim_end());
    }
    fs::write(PAGE, page).with_context(|| format!("Cannot write {PAGE}"))?;
    eprintln!("{PAGE} is written after {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}
