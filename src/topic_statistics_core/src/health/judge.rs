// SPDX-License-Identifier: Apache-2.0

//! The state machine: one window after the other.

use std::{sync::Arc, time::Duration};

use super::{
    spans::{Span, Spans},
    Cause, Expectations, Health, Level, Missing, Silence, Value,
};
use crate::{
    condition::{Condition, Figure, Quantity},
    metric::Metric,
    timestamp::Timestamp,
    window::Window,
};

/// A finished window, as a [`Judge`] needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JudgedWindow {
    /// Its start and stop, on the system clock.
    pub window: Window,
    /// Its length on the monotonic clock.
    pub length: Duration,
    /// The number of messages; None if unknown.
    pub messages: Option<u64>,
    /// Whether some of them are history of transient local publishers. Such a window is not judged.
    pub has_history: bool,
}

impl JudgedWindow {
    /// Creates a window of that length on the monotonic clock; `messages`: None if their number is unknown.
    pub fn new(window: Window, length: Duration, messages: Option<u64>) -> Self {
        Self { window, length, messages, has_history: false }
    }

    /// Sets whether some of its messages are history: published before the subscription matched their publisher.
    #[must_use]
    pub fn with_history(self, has_history: bool) -> Self {
        Self { has_history, ..self }
    }
}

/// A change of the level, or, while that is not [`Level::Ok`], of its cause.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The level before.
    pub before: Level,
    /// The health since the change.
    pub health: Health,
}

/// Judges the windows of one source by its expectations. [The module](super) has the rules.
///
/// Its memory is constant: it does not grow with windows, messages or time.
#[derive(Clone, Debug)]
pub struct Judge {
    expectations: Arc<Expectations>,
    /// Whether the source had messages before the first window.
    had_messages: bool,
    /// Those for ERROR first.
    conditions: Box<[Judged]>,
    /// Empty if no condition needs it.
    spans: Spans,
    /// The longest time that a condition looks back, in seconds; None if none does.
    looks_back: Option<f64>,
    /// Whether the expectations set a limit for silence: then an empty window is no fault.
    may_be_silent: bool,
    phase: Phase,
    /// The length of all windows.
    elapsed: Duration,
    /// The last windows in a row that certainly had no message.
    silent: Duration,
    /// When the level began, by `elapsed`.
    since: Duration,
    health: Health,
    /// Whether the last window changed it.
    has_changed: bool,
    /// The judged windows by level.
    windows: [u64; Level::ALL.len()],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There was no message yet.
    NoMessageYet,
    /// There were messages, so the next window is a whole one.
    Judging {
        /// After silence, until it is as expected.
        after_silence: Option<AfterSilence>,
    },
    Silent,
}

/// The last windows after silence that have messages, or that need none, if no condition was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AfterSilence {
    windows: u32,
    /// When the first of them began.
    since: Duration,
}

/// A condition and its evidence from the windows up to now.
#[derive(Clone, Debug)]
struct Judged {
    level: Level,
    condition: Condition,
    fails: bool,
    /// The windows in a row that say the opposite.
    opposed: u32,
    /// When these began.
    opposed_since: Duration,
    /// When it last changed.
    since: Duration,
    /// The last value; NaN if it was missing. None if there was none to judge.
    value: Option<f64>,
    /// The last value that violated it.
    violated_by: f64,
    /// Why that was missing.
    missing: Option<Missing>,
}

/// A condition and its result in the last window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct JudgedCondition<'a> {
    /// The level without it.
    pub level: Level,
    /// The condition.
    pub condition: &'a Condition,
    /// Whether it fails: windows in a row violated it.
    pub fails: bool,
    /// The last value that was judged, in the unit of its quantity; NaN if it was missing. None before the first one.
    pub value: Option<f64>,
}

impl Judge {
    /// Creates the judge of a source that had no window yet.
    pub fn new(expectations: impl Into<Arc<Expectations>>) -> Self {
        let expectations = expectations.into();
        let conditions: Box<[_]> = expectations.conditions().map(Judged::new).collect();
        let looks_back = conditions.iter().filter_map(|judged| Some(judged.counted()?.looks_back));
        Self {
            spans: Spans::default(),
            looks_back: looks_back.reduce(f64::max),
            may_be_silent: expectations.stale_after.is_some() || conditions.iter().any(Judged::is_of_silence),
            conditions,
            expectations,
            had_messages: false,
            phase: Phase::NoMessageYet,
            elapsed: Duration::ZERO,
            silent: Duration::ZERO,
            since: Duration::ZERO,
            health: Health::default(),
            has_changed: false,
            windows: [0; Level::ALL.len()],
        }
    }

