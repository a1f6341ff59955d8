// SPDX-License-Identifier: Apache-2.0

//! Runs the library's models under loom, which executes each one in every interleaving of its threads, up to a bound.
//!
//! The models are beside the code that they check, in files `models.rs`. They drive that code itself: the library's modules are
//! compiled here a second time, from the same files, with loom's types in [`sync`].

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
#[path = "../../src/totals.rs"]
mod totals;
#[path = "../../src/transport.rs"]
mod transport;
#[path = "../../src/window.rs"]
mod window;

mod model;
mod sync;

pub use measure::{
    counter::models::*, recorder::models::*, sample_lock::models::*, simulated_time::models::*,
    source::models::*, windowed::models::*,
};
pub use schedule::scheduler::models::*;
