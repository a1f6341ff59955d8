// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask soak --scenario robot`: a day in the life of a robot.
//!
//! Twelve processes with statistics live on two hosts; they are watched by topic_monitor and the exporter, and
//! disturbed. Each process writes a log of the messages it has sent and received ([`node`], `node.py`). Afterwards,
//! each reported figure is compared with these logs ([`compare`]).

mod alarms;
pub mod collector;
mod compare;
mod exported_health;
mod exporter;
mod health;
mod log;
mod messages;
pub mod node;
mod reports;
pub mod run;
mod scenario;
mod tally;
mod windows;
