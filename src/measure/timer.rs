// SPDX-License-Identifier: Apache-2.0

//! A timer with statistics, and its callback.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex,
    },
    time::Duration,
};

use rclrs::{
    log_error, AnyTimerCallback, Clock, IntoNodeTimerOneshotCallback, IntoNodeTimerRepeatingCallback,
    IntoWorkerTimerOneshotCallback, IntoWorkerTimerRepeatingCallback, Node, RclrsError, TimerState,
    WorkScope, Worker,
};
use topic_statistics_core::{
    mutex::lock,
    record::{
        clock::monotonic,
        simulated_time::SimulatedTime,
        source::SourceHandle,
        timer_calls::{RunningTimerCallback, TimerCalls},
        timer_schedule::{ScheduledCall, TimerReading, TimerSchedule},
        windowed::Windowed,
    },
    Escaped,
};

use super::handle::{stats_handle, SourceStatistics};

/// A timer whose callbacks are measured.
///
/// Create a timer using [`NodeStatistics::create_timer_repeating`](crate::NodeStatistics::create_timer_repeating). Like
/// [`rclrs::Timer`], a `StatsTimer` is a handle: dropping the last clone ends the timer and its statistics.
///
/// A callback that is set through this handle is also measured. As its argument, the callback of a repeating timer
/// gets the plain timer of rclrs, not this handle. If the callback sets another callback through that timer, the
/// statistics end, and an error is logged.
pub type StatsTimer = Arc<StatsTimerState<Node>>;

/// A [`StatsTimer`] that runs on a worker.
pub type StatsWorkerTimer<Payload> = Arc<StatsTimerState<Worker<Payload>>>;

/// The inner state of a [`StatsTimer`].
pub struct StatsTimerState<Scope: WorkScope> {
    /// This field is dropped first, so the statistics end before the timer ends.
    statistics: SourceStatistics,
    measured: Arc<MeasuredTimer>,
    /// The flag of the current callback: true while the callback is installed. This handle sets the flag to false
    /// before it replaces the callback.
    is_installed: Mutex<Arc<AtomicBool>>,
    timer: Arc<TimerState<Scope>>,
}

stats_handle!(StatsTimerState<Scope: WorkScope>);

impl<Scope: WorkScope> StatsTimerState<Scope> {
    /// `is_installed` is the flag of the first callback of the timer, as described at the field of this name.
    pub(crate) fn new(
        source: SourceHandle,
        measured: Arc<MeasuredTimer>,
        is_installed: Arc<AtomicBool>,
        timer: Arc<TimerState<Scope>>,
    ) -> Self {
        is_installed.store(true, Ordering::Relaxed);
        Self { statistics: SourceStatistics(source), measured, is_installed: Mutex::new(is_installed), timer }
    }

    /// Returns the period.
    pub fn get_timer_period(&self) -> Result<Duration, RclrsError> {
        self.timer.get_timer_period()
    }

    /// Cancels the timer. [`reset`](Self::reset) continues the timer.
    pub fn cancel(&self) -> Result<(), RclrsError> {
        self.timer.cancel()
    }

    /// Returns whether the timer is canceled.
    pub fn is_canceled(&self) -> Result<bool, RclrsError> {
        self.timer.is_canceled()
    }

    /// Resets the timer, so that its next call is one period from now. A canceled timer continues.
    pub fn reset(&self) -> Result<(), RclrsError> {
        self.timer.reset()
    }

    /// Returns whether the timer is ready to be called.
    pub fn is_ready(&self) -> Result<bool, RclrsError> {
        self.timer.is_ready()
    }

    /// Returns the time between the last two calls.
    pub fn last_elapse(&self) -> Duration {
        self.timer.last_elapse()
    }

    /// Returns the time since the last call.
    pub fn time_since_last_call(&self) -> Result<Duration, RclrsError> {
        self.timer.time_since_last_call()
    }

    /// Returns the time until the next call. Errors if the next call is overdue, or if the timer is canceled.
    pub fn time_until_next_call(&self) -> Result<Duration, RclrsError> {
        self.timer.time_until_next_call()
    }

    /// Returns the clock of the timer.
    pub fn clock(&self) -> &Clock {
        self.timer.clock()
    }
}

