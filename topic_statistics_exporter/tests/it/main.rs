// SPDX-License-Identifier: Apache-2.0

//! The exporter as a process of its own, on real topics, read over HTTP and by a real Prometheus.

mod alertmanager;
mod alerts;
mod deploy;
mod grpc;
mod http;
mod mixin;
mod otlp;
mod process;
mod prometheus;
mod robot;
mod topics;
