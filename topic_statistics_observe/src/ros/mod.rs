// SPDX-License-Identifier: Apache-2.0

//! What programs around nodes share: ROS arguments, the executor, the end by a signal, and what nodes publish.

pub mod arguments;
pub mod executor;
pub mod signals;
#[doc(hidden)]
pub mod testing;
pub mod wire;
