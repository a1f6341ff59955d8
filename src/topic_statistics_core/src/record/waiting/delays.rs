// SPDX-License-Identifier: Apache-2.0

//! The delays of requests and responses, by their timestamps.

use crate::{
    collector::AgeCollector,
    distributions::Distributions,
    metric::Metric,
    metric_set::MetricSet,
    record::{
        clocks::stamp_filter::StampFilter,
        sources::windowed::{Present, WindowEnd},
    },
    summary::Summary,
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

/// The delays of requests or responses, by their timestamps: from the source to this host, from there to the callback,
/// and their sum.
#[derive(Debug, Default)]
pub(super) struct Delays {
    ages: [AgeCollector; Self::METRICS.len()],
    filter: StampFilter,
}

impl Delays {
    pub(super) const METRICS: [Metric; 3] =
        [Metric::SourceToReceive, Metric::ReceiveToCallback, Metric::SourceToCallback];

    /// Accepts the delays up to `time`, on the monotonic clock.
    pub(super) fn accept(
        &mut self,
        stamps: &Timestamps,
        time: i64,
        present: Present,
        distributions: &mut Distributions,
    ) {
        // Taken before a step of the system clock was found: the stamps may be of the clock before it.
        if stamps.epoch != present.epoch {
            return;
        }
        let usable = |stamp: i64| if self.filter.is_doubtful(stamp) { 0 } else { stamp };
        let (source, received, now) =
            (usable(stamps.source), usable(stamps.received), present.system.at(time));
        let spans = [(source, received), (received, now), (source, now)];
        for ((metric, ages), (from, to)) in Self::METRICS.into_iter().zip(&mut self.ages).zip(spans) {
            ages.accept(from, to);
            if let Some(delay) = AgeCollector::sample(from, to) {
                distributions.accept(metric, delay);
            }
        }
    }

    /// Ends a window. After a step of the system clock in it, no delay is known.
    pub(super) fn take(&mut self, end: &WindowEnd) -> [(Metric, Summary); Self::METRICS.len()] {
        let mut summaries = self.ages.each_mut().map(AgeCollector::take);
        self.filter.expire(end.stop);
        if let Some(step) = end.step {
            self.filter.accept(end.window.stop.as_nanoseconds(), end.stop, step);
            summaries = [Summary::default(); Self::METRICS.len()];
        }
        let [to_receive, to_callback, whole] = Self::METRICS;
        [(to_receive, summaries[0]), (to_callback, summaries[1]), (whole, summaries[2])]
    }

    /// Forgets all delays. The next window starts at that time; the system clock may have been stepped before it.
    pub(super) fn clear(&mut self, start: i64, has_stepped: bool) {
        let mut filter = std::mem::take(&mut self.filter);
        filter.expire(start);
        if has_stepped {
            filter.accept_unobserved(start);
        }
        *self = Self { filter, ..Self::default() };
    }
}

/// Returns the metrics that are enabled.
pub(super) fn measured(
    metrics: impl IntoIterator<Item = (Metric, Summary)>,
    enabled: MetricSet,
) -> Vec<(Metric, Summary)> {
    let mut measured = Vec::with_capacity(enabled.len());
    measured.extend(metrics.into_iter().filter(|(metric, _)| enabled.contains(*metric)));
    measured
}
