// SPDX-License-Identifier: Apache-2.0

//! The state of all sources of statistics: the figures of the last window, and totals that only grow.
//!
//! The size of the state is limited. The state uses the monotonic clock for lifetimes, and totals are sums of values
//! that the nodes have measured. So a step of the system clock changes neither lifetimes nor totals.

mod buckets;
mod budget;
mod health;
mod histogram;
mod life;
mod metric;
mod process;
mod push;
mod source;

use std::{
    collections::{btree_map::Entry::*, BTreeMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use topic_statistics_core::{health::Level, Window};
use topic_statistics_observe::{
    bounds::{Sender, Shares},
    ros::wire::{Refused, SourceHealth},
};

pub use self::{
    buckets::Buckets,
    health::{HealthState, Judged},
    histogram::{Bucket, Histogram},
    life::Now,
    metric::{FirstZero, MetricState, WindowState, QUANTILES},
    process::ProcessFigures,
    push::{DroppedRequests, PushCounts},
    source::Source,
};
use self::{
    budget::{Budget, NotAdded, Receipt},
    life::{Kept, Life},
};
use super::{
    filter::NodeFilter,
    model::{DiagnosticName, MetricName, MetricWindow, Received, SourceName},
};

/// The state, which the subscriptions write and the outputs read.
///
/// A thread keeps the lock while it adds one message, or while it makes one report from the state.
pub type SharedState = Arc<Mutex<State>>;

#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The largest number of time series. A source or a metric that would exceed this limit is left out.
    pub max_series: usize,
    /// The largest number of time series of one node. A source or a metric that would exceed this limit is left out.
    pub max_series_per_node: usize,
    pub classic_buckets: Buckets,
    /// A metric is removed when no window of it was received for this number of window lengths (at least 10 s).
    pub keep_windows: u32,
    /// A diagnostic status or a health is removed if it is not received again within this time.
    pub keep_diagnostics: Duration,
}

#[derive(Debug)]
pub struct State {
    pub limits: Limits,
    sources: BTreeMap<SourceName, Source>,
    /// The losses by node and topic. A loss event does not say which subscription of a topic lost the messages, so a
    /// loss is not assigned to a source.
    pub reported_losses: BTreeMap<SourceName, ReportedLosses>,
    diagnostics: BTreeMap<DiagnosticName, DiagnosticState>,
    /// The health of each source according to each judge, which is a node that judges the source. A source can have a
    /// health even if the source publishes no statistics.
    pub healths: BTreeMap<Judged, HealthState>,
    budget: Budget,
    /// The time when ended sources and statuses were last removed to make room.
    made_room: Option<Instant>,
    /// Selects the nodes whose messages are accepted.
    pub filter: NodeFilter,
    counts: Counts,
    /// The counts of pushed requests at the time of the last report. `None` if the exporter pushes nothing.
    pub push: Option<PushCounts>,
    /// The resources that the exporter's process used at the last scrape or report.
    pub process: Option<ProcessFigures>,
    /// The time when the exporter began to count.
    pub created: SystemTime,
}

/// The messages that all subscriptions of a node to one topic have lost together, according to the node's loss events.
#[derive(Clone, Copy, Debug)]
pub struct ReportedLosses {
    receipt: Receipt,
    pub lost: FirstZero,
    /// The time at which the count of lost messages was still 0.
    pub created: SystemTime,
}

/// A diagnostic status, with the level of the last message.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticState {
    receipt: Receipt,
    pub level: Level,
}

/// Counts of the messages that the exporter received since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted messages of `/statistics`, each with one metric of one window.
    pub windows: u64,
    pub distributions: u64,
    /// Accepted loss reports, each for one topic.
    pub losses: u64,
    pub diagnostics: u64,
    /// Messages whose content, a metric or a distribution of a window, was already in an earlier message.
    pub duplicate: u64,
    /// Messages with impossible names or numbers.
    pub invalid: u64,
    /// Distributions over more than 12 orders of magnitude, whose smallest samples therefore have no bucket.
    pub too_wide: u64,
    pub beyond_max_series: u64,
    pub beyond_max_of_node: u64,
    /// Messages of nodes that the options exclude.
    pub excluded: u64,
}

