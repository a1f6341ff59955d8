// SPDX-License-Identifier: Apache-2.0

//! The fuzz targets of `cargo xtask fuzz`: a function for each, which takes any bytes and panics if a property does not
//! hold.
//!
//! The code of the programs and of the generator is private. So their modules are compiled here a second time, from the
//! same files. The library and its core are dependencies.
//!
//! The programs in `fuzz_targets/` give a target to libFuzzer. Built without cargo-fuzz, they run the files that they
//! are given: `cargo run --bin condition -- FILE`.

// Only a part of the programs' modules is used.
#![allow(dead_code, unused_imports, unexpected_cfgs, missing_debug_implementations, missing_docs)]
// The library's Rust version is older than this package's, and lacks what this lint suggests.
#![allow(clippy::manual_is_multiple_of)]

/// topic_monitor, except modules that need a node.
#[path = "../../../topic_statistics_monitor/src"]
mod monitor {
    pub mod format;
    pub mod pattern;
    pub mod recording;
    pub mod require;
    pub mod row;
    pub mod statistics {
        pub mod message;
        pub mod source;
        pub mod sources;
        pub mod told;
    }
    pub mod topics {
        pub mod message_type;
    }
    pub mod views;
}

/// The exporter, except modules that need a node.
#[path = "../../../topic_statistics_exporter/src"]
mod exporter {
    pub mod exposition;
    pub mod http;
    pub mod model;
    pub mod otlp {
        pub mod backoff;
        pub mod client;
        pub mod delivery;
        pub mod queue;
    }
    pub mod state;
}

/// The generator, except modules that search and write prefixes.
#[path = "../../../ros_interface_crates/src"]
mod interface_crates {
    pub mod constants;
    pub mod doc;
    pub mod error;
    pub mod generator;
    pub mod idl;
    pub mod model;
    pub mod record;
    pub mod render;
}

// What the modules import from the root of their own package.
use exporter::state;
use interface_crates::{constants, doc, error::Error, generator::generator, idl, model, record, render};
use monitor::{format, pattern, recording, require, row, views};
/// A constant of the generator's module `search`.
mod search {
    pub const RESOURCE_INDEX: &str = "share/ament_index/resource_index";
}

#[warn(dead_code, unused_imports)]
mod check;
#[warn(dead_code, unused_imports)]
mod input;

#[warn(dead_code, unused_imports)]
mod targets {
    pub mod collectors;
    pub mod condition;
    pub mod definition;
    pub mod exposition;
    pub mod from_statistics;
    pub mod http;
    pub mod names;
    pub mod otlp;
    pub mod parameters;
}

pub use targets::{
    collectors::collectors, condition::condition, definition::definition, exposition::exposition,
    from_statistics::from_statistics, http::http, names::names, otlp::otlp, parameters::parameters,
};

use std::process::ExitCode;

/// The program of a target: for libFuzzer if cargo-fuzz builds it, else one that runs files.
#[macro_export]
macro_rules! target {
    ($target:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $target(bytes));

        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::run_files($target)
        }
    };
}

/// Runs a target on the files that the command line names.
pub fn run_files(target: fn(&[u8])) -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    if files.is_empty() {
        eprintln!("Usage: the files to run, such as those that libFuzzer has found");
        return ExitCode::FAILURE;
    }
    for file in files {
        match std::fs::read(&file) {
            Ok(bytes) => target(&bytes),
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
