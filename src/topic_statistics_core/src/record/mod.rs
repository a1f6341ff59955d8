// SPDX-License-Identifier: Apache-2.0

//! The code that runs with every message, publication and timed scope.
//!
//! The [`recorder`] of a subscription holds the collectors behind a lock that a message never waits for
//! (`CountingLock`), on the times of [`clock`] or of [`simulated_time`]. [`transport`] has what the middleware reports
//! with a message, and [`middleware`] what each rmw implementation means by it.
//!
//! [`publications`], [`requests`], [`calls`], [`goals`], [`timer_calls`], [`durations`], a [`count`], [`executions`]
//! and [`hops`] are collected behind a lock that loses no sample ([`windowed`]). Each of them, and each recorder, is
//! the collector of a [`source`] of statistics; the schedule ends its windows. [`cause`] finds the message that caused
//! a publication; [`publisher_hops`] has the hops of a publisher.

mod active;
pub mod calls;
pub mod cause;
pub mod clock;
pub mod count;
pub mod delays;
pub mod durations;
pub mod executions;
pub mod goals;
pub mod hops;
pub mod host;
pub mod middleware;
mod oldest;
pub mod options;
mod periods;
pub mod publications;
pub mod publisher_hops;
pub mod recorder;
pub mod requests;
pub(crate) mod sample_lock;
pub mod simulated_time;
pub mod source;
pub mod source_name;
pub(crate) mod stamp_filter;
#[cfg(test)]
pub(crate) mod test_clock;
pub mod timer_calls;
pub mod timer_schedule;
pub mod transport;
pub mod windowed;
