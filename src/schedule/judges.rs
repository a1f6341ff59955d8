// SPDX-License-Identifier: Apache-2.0

//! What is expected of the sources, and the judges of those of which something is.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use crate::{
    collector::Distribution,
    condition::{Condition, Figure, Quantity},
    health::{Change, Expectations, Health, Judge, JudgedWindow, Level, NodeExpectations},
    measure::source::Source,
    totals::Totals,
    window::{Metric, Summary, WindowStatistics},
};

/// What is expected of the sources of a node, and the judges of those of which something is. The others take no memory here.
#[derive(Default)]
pub(crate) struct Judges {
    node: NodeExpectations,
    /// What is expected of sources by their own options, and not by those of the node; by their addresses, as below.
    own: BTreeMap<usize, Expectations>,
    /// By the addresses of the sources, which no other source has as long as there is a `Weak` of it.
    judged: BTreeMap<usize, Judged>,
    /// When the diagnostics are due, if there is a judge; None: now.
    due: Option<Instant>,
    /// When they were due last.
    last: Option<Instant>,
    publishes: bool,
    changed: Vec<Changed>,
}

/// A source whose health has changed.
pub(crate) struct Changed {
    pub(crate) source: Arc<Source>,
    /// The level before; None if only the judge is a new one, so that nothing is known any more.
    pub(crate) before: Option<Level>,
    pub(crate) health: Health,
}

/// A source with its judge.
struct Judged {
    source: Weak<Source>,
    judge: Judge,
    /// The totals before the window.
    totals: Option<Totals>,
    /// The samples of the percentiles, since these were judged last.
    samples: Vec<(Metric, Figure, Distribution)>,
}

/// The health of a source for its diagnostics.
pub(crate) struct Diagnosed {
    pub(crate) source: Arc<Source>,
    pub(crate) judge: Judge,
}

impl Judges {
    /// The time between two diagnostics.
    const INTERVAL: Duration = Duration::from_secs(1);
    /// The shortest time between two diagnostics, where something becomes an error.
    const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);

    /// Creates them with what the node's options expect of its sources.
    pub(crate) fn new(node: NodeExpectations, publishes: bool) -> Self {
        Self { node, publishes, ..Self::default() }
    }

    pub(crate) fn node(&self) -> &NodeExpectations {
        &self.node
    }

    /// Sets what the own options of a source expect of it.
    pub(crate) fn expect(&mut self, source: &Arc<Source>, own: Expectations) {
        self.own.insert(address(source), own);
    }

    /// Sets what the node expects of its sources. Judges of which other things are expected now begin anew.
    pub(crate) fn set_node(&mut self, node: NodeExpectations, sources: impl Iterator<Item = Arc<Source>>) {
        self.node = node;
        sources.for_each(|source| self.update(&source));
    }

    /// Returns whether its own options expect something of a source.
    pub(crate) fn has_own(&self, source: &Arc<Source>) -> bool {
        self.own.contains_key(&address(source))
    }

    /// Applies what is expected of a source.
    pub(crate) fn update(&mut self, source: &Arc<Source>) {
        let (names, is_subscription) = (source.names(), source.topic().is_some());
        let expectations = match self.own.get(&address(source)) {
            Some(own) => Some(own.of(names, true)),
            None => self.node.of(names, is_subscription),
        };
        let judged = self.judged.get(&address(source));
        if judged.map(|judged| &**judged.judge.expectations()) == expectations.as_ref() {
            return;
        }
        let judged = judged.filter(|judged| judged.judge.health().window.is_some());
        let before = judged.map(|judged| judged.judge.health().level);
        match expectations {
            Some(expectations) => {
                if needs_distributions(&expectations) {
                    source.collector.set_distributions(true);
                }
                self.judged.insert(address(source), Judged::new(source, Judge::new(expectations)));
            }
            None => {
                self.judged.remove(&address(source));
            }
        }
        if let Some(before) = before {
            self.forget(source, before);
        }
    }

    /// The health of a source is not known any more.
    fn forget(&mut self, source: &Arc<Source>, before: Level) {
        let before = Some(before).filter(|before| *before != Level::Ok);
        self.changed.push(Changed { source: Arc::clone(source), before, health: Health::default() });
    }

    /// Forgets a source that is retired, and those that are gone.
    pub(crate) fn remove(&mut self, source: &Source) {
        let address = std::ptr::from_ref(source) as usize;
        self.own.remove(&address);
        self.judged.remove(&address);
        self.judged.retain(|_, judged| judged.source.strong_count() > 0);
    }

    /// Returns whether the samples of a source are needed in distributions.
    pub(crate) fn needs_distributions(&self, source: &Arc<Source>) -> bool {
        let judged = self.judged.get(&address(source));
        judged.is_some_and(|judged| needs_distributions(judged.judge.expectations()))
    }

    /// Judges a source anew whose statistics were disabled.
    pub(crate) fn restart(&mut self, source: &Arc<Source>) {
        let Some(judged) = self.judged.get_mut(&address(source)) else { return };
        let Health { window, level, .. } = *judged.judge.health();
        if window.is_some() {
            *judged = Judged::new(source, Judge::new(Arc::clone(judged.judge.expectations())));
            self.forget(source, level);
        }
    }

    /// Judges a window.
    pub(crate) fn judge(&mut self, source: &Arc<Source>, window: &WindowStatistics, now: Instant) {
        if self.judged.is_empty() {
            return;
        }
        let judged = self.judged.get_mut(&address(source));
        let Some(Change { before, health }) = judged.and_then(|judged| judged.judge(window)) else { return };
        if health.level == Level::Error {
            let earliest = self.last.map_or(now, |last| last + Self::SHORTEST_INTERVAL).max(now);
            self.due = self.due.map(|due| due.min(earliest));
        }
        self.changed.push(Changed { source: Arc::clone(source), before: Some(before), health });
    }

    /// Returns whether the health of a source has changed since the last [`take_changed`](Self::take_changed).
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(crate) fn take_changed(&mut self) -> Vec<Changed> {
        std::mem::take(&mut self.changed)
    }

    /// Returns when the diagnostics are due; None if there are none.
    pub(crate) fn wake(&self, now: Instant) -> Option<Instant> {
        (self.publishes && !self.judged.is_empty()).then(|| self.due.unwrap_or(now))
    }

    /// Takes the diagnostics; None if they are not due.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Vec<Diagnosed>> {
        if self.wake(now)? > now {
            return None;
        }
        (self.due, self.last) = (Some(now + Self::INTERVAL), Some(now));
        let all = self.judged.values().filter_map(|judged| {
            let source = judged.source.upgrade().filter(|source| source.collector.is_enabled())?;
            Some(Diagnosed { source, judge: judged.judge.clone() })
        });
        Some(all.collect())
    }
}

