// SPDX-License-Identifier: Apache-2.0

//! The schedule of a node's windows: a state machine that has no thread, no clock and no node.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use super::{
    judges::{is_about, why_unmeasured, Changed, Diagnosed, Judges, SourceJudge},
    log_table,
    losses::{Event, LossEvents, PublishLosses},
    outbox::{Failures, Outbox, Outgoing, WindowPublisher},
};
use crate::{
    condition::Condition,
    health::{needed, Expectations, Level, NodeExpectations},
    metric::Metric,
    record::{
        clock::{duration, Clock},
        options::{SourceDefaults, SourceOptions, StatisticsState},
        source::{Source, WindowedCollector},
    },
    totals::{add_up, TopicTotals},
    window::WindowStatistics,
};

/// The schedule of a node's windows.
///
/// [`next`](Self::next) drives the schedule: it accepts the present time and returns what to do. Every other method
/// changes what `next` will return.
pub struct Schedule {
    /// The default options, for sources that do not set an option.
    defaults: SourceDefaults,
    logs_tables: bool,
    entries: Vec<Entry>,
    /// The sources that are being created. They are in a separate list, because only new entries need the field
    /// `collector`.
    new_entries: Vec<NewEntry>,
    /// The totals of subscriptions that have ended; `None` if these totals are not kept.
    ended: Option<Vec<TopicTotals>>,
    /// For each publish period, the time at which its windows end next. All windows with the same period end together.
    window_ends: Vec<WindowEnd>,
    outbox: Outbox,
    loss_events: LossEvents,
    judges: Judges,
    /// The time of the next check for publishers that cannot serve a subscription; `None` if no check is scheduled.
    check_publishers_at: Option<Instant>,
    finished: Vec<(Arc<Source>, Arc<WindowStatistics>)>,
    tables: Vec<String>,
    warnings: Vec<String>,
    /// Whether the last action was [`Action::HandOut`] or [`Action::PublishDiagnostics`].
    has_handed_out: bool,
    /// Whether the last action was [`Action::PublishDiagnostics`].
    has_diagnosed: bool,
    failures: Failures,
    warned: Warned,
    is_closed: bool,
}

/// What the caller has to do next.
pub enum Action {
    /// Give finished windows to their watchers, and write texts to the node's log.
    HandOut(HandOut),
    /// Publish these messages, then [report the failures](Schedule::add_failures).
    Publish {
        /// The losses to publish.
        event: Option<Event>,
        /// The metrics and distributions to publish.
        batch: Vec<Outgoing>,
    },
    /// Publish the health of these sources, then [report the failures](Schedule::add_failures).
    PublishDiagnostics(Vec<Diagnosed>),
    /// Look for publishers that cannot serve these subscriptions, then [report the
    /// result](Schedule::add_publisher_check).
    CheckPublishers(Vec<Arc<Source>>),
    /// Wait until this time, or until another method is called. `None`: wait until another method is called.
    Wait(Option<Instant>),
    /// The schedule is closed. Publish as many of the remaining messages as possible in the remaining time.
    End {
        /// The losses to publish.
        event: Option<Event>,
        /// The metrics and distributions to publish.
        messages: Vec<Outgoing>,
        /// The remaining windows, health changes, tables and warnings to hand out.
        rest: HandOut,
    },
}

/// What watchers and the node's log receive after windows have ended. Watchers run the code of other crates, so the
/// caller must not hold a lock when it hands these results out.
#[derive(Default)]
#[non_exhaustive]
pub struct HandOut {
    /// Finished windows, for their watchers.
    pub finished: Vec<(Arc<Source>, Arc<WindowStatistics>)>,
    /// The new health of sources, for their watchers. If `is_change` is true, the health is also for the node's log.
    pub changed: Vec<Changed>,
    /// Tables for the node's log.
    pub tables: Vec<String>,
    /// Warnings for the node's log.
    pub warnings: Vec<String>,
}

