// SPDX-License-Identifier: Apache-2.0

//! The statistics' thread: it carries out the schedule's actions. Everything that leaves the node is compared.

use std::sync::{atomic::Ordering, Arc};

use topic_statistics_core::{
    health::{Health, Level},
    record::{clock::Clock, source::Source},
    schedule::{
        judges::Changed,
        outbox::Failures,
        state::{Action, HandOut},
    },
    Metric, WindowStatistics,
};

use super::{
    readers::{check_message, Due},
    samples::WaitingSample,
    sources::{Waiting, Warned, Watched},
    state::{Event, World},
};
use crate::{
    check,
    clocks::{MS, S},
    faults::Fault,
    history::note,
    oracle::{self, add_distributions, LostAtEnd},
};

impl World {
    /// Carries out the schedule's actions until it waits.
    pub fn run_thread(&mut self) {
        while self.error.is_none() {
            match self.schedule.next(self.instant(self.now), &*self.clocks) {
                Action::HandOut(out) => {
                    self.hand_out(out);
                    self.pass();
                }
                Action::Publish { event, batch } => {
                    let mut failures = Failures::default();
                    if let Some(event) = event {
                        event.publish(&mut failures);
                        self.check_event_rate();
                    }
                    let count = batch.len();
                    let fails_once = self.plan.has(Fault::FailsOnce) && self.random.u32(..20) == 0;
                    self.reader.begin_batch(fails_once);
                    batch.into_iter().for_each(|message| message.publish(&mut failures));
                    let has_failed = fails_once && !self.reader.fails_once.swap(false, Ordering::Relaxed);
                    self.tally.inject_times(Fault::FailsOnce, u64::from(has_failed));
                    self.schedule.add_failures(failures);
                    self.check_messages(count);
                    self.check_events();
                    if self.is_blocked() {
                        return;
                    }
                }
                Action::PublishDiagnostics(_) => {} // health is not published
                Action::CheckPublishers(_) => self.schedule.add_publisher_check(vec![], None),
                Action::Wait(wake) => {
                    let Some(wake) = wake else { return };
                    let wake = 1000 * S + (wake - self.started).as_nanos() as i64;
                    self.idle_wakes = if wake > self.now { 0 } else { self.idle_wakes + 1 };
                    if self.idle_wakes > 1000 {
                        let since = self.now - wake;
                        return self
                            .fail(format!("the thread does not sleep: something is due since {since} ns"));
                    }
                    let late = if self.plan.has(Fault::LateThread) && self.random.u32(..20) == 0 {
                        self.tally.inject(Fault::LateThread);
                        self.random.i64(0..3 * self.period)
                    } else {
                        0
                    };
                    self.wake += 1;
                    self.at(wake + late, Event::Wake(self.wake));
                    return;
                }
                Action::End { .. } => return self.fail("the schedule is closed".to_owned()),
            }
        }
    }

    /// Wakes the thread after a change, unless it is publishing.
    pub fn notify(&mut self) {
        if self.now >= self.blocked_until {
            self.wake += 1;
            self.after(0, Event::Wake(self.wake));
        }
    }

    /// Returns whether the reader is so slow that the thread waits for it.
    fn is_blocked(&mut self) -> bool {
        let time = if self.plan.has(Fault::Discard) {
            self.period / 2
        } else if self.plan.has(Fault::SlowReader) && self.random.u32(..10) == 0 {
            self.random.i64(5 * MS..300 * MS)
        } else {
            return false;
        };
        self.tally.inject(Fault::SlowReader);
        self.blocked_until = self.now + time;
        self.wake += 1;
        self.after(time, Event::Wake(self.wake));
        true
    }

    /// Gives finished windows to their watchers, and checks the warnings for the log.
    fn hand_out(&mut self, out: HandOut) {
        let mut with_clock_offset = vec![];
        self.take_health(out.changed);
        for (source, statistics) in out.finished {
            self.windows += 1;
            source.finish(Arc::clone(&statistics));
            let is_latest = source.latest().is_some_and(|latest| Arc::ptr_eq(&latest, &statistics));
            if !is_latest {
                self.fail("the latest window is not the one handed out".to_owned());
            }
            let period = match self.check_window(&source, &statistics) {
                Ok(period) => period,
                Err(error) => return self.fail(error),
            };
            if source.is_subscription() {
                let of_window = |metric| statistics.distribution(metric);
                add_distributions(&mut self.distributed, &source.name, of_window);
            }
            for (metric, _) in &statistics.metrics {
                // The clock offset belongs to the host and is published once.
                if *metric == Metric::ClockOffset {
                    if with_clock_offset.contains(&period) {
                        continue;
                    }
                    with_clock_offset.push(period);
                }
                let has_distribution = statistics.distribution(*metric).is_some();
                for is_distribution in [false, true].into_iter().filter(|is| !is || has_distribution) {
                    self.expect_message(Due {
                        source: Arc::clone(&source),
                        metric: *metric,
                        is_distribution,
                        statistics: Arc::clone(&statistics),
                    });
                }
            }
        }
        if let Some(Changed { source, health, .. }) = self.changed.pop() {
            self.fail(format!("{} has a health without a window: {health:?}", source.name));
        }
        if self.random.u32(..16) == 0 {
            self.check_totals();
        }
        for warning in &out.warnings {
            if let Err(error) = self.warnings.receive(warning, self.now) {
                self.fail(error);
            }
        }
        if let Err(error) = self.warnings.check() {
            self.fail(error);
        }
    }

