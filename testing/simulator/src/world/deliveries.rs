// SPDX-License-Identifier: Apache-2.0

//! The network's record of dropped and delivered messages. This record checks the losses independently of the oracle.

use std::collections::{BTreeMap, BTreeSet};

use topic_statistics_core::{record::transport::Gid, totals::PublisherTotals};

use crate::equal::ensure;

/// The messages from one publisher to a subscription, as indices in the order of sending: the first one is 0.
#[derive(Default)]
struct Messages {
    dropped: BTreeSet<u64>,
    filtered: BTreeSet<u64>,
    delivered: BTreeSet<u64>,
    first: Option<u64>,
    /// Whether the subscription had a content filter. If so, only bounds of the losses are known.
    had_filter: bool,
    /// Whether a message came too late to be subtracted from the losses: see docs/losses.md.
    has_late: bool,
}

/// The messages to a subscription, by publisher.
#[derive(Default)]
pub struct Deliveries(BTreeMap<Gid, Messages>);

impl Deliveries {
    /// If a message is this number of messages, or more, behind the latest message, it is too late to be subtracted
    /// from the losses.
    const LATE: u64 = 64;

    pub fn drop_message(&mut self, publisher: Gid, index: u64) {
        self.0.entry(publisher).or_default().dropped.insert(index);
    }

    /// Records a message that a content filter rejects.
    pub fn filter_message(&mut self, publisher: Gid, index: u64) {
        self.0.entry(publisher).or_default().filtered.insert(index);
    }

    /// Records a delivered message, when its callback starts.
    pub fn deliver(&mut self, publisher: Gid, index: u64, had_filter: bool) {
        let messages = self.0.entry(publisher).or_default();
        let latest = messages.delivered.last();
        // With a content filter, no late message is subtracted from the losses.
        let late = if had_filter { 1 } else { Self::LATE };
        messages.has_late |= latest.is_some_and(|latest| latest.saturating_sub(index) >= late);
        messages.had_filter = had_filter;
        messages.first.get_or_insert(index);
        messages.delivered.insert(index);
    }

    /// Checks that the library counts each message from the first to the last delivered message as received or as lost.
    /// Returns whether a comparison was possible.
    pub fn check(&self, ours: &PublisherTotals) -> Result<bool, String> {
        let (Some(messages), Some(lost)) = (self.0.get(&ours.gid), ours.lost) else { return Ok(false) };
        let (Some(first), Some(last)) = (messages.first, messages.delivered.last()) else { return Ok(false) };
        if messages.has_late {
            return Ok(false);
        }
        let (sent, received) = (last - first + 1, messages.delivered.range(first..).count() as u64);
        let dropped = messages.dropped.range(first..=*last).count() as u64;
        let filtered = messages.filtered.range(first..=*last).count() as u64;
        let is_right = match messages.had_filter {
            true => sent >= received + filtered + lost,
            false => sent == received + lost && lost >= dropped,
        };
        ensure(is_right, || {
            format!(
                "{:02x?} sent {sent} messages: {received} received, {dropped} dropped, {filtered} filtered; {lost} are lost",
                &ours.gid[..2]
            )
        })?;
        Ok(true)
    }
}
