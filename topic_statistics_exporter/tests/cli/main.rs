// SPDX-License-Identifier: Apache-2.0

//! Tests that need no ROS. Some tests run the exporter's outputs in their own process, and read these outputs over
//! HTTP, with a real Prometheus and with collectors. The other tests check the files in `deploy/` and `grafana/`.

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
