// SPDX-License-Identifier: Apache-2.0

//! Measures topic statistics of any ROS 2 node, in any language, without a change to the node.
//!
//! The library is preloaded (`LD_PRELOAD`) into the process of the node (the host). The library exports functions of
//! rmw's C API, which every client library calls with every middleware. Each function calls the function with the same
//! name in the host's own libraries, and records the result. `topic_statistics_core` computes the statistics and
//! windows.
//!
//! ```text
//! rclcpp, rclpy, rclrs -> rcl -> hooks -> real -> the middleware
//!                                  |
//!                                process -> topic_statistics_core -> output -> /statistics, /diagnostics
//! ```
//!
//! The exported functions are in [`hooks`], [`boundaries`] (calls that show that a callback has returned) and
//! [`tracepoints`] (rclcpp's reports). [`process`] has the measured endpoints, and starts and ends the statistics.
//!
//! The library never harms its host. If something that the library needs is missing, the exported functions only call
//! the host's own functions.

#![allow(missing_docs, missing_debug_implementations)] // the library has no Rust API

pub mod abi; // public for a test that is linked to the library
mod boundaries;
mod callbacks;
mod cause;
mod executor;
mod fork;
mod health;
mod hooks;
mod hops;
mod log;
mod messages;
mod options;
mod output;
mod process;
mod real;
mod services;
mod stamp;
mod table;
mod thread;
mod timers;
mod tracepoints;
