// SPDX-License-Identifier: Apache-2.0

//! The delays of requests and responses, computed from their timestamps.

use super::measurements::Measurements;
use crate::{
    collector::AgeCollector,
    distributions::Distributions,
    metric::Metric,
    record::{
        clocks::{clock::EndedWindow, stamp_filter::StampFilter},
        sources::windowed::Present,
    },
};

/// The timestamps of a request or a response that a middleware has delivered, in nanoseconds since the Unix epoch; 0 if
/// unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timestamps {
    /// The time at which the request or response was sent.
    pub source: i64,
    /// The time at which the request or response arrived on this host; 0 if the middleware's received timestamp means
    /// another time.
    pub received: i64,
    /// The epoch in which the request or response was taken: see
    /// [`Windowed::epoch`](crate::record::windowed::Windowed::epoch).
    pub epoch: u32,
}

/// Computes the delays of requests or responses from their timestamps: from the sending to the arrival on this host,
/// from the arrival to the callback, and the sum of both.
#[derive(Debug, Default)]
pub(super) struct Delays(StampFilter);

impl Delays {
    const METRICS: [Metric; 3] =
        [Metric::SourceToReceive, Metric::ReceiveToCallback, Metric::SourceToCallback];

    /// Adds the delays of a request or a response. The delays end at `time` on the monotonic clock.
    pub(super) fn add(
        &self,
        stamps: &Timestamps,
        time: i64,
        present: Present,
        measurements: &mut Measurements,
        distributions: &mut Distributions,
    ) {
        // If a request or response was taken before a clock step was found, its stamps may be from the clock before the
        // step.
        if stamps.epoch != present.epoch {
            return;
        }
        let usable = |stamp: i64| if self.0.is_doubtful(stamp) { 0 } else { stamp };
        let (source, received, now) =
            (usable(stamps.source), usable(stamps.received), present.system.at(time));
        let spans = [(source, received), (received, now), (source, now)];
        for (metric, (from, to)) in Self::METRICS.into_iter().zip(spans) {
            if let Some(delay) = AgeCollector::sample(from, to) {
                measurements.add(metric, delay, distributions);
            }
        }
    }

    /// Ends a window. If the system clock was stepped in the window, the delays of the window are discarded.
    pub(super) fn end_window(&mut self, ended: &EndedWindow, measurements: &mut Measurements) {
        self.0.end_window(ended);
        if ended.step.is_some() {
            Self::METRICS.into_iter().for_each(|metric| measurements.discard(metric));
        }
    }

    /// Restarts the filter of doubtful stamps: see [`StampFilter::restart`].
    pub(super) fn restart(&mut self, start: i64, has_stepped: bool) {
        self.0.restart(start, has_stepped);
    }
}