    /// Assumes that the source had messages before its first window. Then no first message is expected, and silence
    /// becomes stale after the same time as after any message: a map that is published once is not published again.
    #[must_use]
    pub fn after_messages(self) -> Self {
        Self { had_messages: true, ..self }
    }

    /// Returns what is expected.
    pub fn expectations(&self) -> &Arc<Expectations> {
        &self.expectations
    }

    /// Returns the health as of the last window.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Returns the number of judged windows by the level that they led to, in the order of [`Level::ALL`]. While a
    /// first message is awaited, and not overdue, nothing is judged.
    pub fn windows(&self) -> [u64; Level::ALL.len()] {
        self.windows
    }

    /// Returns each condition with the last value, those for ERROR first.
    pub fn conditions(&self) -> impl Iterator<Item = JudgedCondition<'_>> {
        self.conditions.iter().map(|judged| JudgedCondition {
            level: judged.level,
            condition: &judged.condition,
            fails: judged.fails,
            value: judged.value,
        })
    }

    /// Accepts the next window. Returns the change, if the level changed, or its cause while it is not [`Level::Ok`].
    ///
    /// Windows have to follow each other without a gap: after a gap, start with a new judge. `value` returns the
    /// window's value of a quantity. Of the [counted quantities](super), it is called only for [`Quantity::Bytes`].
    pub fn accept(
        &mut self,
        window: &JudgedWindow,
        mut value: impl FnMut(Quantity) -> Value,
    ) -> Option<Change> {
        let before = self.health.level;
        self.has_changed = false;
        let start = self.elapsed;
        self.elapsed = start.saturating_add(window.length);
        let is_silent = window.messages == Some(0);
        let has_messages = window.messages.is_some_and(|messages| messages > 0);
        self.silent = if is_silent { self.silent.saturating_add(window.length) } else { Duration::ZERO };
        match self.phase {
            Phase::NoMessageYet if has_messages => {
                self.begin(start, before != Level::Ok);
            }
            Phase::NoMessageYet => {
                let (limit, cause) = match self.had_messages {
                    true => (self.expectations.silence_limit(), Cause::Silence),
                    false => (self.expectations.first_message_limit(), Cause::NoMessageYet),
                };
                if before == Level::Ok && self.silent >= limit {
                    self.set(self.silence(), cause, Duration::ZERO);
                }
            }
            Phase::Silent if has_messages => self.begin(start, true),
            Phase::Silent => {}
            Phase::Judging { .. } if is_silent && self.silent >= self.expectations.silence_limit() => {
                self.phase = Phase::Silent;
                self.spans.clear();
                self.conditions.iter_mut().for_each(Judged::reset);
                self.set(self.silence(), Cause::Silence, self.elapsed.saturating_sub(self.silent));
            }
            // A rate begins after it.
            Phase::Judging { .. } if window.has_history => self.spans.clear(),
            Phase::Judging { after_silence } => self.judge(window, start, after_silence, &mut value),
        }
        if self.phase != Phase::NoMessageYet || self.health.level != Level::Ok {
            self.windows[self.health.level as usize] += 1;
        }
        self.health.window = Some(window.window);
        self.health.lasting = self.elapsed.saturating_sub(self.since);
        let stop = window.window.stop.as_nanoseconds();
        let since = stop.saturating_sub(nanoseconds(self.health.lasting));
        self.health.since = Some(Timestamp::from_nanoseconds(since));
        self.has_changed.then(|| Change { before, health: self.health.clone() })
    }

    /// Begins with the first messages, or with the first ones after silence.
    fn begin(&mut self, start: Duration, is_after_silence: bool) {
        let after_silence = is_after_silence.then_some(AfterSilence { windows: 0, since: start });
        self.phase = Phase::Judging { after_silence };
        match is_after_silence {
            true => self.set(Level::Warn, Cause::MessagesAgain, start),
            false => self.set(Level::Ok, Cause::AsExpected, start),
        }
    }

    /// Judges a whole window.
    fn judge(
        &mut self,
        window: &JudgedWindow,
        start: Duration,
        after_silence: Option<AfterSilence>,
        value: &mut dyn FnMut(Quantity) -> Value,
    ) {
        match (self.looks_back, window.messages) {
            (Some(longest), Some(messages)) => {
                let needs_bytes =
                    self.conditions.iter().any(|judged| judged.condition.quantity() == Quantity::Bandwidth);
                let bytes = match messages {
                    0 => 0.0,
                    _ if needs_bytes => value(Quantity::Bytes).or_nan(),
                    _ => f64::NAN,
                };
                self.spans.add(messages, bytes, window.length, longest);
            }
            // The messages of a span have to be known, so the next one begins after this window.
            _ => self.spans.clear(),
        }
        let is_after_silence = after_silence.is_some();
        // A map that is published once, and late, has no second message.
        let counts = window.messages.is_some_and(|messages| messages > 0 || self.may_be_silent);
        let mut is_violated = false;
        let (raise, clear) = (self.expectations.raise_after, self.expectations.clear_after);
        for judged in &mut self.conditions {
            let Some(fulfils) = judged.judge(window, &self.spans, value) else { continue };
            is_violated |= !fulfils;
            let raise = if judged.is_of_silence() { 1 } else { raise };
            judged.debounce(fulfils, start, if fulfils { clear } else { raise });
        }
        let good_since = after_silence.filter(|span| span.windows > 0).map_or(start, |span| span.since);
        let after_silence = after_silence.and_then(|AfterSilence { windows, .. }| match windows {
            _ if is_violated => Some(AfterSilence { windows: 0, since: start }),
            windows if counts && windows + 1 >= clear => None,
            windows => Some(AfterSilence { windows: windows + u32::from(counts), since: good_since }),
        });
        self.phase = Phase::Judging { after_silence };
        // Conditions for ERROR are first.
        match self.conditions.iter().find(|judged| judged.fails) {
            Some(judged) => {
                let Judged { level, ref condition, violated_by: value, missing, since, .. } = *judged;
                self.set(level, Cause::Condition { condition: condition.clone(), value, missing }, since);
            }
            None if after_silence.is_some() => self.set(Level::Warn, Cause::MessagesAgain, start),
            None => {
                let held_since = self.conditions.iter().map(|judged| judged.since).max().unwrap_or_default();
                let since = if is_after_silence { held_since.max(good_since) } else { held_since };
                self.set(Level::Ok, Cause::AsExpected, since);
            }
        }
    }

    fn silence(&self) -> Level {
        match self.expectations.silence {
            Silence::Stale => Level::Stale,
            Silence::Error => Level::Error,
        }
    }

    /// Sets level and cause; a change dates from `since`.
    fn set(&mut self, level: Level, cause: Cause, since: Duration) {
        let is_other = level != self.health.level;
        if is_other || !cause.is_the_same_as(&self.health.cause) {
            self.since = since;
            self.has_changed |= is_other || level != Level::Ok;
        }
        self.health.level = level;
        self.health.cause = cause;
    }
}

