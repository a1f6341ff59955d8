// SPDX-License-Identifier: Apache-2.0

//! A source of statistics, and the windows of the source. Each metric of a window arrives in a separate message.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rclrs_topic_statistics::{Distribution, Metric};
use topic_statistics_core::Window as Times;
use topic_statistics_observe::{
    bounds::{believed, Sender},
    ros::wire::{MetricDistribution, MetricWindow},
    row::{MetricFigures, Row, Window},
};

use super::inferred::MessageCount;

#[derive(Debug, Default)]
pub struct Source {
    pub row: Row,
    pub last_received: Option<Instant>,
    /// The process to whose share of the table the source counts. `None` if the user selected the source by its full
    /// name.
    pub sender: Option<Sender>,
    pub first_window: Option<Instant>,
    /// When the first metric of the last window was received.
    last_window: Option<Instant>,
    /// The window whose metrics are being received, and when the last of these metrics was received.
    incomplete: Option<(Window, Instant)>,
    /// The distributions received since the last window became complete, at most one for each metric.
    distributions: Vec<(Metric, Arc<Distribution>)>,
    message_count: MessageCount,
}

impl Source {
    const MAX_METRICS: usize = 64;
    /// The maximum length of a window of a node, in nanoseconds.
    const MAX_LENGTH: i64 = 86_400_000_000_000;
    /// The assumed maximum delay between the end of a window and the reception of the window.
    const MAX_DELAY: Duration = Duration::from_secs(5);
    /// A window is complete after this time without a further metric.
    const BATCH: Duration = Duration::from_millis(200);
    /// A source is removed after this time without a message, or after the time of `GONE_WINDOWS` windows if that is
    /// longer.
    const GONE: Duration = Duration::from_secs(60);
    const GONE_WINDOWS: u32 = 10;
    /// If the table is full, a source is removed after this time without a message.
    const GONE_FROM_FULL: Duration = Duration::from_secs(10);

    pub fn new(name: &str) -> Self {
        Self { row: Row::new(name), ..Self::default() }
    }

    /// Adds a metric. Returns whether the metric belongs to a new window, so that the previous window is complete.
    pub fn add_metric(&mut self, message: MetricWindow, received_at: Instant) -> bool {
        let MetricWindow { metric: name, unit, window: times, figures, .. } = message;
        let metric = MetricFigures { name, unit, figures };
        self.last_received = Some(received_at);
        // All metrics of a window have the same times, also in rclcpp, which reads the clock once.
        let is_same = |window: &Window| {
            window.times == times && !window.metrics.iter().any(|present| present.name == metric.name)
        };
        let completes_last =
            !self.incomplete.as_ref().is_some_and(|(window, _)| is_same(window)) && self.complete();
        if self.incomplete.is_none() {
            let length = self.length(times, received_at);
            self.first_window.get_or_insert(received_at);
            self.last_window = Some(received_at);
            let window = Window::new(times, received_at, length);
            self.incomplete = Some((window, received_at));
        }
        if let Some((window, last)) = &mut self.incomplete {
            *last = received_at;
            if window.metrics.len() < Self::MAX_METRICS {
                window.metrics.push(metric);
            }
        }
        completes_last
    }

    /// Adds a distribution to the last minute, and to the next window that becomes complete.
    pub fn accept_distribution(&mut self, message: &MetricDistribution, received_at: Instant) {
        let MetricDistribution { metric, distribution, .. } = message;
        self.row.last_minute.add(*metric, distribution, received_at);
        self.distributions.retain(|(present, _)| present != metric);
        self.distributions.push((*metric, Arc::new((**distribution).clone())));
    }

    /// Completes the present window if no further metric is expected. Returns whether a window was completed.
    pub fn settle(&mut self, now: Instant) -> bool {
        let is_over = |(_, last): &(Window, Instant)| now.saturating_duration_since(*last) > Self::BATCH;
        self.incomplete.as_ref().is_some_and(is_over) && self.complete()
    }

