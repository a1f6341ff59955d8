// SPDX-License-Identifier: Apache-2.0

//! Measures the timers of rclcpp: the period, the lateness, the skipped periods and the duration of callbacks.

use std::{
    ffi::c_void,
    sync::{atomic::Ordering, Arc, Mutex},
    time::Duration,
};

use topic_statistics_core::{
    metric_set::MetricSet,
    mutex::lock,
    record::{
        clock::monotonic,
        source::SourceHandle,
        timer_calls::{RunningTimerCallback, TimerCalls, TimerClock},
        timer_schedule::ScheduledCall,
        windowed::Windowed,
    },
    CallbackKind, SourceKind,
};

use crate::{
    abi::{Clock, Endpoint, TimerCallInfo, OK},
    callbacks::CALLBACKS,
    executor,
    log::line,
    output::NodeState,
    process::{add_untitled, forget, has_ended, measured},
    real,
    table::{Pointers, Table, BOUND},
    thread::Started,
};

/// The measured timers by the addresses of rcl's timers.
static TIMERS: Table<Timer> = Table::new();
/// The addresses of the timers' callbacks, by the addresses of rcl's timers. The addresses are not dereferenced.
static ADDED: Pointers<c_void> = Pointers::new();

pub struct Timer {
    /// The first field, so it is dropped first. When it is dropped, the statistics end, while the other fields still
    /// exist.
    _source: SourceHandle,
    calls: Arc<Windowed<TimerCalls>>,
    callback: usize,
    period: i64,
    is_steady: bool,
    node: Arc<NodeState>,
    /// The last call of rcl's timer; `None` once the callback has started, or if the lateness of the call is unknown.
    called: Mutex<Option<Call>>,
}

#[derive(Clone, Copy)]
struct Call {
    thread: usize,
    /// The time of the call, in nanoseconds on the monotonic clock.
    at: i64,
    /// How late rcl called the timer, in nanoseconds, and how many periods rcl skipped.
    scheduled: ScheduledCall,
}

pub fn add_callback(timer: *const c_void, callback: usize) {
    if has_ended() {
        return;
    }
    ADDED.remove(timer.addr()); // an old entry, of a timer that was never destroyed, may have this address
    ADDED.insert(timer.addr(), std::ptr::without_provenance_mut(callback));
}

/// Measures a timer that rclcpp has just added to a node.
/// Safety: The timer and the node must be rcl's.
pub unsafe fn link_node(timer: *const c_void, node: *const c_void) {
    let (Some(callback), None) = (ADDED.get(timer.addr()), measured_timer(timer.addr())) else { return };
    let Some(rmw_handle) = real::rcl_node_get_rmw_handle() else { return };
    let (Some(get_period), Some(get_clock)) = (real::rcl_timer_get_period(), real::rcl_timer_clock()) else {
        return;
    };
    let (mut period, mut clock) = (0, std::ptr::null::<Clock>());
    // SAFETY: The timer is rcl's, and the arguments are valid places for the results.
    if unsafe { get_period(timer, &mut period) != OK || get_clock(timer, &mut clock) != OK } {
        return crate::stamp::reset_error();
    }
    // SAFETY: rcl has returned the clock, which lives as long as the timer.
    let is_steady = unsafe { clock.as_ref() }.is_some_and(|clock| clock.kind == Clock::STEADY);
    let name = format!("timer/{:?}", Duration::from_nanos(period.unsigned_abs()));
    let (mut calls, mut state) = (None, None);
    // SAFETY: By contract.
    let source = unsafe {
        add_untitled(rmw_handle(node), &name, |options, node| {
            if !options.measures(&format!("/{name}"), false) {
                return None;
            }
            let clock = match () {
                () if is_steady => TimerClock::Steady,
                () if node.clocks.load(Ordering::Relaxed) > 0 => TimerClock::Simulated,
                () => TimerClock::System,
            };
            let metrics = MetricSet::of(SourceKind::Timer.metrics());
            let new = Arc::new(Windowed::new(TimerCalls::new(metrics, Default::default(), clock, period)));
            (calls, state) = (Some(Arc::clone(&new)), Some(Arc::clone(node)));
            Some(new)
        })
    };
    // SAFETY: By contract.
    unsafe { executor::begin(rmw_handle(node)) };
    let callback = callback.as_ptr().addr();
    executor::name_callback(callback, CallbackKind::Timer, &name["timer/".len()..]);
    let (Some(source), Some(calls), Some(node)) = (source, calls, state) else { return };
    let called = Mutex::default();
    let measured = Timer { _source: source, calls, callback, period, is_steady, node, called };
    if !TIMERS.insert(timer.addr(), Box::new(measured)) {
        return line(format_args!("a timer is not measured: the process has more than {BOUND}"));
    }
    CALLBACKS.remove(callback);
    CALLBACKS.insert(callback, timer.cast::<Endpoint>().cast_mut());
}

/// Records that rcl has called a timer. The timer's callback starts after this call, maybe on another thread.
pub fn call(timer: *const c_void, info: &TimerCallInfo, thread: usize) {
    let Some(timer) = measured_timer(timer.addr()) else { return };
    let is_known = timer.is_steady || timer.node.clocks.load(Ordering::Relaxed) == 0;
    let lateness = info.actual.checked_sub(info.expected).filter(|lateness| is_known && *lateness >= 0);
    // rcl skips the whole periods between the expected and the actual time.
    let skipped = lateness.and_then(|lateness| lateness.checked_div(timer.period));
    let scheduled =
        lateness.zip(skipped).map(|(lateness, skipped)| ScheduledCall { lateness, skipped: skipped as u64 });
    let call = scheduled.map(|scheduled| Call { thread, at: monotonic(), scheduled });
    *lock(&timer.called) = call;
}

impl Timer {
    /// Records that the callback starts now on a thread. Returns the running callback, and the time of the start.
    pub fn start(&self, thread: usize) -> (RunningTimerCallback, Started) {
        let called = lock(&self.called).take();
        // If another thread has called the timer, several calls may wait in a queue. In that case, it is unknown to
        // which of these calls the callback belongs.
        let call = called.filter(|call| call.thread == thread);
        let started = monotonic();
        let scheduled = call.map(|call| ScheduledCall {
            lateness: call.scheduled.lateness.saturating_add(started - call.at),
            ..call.scheduled
        });
        let ready = scheduled.map(|call| started.saturating_sub(call.lateness));
        (self.calls.start(scheduled, || started), Started { at: started, ready })
    }

    /// Records that the callback ends at the time `now` of the monotonic clock.
    pub fn finish(&self, running: RunningTimerCallback, now: i64) {
        self.calls.end(running, now);
    }
}

#[inline]
pub fn measured_timer(timer: usize) -> Option<&'static Timer> {
    measured(&TIMERS, timer)
}

pub fn end(timer: *const c_void) {
    if let Some(ended) = forget(&TIMERS, timer.addr()) {
        CALLBACKS.remove(ended.callback);
        executor::forget_callback(ended.callback);
    }
    if !has_ended() {
        ADDED.remove(timer.addr());
    }
}
