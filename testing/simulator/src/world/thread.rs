// SPDX-License-Identifier: Apache-2.0

//! Simulates the thread that ends and publishes windows: carries out the schedule's actions, and compares everything
//! that leaves the node with the oracle.

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
    state::{Event, World},
};
use crate::{
    check,
    clocks::{MS, S},
    equal::{ensure, equal},
    faults::Fault,
    oracle::{self, add_distributions, LostAtEnd},
};

impl World {
    /// Carries out the schedule's actions until it waits.
    pub fn run_thread(&mut self) -> Result<(), String> {
        loop {
            match self.schedule.next(self.instant(self.now), &*self.clocks) {
                Action::HandOut(out) => {
                    self.hand_out(out)?;
                    self.pass();
                }
                Action::Publish { event, batch } => {
                    let mut failures = Failures::default();
                    if let Some(event) = event {
                        event.publish(&mut failures);
                        self.check_event_rate()?;
                    }
                    let count = batch.len();
                    let fails_once = self.plan.has(Fault::FailsOnce) && self.random.u32(..20) == 0;
                    self.reader.begin_batch(fails_once);
                    batch.into_iter().for_each(|message| message.publish(&mut failures));
                    let has_failed = fails_once && !self.reader.fails_once.swap(false, Ordering::Relaxed);
                    self.tally.inject_times(Fault::FailsOnce, u64::from(has_failed));
                    self.schedule.add_failures(failures);
                    self.check_messages(count)?;
                    self.check_events()?;
                    if self.is_blocked() {
                        return Ok(());
                    }
                }
                Action::PublishDiagnostics(_) => {} // health is not published
                Action::CheckPublishers(_) => self.schedule.add_publisher_check(vec![], None),
                Action::Wait(None) => return Ok(()),
                Action::Wait(Some(wake)) => {
                    let wake = 1000 * S + (wake - self.started).as_nanos() as i64;
                    self.idle_wakes = if wake > self.now { 0 } else { self.idle_wakes + 1 };
                    let due = self.now - wake;
                    ensure(self.idle_wakes <= 1000, || format!("no sleep: something is due since {due} ns"))?;
                    let is_late = self.happens(Fault::LateThread, 20);
                    let late = if is_late { self.random.i64(0..3 * self.period) } else { 0 };
                    self.wake += 1;
                    self.at(wake + late, Event::Wake(self.wake));
                    return Ok(());
                }
                Action::End { .. } => return Err("the schedule is closed".to_owned()),
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

    /// Returns whether the reader is now so slow that publishing blocks the thread.
    fn is_blocked(&mut self) -> bool {
        if !self.happens(Fault::SlowReader, 10) {
            return false;
        }
        let time = self.random.i64(5 * MS..300 * MS);
        self.blocked_until = self.now + time;
        self.wake += 1;
        self.after(time, Event::Wake(self.wake));
        true
    }

    /// Gives finished windows to their watchers, and checks the warnings for the log.
    fn hand_out(&mut self, out: HandOut) -> Result<(), String> {
        let mut with_clock_offset = vec![];
        self.take_health(out.changed)?;
        for (source, statistics) in out.finished {
            self.windows += 1;
            source.finish(Arc::clone(&statistics));
            let is_latest = source.latest().is_some_and(|latest| Arc::ptr_eq(&latest, &statistics));
            equal("whether the latest window is the one handed out", is_latest, true)?;
            let period = self.check_window(&source, &statistics)?;
            if source.is_subscription() {
                let of_window = |metric| statistics.distribution(metric);
                add_distributions(&mut self.distributed, &source.name, of_window);
            }
            for (metric, _) in &statistics.metrics {
                // The clock offset is of the host, so it is published only once for all sources with the same period.
                if *metric == Metric::ClockOffset {
                    if with_clock_offset.contains(&period) {
                        continue;
                    }
                    with_clock_offset.push(period);
                }
                let has_distribution = statistics.distribution(*metric).is_some();
                for is_distribution in [false, true].into_iter().filter(|is| !is || has_distribution) {
                    self.due.push_back(Due {
                        source: Arc::clone(&source),
                        metric: *metric,
                        is_distribution,
                        statistics: Arc::clone(&statistics),
                    });
                }
            }
        }
        if let Some(Changed { source, health, .. }) = self.changed.pop() {
            return Err(format!("{} has a health without a window: {health:?}", source.name));
        }
        if self.random.u32(..16) == 0 {
            self.check_totals()?;
        }
        out.warnings.iter().try_for_each(|warning| self.warnings.receive(warning, self.now))?;
        self.warnings.check()
    }

    fn check_window(&mut self, source: &Arc<Source>, ours: &WindowStatistics) -> Result<i64, String> {
        let (offset, suspended) = (self.clocks.offset(), self.clocks.suspended());
        let watched = self.watched().find(|watched| Arc::ptr_eq(&watched.source, source));
        if let Some(watched) = watched {
            ensure(watched.oracle.is_enabled, || format!("{} is disabled, and has a window", source.name))?;
            let was_delayed = watched.delayed.is_some();
            let expected = watched.end_window(offset, suspended);
            let has_queued = was_delayed && watched.delayed.is_none();
            self.tally.inject_times(Fault::Queued, u64::from(has_queued));
            self.check_figures(ours, &expected, self.period).map_err(|error| {
                format!("{}: {error}\n  expected {expected:?}\n  ours {ours:?}", source.name)
            })?;
            return Ok(self.period);
        }
        let subscription =
            self.subscriptions.values_mut().find(|subscription| Arc::ptr_eq(&subscription.source, source));
        let subscription = subscription.ok_or("a source that was dropped has a window")?;
        let (id, epoch) = (subscription.id, subscription.oracle.epoch());
        ensure(epoch.is_some(), || format!("subscription {id} is disabled, and has a window"))?;
        let period = subscription.period.unwrap_or(self.period);
        let entered = subscription.delayable.entered();
        let is_waiting = subscription.delayable.is_waiting();
        let delayed = if is_waiting { None } else { subscription.delayed.take() };
        let stop = entered + delayed.as_ref().map_or(0, |end| end.stop);
        let samples = delayed.iter().flat_map(|end| WaitingSample::list(&end.waiting, entered));
        // Lost samples are passed to the oracle with this window, although each of them may belong to the next window.
        let (this_window, next_window): (Vec<_>, Vec<_>) =
            samples.partition(|sample| sample.is_lost || sample.time < stop);
        this_window.iter().for_each(|sample| self.pass_waiting(sample));
        let counted = this_window.iter().filter(|sample| sample.is_lost_message_of(epoch)).count() as u64;
        let lost =
            LostAtEnd { has_samples: this_window.iter().any(|sample| sample.is_lost), messages: counted };
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(period) };
        let expected = subscription.oracle.end_window(stop, offset, suspended, &lost);
        self.expect_warnings(id);
        next_window.iter().for_each(|sample| self.pass_waiting(sample));
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(period) };
        if counted > 0 {
            subscription.oracle.count_later();
        }
        let settings = format!("{:?}", subscription.oracle.settings);
        self.note(|| format!("{} ns: window of subscription {id}", stop - 1000 * S));
        let compared =
            self.check_figures(ours, &expected, period).and_then(|()| self.check_health(id, &expected, ours));
        compared.map_err(|error| {
            format!("subscription {id}: {error}\n  of {settings}\n  expected {expected:?}\n  ours {ours:?}")
        })?;
        if self.random.u32(..8) == 0 {
            self.check_publishers(id)?;
        }
        Ok(period)
    }

    fn check_figures(
        &mut self,
        ours: &WindowStatistics,
        expected: &oracle::Window,
        period: i64,
    ) -> Result<(), String> {
        if expected.step.is_some() {
            self.warnings.expect_step(expected.offset);
        }
        check::window(ours, expected, period, &mut self.tally)
    }

    /// Takes the new health of sources. If a health comes without a window, the library has reset it because the
    /// statistics were disabled.
    fn take_health(&mut self, changed: Vec<Changed>) -> Result<(), String> {
        let (judged, forgotten): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|change| change.health.window.is_some());
        self.changed = judged;
        for Changed { source, health, .. } in forgotten {
            let subscription = self.subscriptions.values_mut().find(|subscription| {
                subscription.forgotten > 0 && Arc::ptr_eq(&subscription.source, &source)
            });
            let is_expected = subscription.is_some() && health == Health::default();
            ensure(is_expected || source.is_retired(), || {
                format!("{} is judged anew: {health:?}", source.name)
            })?;
            if let Some(subscription) = subscription {
                subscription.forgotten -= 1;
            }
        }
        let is_kept = self.subscriptions.values().any(|subscription| subscription.forgotten > 0);
        equal("whether a health was kept while the statistics were disabled", is_kept, false)
    }

