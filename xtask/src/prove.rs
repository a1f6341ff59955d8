// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask prove`: looks for faults by tools that take too long for CI.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::Result;
use clap::ValueEnum;

use crate::{
    checks::{self, passes, reason, Outcome},
    commands::install_toolchain,
    environment::Environment,
    fuzz,
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
const NOT_SANITIZED: [&str; 8] = [
    "--skip",
    "a_dynamic_subscription_is_measured_like_any_other",
    "--skip",
    "a_stopped_reader_does_not_fill_the_memory_or_block_the_drop",
    "--skip",
    "creating_and_dropping_200_times_leaks_no_thread_file_or_memory",
    "--skip",
    "memory_is_bounded_for_a_thousand_subscriptions_with_windows_of_a_millisecond",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Undefined behaviour in unit tests (Miri)
    Miri,
    /// Data races in the tests of one process, and in the preloaded library (ThreadSanitizer)
    Races,
    /// Invalid accesses to memory in the tests of one process, and in the preloaded library (AddressSanitizer)
    Memory,
    /// Whether the tests notice a changed operator or result (cargo-mutants, .cargo/mutants.toml)
    Mutants,
}

/// Runs the parts, all of them if none is named, and prints a table with the time of each.
///
/// With `no_skip`, a part that cannot run has failed.
pub fn run(environment: &Environment, project: &Path, parts: &[Part], no_skip: bool) -> Result<ExitCode> {
    checks::run(parts, no_skip, |part| match part {
        Part::Miri => with_nightly(&["miri", "rust-src"], || miri(environment, project)),
        // The libraries of ROS, Fast DDS and C++ are not instrumented, so ThreadSanitizer does not see how they
        // synchronise. Reports within these libraries are ignored.
        Part::Races => with_nightly(&["rust-src"], || {
            let options = ["ignore_noninstrumented_modules=1"; 2];
            sanitizer(environment, project, "thread", "TSAN_OPTIONS", options)
        }),
        // The tests' own counts look for leaks of the library: rcl and Fast DDS keep memory that they never free.
        Part::Memory => with_nightly(&["rust-src"], || {
            let options = ["detect_leaks=1", "detect_leaks=0"];
            sanitizer(environment, project, "address", "ASAN_OPTIONS", options)
        }),
        Part::Mutants => mutants(environment, project),
    })
}

fn with_nightly(components: &[&str], part: impl FnOnce() -> Result<Outcome>) -> Result<Outcome> {
    match install_toolchain(TOOLCHAIN, components) {
        Ok(()) => part(),
        Err(error) => Ok(Outcome::Skipped(reason(&error))),
    }
}

/// Cargo of the nightly toolchain, with a target directory of its own: its builds differ from all others.
fn nightly(environment: &Environment, project: &Path, name: &str) -> Command {
    let mut cargo = environment.command("rustup");
    cargo.current_dir(project).args(["run", TOOLCHAIN, "cargo"]);
    cargo.env("CARGO_TARGET_DIR", environment.target_dir().join(name));
    cargo
}

fn miri(environment: &Environment, project: &Path) -> Result<Outcome> {
    for (package, tests) in UNDER_MIRI {
        let mut miri = nightly(environment, project, "miri");
        // Each test has a clock and reads the environment. A property is checked with few values, because Miri is slow.
        miri.args(["miri", "test", "--package", package, "--lib", "--"])
            .args(tests)
            .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-strict-provenance")
            .env("PROPTEST_CASES", "1");
        if passes(&mut miri)? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

/// Runs tests with a sanitizer of rustc: those of the preloaded library, linked to a program without rcl and DDS, and
/// those of the library and its core.
fn sanitizer(
    environment: &Environment,
    project: &Path,
    name: &str,
    variable: &str,
    options: [&str; 2],
) -> Result<Outcome> {
    let host = fuzz::host()?;
    let test = |options: &str, arguments: &[&str]| {
        let mut test = nightly(environment, project, name);
        test.args(["test", "-Zbuild-std", "--target", &host, "--no-fail-fast", "--lib"]).args(arguments);
        test.env("RUSTFLAGS", format!("-Zsanitizer={name}")).env(variable, options);
        passes(test.env("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4"))
    };
    let preload = ["--package", "topic_statistics_preload", "--test", "threads"];
    if test(options[0], &preload)? == Outcome::Failed {
        return Ok(Outcome::Failed);
    }
    let library =
        ["--package", "rclrs_topic_statistics", "--package", "topic_statistics_core", "--test", "it", "--"];
    test(options[1], &[&library[..], &OF_ONE_PROCESS, &NOT_SANITIZED].concat())
}

fn mutants(environment: &Environment, project: &Path) -> Result<Outcome> {
    let program = match tools::from_crates_io(project, "cargo-mutants", CARGO_MUTANTS) {
        Ok(program) => program,
        Err(error) => return Ok(Outcome::Skipped(reason(&error))),
    };
    let mut mutants = environment.command(program);
    passes(mutants.current_dir(project).args(["mutants", "--output"]).arg(environment.target_dir()))
}
