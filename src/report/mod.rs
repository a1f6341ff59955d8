// SPDX-License-Identifier: Apache-2.0

//! The outputs of a node, one file per output.
//!
//! A finished window is published as one [`message`] for each metric, and one message for each [`distribution`]. Losses
//! are published as [`loss_events`], and health as [`diagnostics`]. The totals since the start are returned by a
//! [`service`], and written to a file (`totals_file`). Outputs that need the package `topic_statistics_interfaces` are
//! behind the feature `interfaces`.

pub(crate) mod diagnostics;
#[cfg(feature = "interfaces")]
pub(crate) mod distribution;
#[cfg(feature = "interfaces")]
pub(crate) mod loss_events;
pub(crate) mod message;
#[cfg(feature = "interfaces")]
pub(crate) mod service;
#[cfg(feature = "totals_file")]
pub(crate) mod totals_file;
