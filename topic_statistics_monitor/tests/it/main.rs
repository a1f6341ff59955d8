// SPDX-License-Identifier: Apache-2.0

//! Tests of the program topic_monitor on real topics: in a terminal whose screen the tests can read, and as a process
//! that writes lines.

mod chains;
mod from_statistics;
mod live_view;
mod one_file;
mod output;
#[path = "../../../topic_statistics_bag/tests/it/packages.rs"]
mod packages;
mod record;
mod run;
#[path = "../cli/terminal.rs"]
mod terminal;
mod topics;
mod waiting;
mod why;
