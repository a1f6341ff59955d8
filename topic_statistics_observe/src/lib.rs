// SPDX-License-Identifier: Apache-2.0

//! The code that the programs `topic_monitor`, `exporter` and `bag_statistics` share. Only the module [`ros`] needs
//! ROS; the Cargo feature `ros` enables this module.
//!
//! ```text
//!                          ┌──▶ report, json   lines, JSON
//!  windows ──▶ row::Row ───┼──▶ require        conditions
//!                          ├──▶ expect         states
//!                          └──▶ recording ──▶ page   the page of --report
//!  require, expect, recording ──▶ junit              tests for CI systems
//! ```
//!
//! A row holds plain values. A program fills the row, and the modules of this crate read the row. `arguments`,
//! `generate` and `pattern` belong to the command line. `input` reads files. `bounds` limits tables that any process on
//! the network can fill. `messages` counts the messages of a window. `format` and `histogram` write text.
//! `recorded` names the metadata that a recorder adds to a bag. `error` has errors that end a program, and exit
//! statuses.

#![allow(missing_docs, reason = "only the programs of this workspace use this package")]

#[cfg(feature = "views")]
pub mod arguments;
pub mod bounds;
#[cfg(feature = "views")]
pub mod error;
#[cfg(feature = "views")]
pub mod expect;
pub mod format;
#[cfg(feature = "generate")]
pub mod generate;
#[cfg(feature = "views")]
pub mod histogram;
#[cfg(feature = "views")]
pub mod input;
#[cfg(feature = "views")]
pub mod json;
#[cfg(feature = "views")]
pub mod junit;
pub mod messages;
#[cfg(feature = "views")]
pub mod overall;
#[cfg(feature = "views")]
pub mod page;
pub mod pattern;
#[cfg(feature = "views")]
pub mod recorded;
#[cfg(feature = "views")]
pub mod recording;
#[cfg(feature = "views")]
pub mod report;
#[cfg(feature = "views")]
pub mod require;
#[cfg(feature = "ros")]
pub mod ros;
#[cfg(feature = "views")]
pub mod row;
#[doc(hidden)]
#[cfg(feature = "views")]
pub mod testing;
