// SPDX-License-Identifier: Apache-2.0

//! `exporter` carries the topic statistics of ROS 2 nodes to Prometheus and OpenTelemetry.
//!
//! The modules follow the way of the data:
//!
//! ```text
//!  /statistics, /statistics/distribution,        ┌──▶ http        pull: /metrics
//!  /events/messages_lost, /diagnostics           │
//!        ──▶ subscriptions ──▶ model ──▶ state ──┤
//!                                                └──▶ otlp        push
//! ```
//!
//! `model` are plain values whose names and numbers have been checked. `state` is what is known of all sources. Both sides
//! read it, and know nothing of each other.

mod model;
mod state;

fn main() {}
