// SPDX-License-Identifier: Apache-2.0

//! Tests the exporter as a separate process that subscribes to real topics. The tests read its state over HTTP.

#[path = "../common/mod.rs"]
mod common;
mod figures;
mod otlp;
mod process;
mod robot;
mod topics;
