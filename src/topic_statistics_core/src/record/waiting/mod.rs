// SPDX-License-Identifier: Apache-2.0

//! Services, clients, actions, timers and executors: what waits, and for how long.

pub mod calls;
pub mod delays;
pub mod executions;
pub mod goals;
mod measurements;
pub mod requests;
pub mod timer_calls;
pub mod timer_schedule;
mod under_way;
