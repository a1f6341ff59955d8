// SPDX-License-Identifier: Apache-2.0

//! Subscriptions, publishers and hops: a hop is the path from a message that a process takes to the publication in the
//! message's callback.

pub mod cause;
pub mod hops;
pub mod middleware;
pub mod publications;
pub mod publisher_hops;
pub mod recorder;
pub mod transport;
