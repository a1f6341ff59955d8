// SPDX-License-Identifier: Apache-2.0

//! Messages of finished windows that wait to be published.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    measure::{host, source::Source},
    report::{distribution, message::metrics_message, Failures, WindowPublisher},
    window::{Metric, WindowStatistics},
};

/// Messages of finished windows that wait to be published.
///
/// The messages of a window's end are published in small batches, so that a reader needs no deep queue.
#[derive(Default)]
pub(crate) struct Outbox {
    messages: VecDeque<Outgoing>,
    /// The earliest time of the next batch; None before the first one.
    not_before: Option<Instant>,
    /// The time between two batches.
    gap: Duration,
    /// The number of discarded windows.
    discarded: u64,
}

/// One metric of a finished window, or its distribution.
pub(crate) struct Outgoing {
    pub(crate) source: Arc<Source>,
    pub(crate) publisher: WindowPublisher,
    pub(crate) statistics: Arc<WindowStatistics>,
    /// The index of the metric.
    pub(crate) metric: usize,
    /// Whether this is the metric's distribution.
    pub(crate) is_distribution: bool,
}

impl Outbox {
    /// Half of the usual queue depth of a reader, 10.
    pub(crate) const BATCH: usize = 5;
    /// Longer than a reader takes for a batch; rclpy's takes the longest.
    const GAP: Duration = Duration::from_millis(10);
    /// The largest number of messages: all metrics of some 1800 subscriptions, a few megabytes; with distributions, of some 1000,
    /// and 15 megabytes.
    pub(crate) const BOUND: usize = 20_000;

    /// Appends a message. If there is no room, the oldest window is discarded.
    pub(crate) fn push(&mut self, message: Outgoing) {
        if self.messages.len() >= Self::BOUND {
            self.discard_oldest_window();
        }
        self.messages.push_back(message);
    }

    fn discard_oldest_window(&mut self) {
        let Some(oldest) = self.messages.pop_front() else { return };
        let is_of_it = |message: &Outgoing| Arc::ptr_eq(&message.statistics, &oldest.statistics);
        while self.messages.front().is_some_and(is_of_it) {
            self.messages.pop_front();
        }
        self.discarded += 1;
    }

    /// Returns the number of discarded windows.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Sets the time between batches so that the messages are published by the middle of a window of this length.
    pub(crate) fn pace(&mut self, period: Duration) {
        let batches = self.messages.len().div_ceil(Self::BATCH).max(1);
        self.gap = Self::GAP.min(period / 2 / u32::try_from(batches).unwrap_or(u32::MAX));
    }

    /// Takes the next batch; empty if it is not due.
    pub(crate) fn next_batch(&mut self, now: Instant) -> Vec<Outgoing> {
        if self.messages.is_empty() || self.not_before.is_some_and(|not_before| now < not_before) {
            return vec![];
        }
        self.not_before = Some(now + self.gap);
        self.messages.drain(..self.messages.len().min(Self::BATCH)).collect()
    }

    /// Returns when the next batch is due, `now` at the earliest; None if no message waits.
    pub(crate) fn wake(&self, now: Instant) -> Option<Instant> {
        (!self.messages.is_empty()).then(|| self.not_before.map_or(now, |not_before| not_before.max(now)))
    }

    /// Takes all messages.
    pub(crate) fn take(&mut self) -> VecDeque<Outgoing> {
        std::mem::take(&mut self.messages)
    }
}

impl Outgoing {
    /// Publishes the message, unless its source is retired.
    pub(crate) fn publish(self, failures: &mut Failures) {
        let Some(_guard) = self.source.publishing_guard() else { return };
        let (metric, summary) = &self.statistics.metrics[self.metric];
        let host;
        let source = match metric {
            Metric::ClockOffset => {
                host = host::name();
                host.as_str()
            }
            _ => &self.source.name,
        };
        let window = self.statistics.window;
        let result = match self.statistics.distribution(*metric).filter(|_| self.is_distribution) {
            Some(distribution) => {
                self.publisher.publish(distribution::message(source, *metric, window, distribution))
            }
            None => self.publisher.publish(metrics_message(source, *metric, window, summary)),
        };
        if let Err(error) = result {
            let what = if self.is_distribution { "the distribution of " } else { "" };
            failures.add(|| format!("{what}{metric} of {source}: {error}"));
        }
    }
}
