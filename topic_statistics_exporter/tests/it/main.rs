// SPDX-License-Identifier: Apache-2.0

//! The exporter as a process of its own, on real topics, read over HTTP.

#[path = "../common/mod.rs"]
mod common;
mod figures;
mod otlp;
mod process;
mod robot;
mod topics;
