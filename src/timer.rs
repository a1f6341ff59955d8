// SPDX-License-Identifier: Apache-2.0

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{
    collector::SummaryCollector,
    measured::{Collect, Measured, Windowed},
    window::{Metric, Summary, WindowStatistics},
};

/// A named timer of any code: how long it takes, as [`Metric::Duration`].
///
/// Create one using [`NodeStatistics::timer`](crate::NodeStatistics::timer). It is a handle that can be cloned; the
/// timer leaves the statistics when the last clone is dropped. Times are of the monotonic clock; each belongs to the window
/// in which it ends. They may be nested, run side by side, and begin and end on any thread.
///
/// ```
/// # use rclrs::*;
/// # use rclrs_topic_statistics::NodeStatistics;
/// # let executor = Context::default_from_env()?.create_basic_executor();
/// # let node = executor.create_node("bridge")?;
/// # let statistics = NodeStatistics::new(&node)?;
/// let timer = statistics.timer("get_lidar_data"); // /bridge:get_lidar_data
///
/// fn get(timer: &rclrs_topic_statistics::StatsTimer) -> Result<f64, std::num::ParseFloatError> {
///     let _running = timer.start();
///     let range = "1.5".parse()?; // timed on this way out, too
///     Ok(range)
/// }
/// assert_eq!(get(&timer), Ok(1.5));
/// assert_eq!(timer.time(|| 6 * 7), 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct StatsTimer(pub(crate) Arc<TimerState>);

pub(crate) struct TimerState {
    durations: Arc<Windowed<Durations>>,
    measured: Arc<Measured>,
}

/// What is collected of times, in milliseconds.
#[derive(Default)]
pub(crate) struct Durations(SummaryCollector);

impl Collect for Durations {
    type Sample = f64;

    #[inline]
    fn accept(&mut self, milliseconds: &f64) {
        self.0.accept(*milliseconds);
    }

    fn take(&mut self, _length: Duration) -> (u64, Vec<(Metric, Summary)>) {
        let summary = self.0.take();
        (summary.sample_count, vec![(Metric::Duration, summary)])
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Drop for TimerState {
    fn drop(&mut self) {
        self.measured.leave();
    }
}

impl StatsTimer {
    pub(crate) fn new(durations: Arc<Windowed<Durations>>, measured: Arc<Measured>) -> Self {
        Self(Arc::new(TimerState { durations, measured }))
    }

    /// Starts a time, which ends and is recorded when the guard is dropped: at the end of its scope, on `?`, an early
    /// return, and unwinding too.
    #[must_use = "the time ends when the guard is dropped, which is at once if it has no name"]
    pub fn start(&self) -> TimerGuard<'_> {
        let started = self.0.durations.is_enabled().then(Instant::now);
        TimerGuard { timer: self, started }
    }

    /// Times a closure, and returns what it returns.
    pub fn time<R>(&self, code: impl FnOnce() -> R) -> R {
        let _running = self.start();
        code()
    }

    /// Times a future, from when it is first polled until it is complete or dropped.
    pub fn instrument<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        let timer = self.clone();
        async move {
            let _running = timer.start();
            future.await
        }
    }

    /// Returns what the messages on `/statistics` call this timer: their `measurement_source_name`.
    pub fn source_name(&self) -> &str {
        &self.0.measured.source
    }

    /// Returns the last window that was finished; None before there is one.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.0.measured.latest()
    }

    /// Returns a receiver of the windows as they are finished; see
    /// [`StatsSubscriptionState::watch`](crate::StatsSubscriptionState::watch).
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.0.measured.watch()
    }
}

/// A time that is running.
pub struct TimerGuard<'a> {
    timer: &'a StatsTimer,
    /// None if statistics are off.
    started: Option<Instant>,
}

impl Drop for TimerGuard<'_> {
    fn drop(&mut self) {
        let Some(started) = self.started else { return };
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        self.timer.0.durations.record(|| milliseconds);
    }
}

impl TimerGuard<'_> {
    /// Ends the time without recording it.
    pub fn discard(mut self) {
        self.started = None;
    }
}