impl<Scope: WorkScope> StatsTimerState<Scope>
where
    Scope::Payload: 'static,
{
    /// Replaces the callback, as [`TimerState::set_callback`] does. The new callback is also measured. The old callback
    /// is dropped.
    pub fn set_callback(&self, callback: AnyTimerCallback<Scope>) {
        let (Measured(callback), is_installed) = self.measured.measure(callback, false);
        let mut present = lock(&self.is_installed);
        present.store(false, Ordering::Relaxed);
        is_installed.store(true, Ordering::Relaxed);
        *present = is_installed;
        drop(self.timer.set_callback(callback));
    }

    /// Removes the callback, as [`TimerState::set_inert`] does. The timer wakes up at its period, but calls nothing.
    pub fn set_inert(&self) {
        self.set_callback(AnyTimerCallback::Inert);
    }
}

impl StatsTimerState<Node> {
    /// Sets a repeating callback, as [`TimerState::set_repeating`] does; see [`set_callback`](Self::set_callback).
    pub fn set_repeating<Args>(&self, callback: impl IntoNodeTimerRepeatingCallback<Args>) {
        self.set_callback(callback.into_node_timer_repeating_callback());
    }

    /// Sets a callback that is called once, as [`TimerState::set_oneshot`] does; see
    /// [`set_callback`](Self::set_callback).
    pub fn set_oneshot<Args>(&self, callback: impl IntoNodeTimerOneshotCallback<Args>) {
        self.set_callback(callback.into_node_timer_oneshot_callback());
    }
}

impl<Payload: 'static + Send + Sync> StatsTimerState<Worker<Payload>> {
    /// Sets a repeating callback, as [`TimerState::set_worker_repeating`] does; see
    /// [`set_callback`](Self::set_callback).
    pub fn set_worker_repeating<Args>(
        &self,
        callback: impl IntoWorkerTimerRepeatingCallback<Worker<Payload>, Args>,
    ) {
        self.set_callback(callback.into_worker_timer_repeating_callback());
    }

    /// Sets a callback that is called once, as [`TimerState::set_worker_oneshot`] does; see
    /// [`set_callback`](Self::set_callback).
    pub fn set_worker_oneshot<Args>(
        &self,
        callback: impl IntoWorkerTimerOneshotCallback<Worker<Payload>, Args>,
    ) {
        self.set_callback(callback.into_worker_timer_oneshot_callback());
    }
}

/// A measured callback in the form that rclrs takes. This type implements only the trait for repeating callbacks,
/// because rclrs treats all forms of timer callbacks alike.
pub(crate) struct Measured<Scope: WorkScope>(AnyTimerCallback<Scope>);

impl IntoNodeTimerRepeatingCallback<Self> for Measured<Node> {
    fn into_node_timer_repeating_callback(self) -> AnyTimerCallback<Node> {
        self.0
    }
}

impl<Scope: WorkScope> IntoWorkerTimerRepeatingCallback<Scope, Self> for Measured<Scope> {
    fn into_worker_timer_repeating_callback(self) -> AnyTimerCallback<Scope> {
        self.0
    }
}

/// The measurements of a timer. They do not change when the timer's callback is replaced.
pub(crate) struct MeasuredTimer {
    pub(crate) calls: Arc<Windowed<TimerCalls>>,
    pub(crate) period: Duration,
    /// The node's simulated time, if the timer uses simulated time.
    pub(crate) simulated: Option<Arc<SimulatedTime>>,
    pub(crate) name: Box<str>,
}

