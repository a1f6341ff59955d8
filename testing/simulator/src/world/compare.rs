// SPDX-License-Identifier: Apache-2.0

//! Compares totals, losses and publishers.

use super::{
    sources::{topic_name, Ended, Losses},
    state::World,
};
use crate::{
    check,
    equal::{ensure, equal},
    oracle::{add_distributions, MergedDistributions, Totals},
};

impl World {
    /// Checks that the time since the last loss event is not shorter than `interval`.
    pub fn check_event_rate(&mut self) -> Result<(), String> {
        let Losses { interval, published_at, .. } = &mut self.losses;
        let before = published_at.replace(self.now);
        let is_early = before.is_some_and(|before| self.now - before < *interval);
        ensure(!is_early, || format!("an event at {} ns, after one at {before:?}", self.now))
    }

    /// Checks that the loss events do not report more losses than possible. Returns for each topic the sum of the
    /// losses in events, and the oracle's sum.
    pub fn check_events(&mut self) -> Result<Vec<(String, u64, u64)>, String> {
        for (topic, lost) in self.event_reader.take().into_iter().flat_map(|event| event.topics) {
            *self.losses.published.entry(topic).or_default() += lost;
        }
        let mut sums = self.losses.ended.clone();
        for subscription in self.subscriptions.values().filter(|subscription| subscription.handle.is_some()) {
            Losses::add(&mut sums, subscription.topic, &subscription.oracle);
        }
        let check = |(topic, (known, most))| {
            let published = self.losses.published.get(&topic).copied().unwrap_or(0);
            ensure(published <= most, || {
                format!("events have {published} losses on {topic}, at most {most} were lost")
            })?;
            Ok((topic, published, known))
        };
        sums.into_iter().map(check).collect()
    }

    pub fn check_totals(&mut self) -> Result<(), String> {
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
        equal("names with totals", ours.len(), expected.len())?;
        for (ours, (topic, name, expected)) in ours.iter().zip(&expected) {
            equal("names of totals", (&*ours.topic_name, &*ours.source_name), (&**topic, *name))?;
            check::totals(&ours.totals, expected, &mut self.tally).map_err(|error| {
                format!("totals of {name}: {error}\n  expected {expected:?}\n  ours {ours:?}")
            })?;
        }
        let mut distributed = MergedDistributions::new();
        for topic in &ours {
            add_distributions(&mut distributed, &topic.source_name, |metric| topic.distribution(metric));
        }
        equal("distributions", &distributed, &self.distributed)
    }

    /// Compares the messages received and lost of each publisher. If the subscription was never disabled, compares the
    /// losses with the network's record, too.
    pub fn check_publishers(&mut self, id: u64) -> Result<(), String> {
        let Some(subscription) = self.subscriptions.get(&id) else { return Ok(()) };
        let oracle = &subscription.oracle;
        let Some(expected) = oracle.losses.publisher_counts() else { return Ok(()) };
        let mut ours = subscription.recorder.publishers();
        ours.sort_by_key(|publisher| publisher.gid);
        check::publishers(&ours, &expected.collect::<Vec<_>>(), &oracle.times)
            .map_err(|error| format!("publishers of subscription {id}: {error}\n  ours {ours:?}"))?;
        for publisher in ours.iter().filter(|_| oracle.epoch() == Some(1)) {
            let compared = subscription.deliveries.check(publisher);
            let compared = compared.map_err(|error| format!("losses of subscription {id}: {error}"))?;
            self.tally.deliveries += u64::from(compared);
        }
        Ok(())
    }
}
