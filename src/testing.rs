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
    Counter, StatisticsOptions, StatisticsState, Stopwatch,
};

/// Returns the probe that the callback of a subscription calls. If the encoding of the middleware is known, the probe
/// also reads message sizes.
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
}

impl From<&StatisticsOptions> for Values {
    fn from(options: &StatisticsOptions) -> Self {
        Self {
            state: options.state,
            publish_period: options.publish_period,
            publish_topic: options.publisher_topic().to_owned(),
        }
    }
}
