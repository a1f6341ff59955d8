// SPDX-License-Identifier: Apache-2.0

//! The collectors of services, clients, actions, timers and executors: durations, waiting times and counts.

pub mod calls;
pub mod delays;
pub mod executions;
pub mod goals;
pub mod measurements;
pub mod requests;
pub mod timer_calls;
pub mod timer_schedule;
mod under_way;

#[cfg(all(test, topic_statistics_loom))]
mod models;
