// SPDX-License-Identifier: Apache-2.0

//! The state of all sources: the figures of the last window, and totals that only grow.
//!
//! Everything that is kept has a bound. Lifetimes are measured on the monotonic clock, and totals are sums of what
//! nodes have measured, so no step of the system clock changes either.

mod budget;
mod histogram;
mod life;
mod metric;
mod now;
mod push;
mod source;

use std::{
    collections::{btree_map::Entry, BTreeMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use self::budget::{Budget, NotAdded};
pub use self::{
    histogram::{Bucket, Histogram},
    metric::{MetricState, WindowState, QUANTILES},
    now::Now,
    push::{DroppedRequests, PushCounts},
    source::Source,
};
use super::model::{Diagnostic, DiagnosticName, Level, Losses, Received, Refused, SourceName};

/// The state, as the subscriptions write it and the ways out read it.
///
/// The lock is held for one message, or while one report is made of the state.
pub type SharedState = Arc<Mutex<State>>;

/// The bounds of the state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The largest number of time series. A source or a metric that would exceed it is left out.
    pub max_series: usize,
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
    budget: Budget,
    counts: Counts,
    push: Option<PushCounts>,
    created: SystemTime,
}

/// The messages lost of all subscriptions of a node to a topic, as its events have reported.
#[derive(Clone, Copy, Debug)]
pub struct ReportedLosses {
    /// Their number.
    pub lost: u64,
    /// When the last event was received.
    last_received: Instant,
    /// When the first event was received.
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
    /// Time series left out because their limit is reached.
    pub beyond_max_series: u64,
}

/// How many time series a diagnostic status is, and the reported losses of a topic.
const SINGLE_SERIES: usize = 1;
/// The reported losses of a topic are kept while the node publishes statistics of it, and for that time after the last
/// event.
const KEEP_LOSSES: Duration = Duration::from_secs(86_400);

impl Default for Limits {
    fn default() -> Self {
        Self { max_series: 100_000, keep_windows: 60, keep_diagnostics: Duration::from_secs(60) }
    }
}

impl State {
    /// Returns a state without sources.
    pub fn new(limits: Limits, now: Now) -> Self {
        Self {
            limits,
            sources: BTreeMap::new(),
            reported_losses: BTreeMap::new(),
            diagnostics: BTreeMap::new(),
            budget: Budget::new(limits.max_series),
            counts: Counts::default(),
            push: None,
            created: now.system,
        }
    }

    /// Adds a received message, or counts why it was not added.
    pub fn accept(&mut self, received: Result<Received, Refused>, now: Now) {
        let Ok(received) = received else {
            self.counts.invalid += 1;
            return;
        };
        let counter = match &received {
            Received::Window(_) => &mut self.counts.windows,
            Received::Distribution(_) => &mut self.counts.distributions,
            Received::Losses(_) => &mut self.counts.losses,
            Received::Diagnostic(_) => &mut self.counts.diagnostics,
        };
        let budget = &mut self.budget;
        let added = match received {
            Received::Window(of) => source(&mut self.sources, of.source, budget, now)
                .and_then(|source| source.accept_window(of.metric, of.window, of.figures, budget, now)),
            Received::Distribution(of) => {
                source(&mut self.sources, of.source, budget, now).and_then(|source| {
                    source.accept_distribution(of.metric, of.window, &of.distribution, budget, now)
                })
            }
            Received::Losses(of) => accept_losses(&mut self.reported_losses, of, budget, now),
            Received::Diagnostic(of) => accept_diagnostic(&mut self.diagnostics, of, budget, now.monotonic),
        };
        let counter = match added {
            Ok(()) => counter,
            Err(NotAdded::Duplicate) => &mut self.counts.duplicate,
            Err(NotAdded::TooWide) => &mut self.counts.too_wide,
            Err(NotAdded::BeyondMaxSeries) => &mut self.counts.beyond_max_series,
        };
        *counter += 1;
    }

    /// Removes ended sources and figures. Called before the state is reported, and from time to time.
    pub fn expire(&mut self, now: Instant) {
        let Self { limits, budget, .. } = self;
        self.sources.retain(|_, source| {
            let is_kept = source.expire(limits.keep_windows, budget, now);
            if !is_kept {
                budget.release(Source::SERIES);
            }
            is_kept
        });
        let sources = &self.sources;
        self.reported_losses.retain(|name, losses| {
            let silent = now.saturating_duration_since(losses.last_received);
            let is_kept = silent <= KEEP_LOSSES || sources.contains_key(name);
            if !is_kept {
                budget.release(SINGLE_SERIES);
            }
            is_kept
        });
        self.diagnostics.retain(|_, diagnostic| {
            let silent = now.saturating_duration_since(diagnostic.last_received);
            let is_kept = silent <= limits.keep_diagnostics;
            if !is_kept {
                budget.release(SINGLE_SERIES);
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

/// Returns the source of this name, which may be a new one.
fn source<'a>(
    sources: &'a mut BTreeMap<SourceName, Source>,
    name: SourceName,
    budget: &mut Budget,
    now: Now,
) -> Result<&'a mut Source, NotAdded> {
    match sources.entry(name) {
        Entry::Occupied(entry) => Ok(entry.into_mut()),
        Entry::Vacant(entry) => {
            // A new source is of no use without room for a metric of it.
            budget.reserve(Source::SERIES + MetricState::SERIES)?;
            budget.release(MetricState::SERIES);
            Ok(entry.insert(Source::new(now)))
        }
    }
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
            budget.reserve(SINGLE_SERIES)?;
            entry.insert(ReportedLosses { lost: 0, last_received: now.monotonic, created: now.system })
        }
    };
    of_topic.lost = of_topic.lost.saturating_add(received.lost);
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
            budget.reserve(SINGLE_SERIES)?;
            entry.insert(state);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
