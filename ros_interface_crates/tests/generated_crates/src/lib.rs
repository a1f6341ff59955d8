// SPDX-License-Identifier: Apache-2.0
//! Tables of every structure in the generated interface crates, made by the build script from their source.
//!
//! `for_each_message!` passes every `"package/msg/Name" => type` to a macro.

use std::mem::{offset_of, size_of};

pub mod sample;

/// The layout of a structure of the rmw layer: its name, its size, and the names and offsets of its fields.
pub type Layout = (&'static str, usize, &'static [(&'static str, usize)]);

/// Every rmw structure that ros-env includes, with the Rust compiler's layout.
pub const LAYOUTS: &[Layout] = include!(concat!(env!("OUT_DIR"), "/layouts.rs"));

include!(concat!(env!("OUT_DIR"), "/lists.rs"));
