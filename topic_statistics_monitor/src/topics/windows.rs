// SPDX-License-Identifier: Apache-2.0

//! The windows of a subscription. Each window is read when it ends.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::{DynamicMessage, Node};
use rclrs_topic_statistics::{StatsWorkerSubscription, Totals, WindowStatistics};
use topic_statistics_core::mutex::lock;
use topic_statistics_observe::row::{row_window, LastMinute, Window};

/// The windows of a subscription. A task of the executor reads each window when it ends, so that the percentiles of the
/// last minute include all windows, even while a write to the monitor's output blocks.
pub struct Windows(Arc<Mutex<State>>);

struct State {
    since: Instant,
    /// The last whole window, if `take` has not returned this window yet. The totals are from the end of the window
    /// that `take` returned last. With these totals, the next returned window includes the losses of windows that
    /// `take` did not return.
    latest: Option<(Window, Totals)>,
    last_minute: LastMinute,
    totals: Totals,
}

impl Windows {
    /// The assumed maximum time until a new subscription has discovered its publishers. A window that begins before
    /// this time is over is not whole.
    const MATCHING: Duration = Duration::from_millis(500);

    /// Starts to read the windows of a new subscription, until the subscription is dropped.
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

    /// Returns the last whole window, and the distributions of the last minute at the end of this window. `None` if
    /// this window was already returned.
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
            // The task did not read a window, because this process had no CPU time. The unread window may have the
            // highest ages, so the last minute starts again.
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

    #[test]
    fn windows_that_were_not_read_or_not_taken_spoil_no_figure() {
        for (read, in_last_minute) in [(&[2, 3, 4][..], 15), (&[2, 4], 5), (&[2, 3], 10)] {
            let totals = Totals::default();
            let mut state = State { since: at(0), latest: None, last_minute: LastMinute::default(), totals };
            state.totals.received = 5;
            for second in read {
                // After the process was stopped for some time, two windows end together. The losses are in the first of
                // these two windows.
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
