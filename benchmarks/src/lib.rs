// SPDX-License-Identifier: Apache-2.0

//! The code that runs for each message, without a node. The benchmarks and the cost tests call it.
//!
//! This code is private in the library. So its modules are compiled here a second time, from the same files, and
//! nothing has to be public only for the benchmarks. All modules except `node` and `schedule` are included: those two
//! do not run for a message. Of `schedule`, the judges of health are.

// Only a part of the library is used.
#![allow(dead_code, unused_imports, unexpected_cfgs, missing_debug_implementations, missing_docs)]

#[path = "../../src/collector/mod.rs"]
pub mod collector;
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
#[path = "../../src/schedule/judges.rs"]
mod judges;
#[path = "../../src/measure/mod.rs"]
mod measure;
#[path = "../../src/options.rs"]
mod options;
#[path = "../../src/report/mod.rs"]
mod report;
#[path = "../../src/sync.rs"]
mod sync;
#[path = "../../src/totals.rs"]
mod totals;
#[path = "../../src/transport.rs"]
mod transport;
#[path = "../../src/window.rs"]
mod window;

mod driver;

pub use driver::{clock, counter, messages, timer, JudgedSubscriptions, MeasuredSubscription};
pub use options::TopicStatisticsOptions;
pub use window::{Metric, WindowStatistics};
