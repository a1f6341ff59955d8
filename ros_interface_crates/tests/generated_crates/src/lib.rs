// SPDX-License-Identifier: Apache-2.0
//! Shared by the tests of the generated interface crates: tables of every structure in them, made by the build script
//! from their source.
//!
//! `for_each_message!` hands every `"package/msg/Name" => type` to a macro.

use std::mem::{offset_of, size_of};

pub mod sample;

/// The layout of a structure of the rmw layer: its name, its size, and the names and offsets of its fields.
pub type Layout = (&'static str, usize, &'static [(&'static str, usize)]);

/// Every rmw structure that ros-env includes, as the Rust compiler has it.
pub const LAYOUTS: &[Layout] = include!(concat!(env!("OUT_DIR"), "/layouts.rs"));

include!(concat!(env!("OUT_DIR"), "/lists.rs"));
