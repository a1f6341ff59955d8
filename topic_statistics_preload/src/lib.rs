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
//! | module | contains |
//! |---|---|
//! | [`hooks`] | the exported functions |
//! | [`boundaries`] | exported functions whose call shows that a thread's callback has returned |
//! | [`tracepoints`] | exported functions that rclcpp calls to report callbacks and intra-process communication |
//! | [`callbacks`] | the callbacks, ring buffers and publishers reported by the tracepoints |
//! | [`thread`] | what a thread remembers from one call to the next |
//! | [`messages`] | messages that are taken, passed to callbacks, and published |
//! | [`timers`], [`executor`] | the timers and the executors of rclcpp |
//! | [`process`] | the subscriptions, publishers, services and clients of the process; start and end of statistics |
//! | [`services`] | requests of services and calls of clients that wait for their response |
//! | [`cause`] | what each thread does, from which the core concludes which message caused a publication |
//! | [`hops`] | the sources that measure the time from a message to the publication that the message causes |
//! | [`fork`] | prevents `fork` from copying an unfinished initialisation |
//! | [`table`] | looks up the statistics of an rmw handle |
//! | [`output`] | the publishers of windows and diagnostics |
//! | [`health`] | the expectations of sources, and the diagnostics about them |
//! | [`stamp`] | header stamps in messages of any type |
//! | [`options`] | environment variables |
//! | [`log`] | lines on standard error |
//! | [`real`], [`abi`] | the process's own functions, and the C types of rmw and rosidl |
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
