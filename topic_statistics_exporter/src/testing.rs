// SPDX-License-Identifier: Apache-2.0

//! Internal items that the fuzz targets and the tests without ROS use.

pub use crate::{
    compression::compress,
    exposition::Format,
    http::{serve, Metrics, Server},
    model::Received,
    options::Options,
    otlp::{
        Answer, Backoff, Client, ClientOptions, Delivery, Failure, Limits as QueueLimits, Outcome, Push,
        Queue,
    },
    state::{HealthState, Limits, MetricState, Now, Source, State},
};
pub use topic_statistics_observe::{
    bounds::Sender,
    ros::wire::{Diagnostic, Losses, MetricDistribution, MetricWindow},
};
