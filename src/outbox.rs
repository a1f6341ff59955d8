// SPDX-License-Identifier: Apache-2.0

//! Finished windows on their way to the publishers.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use rclrs::Publisher;
use ros_env::statistics_msgs::msg::MetricsMessage;

use crate::{
    host,
    measured::Measured,
    message::metrics_message,
    window::{Metric, WindowStatistics},
};

/// Finished windows on their way to the publishers.
///
/// The messages of a window's end do not go at once but in small batches, so that a reader of them needs no deep
/// queue.
pub(crate) struct Outbox {
    messages: VecDeque<Outgoing>,
    /// When the next batch may go.
    not_before: Instant,
    /// The time from batch to batch.
    gap: Duration,
    /// Windows that had to make room.
    discarded: u64,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { messages: VecDeque::new(), not_before: Instant::now(), gap: Duration::ZERO, discarded: 0 }
    }
}

/// One metric of a finished window.
pub(crate) struct Outgoing {
    pub(crate) measured: Arc<Measured>,
    pub(crate) publisher: Publisher<MetricsMessage>,
    pub(crate) statistics: Arc<WindowStatistics>,
    pub(crate) metric: usize,
}

impl Outbox {
    /// Half of what a reader with the usual depth of 10 has room for.
    const BATCH: usize = 5;
    /// Longer than a reader takes for a batch, rclpy's too.
    const GAP: Duration = Duration::from_millis(10);
    /// The most messages that wait: all metrics of some 1800 subscriptions, a few megabytes.
    pub(crate) const BOUND: usize = 20_000;

    /// Puts a message behind the others. Where there is no room, the oldest window goes.
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

    /// Returns how many windows had to make room so far.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Chooses the gap so that the messages that wait now are gone by the middle of a window of this length.
    pub(crate) fn pace(&mut self, period: Duration) {
        let batches = self.messages.len().div_ceil(Self::BATCH).max(1);
        self.gap = Self::GAP.min(period / 2 / u32::try_from(batches).unwrap_or(u32::MAX));
    }

    /// Takes the next batch, if its time has come.
    pub(crate) fn next_batch(&mut self, now: Instant) -> Vec<Outgoing> {
        if self.messages.is_empty() || now < self.not_before {
            return vec![];
        }
        self.not_before = now + self.gap;
        self.messages.drain(..self.messages.len().min(Self::BATCH)).collect()
    }

    /// When the next batch may go; None if nothing waits.
    pub(crate) fn wake(&self) -> Option<Instant> {
        (!self.messages.is_empty()).then_some(self.not_before)
    }

    /// Takes all that waits.
    pub(crate) fn take(&mut self) -> VecDeque<Outgoing> {
        std::mem::take(&mut self.messages)
    }
}

/// Messages that could not be published, since that was said last.
#[derive(Default)]
pub(crate) struct Failures {
    count: u64,
    first: Option<String>,
}

impl Failures {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds one, and what it was unless there was one before.
    pub(crate) fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(what);
    }

    /// Returns what there is to say of them, and forgets them.
    pub(crate) fn take(&mut self) -> Option<String> {
        let Self { count, first } = std::mem::take(self);
        Some(format!("{count} messages of topic statistics could not be published: {}", first?))
    }
}

impl Outgoing {
    /// Publishes it, unless what was measured is gone.
    pub(crate) fn publish(self, failures: &mut Failures) {
        let Some(_stays) = self.measured.stay() else { return };
        let (metric, summary) = &self.statistics.metrics[self.metric];
        let host;
        let source = match metric {
            Metric::ClockOffset => {
                host = host::name();
                &host
            }
            _ => &self.measured.source,
        };
        let message = metrics_message(source, *metric, self.statistics.window, summary);
        if let Err(error) = self.publisher.publish(message) {
            failures.add(|| format!("{} of {source}: {error}", metric.name()));
        }
    }
}
