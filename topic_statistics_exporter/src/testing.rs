// SPDX-License-Identifier: Apache-2.0

//! What the fuzz targets call.

pub use crate::{
    exposition::Format,
    http::{serve, Metrics},
    model::{Diagnostic, Losses, MetricDistribution, MetricWindow, Received},
    otlp::{
        compress, Answer, Backoff, Client, ClientOptions, Delivery, Limits as QueueLimits, Outcome, Queue,
    },
    state::{Limits, Now, State},
};
