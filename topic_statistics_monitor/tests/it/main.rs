// SPDX-License-Identifier: Apache-2.0

//! The program topic_monitor on real topics: in a terminal with a readable screen, and as a process that writes lines.

mod bags;
mod browser;
mod chains;
mod ending;
mod expect;
mod from_statistics;
mod live_view;
mod output;
#[path = "../../../topic_statistics_bag/tests/it/packages.rs"]
mod packages;
mod percentiles;
mod record;
mod report;
mod run;
mod terminal;
mod topics;
mod waiting;
