// SPDX-License-Identifier: Apache-2.0

//! Costs of statistics that are the same on every machine. The program counts its allocations.
//!
//! Tests print lines `name=value`. `cargo xtask bench` adds them to its figures.

mod cost;
mod message;

use std::sync::Mutex;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The allocator counts for the whole process, so only one test runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
