// SPDX-License-Identifier: Apache-2.0

//! The windows of a subscription, each one read when it ends.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rclrs::{DynamicMessage, Node};
use rclrs_topic_statistics::{StatsWorkerSubscription, Totals, WindowStatistics};
use topic_statistics_observe::row::{row_window, LastMinute, Window};

/// The windows of a subscription. A task of the executor reads each one when it ends: percentiles would be wrong
/// without the windows that pass while nobody reads the monitor's output.
pub struct Windows(Arc<Mutex<State>>);

struct State {
    since: Instant,
    /// The last whole window, if it was not taken yet, and the totals before it: at the end of the last one taken, because
    /// the losses of a window that was not taken are in the next one that is.
    latest: Option<(Window, Totals)>,
    last_minute: LastMinute,
    /// The totals at the end of the last window.
    totals: Totals,
}

impl Windows {
    /// How long a subscription takes to match its publishers. A window that begins earlier is not whole.
    const MATCHING: Duration = Duration::from_millis(500);

    /// Reads the windows of a new subscription until it is dropped.
    pub fn new(subscription: &StatsWorkerSubscription<DynamicMessage, ()>, node: &Node) -> Self {
        let state = State {
            since: Instant::now(),
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

    /// Returns the last window that was subscribed from its start to its end, and the last minute at its end. `None` if
    /// it was already taken.
    pub fn take(&self) -> Option<(Window, LastMinute)> {
        let mut state = lock(&self.0);
        Some((state.latest.take()?.0, state.last_minute.clone()))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn add(&mut self, statistics: Arc<WindowStatistics>, ended: Instant) {
        let totals = statistics.totals.unwrap_or_default();
        let before = std::mem::replace(&mut self.totals, totals);
        if totals.received.saturating_sub(before.received) != statistics.count {
            // A window has passed unread, because this process had no CPU time: it may be the one with the highest
            // ages.
            self.last_minute = LastMinute::default();
        }
        if ended.saturating_duration_since(self.since) < statistics.length + Windows::MATCHING {
            return;
        }
        self.last_minute.add_window(&statistics, ended);
        let before = self.latest.take().map_or(before, |(_, before)| before);
        self.latest = Some((row_window(&statistics, &before, ended), before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs_topic_statistics::Metric;
    use topic_statistics_core::{distributions::Distributions, Window as Times};
    use topic_statistics_observe::testing::at;

    /// A window of a second with five messages, and their totals up to its end.
    fn window(received: u64, lost: u64) -> Arc<WindowStatistics> {
        let times = Times::from_nanoseconds(0, 1_000_000_000);
        let mut window = WindowStatistics::new(times, Duration::from_secs(1), 5, vec![]);
        window.distributions = Distributions::new([Metric::MessageSize].into_iter().collect());
        (0..5).for_each(|_| window.distributions.accept(Metric::MessageSize, 1.0));
        let totals = window.totals.insert(Totals::default());
        (totals.received, totals.lost) = (received, Some(lost));
        Arc::new(window)
    }

    #[test]
    fn windows_that_were_not_read_or_not_taken_spoil_no_figure() {
        for (read, in_last_minute) in [(&[2, 3, 4][..], 15), (&[2, 4], 5), (&[2, 3], 10)] {
            let totals = Totals::default();
            let mut state = State { since: at(0), latest: None, last_minute: LastMinute::default(), totals };
            state.totals.received = 5;
            for second in read {
                // As after a process was stopped: the losses are in the first of two windows that end together.
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
}
