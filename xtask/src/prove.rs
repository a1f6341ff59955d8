// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask prove`: looks for faults for longer than CI can.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::{
    checks::{self, passes, reason, Outcome},
    commands::{self, soak},
    environment::Environment,
    fuzz, msrv,
    public_api::TOOLCHAIN,
    setup::tools,
};

const CARGO_MUTANTS: &str = "27.1.0";

/// The unit tests of code with `unsafe` or with a lock of its own, by package. (Miri cannot call ROS's C libraries.)
const UNDER_MIRI: [(&str, &[&str]); 2] = [
    (
        "topic_statistics_core",
        &["collector::", "record::clock::", "record::host::", "record::recorder::", "record::sample_lock::"],
    ),
    (
        "rclrs_topic_statistics",
        &[
            "a_stamp_is_read_at_its_place",
            "a_string_is_read_up_to_its_first_nul",
            "lengths_are_read_at_their_places",
            "n_values_end_where_one_after_the_other_ends",
        ],
    ),
];
/// The unit tests, and the integration tests of one process. What runs in another program is not instrumented.
const OF_ONE_PROCESS: [&str; 11] = [
    "tests::",
    "bounds::",
    "code::",
    "compatibility::",
    "dynamic::",
    "errors::",
    "forms::",
    "lifetime::",
    "log::",
    "options::",
    "parameters::",
];
/// Tests among these that have a second process, or that are about memory: AddressSanitizer keeps freed memory.
const NOT_SANITIZED: [&str; 4] = [
    "a_dynamic_subscription_is_measured_like_any_other",
    "a_stopped_reader_does_not_fill_the_memory_or_block_the_drop",
    "creating_and_dropping_200_times_leaks_no_thread_file_or_memory",
    "memory_is_bounded_for_a_thousand_subscriptions_with_windows_of_a_millisecond",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// 20 million simulated windows
    Simulator,
    /// The models of the concurrent code, with at most 3 preemptions (loom)
    Models,
    /// Undefined behaviour in unit tests (Miri)
    Miri,
    /// Data races in the tests of one process, and in the preloaded library (ThreadSanitizer)
    Races,
    /// Invalid accesses to memory in the tests of one process, and in the preloaded library (AddressSanitizer)
    Memory,
    /// The fuzz targets, an hour each (cargo-fuzz)
    Fuzz,
    /// Two hours over real DDS, with churn (docs/reliability.md)
    Soak,
    /// Whether the tests notice a changed operator or result (cargo-mutants, .cargo/mutants.toml)
    Mutants,
}

/// Runs the parts, all of them if none is named, and prints a table with the time of each.
///
/// With `no_skip`, a part that cannot run has failed.
pub fn run(environment: &Environment, project: &Path, parts: &[Part], no_skip: bool) -> Result<ExitCode> {
    checks::run(parts, no_skip, |part| match part {
        Part::Simulator => simulator(environment, project),
        Part::Models => models(environment, project),
        Part::Miri => miri(environment, project),
        Part::Races => sanitizer(environment, project, &Sanitizer::THREAD),
        Part::Memory => sanitizer(environment, project, &Sanitizer::ADDRESS),
        Part::Fuzz => fuzz::run(environment, project, &[], 3600),
        Part::Soak => passes(&mut soak(environment, project, 2.0, 60.0)),
        Part::Mutants => mutants(environment, project),
    })
}

fn simulator(environment: &Environment, project: &Path) -> Result<Outcome> {
    let mut simulator = environment.command("cargo");
    simulator.current_dir(project.join("testing/simulator")).args(["run", "--release", "--quiet", "--"]);
    passes(simulator.args(["--windows", "20000000"]))
}

fn models(environment: &Environment, project: &Path) -> Result<Outcome> {
    passes(commands::models(environment, project, false).arg("--nocapture").env("LOOM_MAX_PREEMPTIONS", "3"))
}

