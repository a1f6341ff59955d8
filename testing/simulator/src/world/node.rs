// SPDX-License-Identifier: Apache-2.0

//! The subscriptions of the node, with their oracles.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use topic_statistics_core::{
    collector::FirstPeriod,
    health::{Level, Silence},
    record::{
        clock::Clock,
        options::{SourceOptions, StatisticsState},
        recorder::{AgeSource, Recorder, RecorderOptions},
        source::{Source, SourceHandle, WindowScheduler},
    },
    Metric,
};

use super::{
    deliveries::Deliveries,
    sources::{topic_name, Ended, Losses, Subscription, Watched},
    state::{duration, Event, World},
};
use crate::{
    clocks::{MS, S},
    delay::Delayable,
    faults::Fault,
    oracle::{self, Judgement, Limit, Settings, Totals, Wanted},
};

impl World {
    pub fn subscribe(&mut self, topic: usize) {
        let mut metrics = vec![Metric::MessageAge, Metric::MessagePeriod];
        let optional = Metric::OF_SUBSCRIPTIONS[2..].iter().copied();
        let thirds = self.random.u32(..4); // how many thirds of the optional metrics are measured, on average
        metrics.extend(
            optional.filter(|metric| *metric != Metric::ClockOffset && self.random.u32(..3) < thirds),
        );
        if self.random.u32(..8) == 0 {
            metrics.push(Metric::ClockOffset); // added rarely, because each window then needs a system call
        }
        metrics.sort();
        let settings = Settings {
            metrics: metrics.clone(),
            age_source: [AgeSource::HeaderStamp, AgeSource::SourceTimestamp][self.random.usize(..2)],
            first_period: [FirstPeriod::NoSample, FirstPeriod::CarriedOver][self.random.usize(..2)],
            is_simulated: self.simulated.is_some(),
        };
        let options = RecorderOptions::new()
            .metrics(&metrics)
            .age_source(settings.age_source)
            .first_period(settings.first_period);
        // Subscriptions of the same topic have the same name.
        let (topic_name, name) = (topic_name(topic), format!("/node:{}", topic_name(topic)));
        let recorder = Recorder::new(&topic_name, options, self.simulated.clone(), &*self.clocks);
        let recorder = Arc::new(recorder);
        let (source, delayable) = self.source(&topic_name, name.clone(), &recorder);
        let period = (self.random.u32(..4) == 0).then(|| self.random.i64(50 * MS..2 * S));
        let state = [StatisticsState::NodeDefault, StatisticsState::Enable][self.random.usize(..2)];
        let now = self.instant_of_change();
        let publisher = Some(Arc::clone(&self.reader) as _);
        let distributions = [None, None, Some(true), Some(false)][self.random.usize(..4)];
        let mut options = SourceOptions::from(state);
        (options.publish_period, options.distributions) = (period.map(duration), distributions);
        self.schedule.add(&source.collector, options, publisher, now, &*self.clocks);
        let id = self.next_subscription;
        self.next_subscription += 1;
        let wanted = self.random.bool().then(|| self.wanted(&metrics));
        let mut oracle = oracle::Subscription::new(settings, self.clocks.offset(), self.clocks.suspended());
        oracle.jumped_at = self.jumped;
        let subscription = Subscription {
            id,
            topic,
            name,
            state,
            period,
            distributions,
            recorder,
            delayable,
            delayed: None,
            oracle,
            wanted,
            health: None,
            forgotten: 0,
            deliveries: Deliveries::default(),
            filtered_until: 0,
            source,
            has_taken: false,
            warned: BTreeSet::new(),
            handle: None,
            created: 0,
        };
        self.subscriptions.insert(id, subscription);
        self.update_oracles();
        match self.plan.has(Fault::LateReturn) && self.random.bool() {
            true => {
                let takes = self.random.i64(0..3 * self.period);
                self.after(takes, Event::Created(id));
            }
            false => self.complete(id),
        }
    }

    /// Completes a subscription, unless the subscription was dropped during its creation.
    pub fn complete(&mut self, id: u64) {
        let Some(source) = self.subscriptions.get(&id).map(|subscription| Arc::clone(&subscription.source))
        else {
            return;
        };
        let (now, handle) = (self.instant(self.now), self.handle(&source));
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        self.tally.inject_times(Fault::LateReturn, subscription.oracle.totals().received);
        self.created += 1;
        (subscription.handle, subscription.created) = (Some(handle), self.created);
        if subscription.oracle.settings.metrics.contains(&Metric::PublicationSeqGap) {
            let publisher = self.schedule.needs_loss_publisher().then(|| Arc::clone(&self.event_reader) as _);
            self.schedule.add_loss_events(&source, publisher, now);
        }
        let Some(subscription) = self.subscriptions.get_mut(&id) else { return };
        if let Some(wanted) = subscription.wanted.take() {
            self.schedule.expect(&source, wanted.expectations());
            // As docs/health.md says, a judge does not wait for a first message if the subscription had messages
            // before.
            let had_messages = subscription.oracle.totals().received > 0;
            subscription.health = Some(Judgement::new(wanted, had_messages));
        }
        self.schedule.complete(&source, now);
        self.update_oracles();
        self.notify();
    }

