// SPDX-License-Identifier: Apache-2.0

//! What the programs that show topics share: `topic_monitor` and `bag_statistics`. Without ROS.
//!
//! ```text
//!                          ┌──▶ report, json   lines, JSON
//!  windows ──▶ row::Row ───┼──▶ require        conditions
//!                          ├──▶ expect         states
//!                          └──▶ recording ──▶ page   the page of --report
//! ```
//!
//! A row holds plain values. A program writes it; the modules here read it. `arguments` and `pattern` are the command
//! line; `input` reads files; `bounds` is about tables that anybody can fill; `format` and `histogram` are text;
//! `recorded` is what a recorder writes besides messages.

pub mod arguments;
pub mod bounds;
pub mod expect;
pub mod format;
pub mod histogram;
pub mod input;
pub mod json;
pub mod overall;
pub mod page;
pub mod pattern;
pub mod recorded;
pub mod recording;
pub mod report;
pub mod require;
pub mod row;
#[doc(hidden)]
pub mod testing;
