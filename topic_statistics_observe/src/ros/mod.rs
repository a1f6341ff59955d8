// SPDX-License-Identifier: Apache-2.0

//! ROS code that several programs share: ROS arguments, the executor, signals, and the messages of nodes about
//! statistics.

pub mod arguments;
pub mod executor;
pub mod signals;
#[doc(hidden)]
pub mod testing;
pub mod wire;
