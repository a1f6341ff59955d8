// SPDX-License-Identifier: Apache-2.0

//! What the programs of this repository share. It is for them only, and changes with any version.

pub mod arguments;
pub mod executor;
pub mod signals;
pub mod statistics;
