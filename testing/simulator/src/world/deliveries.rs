// SPDX-License-Identifier: Apache-2.0

//! The network's own record of what it dropped and delivered: a second truth about losses, beside the oracle's.

use std::collections::{BTreeMap, BTreeSet};

use topic_statistics_core::{record::transport::Gid, totals::PublisherTotals};

use super::World;

/// The messages of a publisher for a subscription. Each is the number of messages that its publisher had sent before.
#[derive(Default)]
struct OfPublisher {
    dropped: BTreeSet<u64>,
    delivered: BTreeSet<u64>,
    /// The message that was delivered first.
    first: Option<u64>,
    /// Whether a message was so late that it stays counted as lost, by docs/losses.md.
    has_late: bool,
}

/// The messages for a subscription, of each publisher.
#[derive(Default)]
pub struct Deliveries(BTreeMap<Gid, OfPublisher>);

impl Deliveries {
    const LATE: u64 = 64;

    pub fn drop_message(&mut self, publisher: Gid, index: u64) {
        self.0.entry(publisher).or_default().dropped.insert(index);
    }

    /// The callback of a message starts.
    pub fn deliver(&mut self, publisher: Gid, index: u64) {
        let of = self.0.entry(publisher).or_default();
        of.has_late |= of.delivered.last().is_some_and(|last| last.saturating_sub(index) >= Self::LATE);
        of.first.get_or_insert(index);
        of.delivered.insert(index);
    }

    /// Compares the losses of a publisher with what was sent between its first and its last message. Returns whether a
    /// comparison was possible.
    fn check(&self, ours: &PublisherTotals) -> Result<bool, String> {
        let (Some(of), Some(lost)) = (self.0.get(&ours.gid), ours.lost) else { return Ok(false) };
        let (Some(first), Some(last)) = (of.first, of.delivered.last()) else { return Ok(false) };
        if of.has_late {
            return Ok(false);
        }
        let (sent, received) = (last - first + 1, of.delivered.range(first..).count() as u64);
        let dropped = of.dropped.range(first..=*last).count() as u64;
        if sent != received + lost || lost < dropped {
            return Err(format!(
                "{:02x?} sent {sent} messages, of which {received} were received and {dropped} dropped; {lost} are counted as lost",
                &ours.gid[..2]
            ));
        }
        Ok(true)
    }
}

impl World {
    /// Compares the losses of a subscription that was never disabled with the network's record.
    pub fn check_deliveries(&mut self, id: u64, ours: &[PublisherTotals]) {
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        if subscription.oracle.epoch() != Some(1) {
            return;
        }
        let mut error = None;
        for of in ours {
            match subscription.deliveries.check(of) {
                Ok(compared) => self.tally.deliveries += u64::from(compared),
                Err(different) => error = Some(different),
            }
        }
        if let Some(error) = error {
            self.fail(format!("losses of subscription {id}: {error}"));
        }
    }
}
