// SPDX-License-Identifier: Apache-2.0

//! The expectations of a node's sources, and the judges of the sources. A judge compares the windows of one source with
//! the source's expectations. The schedule stores each judge with its source.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    collector::Distribution,
    condition::{Condition, Figure, Quantity},
    escape::Escaped,
    health::{
        check, needed, Cause, Change, Expectations, Health, Judge, JudgedWindow, LastWindow, Level,
        NodeExpectations, SourceStatus, Value,
    },
    metric::Metric,
    record::source::Source,
    source_kind::SourceKind,
    totals::Totals,
    window::WindowStatistics,
};

/// The expectations of a node, the times of its diagnostics, and the changes of health that are not reported yet.
#[derive(Default)]
pub struct Judges {
    node: NodeExpectations,
    /// The time at which the diagnostics are due; `None` means now.
    due: Option<Instant>,
    /// The time at which the diagnostics were last published.
    last: Option<Instant>,
    publishes: bool,
    changed: Vec<Changed>,
    /// The time at which conditions that apply to no source will be reported. `None` if there are no conditions to
    /// check, and before the first call of [`next`](Schedule::next).
    check_names_at: Option<Instant>,
    /// The levels whose conditions were already checked.
    checked: Vec<Level>,
}

/// The new health of a source.
#[non_exhaustive]
pub struct Changed {
    /// The source.
    pub source: Arc<Source>,
    /// Whether the level changed, or the cause of a level other than OK changed. If false, only the last window of the
    /// health is new.
    pub is_change: bool,
    /// The level before the change. `None` if the level and its cause did not change, or if the judge was replaced
    /// while the level was OK.
    pub before: Option<Level>,
    /// The new health.
    pub health: Health,
}

/// The judge of a source. The default value has no expectations, and takes no more memory than a pointer.
#[derive(Default)]
pub struct SourceJudge(Option<Box<Expected>>);

/// The expectations of a source. At least one of the two fields is not `None`.
struct Expected {
    /// The expectations from the source's own options, without the node's expectations.
    own: Option<Expectations>,
    judged: Option<Judged>,
}

/// The judge of a source that has expectations, with the data that a comparison needs from earlier windows.
struct Judged {
    judge: Judge,
    /// The totals of the source at the end of the last window.
    totals: Option<Totals>,
    /// For each percentile in a condition: the samples since the last time when there were enough samples to compare
    /// the percentile.
    samples: Vec<(Metric, Figure, Distribution)>,
}

/// The health of a source for its diagnostics.
#[non_exhaustive]
pub struct Diagnosed {
    /// The source.
    pub source: Arc<Source>,
    /// The judge of the source, after the source's last window.
    pub judge: Judge,
}

