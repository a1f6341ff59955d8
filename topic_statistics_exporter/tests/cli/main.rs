// SPDX-License-Identifier: Apache-2.0

//! What needs no ROS: the exporter's outputs in this process, read over HTTP, by a real Prometheus and by collectors, and
//! the files that it is deployed with.

mod agent;
mod alertmanager;
mod alerts;
#[path = "../common/mod.rs"]
mod common;
mod deploy;
mod exporter;
mod http;
mod mixin;
mod otlp;
mod prometheus;
