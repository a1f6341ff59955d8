// SPDX-License-Identifier: Apache-2.0

//! What a message and a call cost with the preloaded library, of a middleware that does nothing.

use anyhow::{ensure, Context, Result};
use test_support::{preload, Program};

use crate::{
    process::build,
    table::{median, Table},
};

const COUNT: &str = "3000000";
const RUNS: usize = 3;
const DEFAULT: &str = "message_age,message_period";

/// The columns of costs.py; the last one are the allocations.
const COLUMNS: usize = 5;

pub fn measure(_seconds: f64) -> Result<Table> {
    let library = build("topic_statistics_preload", "libtopic_statistics_preload.so")?;
    let compiled = |name| preload::library(name).context("There is no C compiler");
    let (rmw, counting) = (compiled("null_rmw")?, compiled("count_malloc")?);
    let rmw = rmw.to_str().context("a path that is not UTF-8")?;
    let run = |metrics: Option<&str>| -> Result<[f64; COLUMNS]> {
        let mut command = Program::command("costs.py", &[rmw, COUNT], test_support::domain());
        let mut libraries = counting.display().to_string();
        if let Some(metrics) = metrics {
            command.env("TOPIC_STATISTICS_METRICS", metrics);
            libraries += &format!(":{}", library.display());
        }
        let output = command.env("LD_PRELOAD", libraries).output()?;
        let printed = String::from_utf8(output.stdout)?;
        let values: Result<Vec<f64>, _> = printed.split_whitespace().map(str::parse).collect();
        let [costs @ .., allocations] = &values?[..] else { anyhow::bail!("costs.py prints {printed:?}") };
        ensure!(*allocations == 0.0, "{metrics:?}: {allocations} allocations");
        costs.try_into().with_context(|| format!("costs.py prints {printed:?}"))
    };
    let with_hops = format!("{DEFAULT},input_to_output_ms");
    let variants = [
        ("none", None),
        ("the default ones", Some(DEFAULT)),
        ("and `input_to_output_ms`", Some(&*with_hops)),
        ("all", Some("all")),
    ];
    // In turns, so that all have the same machine.
    let mut runs = vec![[[0.0; RUNS]; COLUMNS]; variants.len()];
    for number in 0..RUNS {
        for ((_, metrics), runs) in variants.iter().zip(&mut runs) {
            let times = run(*metrics)?;
            runs.iter_mut().zip(times).for_each(|(runs, time)| runs[number] = time);
        }
    }
    let mut table = Table::new(
        "metrics | a take, ns | a publication, ns | a call, ns | a request, ns | a subscription, bytes",
    );
    let medians: Vec<[f64; COLUMNS]> = runs.into_iter().map(|runs| runs.map(median)).collect();
    for ((name, metrics), times) in variants.iter().zip(&medians) {
        let cells = times.iter().zip(medians[0]).map(|(time, plain)| match metrics {
            None => format!("{time:.0}"),
            Some(_) => format!("{time:.0} (+{:.0})", time - plain),
        });
        table.row(format!("{name} | {}", cells.collect::<Vec<_>>().join(" | ")));
    }
    Ok(table)
}
