// SPDX-License-Identifier: Apache-2.0

//! A source of statistics, such as a subscription, a timer, or the clock of a host.

use std::{
    collections::{btree_map::Entry, BTreeMap},
    time::{Instant, SystemTime},
};

use rclrs_topic_statistics::{Metric, SourceKind, Summary, Window};
use topic_statistics_observe::{bounds::Sender, messages::messages, ros::wire::MetricDistribution};

use super::{
    budget::{Budget, NotAdded, Receipt},
    life::{Kept, Now},
    metric::{FirstZero, MetricState},
};
use crate::model::{MetricName, MetricWindow};

#[derive(Debug)]
pub struct Source {
    /// The sender (publishing process) that added the source. Other senders can have added metrics of the same source.
    sender: Sender,
    pub metrics: BTreeMap<MetricName, MetricState>,
    metric_series: usize,
    received: Option<u64>,
    pub published: Option<u64>,
    /// The sum of all gaps in the sequence numbers. A message that arrived late still counts as lost.
    pub lost: Option<FirstZero>,
    /// The last windows with their counts, the latest first.
    windows: [CountedWindow; Self::WINDOWS],
    pub total_windows: u64,
    last_window: Option<Now>,
    /// When the first window of the source began. The totals of the source began at this time.
    pub created: SystemTime,
}

/// A window, and the numbers of messages received and published in this window, as far as they are known. Each metric
/// of a window arrives as a separate message. If a metric has more samples than the window's metrics before it, the
/// number of messages grows.
#[derive(Clone, Copy, Debug, Default)]
struct CountedWindow {
    window: Option<Window>,
    received: u64,
    published: u64,
}

impl Source {
    /// The largest number of time series of a source, without the time series of its metrics: messages received,
    /// published and lost; rates; windows; the time of the last window.
    pub const SERIES: usize = 7;
    /// The metrics of a subscription with a sample for each message, and of a publisher with a sample for each
    /// publication, if the sample is known.
    pub const RECEIVED: [Metric; 8] = [
        Metric::MessageAge,
        Metric::MessagePeriod,
        Metric::HeaderToSource,
        Metric::SourceToReceive,
        Metric::ReceiveToCallback,
        Metric::SourceToCallback,
        Metric::HeaderToCallback,
        Metric::PublicationSeqGap,
    ];
    pub const PUBLISHED: [Metric; 2] = [Metric::PublishPeriod, Metric::PublishDuration];
    /// The number of windows that are remembered. Several windows can be open at once, because two nodes with the same
    /// name, or two subscriptions of one rclcpp node, publish their metrics alternately.
    const WINDOWS: usize = 8;
    /// The system clock was not stepped in a time interval if its length on the system clock and its length on the
    /// monotonic clock differ by less than this (in seconds).
    const MAX_JITTER: f64 = 0.1;

    /// Returns a source that began at `created`. Each of its metrics has at most `metric_series` time series.
    pub(super) fn new(sender: Sender, created: SystemTime, metric_series: usize) -> Self {
        Self {
            sender,
            metrics: BTreeMap::new(),
            metric_series,
            received: None,
            published: None,
            lost: None,
            windows: [CountedWindow::default(); Self::WINDOWS],
            total_windows: 0,
            last_window: None,
            created,
        }
    }

    pub(super) fn accept_window(
        &mut self,
        message: &MetricWindow,
        budget: &mut Budget,
        receipt: Receipt,
        now: Now,
    ) -> Result<(), NotAdded> {
        let MetricWindow { source, metric, window, figures } = message;
        let (window, known) = (*window, metric.known());
        self.metric(&source.node, metric, budget, receipt)?.accept_window(window, *figures, now)?;
        self.last_window = Some(now);
        let counted = self.window(window);
        // The metrics of a window can have different numbers of samples. For example, n messages have n - 1 periods,
        // and messages without a header have no age.
        let count = |total: &mut Option<u64>, counted: &mut u64| {
            let more = figures.sample_count.saturating_sub(*counted);
            *counted += more;
            let total = total.get_or_insert_default();
            *total = total.saturating_add(more);
        };
        let (received, published) = (&mut self.received, &mut self.published);
        match known {
            Some(metric) if Self::RECEIVED.contains(&metric) => {
                count(received, &mut self.windows[counted].received);
            }
            Some(metric) if Self::PUBLISHED.contains(&metric) => {
                count(published, &mut self.windows[counted].published);
            }
            _ => {}
        }
        let sum = figures.average * figures.sample_count as f64;
        if known == Some(Metric::PublicationSeqGap) && sum >= 0.0 {
            self.lost.get_or_insert_default().add(sum.round() as u64);
        }
        Ok(())
    }

    pub(super) fn accept_distribution(
        &mut self,
        node: &str,
        message: &MetricDistribution,
        budget: &mut Budget,
        receipt: Receipt,
        now: Now,
    ) -> Result<(), NotAdded> {
        let state = self.metric(node, &MetricName::Known(message.metric), budget, receipt)?;
        state.accept_distribution(message, now)
    }

