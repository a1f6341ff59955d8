// SPDX-License-Identifier: Apache-2.0

//! Several sources with the same name in one node: a relay subscribes to a topic twice, publishes on it, and has a
//! stopwatch and a counter of the same name. Sources are created and dropped in any order, and their expectations
//! change.
//!
//! From the living sources and the tables of docs/statistics.md and docs/health.md, the oracle computes the name,
//! conditions, level, windows, messages and totals of each source. The values of the samples show to which source a
//! message belongs.

mod source;
mod world;

pub use world::World;