    /// Returns the length of a window, from its stamps, which are on the system clock of another host. If that clock
    /// was stepped, returns the time since the previous window was received.
    fn length(&self, times: Times, received_at: Instant) -> Duration {
        let (start, stop) = (times.start.as_nanoseconds(), times.stop.as_nanoseconds());
        let stamped = stop.saturating_sub(start).clamp(0, Self::MAX_LENGTH);
        let stamped = Duration::from_nanos(stamped.try_into().unwrap_or_default());
        let since = self.last_window.map(|last| received_at.saturating_duration_since(last));
        // A window whose stamps are only somewhat longer is no sign of a step, because delayed windows arrive shortly
        // after each other.
        let is_stepped = |since: &Duration| stamped.is_zero() || stamped > 2 * *since + Self::MAX_DELAY;
        since.filter(is_stepped).unwrap_or(stamped)
    }

    fn complete(&mut self) -> bool {
        let Some((mut window, _)) = self.incomplete.take() else { return false };
        let value_of = |name: &str| {
            let found = window.metrics.iter().find(|metric| metric.name == name);
            found.map(|metric| metric.figures).unwrap_or_default()
        };
        // A period is the time between messages received or published, between requests, or between calls of a timer.
        let is_period = |metric: &&MetricFigures| metric.name.parse().is_ok_and(Metric::is_period);
        let period = window.metrics.iter().find(is_period).map(|metric| metric.figures).unwrap_or_default();
        let age = value_of("message_age");
        let (gap, silence) = (value_of("publication_seq_gap"), value_of("time_since_last_message_ms"));
        let size = value_of(Metric::MessageSize.name());
        window.distributions = std::mem::take(&mut self.distributions);
        let row = &mut self.row;
        window.inferred = self.message_count.messages(&window, row.window.as_ref());
        if let Some(messages) = window.inferred.filter(|_| !window.length.is_zero()) {
            window.rate = messages as f64 / window.length.as_secs_f64();
        }
        // If there are no samples of the size, the window may still have messages, of unknown size.
        window.bytes = (size.sample_count > 0 && size.average >= 0.0)
            .then(|| (size.average * size.sample_count as f64).round() as u64);
        // Each sample of the sequence gap is the number of messages lost just before a received message.
        if gap.sample_count > 0 && gap.average >= 0.0 {
            let lost = (gap.average * gap.sample_count as f64).round() as u64;
            window.lost = Some(lost);
            row.lost = Some(row.lost.unwrap_or_default().saturating_add(lost));
        }
        // A window with n messages has n - 1 periods, or n periods if the first period began in the previous window.
        let messages = window.inferred.unwrap_or_default().max(period.sample_count).max(age.sample_count);
        row.received = row.received.saturating_add(messages);
        let silence = Duration::try_from_secs_f64(silence.average / 1e3).ok();
        if let Some(last) = silence.and_then(|silence| window.ended.checked_sub(silence)) {
            row.last_message = Some(last);
        } else if messages > 0 {
            row.last_message = Some(window.ended);
        }
        if period.average > 0.0 {
            row.mean_period = period.average;
        }
        row.add_window(window);
        true
    }

    pub fn observed(&self) -> Duration {
        let observed = self.last_window.zip(self.first_window);
        observed.map_or(Duration::ZERO, |(last, first)| last.saturating_duration_since(first))
    }

    /// Returns whether the source has stopped publishing. If the table `is_full`, a shorter silence is enough.
    pub fn is_gone(&self, now: Instant, is_full: bool) -> bool {
        let claim = self.row.window.as_ref().map_or(Duration::ZERO, |window| window.length);
        let window = believed(claim, self.observed(), is_full);
        let shortest = if is_full { Self::GONE_FROM_FULL } else { Self::GONE };
        let limit = shortest.max(window.saturating_mul(Self::GONE_WINDOWS));
        self.last_received.is_some_and(|last| now.saturating_duration_since(last) > limit)
    }
}
