// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask simulate`: simulates a node's statistics, and compares them with an oracle that keeps every sample.

use std::{process::ExitCode, time::Instant};

use clap::Parser;
use simulator::{day, shrink, simulate, Failure};

/// Simulates a node's statistics, and compares them with an oracle that keeps every sample.
#[derive(Parser)]
struct Arguments {
    /// The seed; random by default
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

/// With this number of windows, any seed injects each kind of fault. The rarest fault is injected in one of 12 worlds.
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
        // If no world injected a kind of fault, a change of the simulator probably prevents this fault.
        let missing: Vec<_> = tally.missing().map(|fault| fault.text()).collect();
        if arguments.windows >= EVERY_FAULT && !missing.is_empty() {
            eprintln!("FAILED: never injected: {}", missing.join("; "));
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    };
    eprintln!("FAILED: seed {seed}, world {world}\n{error}\n");
    if can_shrink {
        eprintln!("{}", shrink(seed, world));
    }
    eprintln!("\nTo see it again: cargo xtask simulate --seed {seed} --windows {}", arguments.windows);
    ExitCode::FAILURE
}
