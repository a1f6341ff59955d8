// SPDX-License-Identifier: Apache-2.0

//! A subscription of the node, with its oracle.

use std::sync::Arc;

use topic_statistics_core::record::{
    options::TopicStatisticsState,
    recorder::Recorder,
    source::{Source, SourceHandle},
};

use super::{callback::Held, deliveries::Deliveries};
use crate::{
    held::Holdable,
    oracle::{self, Judgement, Totals, Wanted},
};

/// A subscription.
pub struct Subscription {
    pub id: u64,
    pub topic: usize,
    pub name: String,
    pub state: TopicStatisticsState,
    pub period: Option<i64>,
    /// None: the node's.
    pub distributions: Option<bool>,
    pub recorder: Arc<Recorder>,
    pub holdable: Arc<Holdable<Recorder>>,
    /// The events while the next end of a window is delayed.
    pub held: Option<Held>,
    pub oracle: oracle::Subscription,
    /// Its expectations, and its health from its creation on.
    pub wanted: Option<Wanted>,
    pub health: Option<Judgement>,
    /// How often its health was forgotten without a report of the schedule yet.
    pub forgotten: u32,
    pub deliveries: Deliveries,
    /// Messages taken before that time may be filtered: [`i64::MAX`] while it has a content filter.
    pub filtered_until: i64,
    pub source: Arc<Source>,
    /// Whether a message was taken while it was enabled.
    pub has_taken: bool,
    /// The warnings that were expected.
    pub warned: Warned,
    /// None while it is being created.
    pub handle: Option<SourceHandle>,
    /// How many were created before it, and itself.
    pub created: u64,
}

/// Whether these warnings of a subscription are given, each once.
#[derive(Clone, Copy, Default)]
pub struct Warned {
    pub reception: bool,
    pub numbers: bool,
    pub publishers: bool,
    pub samples: bool,
}

/// The totals of ended subscriptions with the same names.
pub struct Ended {
    pub topic: String,
    pub name: String,
    pub totals: Vec<Totals>,
}

impl Subscription {
    /// Its statistics are disabled: its health is unknown again.
    pub fn forget_health(&mut self) {
        let had_messages = self.oracle.totals().received > 0;
        if let Some(health) = self.health.take() {
            let had_window = health.has_window();
            self.forgotten += u32::from(had_window);
            self.health = Some(match had_window {
                true => Judgement::new(health.wanted().clone(), had_messages),
                false => health,
            });
        }
    }
}

pub fn topic_name(topic: usize) -> String {
    format!("/topic{topic}")
}
