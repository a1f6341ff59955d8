// SPDX-License-Identifier: Apache-2.0

//! Services, clients, actions, timers and executors: what waits, and for how long.

mod active;
pub mod calls;
pub mod delays;
pub mod executions;
pub mod goals;
mod oldest;
pub mod requests;
pub mod timer_calls;
pub mod timer_schedule;
