// SPDX-License-Identifier: Apache-2.0

//! The messages of finished windows that wait to be published.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    collector::Distribution,
    metric::Metric,
    record::{host, source::Source},
    summary::Summary,
    window::{Window, WindowStatistics},
};

/// A publisher of the windows of sources: of their metrics and their distributions.
pub trait PublishWindows: Send + Sync {
    /// Publishes a metric of a window of the source. Returns the error of the middleware if this fails.
    fn publish_metric(
        &self,
        source: &str,
        metric: Metric,
        window: Window,
        summary: &Summary,
    ) -> Result<(), PublishError>;

    /// Publishes the distribution of a metric of a window of the source. Returns the error of the middleware if this
    /// fails. The default implementation does nothing, for publishers without a message type for distributions.
    fn publish_distribution(
        &self,
        _source: &str,
        _metric: Metric,
        _window: Window,
        _distribution: &Distribution,
    ) -> Result<(), PublishError> {
        Ok(())
    }
}

/// The reason why a message was not published.
pub type PublishError = Box<dyn std::error::Error + Send + Sync>;

/// A shared publisher of windows.
pub type WindowPublisher = Arc<dyn PublishWindows>;

/// The messages that could not be published since the last warning.
#[derive(Debug, Default)]
pub struct Failures {
    count: u64,
    first: Option<String>,
}

impl Failures {
    /// Returns whether there are no failures.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a failure. Only the description of the first failure is kept.
    pub fn add(&mut self, description: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(description);
    }

    /// Adds the failures of `later`.
    pub fn append(&mut self, later: Failures) {
        self.count += later.count;
        self.first = self.first.take().or(later.first);
    }

    /// Returns the warning about the failures, and clears the failures. `None` if there were no failures.
    pub fn take(&mut self) -> Option<String> {
        let Self { count, first } = std::mem::take(self);
        Some(format!("{count} messages of topic statistics could not be published: {}", first?))
    }
}

/// The messages of finished windows that wait to be published.
///
/// When many windows end at the same time, their messages are published in small batches, so that a reader does not
/// need a deep queue.
#[derive(Default)]
pub(crate) struct Outbox {
    messages: VecDeque<Outgoing>,
    /// The next batch is not published before this time; `None` before the first batch.
    not_before: Option<Instant>,
    gap: Duration,
    /// The number of windows that were discarded because the outbox was full.
    pub(crate) discarded: u64,
}

/// A message that waits to be published: one metric of a finished window, or the distribution of one metric.
#[non_exhaustive]
pub struct Outgoing {
    /// The source of the window.
    pub source: Arc<Source>,
    /// The publisher of the message.
    pub publisher: WindowPublisher,
    /// The statistics of the window.
    pub statistics: Arc<WindowStatistics>,
    /// The index of the metric in the window's metrics.
    pub metric: usize,
    /// Whether the message is the distribution of the metric. If not, it is the summary of the metric.
    pub is_distribution: bool,
}

impl Outbox {
    /// The number of messages in a batch: half of a reader's usual queue depth, which is 10.
    pub(crate) const BATCH: usize = 5;
    /// The usual time between two batches. Within this time, every reader can read a batch, even a reader in rclpy.
    const GAP: Duration = Duration::from_millis(10);
    /// The largest number of waiting messages. The outbox has room for all metrics of about 1800 subscriptions (a few
    /// megabytes), or of about 1000 subscriptions with distributions (15 megabytes).
    pub(crate) const BOUND: usize = 20_000;

    /// Appends a message. If the outbox is full, all messages of the oldest window are discarded.
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

    /// Sets the time between batches for windows with this publish period, so that all messages are published by the
    /// middle of the next window.
    pub(crate) fn pace(&mut self, period: Duration) {
        let batches = self.messages.len().div_ceil(Self::BATCH).max(1);
        self.gap = Self::GAP.min(period / 2 / u32::try_from(batches).unwrap_or(u32::MAX));
    }

    /// Takes the next batch out of the outbox. The result is empty if no batch is due.
    pub(crate) fn next_batch(&mut self, now: Instant) -> Vec<Outgoing> {
        if self.messages.is_empty() || self.not_before.is_some_and(|not_before| now < not_before) {
            return vec![];
        }
        self.not_before = Some(now + self.gap);
        self.messages.drain(..self.messages.len().min(Self::BATCH)).collect()
    }

    /// Returns the time at which the next batch is due, not earlier than `now`; `None` if no message waits.
    pub(crate) fn wake(&self, now: Instant) -> Option<Instant> {
        (!self.messages.is_empty()).then(|| self.not_before.map_or(now, |not_before| not_before.max(now)))
    }

    pub(crate) fn take(&mut self) -> VecDeque<Outgoing> {
        std::mem::take(&mut self.messages)
    }
}

impl Outgoing {
    /// Publishes the message, unless the handle of its source was dropped.
    pub fn publish(&self, failures: &mut Failures) {
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
        let publish = || match self.statistics.distribution(*metric).filter(|_| self.is_distribution) {
            Some(distribution) => self.publisher.publish_distribution(source, *metric, window, distribution),
            None => self.publisher.publish_metric(source, *metric, window, summary),
        };
        // A failed publication is repeated once, because with Fast DDS a publication can fail while the system clock is
        // stepped forward. If the second attempt also fails, the other messages of the batch are not repeated, because
        // each publication may block before it fails.
        let may_repeat = failures.is_empty();
        let result = publish().or_else(|error| if may_repeat { publish() } else { Err(error) });
        if let Err(error) = result {
            let what = if self.is_distribution { "the distribution of " } else { "" };
            failures.add(|| format!("{what}{metric} of {source}: {error}"));
        }
    }
}

opaque_debug!(Outgoing);
