// SPDX-License-Identifier: Apache-2.0

//! A subscription to a topic: its windows, its totals and its publishers.

use std::time::{Duration, Instant};

use rclrs::{DynamicMessage, Node};
use rclrs_topic_statistics::{PublisherTotals, StatsWorkerSubscription, Totals};
use topic_statistics_core::record::clock::system_time;
use topic_statistics_observe::row::{Publisher, Row};

use super::windows::Windows;
use crate::graph::Qos;

pub struct Subscribed {
    subscription: StatsWorkerSubscription<DynamicMessage, ()>,
    windows: Windows,
    pub message_type: String,
    pub qos: Qos,
    last_read: Instant,
    publishers_read: Instant,
    received: u64,
    before: Earlier,
}

#[derive(Clone, Debug, Default)]
pub struct Earlier {
    pub subscriptions: u64,
    counts: Counts,
    publishers: Vec<Publisher>,
}

/// The counts of messages of a topic's subscriptions. A count is `None` if this count is unknown for one of the
/// subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    received: u64,
    lost: Option<u64>,
    out_of_order: Option<u64>,
}

impl Default for Counts {
    /// Returns the counts without any subscription.
    fn default() -> Self {
        Self { received: 0, lost: Some(0), out_of_order: Some(0) }
    }
}

impl Counts {
    fn plus(self, totals: &Totals) -> Self {
        if totals.received == 0 {
            return self; // A subscription without messages has lost 0 messages. This number is not unknown.
        }
        Self {
            received: self.received + totals.received,
            lost: sum(self.lost, totals.lost),
            out_of_order: sum(self.out_of_order, totals.out_of_order),
        }
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.saturating_add(other?))
}

impl Subscribed {
    const MAX_PUBLISHERS: usize = 256;
    /// The longest time between two readings of the publishers. The publishers are also read at the end of each window.
    /// If the system clock is stepped, the error of the time of a publisher's last message is at most this interval.
    const PUBLISHERS_INTERVAL: Duration = Duration::from_millis(250);

    pub fn new(
        subscription: StatsWorkerSubscription<DynamicMessage, ()>,
        node: &Node,
        message_type: String,
        qos: Qos,
        before: Earlier,
    ) -> Self {
        let now = Instant::now();
        Self {
            windows: Windows::new(&subscription, node),
            subscription,
            message_type,
            qos,
            last_read: now,
            publishers_read: now,
            received: 0,
            before,
        }
    }

    /// Ends the subscription. Returns the counts of messages of this subscription and of the subscriptions before it.
    pub fn end(mut self, row: &Row, now: Instant) -> Earlier {
        Earlier {
            subscriptions: self.before.subscriptions + 1,
            counts: self.before.counts.plus(&self.subscription.statistics().totals().unwrap()),
            publishers: self.publishers(&row.publishers, &row.nodes, now),
        }
    }

    pub fn read(&mut self, row: &mut Row, now: Instant) -> bool {
        let totals = self.subscription.statistics().totals().unwrap();
        let counts = self.before.counts.plus(&totals);
        (row.received, row.lost, row.out_of_order) = (counts.received, counts.lost, counts.out_of_order);
        row.mean_period = 1000.0 / totals.rate();
        let last_read = std::mem::replace(&mut self.last_read, now);
        if let Some(last) = totals.last_message.filter(|_| totals.received != self.received) {
            self.received = totals.received;
            row.last_message = Some(between(last_read, now, age(last.as_nanoseconds())));
        }
        let window = self.windows.take();
        if window.is_some()
            || now.saturating_duration_since(self.publishers_read) >= Self::PUBLISHERS_INTERVAL
        {
            row.publishers = self.publishers(&row.publishers, &row.nodes, now);
        }
        let Some((window, last_minute)) = window else { return false };
        row.add_window(window);
        row.last_minute = last_minute;
        true
    }

    /// Returns the publishers of the messages that this and earlier subscriptions received, sorted by the time of the
    /// last message, the latest first.
    fn publishers(&mut self, before: &[Publisher], nodes: &[String], now: Instant) -> Vec<Publisher> {
        let last_read = std::mem::replace(&mut self.publishers_read, now);
        // The graph of rclrs 0.8 contains no GIDs. But if all n publishers in the graph belong to one node, the latest
        // n GIDs belong to this node.
        let node = nodes.first().filter(|first| nodes.iter().all(|node| node == *first));
        let mut earlier = self.before.publishers.clone();
        let publisher = |totals: PublisherTotals| {
            let gid: String = totals.gid.iter().map(|byte| format!("{byte:02x}")).collect();
            let at = earlier.iter().position(|known| known.gid == gid);
            let (received, lost, out_of_order) = match at.map(|at| earlier.swap_remove(at)) {
                Some(known) => (
                    known.received.saturating_add(totals.received),
                    sum(known.lost, totals.lost),
                    sum(known.out_of_order, totals.out_of_order),
                ),
                None => (totals.received, totals.lost, totals.out_of_order),
            };
            let last_message = totals.last_message.as_nanoseconds();
            let same = before.iter().find(|known| known.gid == gid && known.received == received);
            let last_received =
                same.map_or_else(|| between(last_read, now, age(last_message)), |known| known.last_received);
            Publisher { gid, node: None, received, lost, out_of_order, last_message, last_received }
        };
        let mut publishers: Vec<Publisher> =
            self.subscription.publishers().into_iter().map(publisher).collect();
        publishers.extend(earlier.into_iter().map(|publisher| Publisher { node: None, ..publisher }));
        publishers.sort_by_key(|publisher| std::cmp::Reverse(publisher.last_received));
        publishers.truncate(Self::MAX_PUBLISHERS);
        publishers.iter_mut().take(nodes.len()).for_each(|publisher| publisher.node = node.cloned());
        publishers
    }
}

/// Returns how long ago a time on the system clock is. The result is wrong if the system clock was stepped after this
/// time.
fn age(time: i64) -> Duration {
    Duration::from_nanos(system_time().saturating_sub(time).try_into().unwrap_or_default())
}

/// Returns the time of an event from its age. The result is at least `earliest` and at most `now`.
///
/// The age was measured on the system clock. A step of the system clock changes the result by at most the time from
/// `earliest` to `now`, which is one tick of the monitor.
fn between(earliest: Instant, now: Instant, age: Duration) -> Instant {
    now.checked_sub(age).map_or(earliest, |time| time.max(earliest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_between_two_readings_of_any_clock() {
        let now = Instant::now();
        let (earliest, second) = (now - Duration::from_secs(2), Duration::from_secs(1));
        assert_eq!(between(earliest, now, second), now - second);
        assert_eq!(between(earliest, now, Duration::ZERO), now);
        assert_eq!(between(earliest, now, 3600 * second), earliest, "the clock was set forward by an hour");
        assert_eq!(between(earliest, now, Duration::MAX), earliest);
        assert_eq!(age(i64::MAX), Duration::ZERO, "the clock was set back");
        assert!(age(i64::MIN) > Duration::from_secs(200 * 365 * 86_400));
    }

    #[test]
    fn a_subscription_without_messages_changes_no_count() {
        let counts = Counts { received: 3, lost: Some(2), out_of_order: None };
        assert_eq!(counts.plus(&Totals::default()), counts);
        assert_eq!(Counts::default().plus(&Totals::default()).lost, Some(0));
    }
}
