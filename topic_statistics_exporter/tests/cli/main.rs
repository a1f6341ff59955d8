// SPDX-License-Identifier: Apache-2.0

//! Tests that need no ROS: the exporter's outputs in the process of the test, which are read over HTTP, by a real
//! Prometheus and by collectors; and the files in `deploy/` and `grafana/`.

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
