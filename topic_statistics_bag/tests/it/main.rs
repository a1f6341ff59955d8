// SPDX-License-Identifier: Apache-2.0

//! Tests with bags that this project and other libraries write, both undamaged and damaged.

mod damage;
mod expectations;
mod foreign;
mod losses;
mod memory;
mod order;
mod packages;
mod program;
mod reading;
mod sqlite;
mod support;
