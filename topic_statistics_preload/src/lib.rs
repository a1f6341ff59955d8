// SPDX-License-Identifier: Apache-2.0

//! Topic statistics of any ROS 2 node, in any language, without changing it.
//!
//! The library is preloaded (`LD_PRELOAD`). It exports functions of rmw's C API, which every client library calls, for
//! every middleware. Each of them calls the process's own function of that name, and records what it did. The figures
//! and windows are those of `topic_statistics_core`.
//!
//! ```text
//! rclcpp, rclpy, rclrs -> rcl -> hooks -> real -> the middleware
//!                                  |
//!                                process -> topic_statistics_core -> output -> /statistics
//! ```
//!
//! | module | contains |
//! |---|---|
//! | [`hooks`] | the exported functions |
//! | [`boundaries`] | exported functions by which a thread shows that a callback has returned |
//! | [`tracepoints`] | exported functions by which rclcpp reports its callbacks and its intra-process communication |
//! | [`callbacks`] | what of that is kept |
//! | [`process`] | the subscriptions, publishers, services and clients of the process, and when its statistics begin and end |
//! | [`services`] | requests and calls, from their beginning to their response |
//! | [`cause`], [`hops`] | what each thread does, from which the core knows which message has caused a publication; the sources of the time from the one to the other |
//! | [`fork`] | what a child of `fork` must not find half done |
//! | [`table`] | which of them belongs to an rmw handle |
//! | [`output`] | the publisher of the windows |
//! | [`stamp`] | header stamps in messages of any type |
//! | [`options`] | environment variables |
//! | [`log`] | lines on standard error |
//! | [`real`], [`abi`] | the process's own functions; the C types of rmw and rosidl |
//!
//! It never harms its host. Where something is missing, it steps aside: the functions call the process's own, and
//! nothing else happens.

#![allow(missing_docs, missing_debug_implementations)] // a library without API

pub mod abi; // for the test that is linked to the library
mod boundaries;
mod callbacks;
mod cause;
mod fork;
mod hooks;
mod hops;
mod log;
mod options;
mod output;
mod process;
mod real;
mod services;
mod stamp;
mod table;
mod tracepoints;
