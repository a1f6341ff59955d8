// SPDX-License-Identifier: Apache-2.0

//! The losses that are published as events.

use std::collections::BTreeMap;

use super::{node::topic_name, World};
use crate::oracle;

/// Losses that were published as events, and the oracle's of subscriptions that were dropped.
pub struct Losses {
    /// The shortest time between two events, and when the last one was published.
    interval: i64,
    published_at: Option<i64>,
    published: BTreeMap<String, u64>,
    /// By topic: losses that are known, and the most that can have been published.
    ended: BTreeMap<String, (u64, u64)>,
}

impl Losses {
    pub fn new(rate: f64) -> Self {
        Self {
            interval: (1e9 / rate) as i64,
            published_at: None,
            published: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    /// A subscription ends.
    pub fn end(&mut self, topic: usize, oracle: &oracle::Subscription) {
        Self::add(&mut self.ended, topic, oracle);
    }

    fn add(sums: &mut BTreeMap<String, (u64, u64)>, topic: usize, oracle: &oracle::Subscription) {
        let (known, most) = sums.entry(topic_name(topic)).or_default();
        *known += oracle.lost().unwrap_or(0);
        // A message that arrives late may have been published as lost; and losses may have become unknown later.
        *most += oracle.losses().most();
    }
}

impl World {
    /// Compares the time since the last event with the shortest one.
    pub fn check_event_rate(&mut self) {
        let Losses { interval, published_at, .. } = &mut self.losses;
        let before = published_at.replace(self.now);
        if before.is_some_and(|before| self.now - before < *interval) {
            self.fail(format!("an event at {} ns, after one at {before:?}", self.now));
        }
    }

    /// No event has more than the losses. Returns by topic the published and the expected sums.
    pub fn check_events(&mut self) -> Vec<(String, u64, u64)> {
        for (topic, lost) in self.event_reader.take().into_iter().flat_map(|event| event.topics) {
            *self.losses.published.entry(topic).or_default() += lost;
        }
        let mut sums = self.losses.ended.clone();
        for subscription in self.subscriptions.values().filter(|of| of.handle.is_some()) {
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
}
