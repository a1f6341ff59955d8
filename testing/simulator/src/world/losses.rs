// SPDX-License-Identifier: Apache-2.0

//! The losses that are published as events.

use std::collections::BTreeMap;

use super::subscription::topic_name;
use crate::oracle;

/// Losses that were published as events, and the oracle's of subscriptions that were dropped.
pub struct Losses {
    /// The shortest time between two events, and when the last one was published.
    pub interval: i64,
    pub published_at: Option<i64>,
    pub published: BTreeMap<String, u64>,
    /// By topic: losses that are known, and the most that can have been published.
    pub ended: BTreeMap<String, (u64, u64)>,
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

    pub fn add(sums: &mut BTreeMap<String, (u64, u64)>, topic: usize, oracle: &oracle::Subscription) {
        let (known, most) = sums.entry(topic_name(topic)).or_default();
        *known += oracle.lost().unwrap_or(0);
        // A message that arrives late may have been published as lost; and losses may have become unknown later.
        *most += oracle.losses().most();
    }
}