impl Judges {
    const INTERVAL: Duration = Duration::from_secs(1);
    /// How long to wait for new sources after a condition is set. After this time, a condition that applies to no
    /// source is reported.
    const NAMES_KNOWN_AFTER: Duration = Duration::from_secs(15);
    /// The shortest time between two diagnostics. If the level of a source becomes ERROR, the next diagnostics are due
    /// as soon as this time has passed since the last diagnostics.
    const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);

    /// Creates the judges. `node` contains the expectations of the node, and `publishes` is true if the node publishes
    /// health.
    pub fn new(node: NodeExpectations, publishes: bool) -> Self {
        Self { node, publishes, ..Self::default() }
    }

    /// Returns what the node expects of its sources.
    pub fn node(&self) -> &NodeExpectations {
        &self.node
    }

    /// Sets what the node expects of its sources. Call [`update`](Self::update) for each source next.
    pub fn set_node(&mut self, node: NodeExpectations) {
        let before = std::mem::replace(&mut self.node, node);
        let is_same = |level| conditions_for(&before, level).eq(conditions_for(&self.node, level));
        self.checked.retain(|level| is_same(*level));
        self.check_names_at = None;
    }

    /// Applies the expectations of the node and of the source's own options to a source. If the result has changed, the
    /// source's judge restarts.
    pub fn update(&mut self, source: &Arc<Source>, source_judge: &mut SourceJudge) {
        let (names, kind) = (source.names(), source.kind());
        let expectations = match source_judge.own() {
            Some(own) => Some(own.select(names, kind, true)),
            None => self.node.select(names, kind),
        };
        let expectations =
            expectations.and_then(|own| own.measurable(|metric| source.collector.can_measure(metric)));
        // Metrics cannot contain the callback names of an executor, so these names are published in the executor's
        // diagnostic status. The status needs a judge, so an executor has expectations even without conditions.
        let expectations = match kind {
            SourceKind::Executor if self.publishes => expectations.or_else(|| Some(Expectations::new())),
            _ => expectations,
        };
        let expectations = match kind.may_be_silent() {
            true => expectations.map(Expectations::with_silence),
            false if source.collector.is_latched() => expectations.map(Expectations::latched),
            false => expectations,
        };
        let judge = source_judge.judge();
        if judge.map(|judge| &**judge.expectations()) == expectations.as_ref() {
            return;
        }
        let before = judge.filter(|judge| judge.health().window.is_some()).map(|judge| judge.health().level);
        if expectations.as_ref().is_some_and(needs_distributions) {
            source.collector.set_distributions(true);
        }
        source_judge.replace(expectations.map(|expectations| Judged::new(source, Judge::new(expectations))));
        if let Some(before) = before {
            self.forget(source, before);
        }
    }

    /// Reports the default health for a source whose judge was removed or restarted.
    fn forget(&mut self, source: &Arc<Source>, before: Level) {
        let before = Some(before).filter(|before| *before != Level::Ok);
        let (source, health) = (Arc::clone(source), Health::default());
        self.changed.push(Changed { source, is_change: true, before, health });
    }

    /// Restarts the judge of a source that was disabled.
    pub fn restart(&mut self, source: &Arc<Source>, source_judge: &mut SourceJudge) {
        let Some(judged) = source_judge.judged() else { return };
        let Health { window, level, .. } = *judged.judge.health();
        if window.is_some() {
            *judged = Judged::new(source, Judge::new(Arc::clone(judged.judge.expectations())));
            self.forget(source, level);
        }
    }

    /// Compares a window with the expectations of its source.
    pub fn judge(
        &mut self,
        source: &Arc<Source>,
        source_judge: &mut SourceJudge,
        window: &WindowStatistics,
        now: Instant,
    ) {
        let Some(judged) = source_judge.judged() else { return };
        let (is_change, before, health) = match judged.judge(window) {
            Some(Change { before, health }) => (true, Some(before), health),
            None => (false, None, judged.judge.health().clone()),
        };
        if is_change && health.level == Level::Error {
            let earliest = self.last.map_or(now, |last| last + Self::SHORTEST_INTERVAL).max(now);
            self.due = self.due.map(|due| due.min(earliest));
        }
        self.changed.push(Changed { source: Arc::clone(source), is_change, before, health });
    }

    /// Returns the conditions of the node that apply to no source, each with the reason. Each condition is returned
    /// only once. The check waits for some time after a condition was set, because the source that the condition is
    /// about may be created later.
    pub fn check_names(&mut self, sources: impl Fn() -> Vec<Arc<Source>>, now: Instant) -> Vec<String> {
        let all = [Level::Error, Level::Warn];
        let unchecked = all.into_iter().filter(|level| !self.checked.contains(level));
        let conditions: Vec<_> = unchecked.flat_map(|level| conditions_for(&self.node, level)).collect();
        if conditions.is_empty() {
            return vec![];
        }
        if now < *self.check_names_at.get_or_insert(now + Self::NAMES_KNOWN_AFTER) {
            return vec![];
        }
        (self.check_names_at, self.checked) = (None, all.into());
        let sources = sources();
        let reason = |condition: &Condition| {
            let named: Vec<_> = sources.iter().filter(|source| is_about(condition, source)).collect();
            let metric = needed(condition.quantity());
            let measures = |source: &&Arc<Source>, metric| {
                source.collector.measures(metric) && source.collector.can_measure(metric)
            };
            match metric {
                _ if named.is_empty() => Some(match condition.topic() {
                    Some(_) => "no source of the node has that name".to_owned(),
                    None => "the node has no subscription".to_owned(),
                }),
                Some(metric) if !named.iter().any(|source| measures(source, metric)) => {
                    let likeliest = named.iter().find(|source| source.collector.can_measure(metric));
                    Some(why_unmeasured(likeliest.or(named.first())?, metric))
                }
                _ => None,
            }
        };
        let unjudged = conditions.into_iter();
        let unjudged = unjudged
            .filter_map(|condition| Some(format!("{condition} is not judged: {}", reason(condition)?)));
        unjudged.collect()
    }

    /// Returns the time at which [`check_names`](Self::check_names) is due.
    pub fn check_names_wake(&self) -> Option<Instant> {
        self.check_names_at
    }

    /// Returns whether a source has new health since the last call of [`take_changed`](Self::take_changed).
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Returns the new health of all sources, and forgets it.
    pub fn take_changed(&mut self) -> Vec<Changed> {
        std::mem::take(&mut self.changed)
    }

    /// Returns the time at which the diagnostics are due; `None` if the diagnostics are not published. The caller has
    /// to ignore this time if no source has a judge.
    pub fn wake(&self, now: Instant) -> Option<Instant> {
        self.publishes.then(|| self.due.unwrap_or(now))
    }

    /// If the diagnostics are due, returns true and schedules the next diagnostics.
    pub fn start_diagnostics(&mut self, now: Instant) -> bool {
        let is_due = self.wake(now).is_some_and(|due| due <= now);
        if is_due {
            (self.due, self.last) = (Some(now + Self::INTERVAL), Some(now));
        }
        is_due
    }
}

