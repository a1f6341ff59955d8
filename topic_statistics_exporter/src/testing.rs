// SPDX-License-Identifier: Apache-2.0

//! What the fuzz targets call.

pub use crate::{
    compression::compress,
    exposition::Format,
    http::{serve, Metrics},
    model::{Diagnostic, Losses, MetricDistribution, MetricWindow, Received},
    otlp::{
        Answer, Backoff, Client, ClientOptions, Delivery, Failure, Limits as QueueLimits, Outcome, Protocol,
        Queue,
    },
    state::{HealthState, Limits, MetricState, Now, Source, State},
};
pub use topic_statistics_views::bounds::Sender;