    fn check_health(
        &mut self,
        id: u64,
        window: &oracle::Window,
        ours: &WindowStatistics,
    ) -> Result<(), String> {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(()) };
        let index = self.changed.iter().position(|change| Arc::ptr_eq(&change.source, &subscription.source));
        let changed = index.map(|index| self.changed.remove(index));
        equal("whether there is a health", changed.is_some(), subscription.health.is_some())?;
        if let (Some(judgement), Some(Changed { health, is_change, .. })) =
            (&mut subscription.health, changed)
        {
            equal("window of the health", health.window, Some(ours.window))?;
            let level = judgement.check_window(window, ours, Some(&health), is_change)?;
            self.tally.judged += 1;
            self.tally.alarms += u64::from(is_change && level != Level::Ok);
        }
        Ok(())
    }

    fn expect_warnings(&mut self, id: u64) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        let oracle = &subscription.oracle;
        let measures = |metric| oracle.settings.metrics.contains(&metric);
        let gaps = measures(Metric::PublicationSeqGap);
        let needs_reception = measures(Metric::SourceToReceive) || measures(Metric::ReceiveToCallback);
        let needs_stamps = measures(Metric::MessageAge) || measures(Metric::HeaderToCallback);
        let has_other_clock = needs_stamps && oracle.has_other_clock;
        for (kind, is_due) in [
            ("reception", needs_reception && subscription.has_taken && !self.middleware.has_reception),
            ("numbers", gaps && oracle.losses.has_unnumbered),
            ("publishers", gaps && oracle.losses.has_evicted()),
            ("samples", oracle.has_missed),
            (
                if oracle.settings.is_simulated { "system stamps" } else { "simulated stamps" },
                has_other_clock,
            ),
        ] {
            if is_due && subscription.warned.insert(kind) {
                self.warnings.expect(kind);
            }
        }
    }

    fn check_messages(&mut self, count: usize) -> Result<(), String> {
        let messages = self.reader.take();
        if self.reader.is_stopped.load(Ordering::Relaxed) {
            self.tally.inject_times(Fault::StoppedReader, messages.len() as u64);
            self.refused += messages.len() as u64;
        }
        ensure(count <= self.due.len(), || format!("{count} messages, {} were expected", self.due.len()))?;
        // Messages of sources whose handle was dropped are not published.
        let due: Vec<Due> = self.due.drain(..count).filter(|due| !due.source.is_retired()).collect();
        equal("number of published messages", messages.len(), due.len())?;
        messages.iter().zip(&due).try_for_each(|(message, due)| check_message(message, due))
    }

    /// Ends the node: publishes the remaining messages and compares all sums.
    pub fn finish(&mut self) -> Result<(), String> {
        self.reader.is_stopped.store(false, Ordering::Relaxed);
        self.check_totals()?;
        self.schedule.close();
        let Action::End { event, messages, rest } = self.schedule.next(self.instant(self.now), &*self.clocks)
        else {
            return Err("a closed schedule does not end".to_owned());
        };
        let mut failures = Failures::default();
        if let Some(event) = event {
            event.publish(&mut failures);
        }
        let count = messages.len();
        messages.into_iter().for_each(|message| message.publish(&mut failures));
        self.check_messages(count)?;
        equal("messages that were never published", self.due.len(), 0)?;
        rest.warnings.iter().try_for_each(|warning| self.warnings.receive(warning, self.now + S))?;
        equal("reported failures", self.warnings.failures, self.refused)?;
        self.check_events()?.into_iter().try_for_each(|(topic, published, known)| {
            ensure(published >= known, || {
                format!("events have {published} losses on {topic}, expected {known}")
            })
        })
    }
}
