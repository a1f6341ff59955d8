// SPDX-License-Identifier: Apache-2.0

//! What programs around nodes share: ROS arguments, the executor, the end by a signal, and the decoding of /statistics.

pub mod arguments;
pub mod executor;
pub mod signals;
pub mod statistics;
