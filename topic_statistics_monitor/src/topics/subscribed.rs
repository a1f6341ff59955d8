// SPDX-License-Identifier: Apache-2.0

//! A subscription to a topic: its windows, its totals and its publishers.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::{DynamicMessage, Node};
use rclrs_topic_statistics::{PublisherTotals, StatsWorkerSubscription, Totals, WindowStatistics};
use topic_statistics_core::{mutex::lock, record::clock::system_time};
use topic_statistics_observe::{
    expect::Expected,
    row::{row_window, LastMinute, Publisher, Row, Window},
};

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

/// The counts of messages of a topic's subscriptions. A count is `None` if it is unknown for one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    received: u64,
    lost: Option<u64>,
    out_of_order: Option<u64>,
}

impl Default for Counts {
    /// Returns the counts of a topic before its first subscription.
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
    /// The longest time between two readings of the publishers, which are also read at the end of each window. If the
    /// system clock is stepped, the time of a publisher's last message can be wrong by up to this interval.
    const PUBLISHERS_INTERVAL: Duration = Duration::from_millis(250);

    pub fn new(
        subscription: StatsWorkerSubscription<DynamicMessage, ()>,
        node: &Node,
        message_type: String,
        qos: Qos,
        before: Earlier,
        period: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            windows: Windows::new(&subscription, node, period),
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

    /// Returns the publishers of all received messages, the one with the latest message first.
    fn publishers(&mut self, before: &[Publisher], nodes: &[String], now: Instant) -> Vec<Publisher> {
        let last_read = std::mem::replace(&mut self.publishers_read, now);
        // The graph of rclrs 0.8 has no GIDs, so the node of a GID is unknown. But if one node has all n publishers of
        // the topic, the latest n GIDs belong to that node.
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
        keep_latest(&mut publishers);
        publishers.iter_mut().take(nodes.len()).for_each(|publisher| publisher.node = node.cloned());
        publishers
    }
}

/// Sorts publishers, the one with the latest message first. Removes the last ones of too many publishers.
fn keep_latest(publishers: &mut Vec<Publisher>) {
    const MAX: usize = 256;
    publishers.sort_by_key(|publisher| std::cmp::Reverse(publisher.last_received));
    publishers.truncate(MAX);
}

/// Returns how long ago a time on the system clock is. The result is wrong if the clock was stepped after that time.
fn age(time: i64) -> Duration {
    Duration::from_nanos(system_time().saturating_sub(time).try_into().unwrap_or_default())
}

/// Returns the time of an event from its age on the system clock. The result is limited to the time from `earliest` to
/// `now`, because the clock may have been stepped.
fn between(earliest: Instant, now: Instant, age: Duration) -> Instant {
    now.checked_sub(age).map_or(earliest, |time| time.max(earliest))
}

/// The windows of a subscription. A task of the executor reads each window when it ends, so that the last minute has
/// all windows, even while a write to the monitor's output blocks.
pub struct Windows(Arc<Mutex<State>>);

struct State {
    since: Instant,
    /// The length of a window that ends in time.
    period: Duration,
    /// Until when messages may arrive that were sent while the program was stopped.
    catches_up_until: Option<Instant>,
    /// The last whole window, until `take` returns it, and totals from before it. The totals are those at the end of
    /// the window that `take` returned before, so the losses of all windows since then are counted.
    latest: Option<(Window, Totals)>,
    last_minute: LastMinute,
    totals: Totals,
}

impl Windows {
    /// The assumed maximum time until a subscription is matched with publishers. Earlier windows lack messages.
    const MATCHING: Duration = Duration::from_millis(500);
    /// The assumed maximum time in which a reliable publisher sends the messages of the time in which the program was
    /// stopped. Fast DDS does this at its next heartbeat, within 3 s.
    const CATCHING_UP: Duration = Duration::from_secs(3);

    /// Starts to read the windows of a new subscription, until the subscription is dropped.
    pub fn new(
        subscription: &StatsWorkerSubscription<DynamicMessage, ()>,
        node: &Node,
        period: Duration,
    ) -> Self {
        let state = State {
            since: Instant::now(),
            period,
            catches_up_until: None,
            latest: None,
            last_minute: LastMinute::default(),
            totals: Totals::default(),
        };
        let state = Arc::new(Mutex::new(state));
        let (mut windows, to) = (subscription.statistics().watch(), Arc::clone(&state));
        drop(node.commands().run(async move {
            while windows.changed().await.is_ok() {
                let window = windows.borrow_and_update().clone();
                if let Some(window) = window {
                    lock(&to).add(window, Instant::now());
                }
            }
        }));
        Self(state)
    }