/// A source, with the data that is needed when its windows end.
struct Entry {
    source: Weak<Source>,
    options: SourceOptions,
    /// The time at which the source's first window started, on the monotonic clock in nanoseconds. The first window has
    /// to last for at least one period.
    first_started: Option<i64>,
    /// The publisher of the source's windows; `None` if the windows are not published.
    publisher: Option<WindowPublisher>,
    judge: SourceJudge,
}

/// A source that is being created. The source is enabled and disabled like other sources, but its windows do not end
/// yet.
struct NewEntry {
    collector: Weak<dyn WindowedCollector>,
    /// The entry that the schedule gets when the source is complete. Its field `source` is still empty.
    entry: Entry,
}

/// The time at which the windows with one publish period end next.
struct WindowEnd {
    period: Duration,
    at: Instant,
}

/// The warnings that the node has already given, so that it gives each warning only once, or not too often.
#[derive(Default)]
struct Warned {
    /// The offset of the system clock from the monotonic clock after the last step of the system clock, in nanoseconds.
    clock_offset: Option<i64>,
    /// The time at which failures were last reported.
    failures: Option<Instant>,
    discarded_windows: bool,
    forgotten_totals: bool,
}

impl Schedule {
    /// At most this number of totals of ended subscriptions is kept.
    const ENDED: usize = 1000;
    /// The time from the enabling of a subscription to the check of its publishers. All subscriptions that are enabled
    /// within this time are checked together.
    const CHECK_TOGETHER: Duration = Duration::from_millis(100);

    /// Creates a schedule without sources.
    pub fn new(defaults: SourceDefaults, logs_tables: bool, loss_events: LossEvents) -> Self {
        Self {
            defaults,
            logs_tables,
            entries: vec![],
            new_entries: vec![],
            ended: Some(vec![]),
            window_ends: vec![],
            outbox: Outbox::default(),
            loss_events,
            judges: Judges::default(),
            check_publishers_at: None,
            finished: vec![],
            tables: vec![],
            warnings: vec![],
            has_handed_out: false,
            has_diagnosed: false,
            failures: Failures::default(),
            warned: Warned::default(),
            is_closed: false,
        }
    }

    /// From now on, the totals of ended subscriptions are not kept.
    pub fn without_totals(mut self) -> Self {
        self.ended = None;
        self
    }

    /// Sets the expectations from the node's options, and whether the health of sources is published.
    pub fn judge_by(&mut self, expectations: NodeExpectations, publishes_health: bool) {
        self.judges = Judges::new(expectations, publishes_health);
    }

    /// Returns what the node's options expect of its sources.
    pub fn expectations(&self) -> &NodeExpectations {
        self.judges.node()
    }

    /// Sets the conditions for a level. They apply to the node's sources whose own options have no expectations.
    pub fn set_conditions(&mut self, level: Level, conditions: Vec<Condition>) {
        let node = self.judges.node().with(level, conditions);
        self.judges.set_node(node);
        for entry in &mut self.entries {
            if let Some(source) = entry.source.upgrade() {
                self.judges.update(&source, &mut entry.judge);
                let needed = entry.needs_distributions(self.defaults.distributions);
                source.collector.set_distributions(needed);
            }
        }
    }

    /// Sets the expectations from a source's own options. For this source, they replace the node's expectations. Call
    /// this between [`add`](Self::add) and [`complete`](Self::complete).
    pub fn expect(&mut self, source: &Source, own: Expectations) {
        if let Some(new) = self.new_entries.iter_mut().find(|new| new.collects_by(&source.collector)) {
            new.entry.judge.expect(own);
        }
    }

    /// Checks conditions of the node. Returns an error with the reason if a condition would apply to a source that does
    /// not measure the condition's quantity. If several sources have the name in the condition, the condition applies
    /// only to those of them whose kind can measure the quantity.
    pub fn check_measured(&self, conditions: &[Condition]) -> Result<(), String> {
        let without_own = self.entries.iter().filter(|entry| entry.judge.own().is_none());
        let sources: Vec<_> = without_own.filter_map(|entry| entry.source.upgrade()).collect();
        for condition in conditions {
            let Some(metric) = needed(condition.quantity()) else { continue };
            let selected: Vec<_> = sources.iter().filter(|source| is_about(condition, source)).collect();
            let applies_to_none = !selected.iter().any(|source| source.collector.can_measure(metric));
            let is_unmeasured = |source: &&&Arc<Source>| {
                applies_to_none || source.collector.can_measure(metric) && !source.collector.measures(metric)
            };
            if let Some(source) = selected.iter().find(is_unmeasured) {
                return Err(format!("{condition}: {}", why_unmeasured(source, metric)));
            }
        }
        Ok(())
    }

