// SPDX-License-Identifier: Apache-2.0

//! The cost of a message and of a window in the library. The times come from the benchmarks in `cost.rs`, the counts
//! from this package's tests.

use std::{collections::BTreeMap, env, fs, path::Path};

use anyhow::{Context, Result};

use crate::{process::cargo, table::Table};

/// The rows of the table: a description, and the name of the benchmark.
const ROWS: [(&str, &str); 30] = [
    ("the clock", "floor/clock"),
    ("an empty call under std's `Mutex`", "floor/std_mutex"),
    ("an empty call under our lock", "floor/spin_mutex"),
    ("the clock under our lock", "floor/clock_in_spin_mutex"),
    ("one sample", "collector/summary"),
    ("one sample, with its distribution", "collector/summary_with_distribution"),
    ("a quantile of a distribution", "collector/quantile"),
    ("merging two distributions", "collector/merge"),
    ("age and period collectors", "collector/age_and_period"),
    ("sequence tracker, 1 publisher", "collector/sequence_of_1_publishers"),
    ("sequence tracker, 64 publishers in turn", "collector/sequence_of_64_publishers"),
    ("**message, without the clock**", "default/record"),
    ("**message**", "default/record_with_clock"),
    ("message, all metrics, without the clock", "all_metrics/record"),
    ("message, all metrics (two clock readings)", "all_metrics/record_with_clock"),
    ("message of fixed size", "size/fixed_without"),
    ("message of fixed size, with its size", "size/fixed_with"),
    ("message with a string", "size/string_without"),
    ("message with a string, with its size", "size/string_with"),
    ("message and end of a window", "default/end_window"),
    ("building the messages of a window", "default/build_messages"),
    ("two readings of the monotonic clock", "code/two_monotonic_clocks"),
    ("a stopwatch's guard", "code/stopwatch"),
    ("a counter", "code/counter"),
    ("a callback of a measured executor, disabled", "executor/disabled"),
    ("**a callback of a measured executor**", "executor/callback"),
    ("a timer's callback", "executor/timer"),
    ("judging a window of 1000 sources", "health/judge_1000"),
    ("the same, where all conditions look back over 100 windows", "health/judge_1000_undecided"),
    ("building the statuses of 1000 sources", "health/statuses_1000"),
];

/// The names of the counts that the tests print.
const COUNTS: [&str; 4] = [
    "instructions_per_message",
    "allocations_per_message",
    "bytes_per_subscription",
    "bytes_per_distribution",
];

pub struct Messages {
    /// Medians in nanoseconds, by benchmark name.
    times: BTreeMap<&'static str, f64>,
    /// The counts by name, from the lines `name=value` that the tests print.
    counts: BTreeMap<String, String>,
}

/// Runs the benchmarks, and passes `options` to criterion. Then runs the tests.
pub fn measure(options: &[&str]) -> Result<Messages> {
    let bench = ["bench", "--package", "benchmarks", "--bench", "cost", "--", "--quiet"];
    cargo(&[&bench, options].concat())?;
    eprintln!("Counting allocations, bytes and instructions ...");
    let test = ["test", "--release", "--package", "benchmarks", "--test", "it"];
    let counted = cargo(&[&test[..], &["--", "--nocapture", "--test-threads=1"]].concat())?;
    let counts = counted.split_whitespace().filter_map(|word| word.split_once('='));
    let times = ROWS.iter().map(|(_, name)| Ok((*name, median(name)?))).collect::<Result<_>>()?;
    Ok(Messages { times, counts: counts.map(|(name, count)| (name.to_owned(), count.to_owned())).collect() })
}

/// Returns the median, in nanoseconds, that criterion estimated in the last run of this benchmark.
fn median(name: &str) -> Result<f64> {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let file = Path::new(&target).join("criterion").join(name).join("new/estimates.json");
    let text = fs::read_to_string(&file).with_context(|| format!("Cannot read {}", file.display()))?;
    let estimates: serde_json::Value = serde_json::from_str(&text)?;
    estimates["median"]["point_estimate"].as_f64().context("criterion's estimates have an unknown format")
}

impl Messages {
    fn time(&self, name: &str) -> f64 {
        self.times.get(name).copied().unwrap_or(f64::NAN)
    }

    pub fn table(&self) -> Table {
        let [clock, lock] = ["floor/clock", "floor/std_mutex"].map(|name| self.time(name));
        let mut table = Table::new(" | ns | clocks | `Mutex`es");
        for (what, name) in ROWS {
            let time = self.time(name);
            let decimals = if time < 1e4 { 2 } else { 0 };
            let [clocks, locks] = [time / clock, time / lock];
            table.row(format!("{what} | {time:.1} | {clocks:.decimals$} | {locks:.decimals$}"));
        }
        table
    }

    /// Returns the figures for the text of docs/performance.md. The figures of the table are not included.
    pub fn figures(&self) -> Vec<(String, String)> {
        let [clock, record, with_clock] =
            ["floor/clock", "default/record", "default/record_with_clock"].map(|name| self.time(name));
        let [all, all_with_clock] =
            ["all_metrics/record", "all_metrics/record_with_clock"].map(|name| self.time(name));
        let beyond = |with: &str, without: &str| self.time(with) - self.time(without);
        let times = [
            ("clock_ns", clock),
            ("record_ns", record),
            ("record_with_clock_ns", with_clock),
            ("size_ns", beyond("size/fixed_with", "size/fixed_without")),
            ("distribution_ns", beyond("collector/summary_with_distribution", "collector/summary")),
        ];
        let clocks = [
            ("record_clocks", record / clock),
            ("record_with_clock_clocks", with_clock / clock),
            ("all_metrics_clocks", all / clock),
            ("all_metrics_with_clock_clocks", all_with_clock / clock),
        ];
        let times = times.map(|(name, time)| (name.to_owned(), format!("{time:.1}")));
        let clocks = clocks.map(|(name, clocks)| (name.to_owned(), format!("{clocks:.2}")));
        // A count that no test has printed becomes `NA`.
        let counts = COUNTS
            .map(|name| (name.to_owned(), self.counts.get(name).cloned().unwrap_or_else(|| "NA".to_owned())));
        times.into_iter().chain(clocks).chain(counts).collect()
    }
}
