// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask simulate`: a deterministic simulator of a node's statistics, from one seed.
//!
//! A [`world`](world::World) has publishers, a network, callbacks and clocks, and injects [`faults`]. It drives the
//! core's recorder, collectors, schedule, loss events and totals, with injected time and without a thread. For each
//! source an [`oracle`] keeps every sample, and computes the expected messages in the simplest way. After every window,
//! all figures, totals and events are compared. Each world has a second one, with sources of equal [`names`], and a
//! third one, with [`hops`].

mod check;
mod clocks;
mod day;
mod faults;
mod held;
mod history;
mod hops;
mod names;
mod oracle;
mod plan;
mod same;
mod shrink;
mod world;

use std::{
    process::ExitCode,
    sync::{
        atomic::{AtomicU64, Ordering},
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
    /// Simulate this number of hours of a healthy robot with judged topics, and then real faults, instead
    #[arg(long, value_name = "HOURS")]
    day: Option<f64>,
}

/// In this number of windows, each kind of fault is injected, whatever the seed: the rare worlds are one in 150.
const EVERY_FAULT: u64 = 500_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let started = Instant::now();
    if let Some(hours) = arguments.day {
        println!("seed {seed}, {hours} hours");
        let lived = day::run(seed, hours);
        match &lived {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("FAILED: seed {seed}: {error}"),
        }
        println!("{:.1} s", started.elapsed().as_secs_f64());
        return if lived.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    println!("seed {seed}, {} windows", arguments.windows);
    let (tally, failure) = simulate(seed, arguments.windows, arguments.threads.max(1));
    println!("{tally}");
    println!("{:.1} s", started.elapsed().as_secs_f64());
    let Some(Failure { world, error, can_shrink }) = failure else {
        // Later changes may prevent a fault, which would not be noticed otherwise.
        let missing: Vec<_> = tally.missing().map(|fault| fault.text()).collect();
        if arguments.windows >= EVERY_FAULT && !missing.is_empty() {
            eprintln!("FAILED: never injected: {}", missing.join("; "));
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    };
    eprintln!("FAILED: seed {seed}, world {world}\n{error}\n");
    if can_shrink {
        eprintln!("{}", shrink::shrink(seed, world));
    }
    eprintln!("\nTo see it again: cargo xtask simulate --seed {seed} --windows {}", arguments.windows);
    ExitCode::FAILURE
}

/// The first failure of a world.
struct Failure {
    world: u64,
    error: String,
    /// Whether its plan can be made smaller: not that of equal names, or of hops.
    can_shrink: bool,
}

impl Failure {
    /// Simulates a world.
    fn find(seed: u64, world: u64) -> (Tally, Option<Self>) {
        let (mut tally, result) = World::new(Plan::of(seed, world)).run(None);
        let failure = |error, can_shrink| Self { world, error, can_shrink };
        if let Err(error) = result {
            return (tally, Some(failure(error, true)));
        }
        let (windows, result) = names::World::new(seed, world).run();
        tally.named = windows;
        if let Err(error) = result {
            return (tally, Some(failure(error, false)));
        }
        let (of_hops, result) = hops::World::new(seed, world).run();
        tally.add(&of_hops);
        (tally, result.err().map(|error| failure(error, false)))
    }
}

/// Simulates worlds until this number of windows is compared. Returns the sum of the counts, and the failure of the
/// first world that failed.
///
/// Which worlds are simulated depends on the seed and the windows only, not on the number of threads.
fn simulate(seed: u64, windows: u64, threads: u64) -> (Tally, Option<Failure>) {
    // Batches of worlds: the number of windows of a batch decides whether there is another one.
    const BATCH: u64 = 16;
    let mut sum = Tally::default();
    let mut first = 0;
    while sum.windows < windows {
        let next = AtomicU64::new(first);
        let results: Mutex<Vec<(u64, Tally, Option<Failure>)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| loop {
                    let world = next.fetch_add(1, Ordering::Relaxed);
                    if world >= first + BATCH {
                        return;
                    }
                    let (tally, failure) = Failure::find(seed, world);
                    results
                        .lock()
                        .unwrap_or_else(|poisoned| poisoned.into_inner())
                        .push((world, tally, failure));
                });
            }
        });
        let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        results.sort_by_key(|(world, ..)| *world);
        for (_, tally, failure) in results {
            sum.add(&tally);
            if failure.is_some() {
                return (sum, failure);
            }
        }
        first += BATCH;
    }
    (sum, None)
}
