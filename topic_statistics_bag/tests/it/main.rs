// SPDX-License-Identifier: Apache-2.0

//! Bags of this project's own and of other libraries, whole and damaged.

mod damage;
mod foreign;
mod losses;
mod memory;
mod order;
mod packages;
mod program;
mod reading;
mod sqlite;
mod support;
