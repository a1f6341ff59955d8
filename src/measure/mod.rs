// SPDX-License-Identifier: Apache-2.0

//! The code that runs with every message, publication and timed scope.
//!
//! [`callback`] wraps the callback of a subscription, in every form that rclrs takes. It calls the [`probe`], which reads the header
//! [`stamp`], the serialized [`size`] and what the middleware reports, and records a sample in the [`recorder`]. The recorder holds the collectors behind a
//! lock that a message never waits for ([`sample_lock`]), on the times of [`clock`] or of [`simulated_time`]. [`dynamic`] is the same
//! for types that are known only at run time.
//!
//! [`publisher`], [`timer`] and [`counter`] record into collectors behind the same lock ([`windowed`]). Each of them, and each
//! [`subscription`], is a [`source`] of statistics, whose windows the schedule ends.

pub(crate) mod callback;
pub(crate) mod clock;
pub(crate) mod counter;
pub(crate) mod dynamic;
pub(crate) mod dynamic_size;
pub(crate) mod host;
pub(crate) mod layout;
pub(crate) mod probe;
pub(crate) mod publisher;
pub(crate) mod recorder;
pub(crate) mod sample_lock;
pub(crate) mod simulated_time;
pub(crate) mod size;
pub(crate) mod source;
pub(crate) mod stamp;
pub(crate) mod subscription;
pub(crate) mod timer;
pub(crate) mod windowed;
