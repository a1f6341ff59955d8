// SPDX-License-Identifier: Apache-2.0

//! Tests of costs that do not depend on the machine. This program counts the allocations of each thread.
//!
//! Tests print lines `name=value`. `cargo xtask bench` adds these values to its figures.

mod allocations;
mod cost;
mod counting;
mod message;
