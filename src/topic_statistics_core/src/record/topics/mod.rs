// SPDX-License-Identifier: Apache-2.0

//! Subscriptions, publishers, and the hops between them.

pub mod cause;
pub mod hops;
pub mod middleware;
pub mod publications;
pub mod publisher_hops;
pub mod recorder;
pub mod transport;
