// SPDX-License-Identifier: Apache-2.0

//! Ends windows, and decides what then leaves the node.
//!
//! [`state`] is a state machine: it is given the time, ends windows, and returns what to do. [`judges`] judge the
//! windows. [`outbox`] has the messages that wait to be published, [`losses`] the events of lost messages.
//! [`log_table`] writes windows as a table. [`scheduler`] is the thread that drives the state machine, waits, and does
//! what it returns.

pub mod judges;
pub mod log_table;
pub mod losses;
pub mod outbox;
pub mod scheduler;
pub mod state;
