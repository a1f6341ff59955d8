// SPDX-License-Identifier: Apache-2.0
//! Shared by the tests of the generated interface crates: tables of every structure in them, made by the build script
//! from their source.
//!
//! - [`layout`]: where the fields of every rmw structure lie, for `tests/it/layout.rs`.
//! - [`sample`]: values of every structure, for `tests/it/round_trip.rs` and `tests/it/serde.rs`.
//! - `for_each_message!` and its like hand every `"package/msg/Name" => type` to a macro.

pub mod layout;
pub mod sample;

include!(concat!(env!("OUT_DIR"), "/lists.rs"));
