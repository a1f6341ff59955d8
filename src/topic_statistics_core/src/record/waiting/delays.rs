// SPDX-License-Identifier: Apache-2.0

//! The delays of requests and responses, by their timestamps.

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

/// The timestamps of a request or a response that a middleware has delivered, in nanoseconds since the epoch; 0 if
/// unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timestamps {
    /// When it was sent.
    pub source: i64,
    /// When it arrived on this host; 0 where the middleware reports another time than that.
    pub received: i64,
    /// The epoch in which it was taken: see [`Windowed::epoch`](crate::record::windowed::Windowed::epoch).
    pub epoch: u32,
}

/// Finds the delays of requests or responses by their timestamps: from the source to this host, from there to the
/// callback, and their sum.
#[derive(Debug, Default)]
pub(super) struct Delays(StampFilter);

impl Delays {
    const METRICS: [Metric; 3] =
        [Metric::SourceToReceive, Metric::ReceiveToCallback, Metric::SourceToCallback];

    /// Adds the delays up to `time`, on the monotonic clock.
    pub(super) fn add(
        &self,
        stamps: &Timestamps,
        time: i64,
        present: Present,
        measurements: &mut Measurements,
        distributions: &mut Distributions,
    ) {
        // Taken before a step of the system clock was found: the stamps may be of the clock before it.
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

    /// Ends a window. After a step of the system clock in it, no delay is known.
    pub(super) fn end_window(&mut self, ended: &EndedWindow, measurements: &mut Measurements) {
        self.0.end_window(ended);
        if ended.step.is_some() {
            Self::METRICS.into_iter().for_each(|metric| measurements.discard(metric));
        }
    }

    /// Starts the first window, at that time. `has_stepped`: the system clock was stepped while none was under way.
    pub(super) fn restart(&mut self, start: i64, has_stepped: bool) {
        self.0.restart(start, has_stepped);
    }
}
