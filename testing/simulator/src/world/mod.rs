// SPDX-License-Identifier: Apache-2.0

//! A world: a node with its sources of statistics, publishers, a network, an executor and clocks. A world has one queue
//! of events, and no threads.
//!
//! [`state`](state::World) defines the world and its queue. The other modules implement its events and comparisons.

mod compare;
mod deliveries;
mod executor;
mod goals;
mod inject;
mod middleware;
mod network;
mod node;
pub mod readers;
mod samples;
mod scopes;
mod sources;
mod state;
mod thread;
mod waiting;
mod warnings;

pub use state::World;
