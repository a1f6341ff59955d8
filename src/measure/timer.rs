// SPDX-License-Identifier: Apache-2.0

//! A timer with statistics, and its callback.

use std::{sync::Arc, time::Duration};

use rclrs::{
    AnyTimerCallback, Clock, IntoNodeTimerOneshotCallback, IntoNodeTimerRepeatingCallback,
    IntoWorkerTimerOneshotCallback, IntoWorkerTimerRepeatingCallback, Node, RclrsError, TimerState,
    WorkScope, Worker,
};
use topic_statistics_core::record::{
    clock::monotonic,
    simulated_time::SimulatedTime,
    source::SourceHandle,
    timer_calls::{RunningTimerCallback, TimerCalls},
    timer_schedule::{ScheduledCall, TimerReading, TimerSchedule},
    windowed::Windowed,
};

use super::handle::{end_with_callback, source_handle};

/// A timer whose callbacks are measured.
///
/// Create one using [`NodeStatistics::create_timer_repeating`](crate::NodeStatistics::create_timer_repeating). Like
/// [`rclrs::Timer`] it is a handle: dropping the last clone ends the timer and its statistics. Its callback cannot be
/// replaced through it. If the callback of a repeating timer sets another one through the timer that it is given, the
/// statistics end, with an error in the log.
pub type MeasuredTimer = Arc<MeasuredTimerState<Node>>;

/// A [`MeasuredTimer`] that runs on a worker.
pub type MeasuredWorkerTimer<Payload> = Arc<MeasuredTimerState<Worker<Payload>>>;

/// The inner state of a [`MeasuredTimer`].
pub struct MeasuredTimerState<Scope: WorkScope> {
    /// Dropped first: the statistics end before the timer does.
    source: SourceHandle,
    timer: Arc<TimerState<Scope>>,
}

source_handle!(MeasuredTimerState<Scope: WorkScope>);

impl<Scope: WorkScope> MeasuredTimerState<Scope> {
    pub(crate) fn new(source: SourceHandle, timer: Arc<TimerState<Scope>>) -> Self {
        Self { source, timer }
    }

    /// Returns the period.
    pub fn get_timer_period(&self) -> Result<Duration, RclrsError> {
        self.timer.get_timer_period()
    }

    /// Cancels the timer. [`reset`](Self::reset) continues it.
    pub fn cancel(&self) -> Result<(), RclrsError> {
        self.timer.cancel()
    }

    /// Returns whether the timer is canceled.
    pub fn is_canceled(&self) -> Result<bool, RclrsError> {
        self.timer.is_canceled()
    }

    /// Resets the timer: its next call is one period from now. A canceled one continues.
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

    /// Returns the time until the next call. Errors if it is overdue, or if the timer is canceled.
    pub fn time_until_next_call(&self) -> Result<Duration, RclrsError> {
        self.timer.time_until_next_call()
    }

    /// Returns the clock of the timer.
    pub fn clock(&self) -> &Clock {
        self.timer.clock()
    }
}

/// A measured callback that rclrs takes.
pub(crate) struct Measured<Scope: WorkScope>(AnyTimerCallback<Scope>);

impl IntoNodeTimerRepeatingCallback<Self> for Measured<Node> {
    fn into_node_timer_repeating_callback(self) -> AnyTimerCallback<Node> {
        self.0
    }
}

impl IntoNodeTimerOneshotCallback<Self> for Measured<Node> {
    fn into_node_timer_oneshot_callback(self) -> AnyTimerCallback<Node> {
        self.0
    }
}

impl<Scope: WorkScope> IntoWorkerTimerRepeatingCallback<Scope, Self> for Measured<Scope> {
    fn into_worker_timer_repeating_callback(self) -> AnyTimerCallback<Scope> {
        self.0
    }
}

impl<Scope: WorkScope> IntoWorkerTimerOneshotCallback<Scope, Self> for Measured<Scope> {
    fn into_worker_timer_oneshot_callback(self) -> AnyTimerCallback<Scope> {
        self.0
    }
}