    /// Adds the collector of a source that is being created. If the source's statistics are enabled, its first window
    /// starts now. No window of the source ends before [`complete`](Self::complete) is called.
    pub fn add(
        &mut self,
        collector: &Arc<dyn WindowedCollector>,
        options: SourceOptions,
        publisher: Option<WindowPublisher>,
        now: Instant,
        clock: &dyn Clock,
    ) {
        let entry = Entry {
            source: Weak::new(),
            options,
            first_started: None,
            publisher,
            judge: SourceJudge::default(),
        };
        self.new_entries.push(NewEntry { collector: Arc::downgrade(collector), entry });
        self.update(now, clock);
    }

    /// Completes the source whose collector was [added](Self::add). From now on, windows of the source end.
    pub fn complete(&mut self, source: &Arc<Source>, now: Instant) {
        let Some(index) = self.new_entries.iter().position(|new| new.collects_by(&source.collector)) else {
            return;
        };
        let NewEntry { mut entry, .. } = self.new_entries.remove(index);
        self.judges.update(source, &mut entry.judge);
        self.entries.push(Entry { source: Arc::downgrade(source), ..entry });
        if source.is_subscription() && source.collector.is_enabled() {
            self.check_publishers_by(now + Self::CHECK_TOGETHER);
        }
    }

    /// Removes the collector of a source that could not be created. Such a source has no window and no totals.
    pub fn abandon(&mut self, collector: &Arc<dyn WindowedCollector>) {
        self.new_entries.retain(|new| !new.collects_by(collector));
        collector.disable();
    }

    /// Returns whether loss events are enabled and still need a publisher.
    pub fn needs_loss_publisher(&self) -> bool {
        self.loss_events.needs_publisher()
    }

    /// Publishes the losses of a subscription as events from now on.
    pub fn add_loss_events(
        &mut self,
        source: &Arc<Source>,
        publisher: Option<Arc<dyn PublishLosses>>,
        now: Instant,
    ) {
        self.loss_events.add(source, publisher, now);
    }

    /// Sets whether a source has statistics.
    pub fn set_state(
        &mut self,
        source: &Arc<Source>,
        state: StatisticsState,
        now: Instant,
        clock: &dyn Clock,
    ) {
        let source = Arc::as_ptr(source);
        for entry in self.entries.iter_mut().filter(|entry| entry.source.as_ptr() == source) {
            entry.options.state = state;
        }
        self.update(now, clock);
    }

    /// Returns the default options, for sources that do not set an option.
    pub fn defaults(&self) -> SourceDefaults {
        self.defaults
    }

    /// Changes the default options. A change of the distributions applies to the windows that start next. If the
    /// publish period is changed, the current windows end one new period after the change.
    pub fn change_defaults(
        &mut self,
        change: impl FnOnce(&mut SourceDefaults),
        now: Instant,
        clock: &dyn Clock,
    ) {
        change(&mut self.defaults);
        self.update(now, clock);
    }

    /// Removes a source whose handle was dropped, and keeps its totals. Returns whether there is a new warning.
    pub fn remove(&mut self, source: &Source) -> bool {
        self.entries.retain(|entry| !std::ptr::eq(entry.source.as_ptr(), source));
        source.collector.disable(); // a change of the options may have enabled the source after its handle was dropped
        let (Some(ended), Some(totals)) = (&mut self.ended, source.totals()) else { return false };
        add_up(ended, totals);
        if ended.len() <= Self::ENDED {
            return false;
        }
        let forgotten = ended.remove(0);
        if std::mem::replace(&mut self.warned.forgotten_totals, true) {
            return false;
        }
        self.warnings.push(format!(
            "More than {} subscriptions of different names have ended: the totals of {} and of others are no \
             longer reported",
            Self::ENDED,
            forgotten.source_name
        ));
        true
    }

