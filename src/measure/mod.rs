// SPDX-License-Identifier: Apache-2.0

//! The code that runs for every message, publication and timed scope.
//!
//! [`callback`] wraps the callback of a subscription, in every form that rclrs takes. The wrapped callback calls the
//! [`probe`]. The probe reads the header [`stamp`], the serialized [`size`] and what the middleware reports. Then the
//! probe records a sample in the core's [recorder](topic_statistics_core::record::recorder). [`dynamic`] does the same
//! for message types that are known only at run time.
//!
//! [`subscription`], [`publisher`], [`service`], [`client`], [`timer`], [`action_server`], [`action_client`],
//! [`stopwatch`] and [`counter`] are the handles that user code holds. The modules of services, timers and action
//! servers also wrap the callbacks, and the modules of actions wrap the goals ([`goal`]).

pub(crate) mod action_client;
pub(crate) mod action_server;
pub(crate) mod callback;
pub(crate) mod client;
pub(crate) mod counter;
pub(crate) mod dynamic;
pub(crate) mod dynamic_size;
pub(crate) mod goal;
pub(crate) mod handle;
pub(crate) mod layout;
pub(crate) mod probe;
pub(crate) mod publisher;
pub(crate) mod service;
pub(crate) mod size;
pub(crate) mod stamp;
pub(crate) mod stopwatch;
pub(crate) mod subscription;
pub(crate) mod timer;
