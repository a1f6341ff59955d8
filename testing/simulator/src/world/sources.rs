// SPDX-License-Identifier: Apache-2.0

//! The sources of the node, with their oracles, and what stays of those that ended.

use std::{collections::BTreeMap, sync::Arc};

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

use super::{deliveries::Deliveries, goals::Goals, samples::Held};
use crate::{
    held::Holdable,
    measured::Measured as MeasuredScope,
    oracle::{self, Judgement, Kind, Totals, Wanted},
};

/// A subscription.
pub struct Subscription {
    pub id: u64,
    pub topic: usize,
    pub name: String,
    pub state: StatisticsState,
    pub period: Option<i64>,
    /// None: the node's.
    pub distributions: Option<bool>,
    pub recorder: Arc<Recorder>,
    pub holdable: Arc<Holdable>,
    /// The events while the next end of a window is delayed.
    pub held: Option<Held>,
    pub oracle: oracle::Subscription,
    /// Its expectations, and its health from its creation on.
    pub wanted: Option<Wanted>,
    pub health: Option<Judgement>,
    /// How often its health was forgotten without a report of the schedule yet.
    pub forgotten: u32,
    pub deliveries: Deliveries,
    /// Messages taken before that time may be filtered: [`i64::MAX`] while it has a content filter.
    pub filtered_until: i64,
    pub source: Arc<Source>,
    /// Whether a message was taken while it was enabled.
    pub has_taken: bool,
    /// The warnings that were expected.
    pub warned: Warned,
    /// None while it is being created.
    pub handle: Option<SourceHandle>,
    /// How many were created before it, and itself.
    pub created: u64,
}

/// Whether these warnings of a subscription are given, each once.
#[derive(Clone, Copy, Default)]
pub struct Warned {
    pub reception: bool,
    pub numbers: bool,
    pub publishers: bool,
    pub samples: bool,
}

/// The totals of ended subscriptions with the same names.
pub struct Ended {
    pub topic: String,
    pub name: String,
    pub totals: Vec<Totals>,
}

impl Subscription {
    /// Its statistics are disabled: its health is unknown again.
    pub fn forget_health(&mut self) {
        let had_messages = self.oracle.totals().received > 0;
        if let Some(health) = self.health.take() {
            let had_window = health.has_window();
            self.forgotten += u32::from(had_window);
            self.health = Some(match had_window {
                true => Judgement::new(health.wanted().clone(), had_messages),
                false => health,
            });
        }
    }
}

pub fn topic_name(topic: usize) -> String {
    format!("/topic{topic}")
}

/// A source that is no subscription, with its oracle.
pub struct Watched {
    pub source: Arc<Source>,
    pub state: StatisticsState,
    pub oracle: oracle::Other,
    pub holdable: Arc<Holdable>,
    /// Its drop ends the source.
    pub _handle: SourceHandle,
}

/// A publisher, a stopwatch or a counter.
pub struct Scope {
    pub watched: Watched,
    pub held: Option<HeldScope>,
    pub measured: MeasuredScope,
}

/// The events while the next end of a window is delayed. Times are since the start of the delay.
pub struct HeldScope {
    pub stop: i64,
    pub times: Vec<i64>,
}

impl Scope {
    /// Ends the oracle's window, perhaps with a delay.
    pub fn end_window(&mut self, offset: i64, suspended: i64) -> oracle::Window {
        let Watched { holdable, oracle, .. } = &mut self.watched;
        let entered = holdable.entered();
        let held = if holdable.is_waiting() { None } else { self.held.take() };
        let Some(HeldScope { stop, times }) = held else {
            return oracle.end_window(entered, offset, suspended, false);
        };
        if oracle.kind() == Kind::Counter {
            oracle.add(times.len() as u64); // counted before the window's count is taken
            return oracle.end_window(entered + stop, offset, suspended, true);
        }
        let window = oracle.end_window(entered + stop, offset, suspended, true);
        // By docs/reliability.md: a duration that ends while a window is being ended belongs to the next one.
        for time in times {
            match oracle.kind() {
                Kind::Publisher(_) => oracle.record_waiting(entered + time, 0.0),
                _ => oracle.record(entered + time, time as f64),
            }
        }
        window
    }
}

/// A service, a client, a timer or one end of an action.
pub struct Waiting {
    pub watched: Watched,
    pub measured: Measured,
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

/// Losses that were published as events, and the oracle's of subscriptions that were dropped.
pub struct Losses {
    /// The shortest time between two events, and when the last one was published.
    pub interval: i64,
    pub published_at: Option<i64>,
    pub published: BTreeMap<String, u64>,
    /// By topic: losses that are known, and the most that can have been published.
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

    /// A subscription ends.
    pub fn end(&mut self, topic: usize, oracle: &oracle::Subscription) {
        Self::add(&mut self.ended, topic, oracle);
    }

    pub fn add(sums: &mut BTreeMap<String, (u64, u64)>, topic: usize, oracle: &oracle::Subscription) {
        let (known, most) = sums.entry(topic_name(topic)).or_default();
        *known += oracle.lost().unwrap_or(0);
        // A message that arrives late may have been published as lost; and losses may have become unknown later.
        *most += oracle.losses().most();
    }
}
