// SPDX-License-Identifier: Apache-2.0

//! Ends windows, and decides what the node publishes and logs afterwards.
//!
//! [`state`] is a state machine: it accepts the present time, ends windows, and returns what to do. [`judges`] compares
//! the windows with the expectations of their sources. [`outbox`] has the messages that wait to be published, and
//! [`losses`] has the events of lost messages. [`log_table`] writes windows as a table. [`scheduler`] is the thread
//! that drives the state machine: it waits, and carries out the actions that the state machine returns.

pub mod judges;
pub mod log_table;
pub mod losses;
pub mod outbox;
pub mod scheduler;
pub mod state;
