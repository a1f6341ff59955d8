// SPDX-License-Identifier: Apache-2.0
//! Crates for prefixes of the tests' own, without a ROS 2.

mod command;
mod generate;
mod prefix;
