// SPDX-License-Identifier: Apache-2.0

//! What the benchmarks and the cost tests drive: the code that runs for a message, without a node.
//!
//! That code is private in the library. So its modules are compiled here a second time, from the same files: nothing has to be public
//! for the benchmarks' sake. They are all but `node` and `schedule`, which no message reaches.

#![allow(dead_code, unused_imports, unexpected_cfgs, missing_debug_implementations, missing_docs)] // they are only a part of the library

#[path = "../../src/collector/mod.rs"]
pub mod collector;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/escape.rs"]
mod escape;
#[path = "../../src/graph.rs"]
mod graph;
#[path = "../../src/interfaces.rs"]
mod interfaces;
#[path = "../../src/measure/mod.rs"]
mod measure;
#[path = "../../src/options.rs"]
mod options;
#[path = "../../src/report/mod.rs"]
mod report;
#[path = "../../src/totals.rs"]
mod totals;
#[path = "../../src/transport.rs"]
mod transport;
#[path = "../../src/window.rs"]
mod window;

mod driver;

pub use driver::{clock, counter, messages, timer, MeasuredSubscription};
pub use options::TopicStatisticsOptions;
pub use window::{Metric, WindowStatistics};
