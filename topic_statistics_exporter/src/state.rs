// SPDX-License-Identifier: Apache-2.0

//! The state of all sources of statistics: the figures of the last window, and totals that only grow.
//!
//! The size of the state is limited. The state uses the monotonic clock for lifetimes, and totals are sums of values
//! that the nodes have measured. So a step of the system clock changes neither lifetimes nor totals.

mod buckets;
mod budget;
mod first_zero;
mod health;
mod histogram;
mod life;
mod metric;
mod now;
mod process;
mod push;
mod receipt;
mod source;

use std::{
    collections::{btree_map, BTreeMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use topic_statistics_core::{health::Level, Window};
use topic_statistics_observe::{
    bounds::{Sender, Shares},
    ros::wire::Refused,
};

pub use self::{
    buckets::Buckets,
    first_zero::FirstZero,
    health::{HealthState, Judged},
    histogram::{Bucket, Histogram},
    metric::{MetricState, WindowState, QUANTILES},
    now::Now,
    process::ProcessFigures,
    push::{DroppedRequests, PushCounts},
    source::Source,
};
use self::{
    budget::{Budget, NotAdded},
    life::{Kept, Life},
    receipt::Receipt,
};
use super::{
    filter::NodeFilter,
    model::{Diagnostic, DiagnosticName, Losses, MetricName, Received, SourceName},
};

/// The state, which the subscriptions write and the outputs read.
///
/// A thread keeps the lock while it adds one message, or while it makes one report from the state.
pub type SharedState = Arc<Mutex<State>>;

/// The limits of the state.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The largest number of time series. A source or a metric that would exceed this limit is left out.
    pub max_series: usize,
    /// The largest number of time series of one node. A source or a metric that would exceed this limit is left out.
    pub max_series_per_node: usize,
    /// The classic buckets of histograms.
    pub classic_buckets: Buckets,
    /// A metric is removed when no window of it was received for this number of window lengths (at least 10 s).
    pub keep_windows: u32,
    /// A diagnostic status or a health that was not received again for this time is removed.
    pub keep_diagnostics: Duration,
}

/// The state of all sources.
#[derive(Debug)]
pub struct State {
    limits: Limits,
    sources: BTreeMap<SourceName, Source>,
    /// The losses by node and topic. A loss event does not say which subscription of a topic lost the messages, so a
    /// loss is not assigned to a source.
    reported_losses: BTreeMap<SourceName, ReportedLosses>,
    diagnostics: BTreeMap<DiagnosticName, DiagnosticState>,
    /// The healths by source and judge. A source can have a health even if the source publishes no statistics.
    healths: BTreeMap<Judged, HealthState>,
    budget: Budget,
    /// The time when ended entries were last removed to make room.
    made_room: Option<Instant>,
    filter: NodeFilter,
    counts: Counts,
    push: Option<PushCounts>,
    process: Option<ProcessFigures>,
    created: SystemTime,
}

/// The messages that all subscriptions of a node to one topic have lost together, according to the node's loss events.
#[derive(Clone, Copy, Debug)]
pub struct ReportedLosses {
    receipt: Receipt,
    /// The number of lost messages.
    pub lost: FirstZero,
    /// The time when the number of lost messages was 0.
    pub created: SystemTime,
}

/// A diagnostic status.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticState {
    receipt: Receipt,
    /// The level of the last status.
    pub level: Level,
}

/// Counts of the messages that the exporter received since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of accepted messages of `/statistics`, each with one metric of one window.
    pub windows: u64,
    /// The number of accepted distributions.
    pub distributions: u64,
    /// The number of accepted loss reports, each for one topic.
    pub losses: u64,
    /// The number of accepted diagnostic statuses.
    pub diagnostics: u64,
    /// The number of metrics and distributions of windows that were ignored because they had been counted before.
    pub duplicate: u64,
    /// The number of messages that were refused because of impossible names or numbers.
    pub invalid: u64,
    /// The number of distributions that could not be added to the totals. The samples of such a distribution span more
    /// than 12 orders of magnitude, so the smallest samples have no bucket.
    pub too_wide: u64,
    /// The number of messages that were not added because the limit of time series for all nodes was reached.
    pub beyond_max_series: u64,
    /// The number of messages that were not added because the limit of time series for their node was reached.
    pub beyond_max_of_node: u64,
    /// The number of messages of nodes that the options exclude.
    pub excluded: u64,
}