    /// Returns conditions on some of these metrics, with limits near the measured values.
    fn wanted(&mut self, metrics: &[Metric]) -> Wanted {
        let period = self.period as f64;
        let random = &mut self.random;
        let rate = (self.plan.rate * self.plan.publishers as i64) as f64 / period * 1e9;
        let mut around = |value: f64| value * (0.3 + 1.7 * random.f64());
        let all = [
            Limit::Rate(around(0.5 * rate)),
            Limit::Age(around(2.0)),
            Limit::LargestAge(around(20.0)),
            Limit::AgeQuantile(0.5, around(1.0)),
            Limit::AgeQuantile(0.9, around(10.0)),
            Limit::CallbackDuration(around(0.2)),
            Limit::Silence(around(period * 0.5e-6)),
            Limit::NoLoss,
        ];
        let is_measured = |limit: Limit| limit.metric().is_none_or(|metric| metrics.contains(&metric));
        let mut limits: Vec<(Level, Limit)> = vec![];
        for limit in all.into_iter().filter(|limit| is_measured(*limit)) {
            if self.random.u32(..3) == 0 && limits.len() < 4 {
                limits.push(([Level::Error, Level::Warn][self.random.usize(..2)], limit));
            }
        }
        limits.sort_by_key(|(level, _)| *level == Level::Warn);
        Wanted {
            limits,
            raise_after: self.random.u32(1..=4),
            clear_after: self.random.u32(1..=4),
            stale_after: (self.random.u32(..4) == 0).then(|| self.random.i64(100 * MS..10 * S)),
            silence: if self.random.u32(..4) == 0 { Silence::Error } else { Silence::Stale },
        }
    }

    fn source(&self, topic: &str, name: String, recorder: &Arc<Recorder>) -> (Arc<Source>, Arc<Delayable>) {
        let delayable = Delayable::new(Arc::clone(recorder) as _, &self.clocks);
        let check = Some(Box::new(topic.to_owned()) as _);
        (Arc::new(Source::new(name, Arc::clone(&delayable) as _, check)), delayable)
    }

    pub fn handle(&self, source: &Arc<Source>) -> SourceHandle {
        SourceHandle::new(Arc::clone(source), Arc::downgrade(&self.retired) as Weak<dyn WindowScheduler>)
    }

    /// Enables and disables the oracles according to the node's and the sources' states.
    pub fn update_oracles(&mut self) {
        let (now, offset, suspended) = (self.now, self.clocks.offset(), self.clocks.suspended());
        let enabled = self.enabled;
        let is_enabled = |state: StatisticsState| match state {
            StatisticsState::Enable => true,
            StatisticsState::Disable => false,
            StatisticsState::NodeDefault => enabled,
        };
        let distributions = self.distributions;
        for subscription in self.subscriptions.values_mut() {
            let health = subscription.health.as_ref();
            let is_judged = health.is_some_and(|judgement| judgement.wanted.needs_distributions());
            let has_distributions = subscription.distributions.unwrap_or(distributions) || is_judged;
            subscription.oracle.times.set_distributions(has_distributions);
            match is_enabled(subscription.state) {
                true => subscription.oracle.enable(now, offset, suspended),
                false => {
                    subscription.oracle.disable();
                    subscription.forget_health();
                }
            }
        }
        for Watched { oracle, state, .. } in self.watched() {
            oracle.set(is_enabled(*state), distributions, now, offset, suspended);
        }
    }

    /// Returns the sources other than subscriptions.
    pub fn watched(&mut self) -> impl Iterator<Item = &mut Watched> {
        let scopes = self.scopes.iter_mut().map(|scope| &mut scope.watched);
        scopes.chain(self.waiting.iter_mut().map(|waiting| &mut waiting.watched))
    }

    pub fn any_subscription(&mut self) -> Option<u64> {
        let ids: Vec<u64> = self.subscriptions.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.random.usize(..ids.len())])
    }

    /// Drops a subscription, or rarely a publisher, stopwatch or counter.
    pub fn drop_any(&mut self) {
        if self.random.u32(..8) == 0 {
            self.drop_scope();
        } else if let Some(id) = self.any_subscription() {
            self.drop_subscription(id);
        }
    }

    /// Drops a subscription. If its creation has not returned yet, the creation fails and the subscription has no
    /// totals.
    pub fn drop_subscription(&mut self, id: u64) {
        let Some(subscription) = self.subscriptions.remove(&id) else { return };
        let Subscription { topic, name, mut oracle, handle, source, .. } = subscription;
        let Some(handle) = handle else {
            self.tally.inject(Fault::FailedCreation);
            return self.schedule.abandon(&source.collector);
        };
        drop(handle);
        oracle.disable();
        Losses::add(&mut self.losses.ended, topic, &oracle);
        self.end_totals(topic_name(topic), name, oracle.totals());
        drop(source);
    }

    /// Removes from the schedule the sources whose handles were dropped.
    pub fn remove_retired(&mut self) {
        for source in self.retired.take() {
            self.schedule.remove(&source);
        }
    }

    /// Passes the totals of an ended subscription to the schedule and to the oracle.
    fn end_totals(&mut self, topic: String, name: String, totals: Totals) {
        self.remove_retired();
        match self.ended.iter_mut().find(|ended| ended.topic == topic && ended.name == name) {
            Some(ended) => ended.totals.push(totals),
            None => self.ended.push(Ended { topic, name, totals: vec![totals] }),
        }
    }
}