fn address(source: &Arc<Source>) -> usize {
    Arc::as_ptr(source) as usize
}

fn needs_distributions(expectations: &Expectations) -> bool {
    expectations.conditions().any(|(_, condition)| quantile(condition).is_some())
}

/// Returns the quantile that a condition is about; None if it is about something else.
fn quantile(condition: &Condition) -> Option<(Metric, Figure, f64)> {
    match condition.quantity() {
        Quantity::Metric(metric, figure) => Some((metric, figure, figure.quantile()?)),
        _ => None,
    }
}

impl Judged {
    fn new(source: &Arc<Source>, judge: Judge) -> Self {
        let quantiles = judge.expectations().conditions().filter_map(|(_, condition)| quantile(condition));
        let mut samples: Vec<(Metric, Figure, Distribution)> = vec![];
        for (metric, figure, _) in quantiles {
            if samples.iter().all(|(of, one, _)| (*of, *one) != (metric, figure)) {
                samples.push((metric, figure, Distribution::default()));
            }
        }
        Self { source: Arc::downgrade(source), judge, totals: source.collector.totals(), samples }
    }

    fn judge(&mut self, window: &WindowStatistics) -> Option<Change> {
        for (metric, _, samples) in &mut self.samples {
            if let Some(more) = window.distribution(*metric) {
                // There is room for a sample per nanosecond in 292 years.
                let _has_room = samples.merge(more);
            }
        }
        let totals = std::mem::replace(&mut self.totals, window.totals);
        let judged = JudgedWindow { window: window.window, length: window.length, messages: window.count };
        let samples = &self.samples;
        let change = self.judge.accept(&judged, |quantity| value(quantity, window, totals.as_ref(), samples));
        for (_, figure, samples) in &mut self.samples {
            if figure.quantile().is_some_and(|quantile| !samples.quantile(quantile).is_nan()) {
                *samples = Distribution::default(); // it was judged
            }
        }
        change
    }
}

/// Returns the value of a quantity in a window, NaN if it was not measured; None if a percentile needs more samples. With the totals
/// before the window.
fn value(
    quantity: Quantity,
    window: &WindowStatistics,
    before: Option<&Totals>,
    samples: &[(Metric, Figure, Distribution)],
) -> Option<f64> {
    let since = |count: fn(&Totals) -> Option<u64>| {
        let count = |totals: &Totals| if totals.received == 0 { Some(0) } else { count(totals) };
        let (before, now) = (before.and_then(count), window.totals.as_ref().and_then(count));
        // A message that arrives late reduces the losses of a window before.
        now.zip(before).map_or(f64::NAN, |(now, before)| now.saturating_sub(before) as f64)
    };
    Some(match quantity {
        Quantity::Rate => window.rate(),
        Quantity::Received => window.count as f64,
        Quantity::Bandwidth => window.bandwidth(),
        Quantity::Bytes => window.bandwidth() * window.length.as_secs_f64(),
        Quantity::Lost => since(|totals| totals.lost),
        Quantity::OutOfOrder => since(|totals| totals.out_of_order),
        Quantity::Metric(metric, figure) => {
            let summary = window.get(metric).copied().unwrap_or_default();
            match figure.quantile() {
                // Not measured, or without a distribution as yet.
                Some(_) if summary.sample_count == 0 => f64::NAN,
                Some(quantile) => {
                    let of_it = samples.iter().find(|(of, one, _)| (*of, *one) == (metric, figure));
                    let value = of_it.map_or(f64::NAN, |(.., samples)| samples.quantile(quantile));
                    return (!value.is_nan()).then_some(value);
                }
                None => figure_of(figure, &summary),
            }
        }
        _ => f64::NAN,
    })
}

fn figure_of(figure: Figure, summary: &Summary) -> f64 {
    match figure {
        Figure::Average => summary.average,
        Figure::Minimum => summary.minimum,
        Figure::Maximum => summary.maximum,
        Figure::StandardDeviation => summary.standard_deviation,
        Figure::SampleCount => summary.sample_count as f64,
        _ => f64::NAN,
    }
}
