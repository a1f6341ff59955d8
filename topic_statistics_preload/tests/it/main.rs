// SPDX-License-Identifier: Apache-2.0

//! The preloaded library in real processes, on real topics, read by others.

// Not the library's own module: this program would link the library, and be measured by it.
#[allow(dead_code)]
#[path = "../../src/abi.rs"]
mod abi;
mod composition;
mod cpp;
mod distributions;
mod headers;
mod hops;
mod launcher;
mod loading;
mod nodes;
mod null_rmw;
mod orderings;
mod processes;
mod rclcpp;
mod services;
mod side_by_side;

use std::{path::PathBuf, process::Command};

use test_support::preload;

/// Returns the path of the library, which cargo has built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libtopic_statistics_preload.so");
    assert!(library.is_file(), "{} is not built", library.display());
    library
}

/// Preloads the library into the program of a command, with these options.
fn preloaded(command: &mut Command, options: &[(&str, &str)]) {
    preload::preload(command, &library());
    for (name, value) in options {
        command.env(format!("TOPIC_STATISTICS_{name}"), value);
    }
}