/// The number of time series of one diagnostic status, and also of the reported losses of one topic.
const SINGLE_SERIES: usize = 1;
/// How long the reported losses of a topic are kept after the last loss event. The reported losses are kept longer if
/// the node still publishes statistics of the topic. The time is longer than 10 minutes, because the alert on losses
/// looks back 10 minutes.
const KEEP_LOSSES: Duration = Duration::from_secs(900);
/// The longest time between the first loss of a topic and the first loss event. Nodes publish one event per second by
/// default.
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
    /// Returns a state without sources.
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
                Received::Distribution(_) => &mut self.counts.distributions,
                Received::Losses(_) => &mut self.counts.losses,
                Received::Diagnostic(_) => &mut self.counts.diagnostics,
            },
            Err(NotAdded::Duplicate) => &mut self.counts.duplicate,
            Err(NotAdded::TooWide) => &mut self.counts.too_wide,
            Err(NotAdded::BeyondMaxSeries) => &mut self.counts.beyond_max_series,
            Err(NotAdded::BeyondMaxOfNode) => &mut self.counts.beyond_max_of_node,
        };
        *counter += 1;
    }

    fn add(&mut self, received: &Received, sender: Sender, now: Now) -> Result<(), NotAdded> {
        let metric_series = self.metric_series();
        let receipt = Receipt::new(sender, now.monotonic);
        let budget = &mut self.budget;
        match received {
            Received::Window(message) => {
                let (name, window) = (&message.source, message.window);
                let source = source(&mut self.sources, name, window, metric_series, budget, sender, now)?;
                source.accept_window(message, budget, receipt, now)
            }
            Received::Distribution(message) => {
                let (name, window) = (&message.source, message.window);
                let source = source(&mut self.sources, name, window, metric_series, budget, sender, now)?;
                source.accept_distribution(message, budget, receipt, now)
            }
            Received::Losses(losses) => {
                accept_losses(&mut self.reported_losses, losses, budget, receipt, now)
            }
            Received::Diagnostic(diagnostic) => {
                // The health in the status is updated even if there is no room for the status itself.
                let named = accept_diagnostic(&mut self.diagnostics, diagnostic, budget, receipt);
                accept_health(&mut self.healths, diagnostic, budget, receipt, now).and(named)
            }
        }
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

    /// Removes entries of the sender with the most time series, if this sender has more than the sender of `received`.
    /// `no_room` decides which time series are compared: all time series, or only those of the node in `received`.
    /// Returns `None` if there is still no room.
    fn give_way(&mut self, received: &Received, sender: Sender, no_room: NotAdded) -> Option<()> {
        let (node, series) = match received {
            Received::Window(window) => (&*window.source.node, Source::SERIES + self.metric_series()),
            Received::Distribution(received) => {
                (&*received.source.node, Source::SERIES + self.metric_series())
            }
            Received::Losses(losses) => (&*losses.source.node, SINGLE_SERIES),
            Received::Diagnostic(diagnostic) => match &diagnostic.health {
                Some(health) => (&*health.source.node, HealthState::series(&health.limits)),
                None => (DIAGNOSTICS, SINGLE_SERIES),
            },
        };
        let node = match no_room {
            NotAdded::BeyondMaxSeries => None,
            NotAdded::BeyondMaxOfNode => Some(node),
            NotAdded::Duplicate | NotAdded::TooWide => return None,
        };
        let way = self.budget.giving_way(sender, series, node)?;
        // Finding the entries takes a search through the whole state. So several entries are removed after each search.
        let removed = way.missing.max((way.excess / 2).min(self.limits.max_series / 100));
        let is_its = |of_node: &str, receipt: &Receipt| {
            receipt.sender == way.sender && node.is_none_or(|node| node == of_node)
        };
        let mut entries = vec![];
        for (name, source) in &self.sources {
            let metrics = source.metrics().filter(|(_, metric)| is_its(&name.node, &metric.receipt));
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
        let sources = &self.sources;
        // If room is needed, entries that were received only once are removed earlier than the others.
        let is_over = |receipt: &Receipt, keep: Duration| {
            let keep = if kept.is_full && receipt.is_seen_once() { keep.min(Life::MIN_KEPT) } else { keep };
            now.saturating_duration_since(receipt.last) > keep
        };
        self.reported_losses.retain(|name, losses| {
            let is_kept = !is_over(&losses.receipt, KEEP_LOSSES) || sources.contains_key(name);
            if !is_kept {
                budget.release(&name.node, losses.receipt.sender, SINGLE_SERIES);
            }
            is_kept
        });
        self.healths.retain(|judged, health| {
            let is_kept = !is_over(&health.receipt, limits.keep_diagnostics);
            if !is_kept {
                let series = HealthState::series(&health.limits);
                budget.release(&judged.source.node, health.receipt.sender, series);
            }
            is_kept
        });
        self.diagnostics.retain(|_, diagnostic| {
            let is_kept = !is_over(&diagnostic.receipt, limits.keep_diagnostics);
            if !is_kept {
                budget.release(DIAGNOSTICS, diagnostic.receipt.sender, SINGLE_SERIES);
            }
            is_kept
        });
    }

    /// Returns the sources, in the order of their names.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = (&SourceName, &Source)> {
        self.sources.iter()
    }

    /// Returns the reported losses of topics, in the order of their nodes and topics.
    pub fn reported_losses(&self) -> impl ExactSizeIterator<Item = (&SourceName, &ReportedLosses)> {
        self.reported_losses.iter()
    }

    /// Returns the diagnostic statuses, in the order of their names.
    pub fn diagnostics(&self) -> impl ExactSizeIterator<Item = (&DiagnosticName, &DiagnosticState)> {
        self.diagnostics.iter()
    }

    /// Returns the healths of sources, in the order of the names of sources and judges.
    pub fn healths(&self) -> impl ExactSizeIterator<Item = (&Judged, &HealthState)> {
        self.healths.iter()
    }

    /// Returns the counts of received messages.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the counts of pushed requests at the time of the last report. `None` if the exporter pushes nothing.
    pub fn push(&self) -> Option<&PushCounts> {
        self.push.as_ref()
    }

    /// Sets the counts of pushed requests.
    pub fn set_push(&mut self, counts: PushCounts) {
        self.push = Some(counts);
    }

    /// Returns the resources that the exporter's process used at the last scrape or report.
    pub fn process(&self) -> Option<&ProcessFigures> {
        self.process.as_ref()
    }

    /// Sets the resources that the exporter's process uses.
    pub fn set_process(&mut self, figures: Option<ProcessFigures>) {
        self.process = figures;
    }

    /// Sets the nodes whose messages are accepted.
    pub fn set_filter(&mut self, filter: NodeFilter) {
        self.filter = filter;
    }

    /// Returns the number of time series that are reserved for sources, losses, healths and diagnostic statuses.
    pub fn series(&self) -> usize {
        self.budget.used()
    }

    /// Returns the number of time series that each sender has.
    pub fn shares(&self) -> &Shares {
        self.budget.shares()
    }

    /// Returns the limits of the state.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the time when the exporter began to count.
    pub fn created(&self) -> SystemTime {
        self.created
    }
}

