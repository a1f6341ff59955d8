// SPDX-License-Identifier: Apache-2.0

//! A service, a client, a timer and the two ends of an action of the node.

use std::sync::Arc;

use topic_statistics_core::record::{
    calls::{CallRecorder, WaitingCall},
    requests::{ActiveRequest, RequestRecorder},
    source::{Source, SourceHandle},
    timer_calls::TimerCalls,
    timer_schedule::TimerSchedule,
    windowed::Windowed,
};

use super::goals::Goals;
use crate::oracle;

/// A service, a client, a timer or one end of an action.
pub struct Waiting {
    pub source: Arc<Source>,
    pub oracle: oracle::Waiting,
    pub measured: Measured,
    /// When the last end of a window began, on the monotonic clock.
    pub entered: Box<dyn Fn() -> i64>,
    /// Its drop ends the source.
    pub _handle: SourceHandle,
}

/// The recorder, and what is under way.
pub enum Measured {
    Service(RequestRecorder, Vec<UnderWay>),
    /// Each call, and when it began.
    Client(CallRecorder, Vec<(Option<WaitingCall>, i64)>),
    Timer(Box<Timer>),
    ActionServer(Goals<true>),
    ActionClient(Goals<false>),
}

/// A request under way: None if it is not measured.
pub struct UnderWay {
    pub request: Option<ActiveRequest>,
    pub taken: i64,
    pub started: Option<i64>,
}

/// A timer as `rcl_timer_call` keeps it.
pub struct Timer {
    pub calls: Arc<Windowed<TimerCalls>>,
    pub schedule: TimerSchedule,
    pub period: i64,
    pub last: i64,
    pub next: i64,
    /// Whether the library has seen each call since the one that was due last.
    pub is_followed: bool,
}

impl Waiting {
    /// Ends the oracle's window.
    pub fn end_window(&mut self, offset: i64, suspended: i64) -> oracle::Window {
        self.oracle.end_window((self.entered)(), offset, suspended)
    }
}
