// SPDX-License-Identifier: Apache-2.0

//! The parts that all sources of statistics have in common.

pub mod options;
pub(crate) mod periods;
pub mod source;
pub mod source_name;
pub mod windowed;
