// SPDX-License-Identifier: Apache-2.0

//! Several sources of one name in one node: a relay that subscribes and publishes the same topic, subscribes it twice,
//! and times and counts something by one name. Sources are created and dropped in any order, and their expectations
//! change.
//!
//! The oracle knows the sources that live, and the tables of docs/statistics.md and docs/health.md. It computes each
//! source's name, conditions and level, and its own windows, messages and totals: each source has unique samples.

mod source;
mod world;

pub use world::World;
