// SPDX-License-Identifier: Apache-2.0

//! Compares listener processes with and without statistics, in pairs of runs. A talker process sends the messages.

use anyhow::Result;

use crate::{
    listener::{Listened, Options, Runtime, Scope, Statistics},
    process::report,
    table::{quantile, Table},
    talker::{self, Kind},
};

/// A comparison of two listeners, of which usually only the second has statistics: the name, the message type, the rate
/// in Hz (0 is as fast as possible), and the settings of both listeners.
type Comparison = (&'static str, Kind, f64, [Setting; 2]);

pub type Setting = (Statistics, Scope, Runtime);

const COMPARISONS: [Comparison; 13] = {
    use {Kind::*, Runtime::*, Scope::*, Statistics::*};
    const OFF: Setting = (Off, Node, Basic);
    const ON: Setting = (On, Node, Basic);
    const WORKER: Setting = (On, Worker, Basic);
    [
        ("Imu, 100 Hz", Imu, 100.0, [OFF, ON]),
        ("Imu, 1000 Hz", Imu, 1000.0, [OFF, ON]),
        ("Imu, 5000 Hz", Imu, 5000.0, [OFF, ON]),
        ("Imu, 5000 Hz, all metrics", Imu, 5000.0, [OFF, (All, Node, Basic)]),
        ("Imu, 5000 Hz, turned off", Imu, 5000.0, [OFF, (Disabled, Node, Basic)]),
        ("Imu, 5000 Hz, an idle publisher instead", Imu, 5000.0, [OFF, (Publisher, Node, Basic)]),
        ("Imu, as fast as possible", Imu, 0.0, [OFF, ON]),
        ("Imu, 5000 Hz, on a worker", Imu, 5000.0, [(Off, Worker, Basic), WORKER]),
        ("worker compared with node, both with", Imu, 5000.0, [ON, WORKER]),
        ("measured executor compared with the basic one", Imu, 5000.0, [ON, (On, Node, Measured)]),
        ("the same, on a worker", Imu, 5000.0, [WORKER, (On, Worker, Measured)]),
        ("single-threaded executor, the same", Imu, 5000.0, [ON, (On, Node, SingleThreaded)]),
        ("Image of 1 MB, 30 Hz", Image, 30.0, [OFF, ON]),
    ]
};

const PAIRS: usize = 4;

pub fn measure(seconds: f64) -> Result<Table> {
    let mut table = Table::new(
        "without -> with statistics | messages/s | CPU, us per message | ratio | latency, us | with, us | worst | \
         peak memory, MB | CPU to the start, ms",
    );
    for (name, message, rate, [without, with]) in COMPARISONS {
        eprintln!("{name} ...");
        let run = |listener| listen(message, rate, listener, seconds);
        let pairs = (0..PAIRS).map(|pair| {
            // The order of the two runs alternates from pair to pair, so that a slow change of the machine's speed
            // affects no ratio.
            if pair % 2 == 0 {
                Ok([run(without)?, run(with)?])
            } else {
                let with = run(with)?;
                Ok([run(without)?, with])
            }
        });
        let pairs: Vec<[Listened; 2]> = pairs.collect::<Result<_>>()?;
        let median = |figure: &dyn Fn(&[Listened; 2]) -> f64| quantile(pairs.iter().map(figure), 0.5);
        let both = |decimals: usize, figure: &dyn Fn(&Listened) -> f64| {
            let [without, with] = [0, 1].map(|listener| median(&|pair| figure(&pair[listener])));
            format!("{without:.decimals$} -> {with:.decimals$}")
        };
        let ratios: Vec<f64> =
            pairs.iter().map(|[without, with]| with.cpu_per_message() / without.cpu_per_message()).collect();
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|q| quantile(ratios.clone(), q));
        let latency = |listener: usize| {
            let p50 = median(&|pair| pair[listener].p50_us as f64);
            format!("{p50:.0} / {:.0}", median(&|pair| pair[listener].p99_us as f64))
        };
        table.row(format!(
            "{name} | {:.0} | {} | {middle:.3} ({low:.3} to {high:.3}) | {} | {} | {} | {} | {}",
            median(&|[_, with]| with.received as f64 / with.seconds),
            both(1, &|listened| listened.cpu_per_message() * 1e6),
            latency(0),
            latency(1),
            pairs.iter().map(|[_, with]| with.max_us).max().unwrap_or_default(),
            both(1, &|listened| listened.peak_kb as f64 / 1e3),
            both(0, &|listened| listened.start_cpu * 1e3),
        ));
    }
    Ok(table)
}

/// Runs a talker and a listener. Returns the listener's report.
pub fn listen(
    message: Kind,
    rate: f64,
    (statistics, scope, runtime): Setting,
    seconds: f64,
) -> Result<Listened> {
    let _talker = talker::start(message, rate)?;
    report("listener", &Options { message, statistics, scope, runtime, seconds })
}
