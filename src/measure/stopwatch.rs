// SPDX-License-Identifier: Apache-2.0

use std::{fmt, future::Future, sync::Arc, time::Instant};

use topic_statistics_core::record::{code::Durations, source::SourceHandle, windowed::Windowed};

use super::handle::{stats_handle, SourceStatistics};

/// A named stopwatch, which measures the duration of any code, as [`Metric::Duration`](crate::Metric::Duration).
///
/// Create a stopwatch using [`NodeStatistics::create_stopwatch`](crate::NodeStatistics::create_stopwatch). A stopwatch
/// is a handle that can be cloned; dropping the last clone ends the stopwatch's statistics. Durations are measured on
/// the monotonic clock. A duration belongs to the window in which it ends. Guards can be nested and can overlap. A
/// guard can be dropped on another thread than its creator's thread. A guard does not keep the statistics alive.
///
/// ```
/// # use rclrs::*;
/// # use rclrs_topic_statistics::NodeStatistics;
/// # let executor = Context::default_from_env()?.create_basic_executor();
/// # let node = executor.create_node("bridge")?;
/// # let statistics = NodeStatistics::new(&node)?;
/// let stopwatch = statistics.create_stopwatch("get_lidar_data"); // /bridge:get_lidar_data
///
/// fn get(stopwatch: &rclrs_topic_statistics::Stopwatch) -> Result<f64, std::num::ParseFloatError> {
///     let _running = stopwatch.start();
///     let range = "1.5".parse()?; // timed on this way out, too
///     Ok(range)
/// }
/// assert_eq!(get(&stopwatch), Ok(1.5));
/// assert_eq!(stopwatch.time(|| 6 * 7), 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Stopwatch(pub(crate) Arc<StopwatchState>);

pub(crate) struct StopwatchState {
    statistics: SourceStatistics,
    durations: Arc<Windowed<Durations>>,
}

stats_handle!(Stopwatch, 0);

impl Stopwatch {
    pub(crate) fn new(source: SourceHandle, durations: Arc<Windowed<Durations>>) -> Self {
        Self(Arc::new(StopwatchState { statistics: SourceStatistics(source), durations }))
    }

    /// Starts to measure a duration. The duration ends and is recorded when the returned guard is dropped: at the end
    /// of the guard's scope, on `?`, on an early return, and on unwinding.
    #[must_use = "the duration ends when the guard is dropped, which is at once if it has no name"]
    pub fn start(&self) -> StopwatchGuard {
        let is_enabled = self.0.durations.is_enabled();
        StopwatchGuard { running: is_enabled.then(|| (Arc::clone(&self.0.durations), Instant::now())) }
    }

    /// Measures a closure. Returns its result.
    pub fn time<R>(&self, code: impl FnOnce() -> R) -> R {
        let _running = self.start();
        code()
    }

    /// Measures a future, from the first poll until the future is complete or dropped.
    #[must_use = "a future does nothing unless it is awaited"]
    pub fn instrument<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        let stopwatch = self.clone();
        async move {
            let _running = stopwatch.start();
            future.await
        }
    }
}

/// A duration that is being measured. See [`Stopwatch::start`].
///
/// The guard can be moved to another thread, which then ends the duration:
///
/// ```
/// # use rclrs::*;
/// # use rclrs_topic_statistics::NodeStatistics;
/// # let executor = Context::default_from_env()?.create_basic_executor();
/// # let node = executor.create_node("bridge")?;
/// # let statistics = NodeStatistics::new(&node)?;
/// let stopwatch = statistics.create_stopwatch("save_image");
/// let running = stopwatch.start();
/// let thread = std::thread::spawn(move || {
///     let _running = running; // until the image is saved
/// });
/// # thread.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the duration ends when the guard is dropped"]
pub struct StopwatchGuard {
    /// The collector of the duration, and the start time. `None` if the statistics were disabled at the start.
    running: Option<(Arc<Windowed<Durations>>, Instant)>,
}

impl fmt::Debug for StopwatchGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let started = self.running.as_ref().map(|(_, started)| started);
        f.debug_struct("StopwatchGuard").field("started", &started).finish()
    }
}

impl Drop for StopwatchGuard {
    fn drop(&mut self) {
        let Some((durations, started)) = self.running.take() else { return };
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        durations.record(|| milliseconds);
    }
}

impl StopwatchGuard {
    /// Drops the guard without recording the duration.
    pub fn discard(mut self) {
        self.running = None;
    }
}