impl MeasuredTimer {
    /// Wraps a callback, in any form that rclrs takes, so that its calls are measured. Also returns a flag, which the
    /// caller sets to true when the callback is installed. rclrs already stores each callback as a boxed function, so a
    /// measured callback costs one more function call, but no allocation. `is_new` says that the timer is not created
    /// yet, so its first call is one period from now.
    pub(crate) fn measure<Scope: WorkScope>(
        self: &Arc<Self>,
        callback: AnyTimerCallback<Scope>,
        is_new: bool,
    ) -> (Measured<Scope>, Arc<AtomicBool>)
    where
        Scope::Payload: 'static,
    {
        let is_installed = Arc::<AtomicBool>::default();
        let mut schedule = TimerSchedule::new(self.period.as_nanos() as i64); // the same cast as in rclrs
        if let (Some(schedule), true) = (&mut schedule, self.simulated.is_some() || !is_new) {
            schedule.forget(); // the time of the next call is unknown
        }
        let mut probe = Probe {
            measured: Arc::clone(self),
            schedule,
            jumps: self.simulated.as_ref().map_or(0, |time| time.jumps()),
            is_installed: Arc::clone(&is_installed),
        };
        let callback = match callback {
            AnyTimerCallback::Repeating(mut callback) => {
                AnyTimerCallback::Repeating(Box::new(move |payload, timer| {
                    let running = probe.start(timer);
                    callback(payload, timer);
                    probe.end(running);
                }))
            }
            AnyTimerCallback::OneShot(callback) => {
                AnyTimerCallback::OneShot(Box::new(move |payload, timer| {
                    let running = probe.start(timer);
                    callback(payload, timer);
                    probe.end(running);
                    probe.is_installed.store(false, Ordering::Relaxed); // so `drop` does not report a replacement
                }))
            }
            AnyTimerCallback::Inert => AnyTimerCallback::Inert,
        };
        (Measured(callback), is_installed)
    }
}

struct Probe {
    measured: Arc<MeasuredTimer>,
    /// The schedule of the timer; `None` if the period is 0.
    schedule: Option<TimerSchedule>,
    /// The number of jumps of simulated time before the last call of the timer.
    jumps: u16,
    is_installed: Arc<AtomicBool>,
}

impl Probe {
    fn start<Scope: WorkScope>(&mut self, timer: &TimerState<Scope>) -> Option<RunningTimerCallback> {
        if !self.measured.calls.is_enabled() {
            if let Some(schedule) = &mut self.schedule {
                schedule.forget();
            }
            return None;
        }
        let call = self.scheduled_call(timer);
        Some(self.measured.calls.start(call, monotonic))
    }

    /// Returns how late the current call of the timer is, and how many periods were skipped. Returns `None` if it is
    /// unknown for which time the call was scheduled.
    fn scheduled_call<Scope: WorkScope>(&mut self, timer: &TimerState<Scope>) -> Option<ScheduledCall> {
        let schedule = self.schedule.as_mut()?;
        if let Some(time) = &self.measured.simulated {
            time.refresh(monotonic());
            if std::mem::replace(&mut self.jumps, time.jumps()) != time.jumps() {
                schedule.forget(); // else the jump would count as lateness
            }
        }
        match read(timer) {
            Some(reading) => schedule.call(reading),
            None => {
                schedule.forget();
                None
            }
        }
    }

    fn end(&self, running: Option<RunningTimerCallback>) {
        if let Some(running) = running {
            self.measured.calls.end(running, monotonic());
        }
    }
}

/// Reads the times of a timer's last and next call. Returns `None` if the timer is canceled or a time cannot be read.
fn read<Scope: WorkScope>(timer: &TimerState<Scope>) -> Option<TimerReading> {
    let before = timer.clock().now().nsec;
    let until_next = match timer.time_until_next_call() {
        Ok(until) => i64::try_from(until.as_nanos()).ok()?,
        Err(RclrsError::NegativeDuration(nanoseconds)) => nanoseconds,
        Err(_) => return None,
    };
    let after = timer.clock().now().nsec;
    // `last_elapse` is 0 if rclrs could not read the time, because the clock was set back; then there is no reading.
    let since_last = i64::try_from(timer.last_elapse().as_nanos()).ok().filter(|since| *since > 0)?;
    Some(TimerReading { before, until_next, after, since_last })
}

impl Drop for Probe {
    /// If the callback has replaced itself through rclrs's timer, ends the statistics. If the statistics continued, all
    /// further windows would have a count of 0, and would wrongly show that the timer is silent.
    fn drop(&mut self) {
        if self.is_installed.load(Ordering::Relaxed) && self.measured.calls.disable_forever() {
            let text = format!(
                "The callback of the timer {} was replaced through rclrs: it is not measured any more, and its \
                 statistics have ended",
                Escaped(&self.measured.name)
            );
            tracing::error!("{text}");
            log_error!("topic_statistics", "{text}");
        }
    }
}
