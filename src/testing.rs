// SPDX-License-Identifier: Apache-2.0

//! Functions for the benchmarks and fuzz targets of this repository. This module is not part of the public API, and can
//! change with any version.

use std::{sync::Arc, time::Duration};

use rosidl_runtime_rs::Message;
use topic_statistics_core::record::{
    code::{Count, Durations},
    recorder::Recorder,
    source::SourceHandle,
    windowed::Windowed,
};

#[cfg(feature = "interfaces")]
use crate::{interfaces::topic_statistics_interfaces::msg::MessagesLostEvent, report::loss_events};
pub use crate::{
    measure::probe::Probe,
    node::parameters::Parameters,
    report::{
        diagnostics::{status, NodeNames},
        message::metrics_message,
    },
    transport::{middleware_in_use, Middleware},
};
use crate::{
    measure::{size::SerializedSize, stamp::StampField},
    Counter, Metric, NodeStatisticsOptions, SourceName, StatisticsError, StatisticsOptions, StatisticsState,
    Stopwatch,
};

/// Returns the probe that the callback of a subscription calls. The probe also reads message sizes, if the encoding is
/// known.
pub fn probe<T: Message>(recorder: Arc<Recorder>) -> Probe<T> {
    Probe::new(StampField::find(), SerializedSize::of_received().ok().map(Box::new), recorder)
}

/// Creates the handle of a stopwatch.
pub fn stopwatch(source: SourceHandle, durations: Arc<Windowed<Durations>>) -> Stopwatch {
    Stopwatch::new(source, durations)
}

/// Creates the handle of a counter.
pub fn counter(source: SourceHandle, count: Count) -> Counter {
    Counter::new(source, count)
}

/// Converts lost messages to an event message.
#[cfg(feature = "interfaces")]
pub fn loss_event(lost: &topic_statistics_core::schedule::losses::MessagesLost) -> MessagesLostEvent {
    loss_events::message(lost)
}

/// Returns the text of a file of totals.
#[cfg(feature = "totals_file")]
pub fn render_totals(node: &str, totals: &[crate::TopicTotals], written_at: i64) -> String {
    crate::report::totals_file::render(node, totals, written_at)
}

/// The values that are set in [`StatisticsOptions`].
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Whether statistics are enabled.
    pub state: StatisticsState,
    /// The length of a window.
    pub publish_period: Option<Duration>,
    /// The topic on which windows are published.
    pub publish_topic: String,
    /// The name of the source.
    pub source_name: Option<SourceName>,
    /// The metrics.
    pub metrics: Option<Vec<Metric>>,
}

impl From<&StatisticsOptions> for Values {
    fn from(options: &StatisticsOptions) -> Self {
        Self {
            state: options.state,
            publish_period: options.publish_period,
            publish_topic: options.publisher_topic().to_owned(),
            source_name: options.source_name.clone(),
            metrics: options.metrics.clone(),
        }
    }
}

/// # Errors
///
/// Errors if a value is out of range.
pub fn check(options: &NodeStatisticsOptions) -> Result<(), StatisticsError> {
    options.check()
}

/// Returns the options of a source, completed with the options of its node.
pub fn with_defaults(options: StatisticsOptions, of_node: &StatisticsOptions) -> StatisticsOptions {
    options.or(of_node)
}