/// The part of a timer's statistics that its callback calls.
pub(crate) struct Probe {
    calls: Arc<Windowed<TimerCalls>>,
    /// None if the period is 0.
    schedule: Option<TimerSchedule>,
    /// The node's simulated time, if the timer is on it, and how often it had jumped at the last call.
    simulated: Option<(Arc<SimulatedTime>, u16)>,
    name: Box<str>,
    is_oneshot: bool,
}

impl Probe {
    /// `simulated`: the node's simulated time, if the timer is on it. `name`: of the source, for the log.
    pub(crate) fn new(
        calls: Arc<Windowed<TimerCalls>>,
        period: Duration,
        simulated: Option<Arc<SimulatedTime>>,
        name: &str,
    ) -> Self {
        let mut schedule = TimerSchedule::new(period.as_nanos() as i64); // as rclrs does
        if let (Some(schedule), true) = (&mut schedule, simulated.is_some()) {
            schedule.forget(); // simulated time may not have begun
        }
        let simulated = simulated.map(|time| {
            let jumps = time.jumps();
            (time, jumps)
        });
        Self { calls, schedule, simulated, name: name.into(), is_oneshot: false }
    }

    /// Wraps a callback in any form that rclrs takes, so that it is measured. rclrs has each form as a boxed function
    /// already. So a measured callback costs a call more, and no allocation.
    pub(crate) fn measure<Scope: WorkScope>(mut self, callback: AnyTimerCallback<Scope>) -> Measured<Scope>
    where
        Scope::Payload: 'static,
    {
        Measured(match callback {
            AnyTimerCallback::Repeating(mut callback) => {
                AnyTimerCallback::Repeating(Box::new(move |payload, timer| {
                    let running = self.start(timer);
                    callback(payload, timer);
                    self.end(running);
                }))
            }
            AnyTimerCallback::OneShot(callback) => {
                self.is_oneshot = true;
                AnyTimerCallback::OneShot(Box::new(move |payload, timer| {
                    let running = self.start(timer);
                    callback(payload, timer);
                    self.end(running);
                }))
            }
            AnyTimerCallback::Inert => AnyTimerCallback::Inert,
        })
    }

    /// Records that a callback starts now.
    fn start<Scope: WorkScope>(&mut self, timer: &TimerState<Scope>) -> Option<RunningTimerCallback> {
        if !self.calls.is_enabled() {
            if let Some(schedule) = &mut self.schedule {
                schedule.forget();
            }
            return None;
        }
        let call = self.scheduled_call(timer);
        Some(self.calls.start(call, monotonic))
    }

    /// Returns what is known of the schedule of a call whose callback starts now.
    fn scheduled_call<Scope: WorkScope>(&mut self, timer: &TimerState<Scope>) -> Option<ScheduledCall> {
        let schedule = self.schedule.as_mut()?;
        if let Some((time, jumps)) = &mut self.simulated {
            time.refresh(monotonic());
            if std::mem::replace(jumps, time.jumps()) != time.jumps() {
                schedule.forget(); // a jump of simulated time is no lateness
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
            self.calls.end(running, monotonic());
        }
    }
}

/// Reads the schedule of a timer; None if it is canceled.
fn read<Scope: WorkScope>(timer: &TimerState<Scope>) -> Option<TimerReading> {
    let before = timer.clock().now().nsec;
    let until_next = match timer.time_until_next_call() {
        Ok(until) => i64::try_from(until.as_nanos()).ok()?,
        Err(RclrsError::NegativeDuration(nanoseconds)) => nanoseconds,
        Err(_) => return None,
    };
    let after = timer.clock().now().nsec;
    // 0 if rclrs could not read it: the clock was set back.
    let since_last = i64::try_from(timer.last_elapse().as_nanos()).ok().filter(|since| *since > 0)?;
    Some(TimerReading { before, until_next, after, since_last })
}

impl Drop for Probe {
    fn drop(&mut self) {
        if !self.is_oneshot {
            end_with_callback(&self.calls, &self.name);
        }
    }
}
