// SPDX-License-Identifier: Apache-2.0

//! A world: a node with its sources of statistics, publishers, a network, an executor and clocks. It has one queue of
//! events, and no thread.
//!
//! [`state`] has the world and its queue. Some modules are parts of it: `callback`, `middleware`, `subscription`,
//! `scope`, `waiting`, `goals`, `due`, `losses`. The others do something with it: `events`, `executor`, `network`,
//! `node`, `scopes`, `run_waiting`, `thread`, `inject`, `compare`.

mod callback;
mod compare;
mod deliveries;
mod due;
mod events;
mod executor;
mod goals;
mod inject;
mod losses;
mod middleware;
mod network;
mod node;
pub mod readers;
mod run_waiting;
mod scope;
mod scopes;
mod state;
mod subscription;
mod thread;
mod waiting;
mod warnings;

pub use state::World;
