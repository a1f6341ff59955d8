// SPDX-License-Identifier: Apache-2.0

//! The fuzz targets of `cargo xtask fuzz`. A target is a function that takes any bytes and panics if a property of the
//! tested code is violated.
//!
//! The programs in `fuzz_targets/` pass a target to libFuzzer. Built without cargo-fuzz, they run the target on files:
//! `cargo run --bin condition -- FILE`.

mod check;
mod input;
mod targets {
    pub mod bag;
    pub mod collectors;
    pub mod condition;
    pub mod definition;
    pub mod exposition;
    pub mod from_statistics;
    pub mod http;
    pub mod names;
    pub mod otlp;
    pub mod parameters;
    pub mod service_event;
}

pub use targets::{
    bag::bag, collectors::collectors, condition::condition, definition::definition, exposition::exposition,
    from_statistics::from_statistics, http::http, names::names, otlp::otlp, parameters::parameters,
    service_event::service_event,
};

/// Defines the program of a target: for libFuzzer if cargo-fuzz builds the program, otherwise for files.
#[macro_export]
macro_rules! target {
    ($target:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $target(bytes));

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::run_files($target);
        }
    };
}

/// Runs a target on the files in the arguments.
pub fn run_files(target: fn(&[u8])) {
    for file in std::env::args_os().skip(1) {
        let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        target(&bytes);
    }
}
