// SPDX-License-Identifier: Apache-2.0

//! A source, such as a subscription or a timer, or the clock of a host.

use std::{
    collections::{btree_map::Entry, BTreeMap},
    time::{Instant, SystemTime},
};

use rclrs_topic_statistics::{Metric, SourceKind, Window};

use topic_statistics_observe::bounds::Sender;

use super::{
    budget::{Budget, NotAdded},
    first_zero::FirstZero,
    life::Kept,
    metric::MetricState,
    now::Now,
    receipt::Receipt,
};
use crate::model::{MetricDistribution, MetricName, MetricWindow};

/// A source of statistics.
#[derive(Debug)]
pub struct Source {
    /// Who added it. Metrics can have another sender.
    sender: Sender,
    metrics: BTreeMap<MetricName, MetricState>,
    /// How many time series a metric is, at most.
    metric_series: usize,
    received: Option<u64>,
    published: Option<u64>,
    lost: Option<FirstZero>,
    /// The last windows, in a ring, with their counts.
    windows: [CountedWindow; Self::WINDOWS],
    next: usize,
    total_windows: u64,
    last_window: Option<Now>,
    created: SystemTime,
}

/// A window whose metrics are received one by one, and its least number of messages.
#[derive(Clone, Copy, Debug, Default)]
struct CountedWindow {
    window: Option<Window>,
    received: u64,
    published: u64,
}

impl Source {
    /// The largest number of time series of a source besides its metrics: messages received, published and lost; rates;
    /// windows; the time of the last one.
    pub const SERIES: usize = 7;
    /// How many windows are remembered: two nodes with the same name, and the subscriptions of a node with rclcpp,
    /// publish in turns.
    const WINDOWS: usize = 8;
    /// A system clock that differs from the monotonic clock by more seconds was stepped.
    const MAX_JITTER: f64 = 0.1;

    /// Returns a source that has begun at that time. A metric of it is that many time series, at most.
    pub(super) fn new(sender: Sender, created: SystemTime, metric_series: usize) -> Self {
        Self {
            sender,
            metrics: BTreeMap::new(),
            metric_series,
            received: None,
            published: None,
            lost: None,
            windows: [CountedWindow::default(); Self::WINDOWS],
            next: 0,
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
        // Metrics have different numbers of samples: n messages have n - 1 periods, and no age without a header.
        let count = |total: &mut Option<u64>, counted: &mut u64| {
            let more = figures.sample_count.saturating_sub(*counted);
            *counted += more;
            let total = total.get_or_insert_default();
            *total = total.saturating_add(more);
        };
        let (received, published) = (&mut self.received, &mut self.published);
        match known {
            Some(
                Metric::MessageAge
                | Metric::MessagePeriod
                | Metric::HeaderToSource
                | Metric::SourceToReceive
                | Metric::ReceiveToCallback
                | Metric::SourceToCallback
                | Metric::HeaderToCallback
                | Metric::PublicationSeqGap,
            ) => count(received, &mut self.windows[counted].received),
            Some(Metric::PublishPeriod | Metric::PublishDuration) => {
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
        message: &MetricDistribution,
        budget: &mut Budget,
        receipt: Receipt,
        now: Now,
    ) -> Result<(), NotAdded> {
        let MetricDistribution { source, metric, window, distribution } = message;
        let state = self.metric(&source.node, &MetricName::Known(*metric), budget, receipt)?;
        state.accept_distribution(*metric, *window, distribution, now)
    }

    /// A scrape begins.
    pub(super) fn begin_scrape(&mut self) {
        self.lost.iter_mut().for_each(FirstZero::begin_scrape);
        for metric in self.metrics.values_mut() {
            metric.begin_scrape();
        }
    }

    /// Removes the metrics that have ended. Returns whether the source is still there.
    pub(super) fn expire(&mut self, node: &str, kept: Kept, budget: &mut Budget, now: Instant) -> bool {
        self.retain(node, budget, |_, metric| metric.expire(kept, now))
    }

    /// Keeps some metrics only. Returns whether the source is still there.
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

    /// Returns the index of a window, which may be a new one.
    ///
    /// All metrics of a window have the same start and stop, rclcpp's too: `SubscriptionTopicStatistics` reads the
    /// clock once.
    fn window(&mut self, window: Window) -> usize {
        self.windows.iter().position(|counted| counted.window == Some(window)).unwrap_or_else(|| {
            let index = self.next % Self::WINDOWS;
            self.windows[index] = CountedWindow { window: Some(window), ..CountedWindow::default() };
            self.next = index + 1;
            self.total_windows += 1;
            index
        })
    }

    /// Returns the metrics, in the order of their names.
    pub fn metrics(&self) -> impl ExactSizeIterator<Item = (&MetricName, &MetricState)> {
        self.metrics.iter()
    }

    /// Returns a metric.
    pub fn metric_state(&self, metric: &MetricName) -> Option<&MetricState> {
        self.metrics.get(metric)
    }

    /// Returns the kind of a service, a client, a timer or one end of an action: the source has a metric that only this
    /// kind has, and no metric that this kind does not have. None for other sources.
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

    /// Returns the messages that a subscription has received, at least: the largest sample count of each window. If
    /// only periods are measured, a window's first message is not among them.
    pub fn received(&self) -> Option<u64> {
        self.received.filter(|_| self.kind().is_none())
    }

    /// Returns the messages that a publisher has published, at least.
    pub fn published(&self) -> Option<u64> {
        self.published
    }

    /// Returns the messages that a subscription has lost: all gaps, including messages that arrived late.
    pub fn lost(&self) -> Option<FirstZero> {
        self.lost
    }

    /// Returns the number of windows.
    pub fn windows(&self) -> u64 {
        self.total_windows
    }

    /// Returns when the last metric of a window was received, in seconds since the epoch. `unix_time` is `now` in these
    /// seconds.
    ///
    /// It is the time that the clock showed then, as long as the clock was not stepped.
    pub fn last_window(&self, now: Instant, unix_time: f64) -> Option<f64> {
        let last = self.last_window?;
        let shown = last.system.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let elapsed = unix_time - now.saturating_duration_since(last.monotonic).as_secs_f64();
        Some(if (shown - elapsed).abs() < Self::MAX_JITTER { shown } else { elapsed })
    }

    /// Returns when the first window of the source began. Its totals began then.
    pub fn created(&self) -> SystemTime {
        self.created
    }
}
