// SPDX-License-Identifier: Apache-2.0
//! The layout of every rmw structure, as the Rust compiler has it.

use std::mem::{offset_of, size_of};

/// A structure of the rmw layer.
#[derive(Debug)]
pub struct Layout {
    pub package: &'static str,
    /// `msg`, `srv` or `action`.
    pub namespace: &'static str,
    pub name: &'static str,
    /// In bytes.
    pub size: usize,
    pub fields: &'static [Field],
}

/// A field of such a structure.
#[derive(Debug)]
pub struct Field {
    /// As in Rust: with an underscore behind a keyword.
    pub name: &'static str,
    /// In bytes.
    pub offset: usize,
    pub shape: Shape,
    pub element: Element,
}

/// How many elements a field has.
#[derive(Debug, PartialEq)]
pub enum Shape {
    Single,
    Array(usize),
    Sequence,
    BoundedSequence(usize),
}

/// The kind of one element.
#[derive(Debug, PartialEq)]
pub enum Element {
    /// By its name in Rust.
    Primitive(&'static str),
    /// With its bound, 0 for none.
    String(usize),
    /// With its bound, 0 for none.
    WString(usize),
    /// By its namespace as C has it (`geometry_msgs__msg`) and its name.
    Message(&'static str, &'static str),
}

/// Every rmw structure that ros-env includes.
pub const LAYOUTS: &[Layout] = include!(concat!(env!("OUT_DIR"), "/layouts.rs"));
