// SPDX-License-Identifier: Apache-2.0

//! The windows of a subscription, each one read when it ends.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rclrs::{DynamicMessage, Node};
use rclrs_topic_statistics::{MeasuredSubscription, Totals, WindowStatistics};
use topic_statistics_views::row::LastMinute;

/// The windows of a subscription. A task of the executor reads each one when it ends: percentiles would be wrong
/// without the windows that pass while nobody reads the monitor's output.
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
    /// The totals at the end of the window before, or of the last one taken: the losses of a window that was not taken
    /// are in the next one that is.
    pub before: Totals,
}

impl Windows {
    /// How long a subscription takes to match its publishers. A window that begins earlier is not whole.
    const MATCHING: Duration = Duration::from_millis(500);

    /// Reads the windows of a new subscription until it is dropped.
    pub fn of(subscription: &MeasuredSubscription<DynamicMessage>, node: &Node) -> Self {
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
            // A window has passed unread, because this process had no CPU time: it may be the one with the highest
            // ages.
            self.last_minute = LastMinute::default();
        }
        if ended.saturating_duration_since(self.since) < statistics.length + Windows::MATCHING {
            return;
        }
        self.last_minute.add_window(&statistics, ended);
        let before = self.latest.take().map_or(before, |not_taken| not_taken.before);
        self.latest = Some(WholeWindow { statistics, ended, before });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs::*;
    use rclrs_topic_statistics::{Metric, NodeStatistics, TopicStatisticsOptions};
    use ros_env::std_msgs::msg::Empty;
    use test_support::{wait_for, Spinning};
    use topic_statistics_core::Window;
    use topic_statistics_views::{row::row_window, testing::at};

    fn no_windows() -> State {
        State { since: at(0), latest: None, last_minute: LastMinute::default(), totals: Totals::default() }
    }

    /// Returns three windows that follow each other, each with messages.
    fn three_windows() -> Vec<Arc<WindowStatistics>> {
        let (executor, node) = test_support::node("listener", &[]);
        let options = TopicStatisticsOptions::new()
            .publish(false)
            .distributions(true)
            .metrics([Metric::MessageSize])
            .publish_period(Duration::from_millis(500));
        let statistics = NodeStatistics::with_options(&node, options).unwrap();
        let listener = statistics.create_subscription("topic".keep_last(1000), |_: Empty| ()).unwrap();
        let talker = node.create_publisher::<Empty>("topic".keep_last(1000)).unwrap();
        let _spinning = Spinning::start(executor);
        let (mut receiver, mut windows) = (listener.watch(), vec![]);
        wait_for("three windows", || {
            talker.publish(Empty::default()).unwrap();
            if receiver.has_changed().unwrap() {
                let window = receiver.borrow_and_update().clone().unwrap();
                let totals = |window: &WindowStatistics| window.totals.unwrap().received;
                let follows = |last: &Arc<WindowStatistics>| totals(last) + window.count == totals(&window);
                if !windows.last().is_none_or(follows) {
                    windows.clear(); // A busy machine missed one.
                }
                // None before the publisher is matched.
                windows.extend((window.count > 0).then_some(window));
            }
            windows.len() == 3
        });
        windows
    }

    #[test]
    fn the_last_minute_begins_anew_after_a_window_that_was_not_read() {
        let windows = three_windows();
        let count = |window: &WindowStatistics| window.distribution(Metric::MessageSize).unwrap().count();
        let read = |numbers: &[usize]| {
            let mut state = no_windows();
            // The messages before the first of them.
            state.totals.received = windows[0].totals.unwrap().received - windows[0].count;
            for number in numbers {
                state.add(Arc::clone(&windows[*number]), at(2 + *number as i64));
            }
            let now = at(5);
            state.last_minute.distribution(Metric::MessageSize, now).map_or(0, |sizes| sizes.count())
        };
        assert_eq!(read(&[0, 1, 2]), windows.iter().map(|window| count(window)).sum::<u64>());
        assert_eq!(read(&[0, 2]), count(&windows[2]), "a gap");
        assert_eq!(read(&[0, 1]), count(&windows[0]) + count(&windows[1]));
    }

    #[test]
    fn losses_of_a_window_that_was_not_taken_are_in_the_next_one() {
        let mut state = no_windows();
        for second in 2..5 {
            let times = Window::from_nanoseconds(0, 1_000_000_000);
            let mut window = WindowStatistics::new(times, Duration::from_secs(1), 5, vec![]);
            let totals = window.totals.insert(Totals::default());
            // As after a process was stopped: the losses are in the first of two windows that end together.
            (totals.received, totals.lost) = (5 * (second - 1), Some(if second < 3 { 1 } else { 16 }));
            state.add(Arc::new(window), at(second as i64));
            if second == 2 {
                assert_eq!(state.latest.take().unwrap().before.lost, None);
            }
        }
        let WholeWindow { statistics, before, ended } = state.latest.take().unwrap();
        assert_eq!((before.received, before.lost, statistics.totals.unwrap().lost), (5, Some(1), Some(16)));
        assert_eq!(row_window(&statistics, &before, ended).lost_since, Some(15));
    }
}
