// SPDX-License-Identifier: Apache-2.0

//! The sources of the node with their oracles, and the totals of ended sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use topic_statistics_core::record::{
    calls::{CallRecorder, WaitingCall},
    options::StatisticsState,
    recorder::Recorder,
    requests::{ActiveRequest, RequestRecorder},
    source::{Source, SourceHandle},
    timer_calls::TimerCalls,
    timer_schedule::TimerSchedule,
    windowed::Windowed,
};

use super::{deliveries::Deliveries, goals::Goals, samples::DelayedEnd};
use crate::{
    delay::Delayable,
    measured::Measured as MeasuredScope,
    oracle::{self, Judgement, Kind, Totals, Wanted},
};

pub struct Subscription {
    pub id: u64,
    pub topic: usize,
    pub name: String,
    pub state: StatisticsState,
    pub period: Option<i64>,
    /// Whether there are distributions; `None` means the node's setting.
    pub distributions: Option<bool>,
    pub recorder: Arc<Recorder>,
    pub delayable: Arc<Delayable>,
    pub delayed: Option<DelayedEnd>,
    pub oracle: oracle::Subscription,
    pub wanted: Option<Wanted>,
    pub health: Option<Judgement>,
    /// The number of resets of the health that the schedule has not reported yet.
    pub forgotten: u32,
    pub deliveries: Deliveries,
    /// If a message is taken before this time, the content filter may have removed messages before or after it.
    /// [`i64::MAX`] while there is a content filter.
    pub filtered_until: i64,
    pub source: Arc<Source>,
    /// Whether a message was taken while the statistics were enabled.
    pub has_taken: bool,
    /// The kinds of warnings that were already expected. The library logs each of them once.
    pub warned: BTreeSet<&'static str>,
    /// `None` while the subscription is being created.
    pub handle: Option<SourceHandle>,
    /// The number of subscriptions that were complete when this subscription was completed, including this
    /// subscription.
    pub created: u64,
}

/// The totals of ended subscriptions with the same names.
pub struct Ended {
    pub topic: String,
    pub name: String,
    pub totals: Vec<Totals>,
}

impl Subscription {
    pub fn forget_health(&mut self) {
        let had_messages = self.oracle.totals().received > 0;
        if let Some(health) = self.health.as_mut().filter(|health| health.has_window) {
            self.forgotten += 1;
            *health = Judgement::new(health.wanted.clone(), had_messages);
        }
    }
}

pub fn topic_name(topic: usize) -> String {
    format!("/topic{topic}")
}

/// A source other than a subscription, with its oracle.
pub struct Watched {
    pub source: Arc<Source>,
    pub state: StatisticsState,
    pub oracle: oracle::Other,
    pub delayable: Arc<Delayable>,
    pub delayed: Option<DelayedScopeEnd>,
    /// Dropping the handle ends the source.
    pub _handle: SourceHandle,
}

pub struct Scope {
    pub watched: Watched,
    pub measured: MeasuredScope,
}

/// The times of the samples that are recorded while the next end of a window is delayed, counted from the start of the
/// delay.
pub struct DelayedScopeEnd {
    pub stop: i64,
    pub times: Vec<i64>,
}

impl Watched {
    /// Ends the oracle's window, with the planned delay if there is one.
    pub fn end_window(&mut self, offset: i64, suspended: i64) -> oracle::Window {
        let Self { delayable, oracle, .. } = self;
        let entered = delayable.entered();
        let delayed = if delayable.is_waiting() { None } else { self.delayed.take() };
        let Some(DelayedScopeEnd { stop, times }) = delayed else {
            return oracle.end_window(entered, offset, suspended, false);
        };
        if oracle.kind == Kind::Counter {
            oracle.add(times.len() as u64); // all events during the delay are counted in this window
            return oracle.end_window(entered + stop, offset, suspended, true);
        }
        let window = oracle.end_window(entered + stop, offset, suspended, true);
        // As docs/reliability.md says, a duration that ends while a window is being ended belongs to the next window.
        for time in times {
            match oracle.kind {
                Kind::Publisher(_) => oracle.record_waiting(entered + time, 0.0),
                _ => oracle.record(entered + time, time as f64),
            }
        }
        window
    }
}

pub struct Waiting {
    pub watched: Watched,
    pub measured: Measured,
}

/// The recorder of the source, and its requests, calls or goals under way.
pub enum Measured {
    Service(RequestRecorder, Vec<UnderWay>),
    /// The recorder, and for each call under way the time at which it began.
    Client(CallRecorder, Vec<(Option<WaitingCall>, i64)>),
    Timer(Box<Timer>),
    ActionServer(Goals<true>),
    ActionClient(Goals<false>),
}

/// A request under way. The fields are `None` if it is not measured.
pub struct UnderWay {
    pub request: Option<ActiveRequest>,
    pub taken: i64,
    pub started: Option<i64>,
}

/// A timer with the state that `rcl_timer_call` keeps.
pub struct Timer {
    pub calls: Arc<Windowed<TimerCalls>>,
    pub schedule: TimerSchedule,
    pub period: i64,
    pub last: i64,
    pub next: i64,
    /// Whether the library has seen the previous call of the timer, so that it knows when the next call is due.
    pub is_followed: bool,
}

/// Losses published as events, and the oracle's losses of dropped subscriptions.
pub struct Losses {
    /// The shortest time between two events, and (in the next field) the time of the last event.
    pub interval: i64,
    pub published_at: Option<i64>,
    pub published: BTreeMap<String, u64>,
    /// For each topic, the losses of dropped subscriptions: the known losses, and an upper bound of the losses in
    /// events.
    pub ended: BTreeMap<String, (u64, u64)>,
}

impl Losses {
    pub fn new(rate: f64) -> Self {
        Self {
            interval: (1e9 / rate) as i64,
            published_at: None,
            published: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    pub fn add(sums: &mut BTreeMap<String, (u64, u64)>, topic: usize, oracle: &oracle::Subscription) {
        let (known, most) = sums.entry(topic_name(topic)).or_default();
        *known += oracle.lost().unwrap_or(0);
        // This is only a bound: a late message may have been published as lost before, and losses may have become
        // unknown.
        *most += oracle.losses.most();
    }
}