/// Returns three values of a span: the lowest that its messages are evidence of, the counted one, and the highest.
type Evidence = fn(&Span) -> (f64, f64, f64);

/// A quantity that is counted over as many windows as it takes.
struct Counted {
    /// How far to look back, in seconds.
    looks_back: f64,
    evidence: Evidence,
}

impl Judged {
    /// A rate is judged over at most this number of messages.
    const COUNTED: f64 = 100.0;

    fn new((level, condition): (Level, &Condition)) -> Self {
        Self {
            level,
            condition: condition.clone(),
            fails: false,
            opposed: 0,
            opposed_since: Duration::ZERO,
            since: Duration::ZERO,
            value: None,
            violated_by: f64::NAN,
            missing: None,
        }
    }

    fn reset(&mut self) {
        *self = Self::new((self.level, &self.condition));
    }

    /// Returns whether it is about the time since the last message, which needs no second window.
    fn is_of_silence(&self) -> bool {
        matches!(self.condition.quantity(), Quantity::Metric(Metric::TimeSinceLastMessage, _))
    }

    /// Returns how its quantity is counted; None if it is not.
    fn counted(&self) -> Option<Counted> {
        use {Figure::*, Quantity::*};
        let limits = [self.condition.lower_limit(), self.condition.upper_limit()];
        let limits = limits.into_iter().flatten().filter(|limit| *limit > 0.0);
        let seconds_per_message = |longest: Option<f64>| longest.unwrap_or(0.0) * Self::COUNTED;
        let of_rate = |evidence: Evidence| {
            let lowest = limits.clone().reduce(f64::min);
            Some(Counted { looks_back: seconds_per_message(lowest.map(|rate| 1.0 / rate)), evidence })
        };
        let of_period = |evidence: Evidence| {
            let highest = limits.clone().reduce(f64::max);
            Some(Counted { looks_back: seconds_per_message(highest.map(|period| period * 1e-3)), evidence })
        };
        match self.condition.quantity() {
            Rate | Metric(self::Metric::Frequency, Average | Minimum | Maximum) => of_rate(Span::rate),
            // The number of messages for a limit of bytes is not known in advance.
            Bandwidth => Some(Counted { looks_back: Self::BANDWIDTH_LOOKS_BACK, evidence: Span::bandwidth }),
            Metric(metric, figure) if metric.is_period() => match figure {
                Average => of_period(Span::period),
                Minimum => of_period(|span| {
                    let (.., highest) = span.period();
                    (0.0, highest, highest)
                }),
                Maximum => of_period(|span| {
                    let (lowest, ..) = span.period();
                    (lowest, lowest, f64::INFINITY)
                }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether the windows up to now fulfil it. None if unknown.
    fn judge(
        &mut self,
        window: &JudgedWindow,
        spans: &Spans,
        value: &mut dyn FnMut(Quantity) -> Value,
    ) -> Option<bool> {
        let (quantity, has_messages) = (self.condition.quantity(), window.messages != Some(0));
        let counted = self.counted();
        let value = match (&counted, quantity) {
            (Some(_), Quantity::Rate | Quantity::Bandwidth | Quantity::Metric(Metric::Frequency, _)) => {
                Value::Unknown
            }
            _ => value(quantity),
        };
        let is_measured_in_silence = match quantity {
            Quantity::Publishers => true,
            // A callback or a goal may end, and a response may arrive, in a window in which none begins.
            Quantity::Metric(
                Metric::CallbackDuration
                | Metric::ResponseDuration
                | Metric::CallbackShare
                | Metric::RoundTrip
                | Metric::GoalToAcceptance
                | Metric::GoalToFeedback
                | Metric::FeedbackPeriod
                | Metric::CancelDelay
                | Metric::GoalSucceeded
                | Metric::GoalCanceled
                | Metric::GoalAborted,
                _,
            ) => true,
            Quantity::Metric(metric, _) => !metric.has_distribution() && metric != Metric::Frequency,
            _ => false,
        };
        let fulfils = match (value, counted) {
            (Value::Measured(value), _) if has_messages || is_measured_in_silence => {
                let fulfils = self.condition.is_fulfilled_by(value);
                self.observe(value, fulfils);
                fulfils
            }
            // A window without a period is counted.
            (_, Some(counted)) => return self.count(spans, &counted, has_messages),
            (Value::Missing(missing), None) if has_messages => {
                self.observe(f64::NAN, false);
                self.missing = Some(missing);
                false
            }
            _ => return None,
        };
        Some(fulfils)
    }

    /// Judges over the shortest time, up to now, with enough messages to decide.
    fn count(&mut self, spans: &Spans, counted: &Counted, has_messages: bool) -> Option<bool> {
        for span in spans.up_to_now() {
            if span.seconds == 0.0 {
                return None; // a window without a length: the windows before it were judged
            }
            let (lowest, value, highest) = (counted.evidence)(&span);
            if value.is_nan() {
                return None; // the bytes are not known
            }
            if let Some(fulfils) = self.condition.is_fulfilled_by_all(lowest, highest) {
                self.observe(value, fulfils);
                return Some(fulfils);
            }
            self.value = Some(value);
            if span.seconds >= counted.looks_back {
                // No violation was found. An empty window is no evidence of that.
                return has_messages.then_some(true);
            }
        }
        None // the next windows may decide
    }

    fn observe(&mut self, value: f64, fulfils: bool) {
        self.value = Some(value);
        if !fulfils {
            (self.violated_by, self.missing) = (value, None);
        }
    }

    /// Changes the state after `windows` equal results in a row. The last one is of a window that starts at `start`.
    fn debounce(&mut self, fulfils: bool, start: Duration, windows: u32) {
        if fulfils != self.fails {
            self.opposed = 0;
            return;
        }
        if self.opposed == 0 {
            self.opposed_since = start;
        }
        self.opposed += 1;
        if self.opposed >= windows {
            (self.fails, self.opposed, self.since) = (!self.fails, 0, self.opposed_since);
        }
    }

    /// How far a condition on the bandwidth looks back, in seconds.
    const BANDWIDTH_LOOKS_BACK: f64 = 60.0;
}

impl Span {
    /// Returns the rate in Hz: the lowest that the messages are evidence of, the counted one, and the highest.
    fn rate(&self) -> (f64, f64, f64) {
        let messages = self.messages as f64;
        ((messages - 1.0).max(0.0) / self.seconds, messages / self.seconds, (messages + 1.0) / self.seconds)
    }

    /// Returns the period in milliseconds, likewise.
    fn period(&self) -> (f64, f64, f64) {
        let (lowest, rate, highest) = self.rate();
        (1e3 / highest, 1e3 / rate, 1e3 / lowest)
    }

    /// Returns the bytes per second, likewise; NaN if the bytes are unknown.
    fn bandwidth(&self) -> (f64, f64, f64) {
        if self.messages == 0 {
            return (0.0, 0.0, f64::INFINITY); // the next message may have any size
        }
        let (lowest, rate, highest) = self.rate();
        let size = self.bytes / self.messages as f64;
        (lowest * size, rate * size, highest * size)
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
