// SPDX-License-Identifier: Apache-2.0

//! The state of all sources: the figures of the last window, and totals that only grow.
//!
//! Everything that is kept has a bound. Lifetimes are measured on the monotonic clock, and totals are sums of what
//! nodes have measured, so no step of the system clock changes either.

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

/// The state, as the subscriptions write it and the ways out read it.
///
/// The lock is held for one message, or while one report is made of the state.
pub type SharedState = Arc<Mutex<State>>;

/// The bounds of the state.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The largest number of time series. A source or a metric that would exceed it is left out.
    pub max_series: usize,
    /// The largest number of time series of a node. What would exceed it is left out.
    pub max_series_per_node: usize,
    /// The classic buckets of histograms.
    pub classic_buckets: Buckets,
    /// A metric without a window for that many of its windows is gone.
    pub keep_windows: u32,
    /// A diagnostic status that is not repeated for that time is gone.
    pub keep_diagnostics: Duration,
}

/// The state of all sources.
#[derive(Debug)]
pub struct State {
    limits: Limits,
    sources: BTreeMap<SourceName, Source>,
    /// By node and topic. Events do not tell the subscriptions of a topic apart, so these are no losses of a source.
    reported_losses: BTreeMap<SourceName, ReportedLosses>,
    diagnostics: BTreeMap<DiagnosticName, DiagnosticState>,
    /// By source, which may not publish statistics, and judge.
    healths: BTreeMap<Judged, HealthState>,
    budget: Budget,
    /// When ended sources last made room.
    made_room: Option<Instant>,
    filter: NodeFilter,
    counts: Counts,
    push: Option<PushCounts>,
    process: Option<ProcessFigures>,
    created: SystemTime,
}

/// The messages lost of all subscriptions of a node to a topic, as its events have reported.
#[derive(Clone, Copy, Debug)]
pub struct ReportedLosses {
    receipt: Receipt,
    /// Their number.
    pub lost: FirstZero,
    /// When they began.
    pub created: SystemTime,
}

/// A diagnostic status.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticState {
    receipt: Receipt,
    /// The last level.
    pub level: Level,
}

/// The exporter's own counts since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Metrics of windows that were accepted.
    pub windows: u64,
    /// Distributions that were accepted.
    pub distributions: u64,
    /// Losses of one topic that were accepted.
    pub losses: u64,
    /// Diagnostic statuses that were accepted.
    pub diagnostics: u64,
    /// Metrics and distributions of windows that had been counted already.
    pub duplicate: u64,
    /// Messages refused because of impossible names or numbers.
    pub invalid: u64,
    /// Distributions that the totals cannot take: their samples span more than 12 orders of magnitude, and the smallest
    /// have no bucket.
    pub too_wide: u64,
    /// Messages left out because the limit of time series is reached.
    pub beyond_max_series: u64,
    /// Messages left out because the limit of time series of their node is reached.
    pub beyond_max_of_node: u64,
    /// Messages of nodes that the options exclude.
    pub excluded: u64,
}

/// How many time series a diagnostic status is, and the reported losses of a topic.
const SINGLE_SERIES: usize = 1;
/// The reported losses of a topic are kept while the node publishes statistics of it, and for that time after the last
/// event: the alert looks back for 10 minutes.
const KEEP_LOSSES: Duration = Duration::from_secs(900);
/// The losses of the first event of a topic may have begun that long before it: nodes publish one event per second.
const FIRST_LOSSES: Duration = Duration::from_secs(1);
/// Room for new sources is made this often, at most.
const MAKE_ROOM_PERIOD: Duration = Duration::from_secs(1);
/// The diagnostics share one limit: their names have no node.
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

    /// Adds a received message of an unknown sender.
    pub fn accept(&mut self, received: Result<Received, Refused>, now: Now) {
        self.accept_from(Sender::default(), received, now);
    }

    /// Adds a received message, or counts why it was not added.
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
                // Without room for its name, the health is as current as ever.
                let named = accept_diagnostic(&mut self.diagnostics, diagnostic, budget, receipt);
                accept_health(&mut self.healths, diagnostic, budget, receipt, now).and(named)
            }
        }
    }

    /// Returns how many time series a metric is, at most.
    fn metric_series(&self) -> usize {
        MetricState::SERIES + self.limits.classic_buckets.series()
    }

    /// Removes what has ended, where room is needed. Returns whether it looked.
    fn remove_over(&mut self, now: Instant) -> bool {
        let is_recent =
            self.made_room.is_some_and(|last| now.saturating_duration_since(last) < MAKE_ROOM_PERIOD);
        if !is_recent {
            self.made_room = Some(now);
            self.remove_ended(Kept { windows: Life::CURRENT_WINDOWS, is_full: true }, now);
        }
        !is_recent
    }

    /// Removes what the sender with most time series holds, if that is more than this one: in all, or of a node. `None`
    /// if nobody gives way.
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
        // All entries are walked through, so several go at once.
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

    /// A scrape begins: [`FirstZero`].
    pub fn begin_scrape(&mut self) {
        self.sources.values_mut().for_each(Source::begin_scrape);
        self.reported_losses.values_mut().for_each(|losses| losses.lost.begin_scrape());
    }

    /// Removes ended sources and figures. Called before the state is reported, and from time to time.
    pub fn expire(&mut self, now: Instant) {
        self.remove_ended(Kept { windows: self.limits.keep_windows, is_full: false }, now);
    }

    /// Removes sources without a window for too long, and other ended figures.
    fn remove_ended(&mut self, kept: Kept, now: Instant) {
        let Self { limits, budget, .. } = self;
        self.sources.retain(|name, source| source.expire(&name.node, kept, budget, now));
        let sources = &self.sources;
        // Where room is needed, what was seen once goes first.
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

    /// Returns the health of sources, in the order of their names and judges.
    pub fn healths(&self) -> impl ExactSizeIterator<Item = (&Judged, &HealthState)> {
        self.healths.iter()
    }

    /// Returns the exporter's counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the counts of pushed requests as of the last report. `None` if nothing is pushed.
    pub fn push(&self) -> Option<&PushCounts> {
        self.push.as_ref()
    }

    /// Sets the counts of pushed requests.
    pub fn set_push(&mut self, counts: PushCounts) {
        self.push = Some(counts);
    }

    /// Returns what the exporter used when it was scraped or reported last.
    pub fn process(&self) -> Option<&ProcessFigures> {
        self.process.as_ref()
    }

    /// Sets what the exporter uses.
    pub fn set_process(&mut self, figures: Option<ProcessFigures>) {
        self.process = figures;
    }

    /// Sets the nodes whose messages are accepted.
    pub fn set_filter(&mut self, filter: NodeFilter) {
        self.filter = filter;
    }

    /// Returns how many time series the sources and diagnostics have, at most.
    pub fn series(&self) -> usize {
        self.budget.used()
    }

    /// Returns how many time series each sender has.
    pub fn shares(&self) -> &Shares {
        self.budget.shares()
    }

    /// Returns the bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns when the exporter's own counts began.
    pub fn created(&self) -> SystemTime {
        self.created
    }
}

/// Something that makes room.
enum Entry {
    Metric(SourceName, MetricName),
    Losses(SourceName),
    Health(Judged),
    Diagnostic(DiagnosticName),
}

/// Returns the source of this name, which may be a new one whose first window this is.
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
        // A new source is of no use without room for a metric of it.
        budget.reserve(&name.node, sender, Source::SERIES + metric_series)?;
        budget.release(&name.node, sender, metric_series);
        sources.insert(name.clone(), Source::new(sender, Life::begin(window, now), metric_series));
    }
    // It is there.
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
