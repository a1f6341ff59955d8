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
mod source;

use std::{
    collections::{btree_map::Entry, BTreeMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

pub use self::{
    buckets::Buckets,
    first_zero::FirstZero,
    health::HealthState,
    histogram::{Bucket, Histogram},
    metric::{MetricState, WindowState, QUANTILES},
    now::Now,
    process::ProcessFigures,
    push::{DroppedRequests, PushCounts},
    source::Source,
};
use self::{
    budget::{Budget, NotAdded},
    life::Life,
};
use super::{
    filter::NodeFilter,
    model::{
        Diagnostic, DiagnosticName, Level, Losses, MetricDistribution, MetricWindow, Received, Refused,
        SourceHealth, SourceName, Window,
    },
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
    /// By source, which may not publish statistics.
    healths: BTreeMap<SourceName, HealthState>,
    budget: Budget,
    /// When room was last made for new sources.
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
    /// Their number.
    pub lost: FirstZero,
    /// When the last event was received.
    last_received: Instant,
    /// When they began.
    pub created: SystemTime,
}

/// A diagnostic status.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticState {
    /// The last level.
    pub level: Level,
    /// When it was received last.
    pub last_received: Instant,
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
/// event.
const KEEP_LOSSES: Duration = Duration::from_secs(86_400);
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

    /// Adds a received message, or counts why it was not added.
    pub fn accept(&mut self, received: Result<Received, Refused>, now: Now) {
        let Ok(received) = received else {
            self.counts.invalid += 1;
            return;
        };
        if received.node().is_some_and(|node| !self.filter.includes(node)) {
            self.counts.excluded += 1;
            return;
        }
        self.make_room(now.monotonic);
        let counter = match &received {
            Received::Window(_) => &mut self.counts.windows,
            Received::Distribution(_) => &mut self.counts.distributions,
            Received::Losses(_) => &mut self.counts.losses,
            Received::Diagnostic(_) => &mut self.counts.diagnostics,
        };
        let (sources, budget) = (&mut self.sources, &mut self.budget);
        let metric_series = MetricState::SERIES + self.limits.classic_buckets.series();
        let added = match received {
            Received::Window(message) => {
                let MetricWindow { source: name, metric, window, figures } = message;
                source(sources, &name, window, metric_series, budget, now).and_then(|source| {
                    let windows = source.windows();
                    source.accept_window(&name.node, metric, window, figures, budget, now)?;
                    if source.windows() > windows {
                        self.healths.get_mut(&name).into_iter().for_each(HealthState::add_window);
                    }
                    Ok(())
                })
            }
            Received::Distribution(message) => {
                let MetricDistribution { source: name, metric, window, distribution } = message;
                source(sources, &name, window, metric_series, budget, now).and_then(|source| {
                    source.accept_distribution(&name.node, metric, window, &distribution, budget, now)
                })
            }
            Received::Losses(losses) => accept_losses(&mut self.reported_losses, losses, budget, now),
            Received::Diagnostic(mut diagnostic) => {
                let health = diagnostic.health.take().map(|health| (health, diagnostic.level));
                accept_diagnostic(&mut self.diagnostics, diagnostic, budget, now.monotonic).and_then(|()| {
                    match health {
                        Some((health, level)) => accept_health(&mut self.healths, health, level, budget, now),
                        None => Ok(()),
                    }
                })
            }
        };
        let counter = match added {
            Ok(()) => counter,
            Err(NotAdded::Duplicate) => &mut self.counts.duplicate,
            Err(NotAdded::TooWide) => &mut self.counts.too_wide,
            Err(NotAdded::BeyondMaxSeries) => &mut self.counts.beyond_max_series,
            Err(NotAdded::BeyondMaxOfNode) => &mut self.counts.beyond_max_of_node,
        };
        *counter += 1;
    }

    /// Removes sources that are not current, if there is no room for a new one: nodes that come and go leave room for
    /// those that stay.
    fn make_room(&mut self, now: Instant) {
        let series = Source::SERIES + MetricState::SERIES + self.limits.classic_buckets.series();
        let is_recent =
            self.made_room.is_some_and(|last| now.saturating_duration_since(last) < MAKE_ROOM_PERIOD);
        if !self.budget.has_room(series) && !is_recent {
            self.made_room = Some(now);
            self.remove_ended(Life::CURRENT_WINDOWS, now);
        }
    }

    /// A scrape begins: [`FirstZero`].
    pub fn begin_scrape(&mut self) {
        self.sources.values_mut().for_each(Source::begin_scrape);
        self.reported_losses.values_mut().for_each(|losses| losses.lost.begin_scrape());
    }

    /// Removes ended sources and figures. Called before the state is reported, and from time to time.
    pub fn expire(&mut self, now: Instant) {
        self.remove_ended(self.limits.keep_windows, now);
    }

    /// Removes sources without a window for `windows` windows, and other ended figures.
    fn remove_ended(&mut self, windows: u32, now: Instant) {
        let Self { limits, budget, .. } = self;
        self.sources.retain(|name, source| {
            let is_kept = source.expire(&name.node, windows, budget, now);
            if !is_kept {
                budget.release(&name.node, Source::SERIES);
            }
            is_kept
        });
        let sources = &self.sources;
        self.reported_losses.retain(|name, losses| {
            let silent = now.saturating_duration_since(losses.last_received);
            let is_kept = silent <= KEEP_LOSSES || sources.contains_key(name);
            if !is_kept {
                budget.release(&name.node, SINGLE_SERIES);
            }
            is_kept
        });
        self.healths.retain(|name, health| {
            let is_kept = now.saturating_duration_since(health.last_received) <= limits.keep_diagnostics;
            if !is_kept {
                budget.release(&name.node, HealthState::series(&health.limits));
            }
            is_kept
        });
        self.diagnostics.retain(|_, diagnostic| {
            let silent = now.saturating_duration_since(diagnostic.last_received);
            let is_kept = silent <= limits.keep_diagnostics;
            if !is_kept {
                budget.release(DIAGNOSTICS, SINGLE_SERIES);
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

    /// Returns the health of sources, in the order of their names.
    pub fn healths(&self) -> impl ExactSizeIterator<Item = (&SourceName, &HealthState)> {
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

    /// Returns the bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns when the exporter's own counts began.
    pub fn created(&self) -> SystemTime {
        self.created
    }
}

/// Returns the source of this name, which may be a new one whose first window this is.
fn source<'a>(
    sources: &'a mut BTreeMap<SourceName, Source>,
    name: &SourceName,
    window: Window,
    metric_series: usize,
    budget: &mut Budget,
    now: Now,
) -> Result<&'a mut Source, NotAdded> {
    if !sources.contains_key(name) {
        // A new source is of no use without room for a metric of it.
        budget.reserve(&name.node, Source::SERIES + metric_series)?;
        budget.release(&name.node, metric_series);
        sources.insert(name.clone(), Source::new(Life::begin(window, now), metric_series));
    }
    // It is there.
    sources.get_mut(name).ok_or(NotAdded::BeyondMaxSeries)
}

fn accept_losses(
    reported: &mut BTreeMap<SourceName, ReportedLosses>,
    received: Losses,
    budget: &mut Budget,
    now: Now,
) -> Result<(), NotAdded> {
    let of_topic = match reported.entry(received.source) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            budget.reserve(&entry.key().node, SINGLE_SERIES)?;
            let created = now.system.checked_sub(FIRST_LOSSES).unwrap_or(SystemTime::UNIX_EPOCH);
            entry.insert(ReportedLosses { lost: FirstZero::default(), last_received: now.monotonic, created })
        }
    };
    of_topic.lost.add(received.lost);
    of_topic.last_received = now.monotonic;
    Ok(())
}

fn accept_diagnostic(
    diagnostics: &mut BTreeMap<DiagnosticName, DiagnosticState>,
    received: Diagnostic,
    budget: &mut Budget,
    now: Instant,
) -> Result<(), NotAdded> {
    let state = DiagnosticState { level: received.level, last_received: now };
    match diagnostics.entry(received.name) {
        Entry::Occupied(mut entry) => *entry.get_mut() = state,
        Entry::Vacant(entry) => {
            budget.reserve(DIAGNOSTICS, SINGLE_SERIES)?;
            entry.insert(state);
        }
    }
    Ok(())
}

fn accept_health(
    healths: &mut BTreeMap<SourceName, HealthState>,
    health: SourceHealth,
    level: Level,
    budget: &mut Budget,
    now: Now,
) -> Result<(), NotAdded> {
    let node = health.source.node.clone();
    if let Some(before) = healths.get(&health.source) {
        budget.release(&node, HealthState::series(&before.limits));
    }
    if let Err(no_room) = budget.reserve(&node, HealthState::series(&health.limits)) {
        healths.remove(&health.source);
        return Err(no_room);
    }
    match healths.entry(health.source.clone()) {
        Entry::Occupied(mut entry) => entry.get_mut().accept(health, level, now.monotonic),
        Entry::Vacant(entry) => {
            entry.insert(HealthState::new(health, level, now));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
