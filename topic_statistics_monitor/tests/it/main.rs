// SPDX-License-Identifier: Apache-2.0

//! The program topic_monitor on real topics: in a terminal with a readable screen, and as a process that writes lines.

mod chains;
mod from_statistics;
mod live_view;
mod output;
#[path = "../../../topic_statistics_bag/tests/it/packages.rs"]
mod packages;
mod record;
mod run;
#[path = "../cli/terminal.rs"]
mod terminal;
mod topics;
mod waiting;
