// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask simulate`: a deterministic simulator of a node's statistics, from one seed.
//!
//! A [`world`](world::World) has publishers, a network, callbacks and clocks, and injects [`faults`]. It drives the library's recorder,
//! collectors, schedule, loss events and totals, with injected time and without a thread. Beside each source runs an
//! [`oracle`] that keeps every sample, and computes what has to be published in the simplest way. After every window, all
//! figures, totals and events are compared.
//!
//! The library's code is private. So its modules are compiled here a second time, from the same files.

#![allow(dead_code, unused_imports, unexpected_cfgs, missing_debug_implementations)] // of the library's modules

#[path = "../../src/collector/mod.rs"]
mod collector;
#[path = "../../src/condition/mod.rs"]
mod condition;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/escape.rs"]
mod escape;
#[path = "../../src/graph.rs"]
mod graph;
#[path = "../../src/health/mod.rs"]
mod health;
#[path = "../../src/interfaces.rs"]
mod interfaces;
#[path = "../../src/measure/mod.rs"]
mod measure;
#[path = "../../src/options.rs"]
mod options;
#[path = "../../src/report/mod.rs"]
mod report;
#[path = "../../src/schedule/mod.rs"]
mod schedule;
#[path = "../../src/sync.rs"]
mod sync;
#[path = "../../src/totals.rs"]
mod totals;
#[path = "../../src/transport.rs"]
mod transport;
#[path = "../../src/window.rs"]
mod window;

mod check;
mod clocks;
mod faults;
mod held;
mod oracle;
mod plan;
mod shrink;
mod world;

use std::{
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Mutex,
    },
    time::Instant,
};

use clap::Parser;

use faults::Tally;
use plan::Plan;
use world::World;

/// Simulates a node's statistics, and compares them with an oracle that keeps every sample.
#[derive(Parser)]
struct Arguments {
    /// The seed; by default another one each time
    #[arg(long)]
    seed: Option<u64>,
    /// How many windows to compare
    #[arg(long, default_value_t = 1_000_000)]
    windows: u64,
    /// How many threads simulate at the same time
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

/// In so many windows, each kind of fault is injected, whatever the seed: the seldom worlds are one in 150.
const EVERY_FAULT: u64 = 500_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}, {} windows", arguments.windows);
    let started = Instant::now();
    let (tally, failure) = simulate(seed, arguments.windows, arguments.threads.max(1));
    println!("{tally}");
    println!("{:.1} s", started.elapsed().as_secs_f64());
    let Some((world, failure)) = failure else {
        // Later changes may prevent a fault, which would not be noticed otherwise.
        let missing: Vec<_> = tally.missing().map(|fault| fault.text()).collect();
        if arguments.windows >= EVERY_FAULT && !missing.is_empty() {
            eprintln!("FAILED: never injected: {}", missing.join("; "));
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    };
    eprintln!("FAILED: seed {seed}, world {world}\n{failure}\n");
    eprintln!("{}", shrink::shrink(seed, world));
    ExitCode::FAILURE
}

/// Simulates worlds until so many windows are compared. Returns the sum of what happened, and the failure of the first world that
/// failed.
///
/// Which worlds are simulated depends on the seed and the windows only, not on the number of threads.
fn simulate(seed: u64, windows: u64, threads: u64) -> (Tally, Option<(u64, String)>) {
    // Batches of worlds: the number of windows of a batch decides whether there is another one.
    const BATCH: u64 = 16;
    let mut sum = Tally::default();
    let mut first = 0;
    while sum.windows < windows {
        let next = AtomicU64::new(first);
        let results: Mutex<Vec<(u64, Tally, Option<String>)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| loop {
                    let world = next.fetch_add(1, Ordering::Relaxed);
                    if world >= first + BATCH {
                        return;
                    }
                    let (tally, result) = World::new(Plan::of(seed, world)).run(None);
                    results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((
                        world,
                        tally,
                        result.err(),
                    ));
                });
            }
        });
        let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        results.sort_by_key(|(world, ..)| *world);
        for (world, tally, failure) in results {
            sum.add(&tally);
            if let Some(failure) = failure {
                return (sum, Some((world, failure)));
            }
        }
        first += BATCH;
    }
    (sum, None)
}