    /// Compares a window. Returns the period of its source.
    fn check_window(&mut self, source: &Arc<Source>, ours: &WindowStatistics) -> Result<i64, String> {
        let (offset, suspended) = (self.clocks.offset(), self.clocks.suspended());
        let has_level = |watched: &Watched| Arc::ptr_eq(&watched.source, source);
        let scope = self.scopes.iter_mut().find(|scope| has_level(&scope.watched));
        let waiting = self.waiting.iter_mut().find(|waiting| has_level(&waiting.watched));
        let is_disabled = scope.as_ref().is_some_and(|scope| !scope.watched.oracle.is_enabled())
            || waiting.as_ref().is_some_and(|waiting| !waiting.watched.oracle.is_enabled());
        if is_disabled {
            return Err(format!("{} is disabled, and has a window", source.name));
        }
        let expected = match (scope, waiting) {
            (Some(scope), _) => {
                let was_delayed = scope.delayed.is_some();
                let expected = scope.end_window(offset, suspended);
                self.tally.inject_times(Fault::Queued, u64::from(was_delayed && scope.delayed.is_none()));
                Some(expected)
            }
            (_, Some(Waiting { watched: Watched { oracle, delayable, .. }, .. })) => {
                Some(oracle.end_window(delayable.entered(), offset, suspended, false))
            }
            _ => None,
        };
        if let Some(expected) = expected {
            if expected.step.is_some() {
                self.warnings.expect_step(expected.offset);
            }
            check::window(ours, &expected, self.period, &mut self.tally).map_err(|error| {
                format!("{}: {error}\n  expected {expected:?}\n  ours {ours:?}", source.name)
            })?;
            return Ok(self.period);
        }
        let Some(subscription) =
            self.subscriptions.values_mut().find(|subscription| Arc::ptr_eq(&subscription.source, source))
        else {
            return Err("a source that was dropped has a window".to_owned());
        };
        let id = subscription.id;
        if subscription.oracle.epoch().is_none() {
            return Err(format!("subscription {id} is disabled, and has a window"));
        }
        let period = subscription.period.unwrap_or(self.period);
        let entered = subscription.delayable.entered();
        let is_waiting = subscription.delayable.is_waiting();
        let delayed = if is_waiting { None } else { subscription.delayed.take() };
        let stop = entered + delayed.as_ref().map_or(0, |end| end.stop);
        let samples = delayed.iter().flat_map(|end| WaitingSample::list(&end.waiting, entered));
        // A lost sample may belong to either window.
        let (this_window, next_window): (Vec<_>, Vec<_>) =
            samples.partition(|sample| sample.is_lost || sample.time < stop);
        this_window.iter().for_each(|sample| self.pass_waiting(sample));
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(period) };
        let epoch = subscription.oracle.epoch();
        let counted = this_window.iter().filter(|sample| sample.is_lost_message_of(epoch)).count() as u64;
        let lost =
            LostAtEnd { has_samples: this_window.iter().any(|sample| sample.is_lost), messages: counted };
        let expected = subscription.oracle.end_window(stop, offset, suspended, &lost);
        self.expect_warnings(id);
        next_window.iter().for_each(|sample| self.pass_waiting(sample));
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(period) };
        if counted > 0 {
            subscription.oracle.count_later();
        }
        let settings = format!("{:?}", subscription.oracle.settings());
        note(&self.history, || format!("{} ns: window of subscription {id}", stop - 1000 * S));
        if expected.step.is_some() {
            self.warnings.expect_step(expected.offset);
        }
        check::window(ours, &expected, period, &mut self.tally).map_err(|error| {
            format!("subscription {id}: {error}\n  of {settings}\n  expected {expected:?}\n  ours {ours:?}")
        })?;
        self.check_health(id, &expected, ours).map_err(|error| {
            format!("subscription {id}: {error}\n  of {settings}\n  expected {expected:?}\n  ours {ours:?}")
        })?;
        if self.random.u32(..8) == 0 {
            self.check_publishers(id);
        }
        Ok(period)
    }

    /// Takes the new health of sources. A health without a window means that it was reset because the statistics were
    /// disabled.
    fn take_health(&mut self, changed: Vec<Changed>) {
        let (judged, forgotten): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|change| change.health.window.is_some());
        self.changed = judged;
        for Changed { source, health, .. } in forgotten {
            let subscription = self
                .subscriptions
                .values_mut()
                .find(|subscription| Arc::ptr_eq(&subscription.source, &source));
            let is_expected = subscription.as_ref().is_some_and(|subscription| subscription.forgotten > 0);
            if let Some(subscription) = subscription.filter(|_| is_expected) {
                subscription.forgotten -= 1;
            }
            if !source.is_retired() && (!is_expected || health != Health::default()) {
                self.fail(format!("{} is judged anew: {health:?}", source.name));
            }
        }
        if self.subscriptions.values().any(|subscription| subscription.forgotten > 0) {
            self.fail("a health was kept while the statistics were disabled".to_owned());
        }
    }

    /// Compares the health of a subscription after a window.
    fn check_health(
        &mut self,
        id: u64,
        window: &oracle::Window,
        ours: &WindowStatistics,
    ) -> Result<(), String> {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(()) };
        let index = self.changed.iter().position(|change| Arc::ptr_eq(&change.source, &subscription.source));
        let changed = index.map(|index| self.changed.remove(index));
        match (&mut subscription.health, changed) {
            (Some(judgement), Some(Changed { health, is_change, .. })) => {
                if health.window != Some(ours.window) {
                    return Err(format!("the health is of the window {:?}", health.window));
                }
                let level = judgement.check_window(window, ours, Some(&health), is_change)?;
                self.tally.judged += 1;
                self.tally.alarms += u64::from(is_change && level != Level::Ok);
                Ok(())
            }
            (None, None) => Ok(()),
            (judgement, changed) => Err(format!(
                "health {:?}, expected one: {}",
                changed.map(|change| change.health),
                judgement.is_some()
            )),
        }
    }

    /// Expects the warnings of a subscription whose window has ended.
    fn expect_warnings(&mut self, id: u64) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        let metrics = &subscription.oracle.settings().metrics;
        let measures = |metric| metrics.contains(&metric);
        let losses = subscription.oracle.losses();
        let gaps = measures(Metric::PublicationSeqGap);
        let needs_reception = measures(Metric::SourceToReceive) || measures(Metric::ReceiveToCallback);
        let now = Warned {
            reception: needs_reception && subscription.has_taken && !self.middleware.has_reception,
            numbers: gaps && losses.has_unnumbered(),
            publishers: gaps && losses.has_evicted(),
            samples: subscription.oracle.has_missed(),
        };
        let before = std::mem::replace(&mut subscription.warned, now);
        for (kind, before, now) in [
            ("reception", before.reception, now.reception),
            ("numbers", before.numbers, now.numbers),
            ("publishers", before.publishers, now.publishers),
            ("samples", before.samples, now.samples),
        ] {
            if now && !before {
                self.warnings.expect(kind);
            }
        }
    }

    /// Expects a published message. If too many messages wait to be published, those of the oldest window are
    /// discarded.
    fn expect_message(&mut self, due: Due) {
        // The bound of docs/reliability.md.
        if self.due.len() >= 20_000 {
            if let Some(oldest) = self.due.pop_front() {
                while self.due.front().is_some_and(|due| Arc::ptr_eq(&due.statistics, &oldest.statistics)) {
                    self.due.pop_front();
                }
            }
            self.tally.inject(Fault::Discard);
            self.warnings.expect_once("windows");
        }
        self.due.push_back(due);
    }

    /// Compares published messages with the expected ones, in order.
    fn check_messages(&mut self, count: usize) {
        let messages = self.reader.take();
        if self.reader.is_stopped.load(Ordering::Relaxed) {
            self.tally.inject_times(Fault::StoppedReader, messages.len() as u64);
            self.refused += messages.len() as u64;
        }
        if count > self.due.len() {
            return self.fail(format!("{count} messages, {} were expected", self.due.len()));
        }
        // Sources with a dropped handle publish nothing.
        let due: Vec<Due> = self.due.drain(..count).filter(|due| !due.source.is_retired()).collect();
        if due.len() != messages.len() {
            return self.fail(format!("{} messages were published, expected {}", messages.len(), due.len()));
        }
        for (message, due) in messages.iter().zip(&due) {
            let result = check_message(message, due);
            if let Err(error) = result {
                return self.fail(error);
            }
        }
    }

    /// Ends the node: publishes the remaining messages and compares all sums.
    pub fn finish(&mut self) {
        self.reader.is_stopped.store(false, Ordering::Relaxed);
        self.check_totals();
        self.schedule.close();
        let Action::End { event, messages, rest } = self.schedule.next(self.instant(self.now), &*self.clocks)
        else {
            return self.fail("a closed schedule does not end".to_owned());
        };
        let mut failures = Failures::default();
        if let Some(event) = event {
            event.publish(&mut failures);
        }
        let count = messages.len();
        messages.into_iter().for_each(|message| message.publish(&mut failures));
        self.check_messages(count);
        if !self.due.is_empty() {
            return self.fail(format!("{} messages were never published", self.due.len()));
        }
        for warning in &rest.warnings {
            if let Err(error) = self.warnings.receive(warning, self.now + S) {
                self.fail(error);
            }
        }
        if self.warnings.failures() != self.refused {
            self.fail(format!(
                "{} failures were reported, expected {}",
                self.warnings.failures(),
                self.refused
            ));
        }
        for (topic, published, known) in self.check_events() {
            if published < known {
                self.fail(format!("events have {published} losses on {topic}, expected {known}"));
            }
        }
    }
}