/// The number of time series of one diagnostic status, and also of the reported losses of one topic.
const SINGLE_SERIES: usize = 1;
/// How long the reported losses of a topic are kept after the last loss event. The reported losses are kept longer if
/// the node still publishes statistics of the topic. The time is longer than 10 minutes, because the alert on losses
/// looks back 10 minutes.
const KEEP_LOSSES: Duration = Duration::from_secs(900);
/// The assumed time from the first loss on a topic to the first loss event of this topic. By default, nodes publish
/// events each second.
const FIRST_LOSSES: Duration = Duration::from_secs(1);
/// The shortest time between two removals of ended sources to make room for new sources.
const MAKE_ROOM_PERIOD: Duration = Duration::from_secs(1);
/// The node name under which diagnostic statuses are counted. A status has no node, so all statuses share one limit.
const DIAGNOSTICS: &str = "";

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_series: 100_000,
            max_series_per_node: 20_000,
            classic_buckets: Buckets::default(),
            keep_windows: 60,
            keep_diagnostics: Duration::from_secs(60),
        }
    }
}

impl State {
    pub fn new(limits: Limits, now: Now) -> Self {
        Self {
            sources: BTreeMap::new(),
            reported_losses: BTreeMap::new(),
            diagnostics: BTreeMap::new(),
            healths: BTreeMap::new(),
            budget: Budget::new(limits.max_series, limits.max_series_per_node),
            made_room: None,
            filter: NodeFilter::default(),
            counts: Counts::default(),
            push: None,
            process: None,
            created: now.system,
            limits,
        }
    }

    /// Adds a received message from an unknown sender.
    pub fn accept(&mut self, received: Result<Received, Refused>, now: Now) {
        self.accept_from(Sender::default(), received, now);
    }

    /// Adds a received message. If the message cannot be added, increments the counter of the reason.
    pub fn accept_from(&mut self, sender: Sender, received: Result<Received, Refused>, now: Now) {
        let Ok(received) = received else {
            self.counts.invalid += 1;
            return;
        };
        if !self.filter.includes(received.node()) {
            self.counts.excluded += 1;
            return;
        }
        let added = self.add(&received, sender, now).or_else(|no_room| {
            if matches!(no_room, NotAdded::Duplicate | NotAdded::TooWide) || !self.remove_over(now.monotonic)
            {
                return Err(no_room);
            }
            self.add(&received, sender, now)
        });
        let added = added.or_else(|no_room| {
            self.give_way(&received, sender, no_room).ok_or(no_room)?;
            self.add(&received, sender, now)
        });
        let counter = match added {
            Ok(()) => match received {
                Received::Window(_) => &mut self.counts.windows,
                Received::Distribution(..) => &mut self.counts.distributions,
                Received::Losses(..) => &mut self.counts.losses,
                Received::Diagnostic(..) => &mut self.counts.diagnostics,
            },
            Err(NotAdded::Duplicate) => &mut self.counts.duplicate,
            Err(NotAdded::TooWide) => &mut self.counts.too_wide,
            Err(NotAdded::BeyondMaxSeries) => &mut self.counts.beyond_max_series,
            Err(NotAdded::BeyondMaxOfNode) => &mut self.counts.beyond_max_of_node,
        };
        *counter += 1;
    }

    fn add(&mut self, received: &Received, sender: Sender, now: Now) -> Result<(), NotAdded> {
        let receipt = Receipt::new(sender, now.monotonic);
        match received {
            Received::Window(message) => {
                let (source, budget) = self.source(&message.source, message.window, sender, now)?;
                source.accept_window(message, budget, receipt, now)
            }
            Received::Distribution(name, message) => {
                let (source, budget) = self.source(name, message.window, sender, now)?;
                source.accept_distribution(&name.node, message, budget, receipt, now)
            }
            Received::Losses(source, lost) => self.accept_losses(source, *lost, receipt, now),
            Received::Diagnostic(name, level, health) => {
                // The health in the status is updated even if there is no room for the status itself.
                let named = self.accept_diagnostic(name, *level, receipt);
                let Some((source, health)) = health else { return named };
                let judged = Judged { source: source.clone(), judge: name.judge().into() };
                self.accept_health(judged, health, *level, receipt, now).and(named)
            }
        }
    }

    /// Returns the source with this name. Creates the source if `window` is its first window.
    fn source(
        &mut self,
        name: &SourceName,
        window: Window,
        sender: Sender,
        now: Now,
    ) -> Result<(&mut Source, &mut Budget), NotAdded> {
        let series = self.metric_series();
        let budget = &mut self.budget;
        if !self.sources.contains_key(name) {
            // A new source is added only if there is also room for one metric of this source.
            budget.reserve(&name.node, sender, Source::SERIES + series)?;
            budget.release(&name.node, sender, series);
            self.sources.insert(name.clone(), Source::new(sender, Life::begin(window, now), series));
        }
        // This error never occurs, because the source exists now.
        Ok((self.sources.get_mut(name).ok_or(NotAdded::BeyondMaxSeries)?, budget))
    }

