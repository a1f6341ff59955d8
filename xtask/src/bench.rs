// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask bench`: starts the benchmarks.

use std::{ffi::OsString, path::Path, process::ExitCode};

use anyhow::Result;
use clap::Args;

use crate::{cargo, environment::Environment};

#[derive(Args)]
pub struct Options {
    /// Measure everything once, for a quarter of an hour, and write docs/performance.md
    #[arg(long, group = "measurement")]
    write: bool,
    /// Measure talker and listener processes instead, with statistics and without
    #[arg(long, group = "measurement")]
    end_to_end: bool,
    /// Measure how long a record takes while a thread of a priority in between keeps the windows' end from running
    #[arg(long, group = "measurement")]
    contention: bool,
    /// Measure the heap of a node's statistics instead
    #[arg(long, group = "measurement")]
    memory: bool,
    /// Measure topic_monitor beside a minimal rclpy subscriber instead: 20 topics at 100 Hz, one at 5000 Hz, images
    #[arg(long, group = "measurement")]
    monitor: bool,
    /// Measure the exporter beside a minimal rclpy exporter instead: 1000 sources of 10 metrics, scraped every 5 s
    #[arg(long, group = "measurement")]
    exporter: bool,
    /// Measure a node with 1 to 1000 subscriptions instead
    #[arg(long, group = "measurement")]
    scale: bool,
    /// Receive for ten minutes instead, and look at the memory
    #[arg(long, group = "measurement")]
    soak: bool,
    /// How many pairs of runs of --end-to-end [default: 8]
    #[arg(long, requires = "end_to_end")]
    pairs: Option<usize>,
    /// How long each run is [default: 5 end to end, 10 at scale, 20 of the monitor, 30 of the exporter, 30 under
    /// contention, 600 soaking]
    #[arg(long, conflicts_with_all = ["memory", "write"], requires = "measurement")]
    seconds: Option<u32>,
    #[arg(last = true, conflicts_with = "measurement")]
    arguments: Vec<OsString>,
}

/// Runs the program of the package `benchmarks`, or `cargo bench` with the caller's arguments.
pub fn run(environment: &Environment, project: &Path, options: Options) -> Result<ExitCode> {
    if !options.arguments.is_empty() {
        return cargo(environment, project, "bench", &options.arguments);
    }
    let verbs = [
        ("write", options.write),
        ("end-to-end", options.end_to_end),
        ("contention", options.contention),
        ("memory", options.memory),
        ("monitor", options.monitor),
        ("exporter", options.exporter),
        ("scale", options.scale),
        ("soak", options.soak),
    ];
    let verb = verbs.into_iter().find_map(|(verb, is_asked)| is_asked.then_some(verb)).unwrap_or("messages");
    let mut arguments: Vec<OsString> =
        ["--release", "--quiet", "--package", "benchmarks", "--bin", "measure", "--", verb]
            .map(Into::into)
            .into();
    arguments.extend(options.pairs.map(|pairs| format!("--pairs={pairs}").into()));
    arguments.extend(options.seconds.map(|seconds| format!("--seconds={seconds}").into()));
    cargo(environment, project, "run", &arguments)
}
