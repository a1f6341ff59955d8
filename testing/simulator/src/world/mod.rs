// SPDX-License-Identifier: Apache-2.0

//! A world: a node with its sources of statistics, publishers, a network, an executor and clocks. It has one queue of
//! events, and no thread.
//!
//! [`state`](state::World) has the world and its queue; the other modules do something with it.

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