/// An entry of the state that can be removed to make room.
enum Entry {
    Metric(SourceName, MetricName),
    Losses(SourceName),
    Health(Judged),
    Diagnostic(DiagnosticName),
}

/// Returns the source with this name. Creates the source if `window` is its first window.
fn source<'a>(
    sources: &'a mut BTreeMap<SourceName, Source>,
    name: &SourceName,
    window: Window,
    metric_series: usize,
    budget: &mut Budget,
    sender: Sender,
    now: Now,
) -> Result<&'a mut Source, NotAdded> {
    if !sources.contains_key(name) {
        // A new source is added only if there is also room for one metric of this source.
        budget.reserve(&name.node, sender, Source::SERIES + metric_series)?;
        budget.release(&name.node, sender, metric_series);
        sources.insert(name.clone(), Source::new(sender, Life::begin(window, now), metric_series));
    }
    // This error never occurs, because the source exists now.
    sources.get_mut(name).ok_or(NotAdded::BeyondMaxSeries)
}

fn accept_losses(
    reported: &mut BTreeMap<SourceName, ReportedLosses>,
    received: &Losses,
    budget: &mut Budget,
    receipt: Receipt,
    now: Now,
) -> Result<(), NotAdded> {
    let of_topic = match reported.entry(received.source.clone()) {
        btree_map::Entry::Occupied(entry) => entry.into_mut(),
        btree_map::Entry::Vacant(entry) => {
            budget.reserve(&entry.key().node, receipt.sender, SINGLE_SERIES)?;
            let created = now.system.checked_sub(FIRST_LOSSES).unwrap_or(SystemTime::UNIX_EPOCH);
            entry.insert(ReportedLosses { receipt, lost: FirstZero::default(), created })
        }
    };
    of_topic.lost.add(received.lost);
    of_topic.receipt.last = now.monotonic;
    Ok(())
}

fn accept_diagnostic(
    diagnostics: &mut BTreeMap<DiagnosticName, DiagnosticState>,
    received: &Diagnostic,
    budget: &mut Budget,
    receipt: Receipt,
) -> Result<(), NotAdded> {
    let level = received.level;
    match diagnostics.entry(received.name.clone()) {
        btree_map::Entry::Occupied(mut entry) => {
            let state = entry.get_mut();
            (state.level, state.receipt.last) = (level, receipt.last);
        }
        btree_map::Entry::Vacant(entry) => {
            budget.reserve(DIAGNOSTICS, receipt.sender, SINGLE_SERIES)?;
            entry.insert(DiagnosticState { receipt, level });
        }
    }
    Ok(())
}

fn accept_health(
    healths: &mut BTreeMap<Judged, HealthState>,
    received: &Diagnostic,
    budget: &mut Budget,
    receipt: Receipt,
    now: Now,
) -> Result<(), NotAdded> {
    let Some(health) = &received.health else { return Ok(()) };
    let judged = Judged { source: health.source.clone(), judge: received.name.judge().into() };
    let node = &*health.source.node;
    let known = healths.get(&judged);
    let holder = known.map_or(receipt.sender, |known| known.receipt.sender);
    if let Some(known) = known {
        budget.release(node, holder, HealthState::series(&known.limits));
    }
    if let Err(no_room) = budget.reserve(node, holder, HealthState::series(&health.limits)) {
        healths.remove(&judged);
        return Err(no_room);
    }
    let state = healths.entry(judged).or_insert_with(|| HealthState::new(receipt, now));
    state.accept(health, received.level, receipt.sender, now);
    Ok(())
}

#[cfg(test)]
mod tests;