    fn accept_losses(
        &mut self,
        source: &SourceName,
        lost: u64,
        receipt: Receipt,
        now: Now,
    ) -> Result<(), NotAdded> {
        let of_topic = match self.reported_losses.entry(source.clone()) {
            Occupied(entry) => entry.into_mut(),
            Vacant(entry) => {
                self.budget.reserve(&source.node, receipt.sender, SINGLE_SERIES)?;
                let created = now.system.checked_sub(FIRST_LOSSES).unwrap_or(SystemTime::UNIX_EPOCH);
                entry.insert(ReportedLosses { receipt, lost: FirstZero::default(), created })
            }
        };
        of_topic.lost.add(lost);
        of_topic.receipt.last = now.monotonic;
        Ok(())
    }

    fn accept_diagnostic(
        &mut self,
        name: &DiagnosticName,
        level: Level,
        receipt: Receipt,
    ) -> Result<(), NotAdded> {
        match self.diagnostics.entry(name.clone()) {
            Occupied(mut entry) => {
                let state = entry.get_mut();
                (state.level, state.receipt.last) = (level, receipt.last);
            }
            Vacant(entry) => {
                self.budget.reserve(DIAGNOSTICS, receipt.sender, SINGLE_SERIES)?;
                entry.insert(DiagnosticState { receipt, level });
            }
        }
        Ok(())
    }

    fn accept_health(
        &mut self,
        judged: Judged,
        health: &SourceHealth,
        level: Level,
        receipt: Receipt,
        now: Now,
    ) -> Result<(), NotAdded> {
        let node = &*judged.source.node;
        let known = self.healths.get(&judged);
        let holder = known.map_or(receipt.sender, |known| known.receipt.sender);
        if let Some(known) = known {
            self.budget.release(node, holder, HealthState::series(&known.limits));
        }
        if let Err(no_room) = self.budget.reserve(node, holder, HealthState::series(&health.limits)) {
            self.healths.remove(&judged);
            return Err(no_room);
        }
        let state = self.healths.entry(judged).or_insert_with(|| HealthState::new(receipt, now));
        state.accept(health, level, receipt.sender, now);
        Ok(())
    }

    /// Returns the largest number of time series of one metric.
    fn metric_series(&self) -> usize {
        MetricState::SERIES + self.limits.classic_buckets.series()
    }

    /// Removes ended entries to make room, at most once per second. Returns whether ended entries were removed now.
    fn remove_over(&mut self, now: Instant) -> bool {
        let is_recent =
            self.made_room.is_some_and(|last| now.saturating_duration_since(last) < MAKE_ROOM_PERIOD);
        if !is_recent {
            self.made_room = Some(now);
            self.remove_ended(Kept { windows: Life::CURRENT_WINDOWS, is_full: true }, now);
        }
        !is_recent
    }

    /// Makes room for the message `received` of `sender`, a publishing process. For this, removes entries of the sender
    /// with the most time series, if that sender has more time series than `sender`. `no_room` decides which time
    /// series are compared: all time series, or only those of the node in `received`. Returns `None` if there is still
    /// no room.
    fn give_way(&mut self, received: &Received, sender: Sender, no_room: NotAdded) -> Option<()> {
        let (node, series) = match received {
            Received::Window(MetricWindow { source, .. }) | Received::Distribution(source, _) => {
                (&*source.node, Source::SERIES + self.metric_series())
            }
            Received::Losses(source, _) => (&*source.node, SINGLE_SERIES),
            Received::Diagnostic(_, _, Some((source, health))) => {
                (&*source.node, HealthState::series(&health.limits))
            }
            Received::Diagnostic(_, _, None) => (DIAGNOSTICS, SINGLE_SERIES),
        };
        let node = match no_room {
            NotAdded::BeyondMaxSeries => None,
            NotAdded::BeyondMaxOfNode => Some(node),
            NotAdded::Duplicate | NotAdded::TooWide => return None,
        };
        let way = self.budget.giving_way(sender, series, node)?;
        // Each call searches the whole state. To keep such calls rare, a call removes several entries at once.
        let removed = way.missing.max((way.excess / 2).min(self.limits.max_series / 100));
        let is_its = |of_node: &str, receipt: &Receipt| {
            receipt.sender == way.sender && node.is_none_or(|node| node == of_node)
        };
        let mut entries = vec![];
        for (name, source) in &self.sources {
            let metrics = source.metrics.iter().filter(|(_, metric)| is_its(&name.node, &metric.receipt));
            entries.extend(
                metrics.map(|(metric, state)| (state.receipt, Entry::Metric(name.clone(), metric.clone()))),
            );
        }
        let losses = self.reported_losses.iter().filter(|(name, losses)| is_its(&name.node, &losses.receipt));
        entries.extend(losses.map(|(name, losses)| (losses.receipt, Entry::Losses(name.clone()))));
        let healths =
            self.healths.iter().filter(|(judged, health)| is_its(&judged.source.node, &health.receipt));
        entries.extend(healths.map(|(judged, health)| (health.receipt, Entry::Health(judged.clone()))));
        let diagnostics = self.diagnostics.iter().filter(|(_, state)| is_its(DIAGNOSTICS, &state.receipt));
        entries.extend(diagnostics.map(|(name, state)| (state.receipt, Entry::Diagnostic(name.clone()))));
        entries.sort_by_key(|(receipt, _)| receipt.rank());
        let used = self.series();
        for (_, entry) in &entries {
            if used - self.series() >= removed {
                break;
            }
            self.remove(entry);
        }
        (used - self.series() >= way.missing).then_some(())
    }

