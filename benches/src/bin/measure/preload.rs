// SPDX-License-Identifier: Apache-2.0

//! The cost of the preloaded library, measured with a middleware and an rclcpp whose functions do nothing.

use anyhow::{Context, Result};
use test_support::preload;

use crate::{
    process::{build, output},
    table::{median, Table},
};

/// The values of `TOPIC_STATISTICS_METRICS` whose cost is measured; `None` runs without the preloaded library.
const METRICS: [Option<&str>; 5] = [
    None,
    Some("message_age,message_period"),
    Some("message_age,message_period,input_to_output_ms"),
    Some("message_age,message_period,busy"),
    Some("all"),
];

/// How often each value is measured. All values are measured once before any value is measured again.
const ROUNDS: usize = 5;

pub fn measure(_seconds: f64) -> Result<Table> {
    let library = build("topic_statistics_preload", "libtopic_statistics_preload.so")?;
    let rclcpp = preload::library("null_rclcpp").context("this measurement needs a C compiler")?;
    let path = rclcpp.to_str().context("the path of this program is not UTF-8")?;
    let mut rounds: [Vec<Vec<f64>>; METRICS.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (metrics, rounds) in METRICS.iter().zip(&mut rounds) {
            let mut command = test_support::Program::command("costs.py", &[path, "1000000"], 0);
            if let Some(metrics) = metrics {
                preload::preload(&mut command, &library);
                command.env("TOPIC_STATISTICS_METRICS", metrics);
            }
            rounds.push(output(&mut command)?.split_whitespace().map(str::parse).collect::<Result<_, _>>()?);
        }
    }
    let mut table = Table::new(
        "metrics | a take | a publication | a call | a request | a take and its callback | a callback | \
         a message within the process | a timer | bytes of a subscription",
    );
    for (metrics, rounds) in METRICS.iter().zip(&rounds) {
        let figure = |column: usize| median(rounds.iter().filter_map(|round| round.get(column).copied()));
        let figures: Vec<String> = (0..9).map(|column| format!("{:.0}", figure(column))).collect();
        table.row(format!("{} | {}", metrics.unwrap_or("without the library"), figures.join(" | ")));
    }
    Ok(table)
}