    /// Returns the totals of each subscription, and the totals of ended subscriptions.
    pub fn totals(&self) -> Vec<TopicTotals> {
        let live = self.entries.iter().filter_map(|entry| entry.source.upgrade());
        live.filter_map(|source| source.totals()).chain(self.ended.iter().flatten().cloned()).collect()
    }

    /// Disables all sources permanently. Finished windows are still published, but current windows are not.
    pub fn close(&mut self) {
        self.is_closed = true;
        for source in self.entries.iter().filter_map(|entry| entry.source.upgrade()) {
            source.collector.disable();
        }
        for collector in self.new_entries.iter().filter_map(|new| new.collector.upgrade()) {
            collector.disable();
        }
    }

    /// Schedules a check of the publishers at this time or earlier.
    pub fn check_publishers_by(&mut self, time: Instant) {
        self.check_publishers_at = Some(self.check_publishers_at.map_or(time, |earlier| earlier.min(time)));
    }

    /// Accepts the result of [`Action::CheckPublishers`]: the warnings, and the time of the next check.
    pub fn add_publisher_check(&mut self, mut warnings: Vec<String>, again: Option<Instant>) {
        self.warnings.append(&mut warnings);
        if let Some(again) = again {
            self.check_publishers_by(again);
        }
    }

    /// Accepts the failures of [`Action::Publish`].
    pub fn add_failures(&mut self, failures: Failures) {
        self.failures.append(failures);
    }

    /// Ends the windows that are due, and returns what to do next.
    pub fn next(&mut self, now: Instant, clock: &dyn Clock) -> Action {
        if self.is_closed {
            return self.end(now);
        }
        // If it takes longer than a period to end all windows, windows are always due. To let other work happen, too,
        // publishers are checked and waiting messages are published before the next windows end.
        if !std::mem::take(&mut self.has_handed_out) {
            self.end_windows(now, clock);
        }
        let sources = || self.entries.iter().filter_map(|entry| entry.source.upgrade()).collect();
        self.warnings.extend(self.judges.check_names(sources, now));
        let has_hand_out = !(self.finished.is_empty() && self.tables.is_empty() && self.warnings.is_empty());
        if has_hand_out || self.judges.has_changed() {
            self.has_handed_out = true;
            return Action::HandOut(self.take_hand_out());
        }
        if self.check_publishers_at.take_if(|at| *at <= now).is_some() {
            let sources = self.entries.iter().filter_map(|entry| entry.source.upgrade());
            return Action::CheckPublishers(sources.collect());
        }
        // If publishing takes longer than the time between two diagnostics, diagnostics are always due. So that other
        // work happens, too, the waiting messages are published each time after the health was published.
        let has_diagnosed = std::mem::take(&mut self.has_diagnosed);
        if !has_diagnosed && self.has_judges() && self.judges.start_diagnostics(now) {
            (self.has_diagnosed, self.has_handed_out) = (true, true);
            return Action::PublishDiagnostics(self.diagnose());
        }
        let (event, batch) = (self.loss_events.next(now), self.outbox.next_batch(now));
        if event.is_some() || !batch.is_empty() {
            return Action::Publish { event, batch };
        }
        Action::Wait(self.wake(now))
    }

    fn end(&mut self, now: Instant) -> Action {
        self.warnings.extend(self.failures.take());
        Action::End {
            event: self.loss_events.remaining(now),
            messages: self.outbox.take().into(),
            rest: self.take_hand_out(),
        }
    }

    /// Returns the time at which [`next`](Self::next) has to be called again; `None` if nothing is scheduled.
    fn wake(&self, now: Instant) -> Option<Instant> {
        let ends = self.window_ends.iter().map(|end| end.at);
        let others = [
            self.check_publishers_at,
            self.loss_events.wake(),
            self.outbox.wake(now),
            self.judges.wake(now).filter(|_| self.has_judges()),
            self.judges.check_names_wake(),
        ];
        ends.chain(others.into_iter().flatten()).min()
    }

