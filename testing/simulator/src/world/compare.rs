// SPDX-License-Identifier: Apache-2.0

//! Compares totals, losses and publishers.

use topic_statistics_core::totals::PublisherTotals;

use super::{
    sources::{topic_name, Ended, Losses},
    state::World,
};
use crate::{
    check,
    oracle::{add_distributions, MergedDistributions, Totals},
};

impl World {
    /// Checks that the time since the last event is not too short.
    pub fn check_event_rate(&mut self) {
        let Losses { interval, published_at, .. } = &mut self.losses;
        let before = published_at.replace(self.now);
        if before.is_some_and(|before| self.now - before < *interval) {
            self.fail(format!("an event at {} ns, after one at {before:?}", self.now));
        }
    }

    /// Checks that the events do not report more than the losses. Returns for each topic the sum of the published
    /// losses and the expected sum.
    pub fn check_events(&mut self) -> Vec<(String, u64, u64)> {
        for (topic, lost) in self.event_reader.take().into_iter().flat_map(|event| event.topics) {
            *self.losses.published.entry(topic).or_default() += lost;
        }
        let mut sums = self.losses.ended.clone();
        for subscription in self.subscriptions.values().filter(|subscription| subscription.handle.is_some()) {
            Losses::add(&mut sums, subscription.topic, &subscription.oracle);
        }
        let mut checked = vec![];
        let mut result = Ok(());
        for (topic, (known, most)) in sums {
            let published = self.losses.published.get(&topic).copied().unwrap_or(0);
            if published > most {
                result = Err(format!("events have {published} losses on {topic}, at most {most} were lost"));
            }
            checked.push((topic, published, known));
        }
        if let Err(error) = result {
            self.fail(error);
        }
        checked
    }

    /// Compares the totals of all subscriptions.
    pub fn check_totals(&mut self) {
        let ours = self.schedule.totals();
        let mut created: Vec<_> =
            self.subscriptions.values().filter(|subscription| subscription.handle.is_some()).collect();
        created.sort_by_key(|subscription| subscription.created);
        let live = created.iter().map(|subscription| {
            (topic_name(subscription.topic), &*subscription.name, subscription.oracle.totals())
        });
        let ended = self
            .ended
            .iter()
            .filter_map(|Ended { topic, name, totals }| Some((topic.clone(), &**name, Totals::sum(totals)?)));
        let expected: Vec<_> = live.chain(ended).collect();
        let mut result = Ok(());
        if ours.len() != expected.len() {
            result = Err(format!("totals of {} names, expected {}", ours.len(), expected.len()));
        }
        for (ours, (topic, name, expected)) in ours.iter().zip(&expected) {
            if ours.topic_name != *topic || ours.source_name != *name {
                result = Err(format!("totals of {ours:?}, expected {name}"));
            }
            let compared = check::totals(&ours.totals, expected, &mut self.tally);
            if let Err(error) = compared {
                result = Err(format!("totals of {name}: {error}\n  expected {expected:?}\n  ours {ours:?}"));
            }
        }
        let mut distributed = MergedDistributions::new();
        for topic in &ours {
            add_distributions(&mut distributed, &topic.source_name, |metric| topic.distribution(metric));
        }
        // Forgotten names have no distributions.
        if distributed != self.distributed && self.names == 0 {
            result = Err(format!("distributions {distributed:?}, expected {:?}", self.distributed));
        }
        if let Err(error) = result {
            self.fail(error);
        }
    }

    /// Compares the messages received and lost of each publisher.
    pub fn check_publishers(&mut self, id: u64) {
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        let Some(expected) = subscription.oracle.publisher_counts() else { return };
        let mut ours = subscription.recorder.publishers();
        ours.sort_by_key(|publisher| publisher.gid);
        let times = subscription.oracle.times();
        if let Err(error) = check::publishers(&ours, &expected, times) {
            self.fail(format!("publishers of subscription {id}: {error}\n  ours {ours:?}"));
        }
        self.check_deliveries(id, &ours);
    }

    /// Compares the losses of a subscription that was never disabled with the network's record.
    pub fn check_deliveries(&mut self, id: u64, ours: &[PublisherTotals]) {
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        if subscription.oracle.epoch() != Some(1) {
            return;
        }
        let mut error = None;
        for publisher in ours {
            match subscription.deliveries.check(publisher) {
                Ok(compared) => self.tally.deliveries += u64::from(compared),
                Err(different) => error = Some(different),
            }
        }
        if let Some(error) = error {
            self.fail(format!("losses of subscription {id}: {error}"));
        }
    }
}