impl SourceJudge {
    /// Sets the expectations from the source's own options. Call [`Judges::update`] next.
    pub fn expect(&mut self, own: Expectations) {
        match &mut self.0 {
            Some(expected) => expected.own = Some(own),
            None => self.0 = Some(Box::new(Expected { own: Some(own), judged: None })),
        }
    }

    /// Returns the expectations from the source's own options.
    pub fn own(&self) -> Option<&Expectations> {
        self.0.as_ref()?.own.as_ref()
    }

    /// Returns the judge; `None` if the source has no expectations.
    pub fn judge(&self) -> Option<&Judge> {
        Some(&self.0.as_ref()?.judged.as_ref()?.judge)
    }

    /// Returns the source's health for the diagnostics; `None` if the source has no expectations.
    pub fn diagnose(&self, source: &Arc<Source>) -> Option<Diagnosed> {
        Some(Diagnosed { source: Arc::clone(source), judge: self.judge()?.clone() })
    }

    /// Returns whether the conditions need the samples of the source as distributions.
    pub fn needs_distributions(&self) -> bool {
        self.judge().is_some_and(|judge| needs_distributions(judge.expectations()))
    }

    fn judged(&mut self) -> Option<&mut Judged> {
        self.0.as_mut()?.judged.as_mut()
    }

    fn replace(&mut self, judged: Option<Judged>) {
        let own = self.0.take().and_then(|expected| expected.own);
        if own.is_some() || judged.is_some() {
            self.0 = Some(Box::new(Expected { own, judged }));
        }
    }
}

/// Returns whether a condition of the node is about this source.
pub(super) fn is_about(condition: &Condition, source: &Source) -> bool {
    match condition.topic() {
        Some(topic) => source.names().include(topic),
        None => source.is_subscription(),
    }
}

/// Returns the diagnostic status of a source: its health and its last window. `node` is the name of the node without its
/// namespace.
pub fn status(node: &str, source: &Source, judge: &Judge) -> SourceStatus {
    let latest = source.latest();
    let window = latest.as_deref().map(LastWindow::from);
    SourceStatus::new(node, source.name.task(), &source.name, judge, window.as_ref())
}

/// Returns the reason why a condition without a topic is never compared with a source's windows; `None` if the
/// condition is compared.
pub fn why_unjudged(condition: &Condition, source: &Source) -> Option<String> {
    if let Err(why) = check(condition, Some(source.kind())) {
        return Some(why);
    }
    let metric = needed(condition.quantity())?;
    let is_measured = source.collector.measures(metric) && source.collector.can_measure(metric);
    (!is_measured).then(|| why_unmeasured(source, metric))
}

pub(super) fn why_unmeasured(source: &Source, metric: Metric) -> String {
    let (name, kind) = (Escaped(&source.name), source.kind());
    if !kind.measures(metric) {
        return format!("{name} is a {kind}, which does not measure {metric}");
    }
    if !source.collector.can_measure(metric) {
        let why = match metric {
            Metric::HeaderToSource => "its type has no header, or its node uses simulated time",
            _ => "its type has no header",
        };
        return format!("{name} does not measure {metric}, because {why}");
    }
    format!(
        "{name} does not measure {metric}; a metric is enabled when its source is created, so set this at the \
         start, with the topic as the code has it, or enable the metric"
    )
}