fn miri(environment: &Environment, project: &Path) -> Result<Outcome> {
    if let Err(error) = install_nightly(&["miri", "rust-src"]) {
        return Ok(Outcome::Skipped(reason(&error)));
    }
    for (package, tests) in UNDER_MIRI {
        let mut miri = nightly(environment, project, "miri");
        // Each test has a clock and reads the environment. A property is checked with few values, because Miri is slow.
        miri.args(["miri", "test", "--package", package, "--lib", "--"])
            .args(tests)
            .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-strict-provenance")
            .env("PROPTEST_CASES", "1");
        let outcome = passes(&mut miri)?;
        if outcome != Outcome::Passed {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

/// A sanitizer of rustc, and its options for the tests of the library and of the preloaded one.
struct Sanitizer {
    name: &'static str,
    variable: &'static str,
    of_library: &'static str,
    of_preload: &'static str,
}

impl Sanitizer {
    /// The libraries of ROS, Fast DDS and C++ are not instrumented, so ThreadSanitizer does not see how they
    /// synchronise. Reports within these libraries are ignored.
    const THREAD: Self = Self {
        name: "thread",
        variable: "TSAN_OPTIONS",
        of_library: "ignore_noninstrumented_modules=1",
        of_preload: "ignore_noninstrumented_modules=1",
    };
    /// The tests' own counts look for leaks of the library: rcl and Fast DDS keep memory that they never free.
    const ADDRESS: Self = Self {
        name: "address",
        variable: "ASAN_OPTIONS",
        of_library: "detect_leaks=0",
        of_preload: "detect_leaks=1",
    };
}

fn sanitizer(environment: &Environment, project: &Path, sanitizer: &Sanitizer) -> Result<Outcome> {
    if let Err(error) = install_nightly(&["rust-src"]) {
        return Ok(Outcome::Skipped(reason(&error)));
    }
    let host = fuzz::host()?;
    let test = |packages: &[&str], options| {
        let mut test = nightly(environment, project, sanitizer.name);
        test.args(["test", "-Zbuild-std", "--target", &host, "--no-fail-fast"])
            .args(packages.iter().flat_map(|package| ["--package", package]))
            .env("RUSTFLAGS", format!("-Zsanitizer={}", sanitizer.name))
            .env(sanitizer.variable, options)
            .env("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4");
        test
    };
    // The preloaded library, linked to a program without rcl and DDS.
    let preload = passes(
        test(&["topic_statistics_preload"], sanitizer.of_preload).args(["--lib", "--test", "threads"]),
    )?;
    if preload != Outcome::Passed {
        return Ok(preload);
    }
    let mut library = test(&["rclrs_topic_statistics", "topic_statistics_core"], sanitizer.of_library);
    library.args(["--lib", "--test", "it", "--"]).args(OF_ONE_PROCESS);
    passes(library.args(NOT_SANITIZED.iter().flat_map(|name| ["--skip", name])))
}

fn mutants(environment: &Environment, project: &Path) -> Result<Outcome> {
    let program = match tools::from_crates_io(project, "cargo-mutants", CARGO_MUTANTS) {
        Ok(program) => program,
        Err(error) => return Ok(Outcome::Skipped(reason(&error))),
    };
    let mut mutants = environment.command(program);
    mutants.current_dir(project).args(["mutants", "--output"]).arg(environment.target_dir());
    passes(&mut mutants)
}

fn install_nightly(components: &[&str]) -> Result<()> {
    msrv::install(TOOLCHAIN, &["--profile", "minimal"])
        .and_then(|()| msrv::add_components(TOOLCHAIN, components))
        .with_context(|| format!("{TOOLCHAIN} cannot be installed"))
}

/// Cargo of the nightly toolchain, with a target directory of its own: its builds differ from all others.
fn nightly(environment: &Environment, project: &Path, name: &str) -> Command {
    let mut cargo = environment.command("rustup");
    cargo
        .current_dir(project)
        .args(["run", TOOLCHAIN, "cargo"])
        .env("CARGO_TARGET_DIR", environment.target_dir().join(name));
    cargo
}