    /// Returns the last whole window, and the last minute up to the end of this window. `None` if this window was
    /// already returned.
    pub fn take(&self) -> Option<(Window, LastMinute)> {
        let mut state = lock(&self.0);
        Some((state.latest.take()?.0, state.last_minute.clone()))
    }
}

impl State {
    fn add(&mut self, statistics: Arc<WindowStatistics>, ended: Instant) {
        let totals = statistics.totals.unwrap_or_default();
        let before = std::mem::replace(&mut self.totals, totals);
        if totals.received.saturating_sub(before.received) != statistics.count {
            // This process had no CPU time, so it missed a window. The last minute would lack this window, so it begins
            // anew.
            self.last_minute = LastMinute::default();
        }
        let is_first = ended.saturating_duration_since(self.since) < statistics.length + Windows::MATCHING;
        let is_catching_up = self.is_catching_up(statistics.length, is_first, ended);
        if is_first {
            return;
        }
        let before = self.latest.take().map_or(before, |(_, before)| before);
        let mut window = row_window(&statistics, &before, ended);
        if is_catching_up {
            // Messages were lost or late because of this program, so the window says nothing about the topic.
            let Window { clock_step, lost_since, .. } = window;
            window = Window { clock_step, lost_since, ..Window::new(window.times, ended, window.length) };
        } else {
            self.last_minute.add_window(&statistics, ended);
        }
        self.latest = Some((window, before));
    }

    /// Returns whether the program was stopped, for example by Ctrl-Z, in this window or shortly before it.
    fn is_catching_up(&mut self, length: Duration, is_first: bool, ended: Instant) -> bool {
        // The first window of a subscription is between one and two periods long.
        if length >= self.period * if is_first { 2 } else { 1 } + Expected::STOPPED {
            self.catches_up_until = Some(ended + Windows::CATCHING_UP);
        }
        self.catches_up_until.is_some_and(|until| ended < until + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topic_statistics_core::{distributions::Distributions, Metric, Window as Times};
    use topic_statistics_observe::testing::at;

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
    fn the_256_publishers_with_the_latest_messages_are_kept() {
        let publisher = |second| Publisher {
            gid: format!("{second}"),
            node: None,
            received: 1,
            lost: None,
            out_of_order: None,
            last_message: 0,
            last_received: at(second),
        };
        let mut publishers: Vec<Publisher> = (0..300).map(publisher).collect();
        keep_latest(&mut publishers);
        assert_eq!(publishers.len(), 256);
        assert_eq!([&publishers[0], &publishers[255]].map(|kept| &*kept.gid), ["299", "44"]);
    }

    #[test]
    fn a_subscription_without_messages_changes_no_count() {
        let counts = Counts { received: 3, lost: Some(2), out_of_order: None };
        assert_eq!(counts.plus(&Totals::default()), counts);
        assert_eq!(Counts::default().plus(&Totals::default()).lost, Some(0));
    }

    /// Returns a window of one second with five messages, and with these totals at its end.
    fn window(received: u64, lost: u64) -> Arc<WindowStatistics> {
        let times = Times::from_nanoseconds(0, 1_000_000_000);
        let mut window = WindowStatistics::new(times, Duration::from_secs(1), 5, vec![]);
        window.distributions = Distributions::new([Metric::MessageSize].into_iter().collect());
        (0..5).for_each(|_| window.distributions.accept(Metric::MessageSize, 1.0));
        let totals = window.totals.insert(Totals::default());
        (totals.received, totals.lost) = (received, Some(lost));
        Arc::new(window)
    }

    fn state() -> State {
        let (last_minute, totals) = (LastMinute::default(), Totals::default());
        let (period, catches_up_until) = (Duration::from_secs(1), None);
        State { since: at(0), period, catches_up_until, latest: None, last_minute, totals }
    }

    #[test]
    fn windows_that_were_not_read_or_not_taken_spoil_no_figure() {
        for (read, in_last_minute) in [(&[2, 3, 4][..], 15), (&[2, 4], 5), (&[2, 3], 10)] {
            let mut state = state();
            state.totals.received = 5;
            for second in read {
                // The process was stopped for some time, so two windows end at the same time. The first of them has all
                // losses.
                state.add(window(5 * second, if *second < 3 { 1 } else { 16 }), at(*second as i64));
                if *second == 2 {
                    assert_eq!(state.latest.take().unwrap().1.lost, None);
                }
            }
            let sizes = state.last_minute.distribution(Metric::MessageSize, at(5)).unwrap();
            assert_eq!(sizes.count(), in_last_minute, "{read:?}");
            let (window, before) = state.latest.take().unwrap();
            assert_eq!((before.received, before.lost, window.lost_since), (10, Some(1), Some(15)));
        }
    }

    #[test]
    fn windows_in_which_the_program_was_stopped_say_nothing_about_the_topic() {
        // Each window has the time of its end, its length, and whether it says something about the topic.
        for (period, windows) in [
            // The program is stopped from 11 s to 26 s. Then the messages of this time arrive.
            (1, &[(11, 1, true), (26, 15, false), (27, 1, false), (29, 1, false), (30, 1, true)][..]),
            // A first window is long, and is left out.
            (10, &[(19, 19, false), (29, 10, true)]),
        ] {
            let mut state = State { period: Duration::from_secs(period), ..state() };
            for (number, (second, length, is_known)) in (1..).zip(windows) {
                let mut window = Arc::unwrap_or_clone(window(5 * number, 0));
                window.length = Duration::from_secs(*length);
                state.add(Arc::new(window), at(*second));
                let received = state.latest.take().and_then(|(window, _)| window.received);
                assert_eq!(received, is_known.then_some(5), "{second}");
            }
            let known = windows.iter().filter(|(.., is_known)| *is_known).count() as u64;
            let sizes = state.last_minute.distribution(Metric::MessageSize, at(30)).unwrap();
            assert_eq!(sizes.count(), 5 * known);
        }
    }
}