fn conditions_for(node: &NodeExpectations, level: Level) -> impl Iterator<Item = &Condition> {
    let conditions = node.expectations.iter().flat_map(|own| own.conditions());
    conditions.filter(move |(condition_level, _)| *condition_level == level).map(|(_, condition)| condition)
}

fn needs_distributions(expectations: &Expectations) -> bool {
    expectations.conditions().any(|(_, condition)| quantile(condition).is_some())
}

/// Returns the quantile that a condition is about; `None` if the condition is not about a quantile.
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
            if samples
                .iter()
                .all(|(own_metric, own_figure, _)| (*own_metric, *own_figure) != (metric, figure))
            {
                samples.push((metric, figure, Distribution::default()));
            }
        }
        let totals = source.collector.totals();
        let had_messages = totals.is_some_and(|totals| totals.received > 0);
        let judge = if had_messages { judge.after_messages() } else { judge };
        Self { judge, totals, samples }
    }

    fn judge(&mut self, window: &WindowStatistics) -> Option<Change> {
        for (metric, _, samples) in &mut self.samples {
            if let Some(more) = window.distribution(*metric) {
                // A merge cannot fail here: the distribution has room for one sample per nanosecond in 292 years.
                let _has_room = samples.merge(more);
            }
        }
        let totals = std::mem::replace(&mut self.totals, window.totals);
        let messages = window.is_count_known.then_some(window.count);
        let judged =
            JudgedWindow::new(window.window, window.length, messages).with_history(window.has_history);
        let samples = &self.samples;
        let change = self
            .judge
            .accept(&judged, |quantity| value(quantity, window, messages, totals.as_ref(), samples));
        let is_silent = self.judge.health().cause == Cause::Silence;
        for (_, figure, samples) in &mut self.samples {
            let is_judged = figure.quantile().is_some_and(|quantile| !samples.quantile(quantile).is_nan());
            if is_judged || is_silent {
                *samples = Distribution::default();
            }
        }
        change
    }
}

/// Returns the value of a quantity in a window. `before` are the totals at the start of the window.
fn value(
    quantity: Quantity,
    window: &WindowStatistics,
    messages: Option<u64>,
    before: Option<&Totals>,
    samples: &[(Metric, Figure, Distribution)],
) -> Value {
    let since = |count: fn(&Totals) -> Option<u64>| {
        let count = |totals: &Totals| if totals.received == 0 { Some(0) } else { count(totals) };
        let (before, now) = (before.and_then(count), window.totals.as_ref().and_then(count));
        // A message that arrives late reduces the losses of an earlier window, so a total can decrease.
        now.zip(before).map(|(now, before)| now.saturating_sub(before))
    };
    // If the topic had more publishers than are followed, the totals are unknown forever. But the losses of a single
    // window may be known.
    let followed = before.zip(window.totals.as_ref()).and_then(|(before, now)| now.losses_since(before));
    match quantity {
        Quantity::Rate => window.rate().into(),
        Quantity::Received => messages.into(),
        Quantity::Bandwidth => window.bandwidth().into(),
        Quantity::Bytes => (window.bandwidth() * window.length.as_secs_f64()).into(),
        Quantity::Lost => since(|totals| totals.lost).or(followed.map(|(lost, _)| lost)).into(),
        Quantity::OutOfOrder => since(|totals| totals.out_of_order).or(followed.map(|(_, late)| late)).into(),
        Quantity::Metric(metric, figure) => {
            let summary = window.get(metric).copied().unwrap_or_default();
            if summary.sample_count == 0 {
                return Value::without_sample(
                    metric,
                    figure,
                    messages,
                    [window.unstamped, window.without_clock, window.other_clock],
                );
            }
            let Some(quantile) = figure.quantile() else { return figure.read(&summary).into() };
            let distribution = samples
                .iter()
                .find(|(own_metric, own_figure, _)| (*own_metric, *own_figure) == (metric, figure));
            // If there are too few samples, the quantile is NaN, so the value is unknown.
            distribution.map_or(Value::Unknown, |(.., samples)| samples.quantile(quantile).into())
        }
        _ => Value::Unknown,
    }
}

#[cfg(test)]
mod tests;

opaque_debug!(Judges, SourceJudge, Changed, Diagnosed);
