// SPDX-License-Identifier: Apache-2.0

//! When windows end, and what then leaves the node.
//!
//! [`state`] is a state machine: it is given the time, ends windows, and returns what to do. [`judges`] judge the windows. [`outbox`] has the messages that wait to
//! be published. [`scheduler`] is the thread that drives the state machine, waits, and does what it returns.

pub(crate) mod judges;
mod outbox;
pub(crate) mod scheduler;
pub(crate) mod state;