    pub(super) fn begin_scrape(&mut self) {
        self.lost.iter_mut().for_each(FirstZero::begin_scrape);
        for metric in self.metrics.values_mut() {
            metric.begin_scrape();
        }
    }

    /// Removes the metrics that have ended. Returns whether the source still has metrics.
    pub(super) fn expire(&mut self, node: &str, kept: Kept, budget: &mut Budget, now: Instant) -> bool {
        self.retain(node, budget, |_, metric| metric.expire(kept, now))
    }

    /// Keeps only the metrics that `is_kept` selects. Returns whether the source still has metrics.
    pub(super) fn retain(
        &mut self,
        node: &str,
        budget: &mut Budget,
        mut is_kept: impl FnMut(&MetricName, &mut MetricState) -> bool,
    ) -> bool {
        self.metrics.retain(|name, metric| {
            let is_kept = is_kept(name, metric);
            if !is_kept {
                budget.release(node, metric.receipt.sender, self.metric_series);
            }
            is_kept
        });
        if self.metrics.is_empty() {
            budget.release(node, self.sender, Self::SERIES);
        }
        !self.metrics.is_empty()
    }

    fn metric(
        &mut self,
        node: &str,
        metric: &MetricName,
        budget: &mut Budget,
        receipt: Receipt,
    ) -> Result<&mut MetricState, NotAdded> {
        match self.metrics.entry(metric.clone()) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                budget.reserve(node, receipt.sender, self.metric_series)?;
                Ok(entry.insert(MetricState::new(receipt)))
            }
        }
    }

    /// Returns the index of a window. Adds the window if it is new.
    ///
    /// All metrics of a window have the same start and stop. This is also true for rclcpp, because
    /// `SubscriptionTopicStatistics` reads the clock once for all metrics of a window.
    fn window(&mut self, window: Window) -> usize {
        self.windows.iter().position(|counted| counted.window == Some(window)).unwrap_or_else(|| {
            self.windows.rotate_right(1);
            self.windows[0] = CountedWindow { window: Some(window), ..CountedWindow::default() };
            self.total_windows += 1;
            0
        })
    }

    /// Returns the kind of the source if the source is a service, a client, a timer, an action server or an action
    /// client; `None` otherwise. A source has one of these kinds if it has a metric that only this kind has, and no
    /// metric that this kind does not have.
    pub fn kind(&self) -> Option<SourceKind> {
        const KINDS: [SourceKind; 6] = [
            SourceKind::Subscription,
            SourceKind::Service,
            SourceKind::Client,
            SourceKind::Timer,
            SourceKind::ActionServer,
            SourceKind::ActionClient,
        ];
        KINDS.into_iter().skip(1).find(|kind| {
            let mut metrics = self.metrics.keys().filter_map(MetricName::known);
            let is_its_own = |metric| KINDS.iter().all(|other| other == kind || !other.measures(metric));
            metrics.clone().all(|metric| kind.measures(metric)) && metrics.any(is_its_own)
        })
    }

    /// Returns the number of messages that a subscription has received. It is the sum, over all windows, of the largest
    /// sample count in a window. If only periods are measured, the number is too low: the first message of each window
    /// is not counted.
    pub fn received(&self) -> Option<u64> {
        self.received.filter(|_| self.kind().is_none())
    }

    /// Returns the rate (in Hz) of the messages in the last window of the metric `period`. `counts` are the metrics
    /// that have a sample for each message. `None` if the window is not current, or if it has no sample.
    pub fn rate(&self, period: Metric, counts: &[Metric], now: Instant) -> Option<f64> {
        let window_of = |metric| self.metrics.get(&MetricName::Known(metric))?.window.as_ref();
        let periods = window_of(period).filter(|window| window.life.is_current(now))?;
        let is_count = |metric: &&Metric| !metric.is_period();
        let counted = counts.iter().filter(is_count).filter_map(|metric| window_of(*metric));
        let counted = counted.filter(|window| window.life.last == periods.life.last);
        let samples = counted.map(|window| window.figures.sample_count).max().unwrap_or_default();
        let Summary { sample_count, average, .. } = periods.figures;
        let length = periods.life.length;
        let messages = messages(samples, sample_count, average, length);
        (messages > 0 && !length.is_zero()).then(|| messages as f64 / length.as_secs_f64())
    }

    /// Returns the Unix time (in seconds) when the last metric of any window was received. `unix_time` is the Unix time
    /// of `now`.
    ///
    /// If the system clock was not stepped since the reception, the result is the system time of the reception.
    /// Otherwise, the result is `unix_time` minus the monotonic time since the reception.
    pub fn last_window(&self, now: Instant, unix_time: f64) -> Option<f64> {
        let last = self.last_window?;
        let shown = last.system.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let elapsed = unix_time - now.saturating_duration_since(last.monotonic).as_secs_f64();
        Some(if (shown - elapsed).abs() < Self::MAX_JITTER { shown } else { elapsed })
    }
}