    fn has_judges(&self) -> bool {
        self.entries.iter().any(|entry| entry.judge.judge().is_some())
    }

    /// Returns the health of all enabled sources that have a judge.
    fn diagnose(&self) -> Vec<Diagnosed> {
        let diagnosed = self.entries.iter().filter_map(|entry| {
            let source = entry.source.upgrade().filter(|source| source.collector.is_enabled())?;
            entry.judge.diagnose(&source)
        });
        diagnosed.collect()
    }

    fn take_hand_out(&mut self) -> HandOut {
        HandOut {
            finished: std::mem::take(&mut self.finished),
            changed: self.judges.take_changed(),
            tables: std::mem::take(&mut self.tables),
            warnings: std::mem::take(&mut self.warnings),
        }
    }

    /// Enables or disables the sources and their distributions, as their options say, and schedules the ends of their
    /// windows. A closed schedule enables no source.
    fn update(&mut self, now: Instant, clock: &dyn Clock) {
        if self.is_closed {
            return;
        }
        self.entries.retain(|entry| entry.source.strong_count() > 0);
        self.new_entries.retain(|new| new.collector.strong_count() > 0);
        let (mut periods, mut is_new) = (vec![], false);
        let collector_of = |entry: &Entry| Some(Arc::clone(&entry.source.upgrade()?.collector));
        let created = self.entries.iter_mut().map(|entry| (collector_of(entry), entry));
        let new = self.new_entries.iter_mut().map(|new| (new.collector.upgrade(), &mut new.entry));
        for (collector, entry) in created.chain(new) {
            let Some(collector) = collector else { continue };
            let source = entry.source.upgrade();
            let needed = entry.needs_distributions(self.defaults.distributions);
            collector.set_distributions(needed);
            if !entry.options.state.is_enabled(self.defaults.enabled) {
                collector.disable();
                source.iter().for_each(|source| self.judges.restart(source, &mut entry.judge));
                continue;
            }
            let period = entry.options.publish_period.unwrap_or(self.defaults.publish_period);
            if collector.enable(clock) {
                entry.first_started = Some(clock.monotonic());
                is_new |= source.is_some_and(|source| source.is_subscription());
            }
            periods.push(period);
        }
        if is_new {
            self.check_publishers_by(now + Self::CHECK_TOGETHER);
        }
        self.window_ends.retain(|end| periods.contains(&end.period));
        for period in periods {
            if self.window_ends.iter().all(|end| end.period != period) {
                self.window_ends.push(WindowEnd { period, at: now + period });
            }
        }
    }

    /// Ends the windows that are due, and puts their messages into the outbox.
    fn end_windows(&mut self, now: Instant, clock: &dyn Clock) {
        let mut window_ends = std::mem::take(&mut self.window_ends);
        let mut has_ended = false;
        for WindowEnd { period, at } in window_ends.iter_mut().filter(|end| end.at <= now) {
            has_ended = true;
            let begun = clock.monotonic();
            self.end_windows_of(*period, now, clock);
            // If the host was suspended or the thread was delayed, the ends of whole periods may have been missed.
            // These ends are skipped: the next window is longer, so that there are no empty windows.
            let ended = now + duration(clock.monotonic() - begun);
            *at += *period;
            if *at <= ended {
                *at = ended + *period;
            }
            self.outbox.pace(*period);
        }
        self.window_ends = window_ends;
        if !has_ended {
            return;
        }
        if self.outbox.discarded > 0 && !std::mem::replace(&mut self.warned.discarded_windows, true) {
            self.warnings.push(format!(
                "Windows of topic statistics are discarded, the oldest first: more than {} messages wait to be \
                 published. Use longer windows or fewer metrics, or find the reader that has stopped",
                Outbox::BOUND
            ));
        }
        if !self.failures.is_empty() && self.warned.may_report_failures(now) {
            self.warnings.extend(self.failures.take());
        }
        self.entries.retain(|entry| entry.source.strong_count() > 0);
    }