    fn remove(&mut self, entry: &Entry) {
        let budget = &mut self.budget;
        match entry {
            Entry::Metric(name, metric) => {
                let is_left = self
                    .sources
                    .get_mut(name)
                    .is_some_and(|source| source.retain(&name.node, budget, |name, _| name != metric));
                if !is_left {
                    self.sources.remove(name);
                }
            }
            Entry::Losses(name) => {
                if let Some(losses) = self.reported_losses.remove(name) {
                    budget.release(&name.node, losses.receipt.sender, SINGLE_SERIES);
                }
            }
            Entry::Health(judged) => {
                if let Some(health) = self.healths.remove(judged) {
                    let series = HealthState::series(&health.limits);
                    budget.release(&judged.source.node, health.receipt.sender, series);
                }
            }
            Entry::Diagnostic(name) => {
                if let Some(state) = self.diagnostics.remove(name) {
                    budget.release(DIAGNOSTICS, state.receipt.sender, SINGLE_SERIES);
                }
            }
        }
    }

    /// Tells all counters that start at 0 that a scrape begins. See [`FirstZero`].
    pub fn begin_scrape(&mut self) {
        self.sources.values_mut().for_each(Source::begin_scrape);
        self.reported_losses.values_mut().for_each(|losses| losses.lost.begin_scrape());
    }

    /// Removes ended sources and figures. Call this function before each report of the state, and once per second.
    pub fn expire(&mut self, now: Instant) {
        self.remove_ended(Kept { windows: self.limits.keep_windows, is_full: false }, now);
    }

    /// Removes the sources whose last window was received too long ago, and other ended entries.
    fn remove_ended(&mut self, kept: Kept, now: Instant) {
        let Self { limits, budget, .. } = self;
        self.sources.retain(|name, source| source.expire(&name.node, kept, budget, now));
        // If room is needed, entries that were received only once are removed earlier than the others.
        let mut is_kept = |node: &str, receipt: &Receipt, series, keep: Duration| {
            let keep = if kept.is_full && receipt.is_seen_once() { keep.min(Life::MIN_KEPT) } else { keep };
            let is_kept = now.saturating_duration_since(receipt.last) <= keep;
            if !is_kept {
                budget.release(node, receipt.sender, series);
            }
            is_kept
        };
        self.reported_losses.retain(|name, losses| {
            self.sources.contains_key(name)
                || is_kept(&name.node, &losses.receipt, SINGLE_SERIES, KEEP_LOSSES)
        });
        self.healths.retain(|judged, health| {
            let series = HealthState::series(&health.limits);
            is_kept(&judged.source.node, &health.receipt, series, limits.keep_diagnostics)
        });
        self.diagnostics.retain(|_, diagnostic| {
            is_kept(DIAGNOSTICS, &diagnostic.receipt, SINGLE_SERIES, limits.keep_diagnostics)
        });
    }

    pub fn sources(&self) -> impl ExactSizeIterator<Item = (&SourceName, &Source)> {
        self.sources.iter()
    }

    pub fn diagnostics(&self) -> impl ExactSizeIterator<Item = (&DiagnosticName, &DiagnosticState)> {
        self.diagnostics.iter()
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the number of time series that are reserved for sources, losses, healths and diagnostic statuses.
    pub fn series(&self) -> usize {
        self.budget.used()
    }

    pub fn shares(&self) -> &Shares {
        self.budget.shares()
    }
}

/// An entry of the state that can be removed to make room.
enum Entry {
    Metric(SourceName, MetricName),
    Losses(SourceName),
    Health(Judged),
    Diagnostic(DiagnosticName),
}

#[cfg(test)]
mod tests;
