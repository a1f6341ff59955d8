// SPDX-License-Identifier: Apache-2.0

//! The windows of a subscription, each one read when it ends.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rclrs::{DynamicMessage, Node};
use rclrs_topic_statistics::{Metric, StatsSubscription, Totals, WindowStatistics};

use crate::row::LastMinute;

/// The windows of a subscription. A task of the executor reads each one when it ends: percentiles would be wrong without the windows
/// that pass while nobody reads the monitor's output.
pub struct Windows(Arc<Mutex<State>>);

struct State {
    since: Instant,
    /// The last whole window, if it was not taken yet.
    latest: Option<WholeWindow>,
    last_minute: LastMinute,
    /// The totals at the end of the last window.
    totals: Totals,
}

/// A window that was subscribed from its start to its end.
pub struct WholeWindow {
    pub statistics: Arc<WindowStatistics>,
    /// When it ended, on the monotonic clock.
    pub ended: Instant,
    /// The totals at the end of the window before.
    pub before: Totals,
}

impl Windows {
    /// How long a subscription takes to match its publishers. A window that begins earlier is not whole.
    const MATCHING: Duration = Duration::from_millis(500);

    /// Reads the windows of a new subscription until it is dropped.
    pub fn of(subscription: &StatsSubscription<DynamicMessage>, node: &Node) -> Self {
        let state = State {
            since: Instant::now(),
            latest: None,
            last_minute: LastMinute::default(),
            totals: Totals::default(),
        };
        let state = Arc::new(Mutex::new(state));
        let (mut windows, to) = (subscription.watch(), Arc::clone(&state));
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

    /// Returns the last whole window and the last minute at its end. `None` if it was already taken.
    pub fn take(&self) -> Option<(WholeWindow, LastMinute)> {
        let mut state = lock(&self.0);
        Some((state.latest.take()?, state.last_minute.clone()))
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
            // A window has passed unread, because this process had no CPU time: it may be the one with the highest ages.
            self.last_minute = LastMinute::default();
        }
        if ended.saturating_duration_since(self.since) < statistics.length + Windows::MATCHING {
            return;
        }
        for metric in Metric::OF_SUBSCRIPTIONS {
            if let Some(distribution) = statistics.distribution(*metric) {
                self.last_minute.add(*metric, distribution, ended);
            }
        }
        self.latest = Some(WholeWindow { statistics, ended, before });
    }
}