    fn end_windows_of(&mut self, period: Duration, now: Instant, clock: &dyn Clock) {
        // The publishers that already publish the offset of the host's clock for the windows that end now. Each
        // publisher publishes this offset only once for these windows.
        let mut with_clock_offset: Vec<WindowPublisher> = vec![];
        let first = self.finished.len();
        for entry in &mut self.entries {
            if entry.options.publish_period.unwrap_or(self.defaults.publish_period) != period {
                continue;
            }
            // A first window that would be shorter than a period does not end now, but when the windows with this
            // period end next.
            let is_too_short = |started| duration(clock.monotonic() - started) < period;
            if entry.first_started.is_some_and(is_too_short) {
                continue;
            }
            entry.first_started = None;
            let Some(source) = entry.source.upgrade() else { continue };
            let Some(window) = source.collector.end_window(clock) else { continue };
            let statistics = Arc::new(window.statistics);
            source.add_distributions(&statistics);
            self.warnings.extend(window.warnings);
            if let Some(step) = statistics.clock_step {
                self.warnings.extend(self.warned.clock_step(step.as_nanoseconds(), window.clock_offset));
            }
            self.judges.judge(&source, &mut entry.judge, &statistics, now);
            self.finished.push((Arc::clone(&source), Arc::clone(&statistics)));
            let Some(publisher) = &entry.publisher else { continue };
            for (index, (metric, _)) in statistics.metrics.iter().enumerate() {
                if *metric == Metric::ClockOffset {
                    if with_clock_offset.iter().any(|other| Arc::ptr_eq(other, publisher)) {
                        continue;
                    }
                    with_clock_offset.push(Arc::clone(publisher));
                }
                let has_distribution = statistics.distribution(*metric).is_some();
                for is_distribution in [false, true].into_iter().take(1 + usize::from(has_distribution)) {
                    self.outbox.push(Outgoing {
                        source: Arc::clone(&source),
                        publisher: Arc::clone(publisher),
                        statistics: Arc::clone(&statistics),
                        metric: index,
                        is_distribution,
                    });
                }
            }
        }
        let ended = &self.finished[first..];
        if self.logs_tables && !ended.is_empty() {
            let rows: Vec<_> = ended.iter().map(|(source, window)| (&*source.name, &**window)).collect();
            self.tables.push(log_table::render(period, &rows));
        }
    }
}

impl Entry {
    /// Returns whether the source needs distributions: because of its own or the node's options, or because a condition
    /// is about a percentile.
    fn needs_distributions(&self, of_node: bool) -> bool {
        self.options.distributions.unwrap_or(of_node) || self.judge.needs_distributions()
    }
}

impl NewEntry {
    fn collects_by(&self, collector: &Arc<dyn WindowedCollector>) -> bool {
        std::ptr::addr_eq(self.collector.as_ptr(), Arc::as_ptr(collector))
    }
}

impl Warned {
    /// Returns the warning about a step of the system clock. `offset` is the offset from the monotonic clock after the
    /// step. Returns `None` if another source has already found the same step, so that its warning was already
    /// returned.
    fn clock_step(&mut self, step: i64, offset: i64) -> Option<String> {
        // Each source reads the offset itself, so two sources read slightly different offsets for the same step.
        const SAME: u64 = 50_000;
        let before = self.clock_offset.replace(offset);
        let is_new = before.is_none_or(|before| offset.abs_diff(before) > SAME);
        is_new.then(|| {
            let seconds = step as f64 * 1e-9;
            format!("The system clock was stepped by {seconds:+.6} s: the ages in this window are NaN")
        })
    }

    /// Returns whether failures may be reported now. They are reported at most once per second.
    fn may_report_failures(&mut self, now: Instant) -> bool {
        const INTERVAL: Duration = Duration::from_secs(1);
        let may = self.failures.is_none_or(|last| now.saturating_duration_since(last) >= INTERVAL);
        if may {
            self.failures = Some(now);
        }
        may
    }
}

opaque_debug!(Schedule, Action, HandOut);

#[cfg(test)]
mod tests;
