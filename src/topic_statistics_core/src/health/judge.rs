// SPDX-License-Identifier: Apache-2.0

//! The state machine that compares one window after the other with the expectations of a source.

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

/// The facts about a finished window that a [`Judge`] needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JudgedWindow {
    /// The start and the stop of the window, on the system clock.
    pub window: Window,
    /// The length of the window on the monotonic clock.
    pub length: Duration,
    /// The number of messages; `None` if the number is unknown.
    pub messages: Option<u64>,
    /// Whether some messages are the history of transient local publishers. Such a window is not compared with the
    /// expectations.
    pub has_history: bool,
    /// The number of windows that [`Judge::windows`] counts for this one: 1, or the number of missing windows if this
    /// one is a silence in their place.
    pub count: u64,
}

impl JudgedWindow {
    /// Creates a window of that length on the monotonic clock. `messages` is the number of messages; `None` if the
    /// number is unknown.
    pub fn new(window: Window, length: Duration, messages: Option<u64>) -> Self {
        Self { window, length, messages, has_history: false, count: 1 }
    }

    /// Sets whether some messages of the window are history: published before the subscription matched their publisher.
    #[must_use]
    pub fn with_history(self, has_history: bool) -> Self {
        Self { has_history, ..self }
    }

    /// Sets the number of windows that [`Judge::windows`] counts for this one.
    #[must_use]
    pub fn with_count(self, count: u64) -> Self {
        Self { count, ..self }
    }
}

/// A change of a source's level, or a change of the level's cause while the level is not [`Level::Ok`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The level before the change.
    pub before: Level,
    /// The health since the change.
    pub health: Health,
}

/// Compares the windows of one source with the source's expectations. [The module](super) documents the rules.
///
/// The memory of a judge is constant: it does not grow with the number of windows, with the number of messages or with
/// time.
#[derive(Clone, Debug)]
pub struct Judge {
    expectations: Arc<Expectations>,
    /// Whether the source had messages before the first window of this judge.
    had_messages: bool,
    /// The conditions for ERROR come first.
    conditions: Box<[Judged]>,
    /// The numbers of messages in the last windows; empty if no condition counts messages.
    spans: Spans,
    /// The longest time over which a condition counts messages, in seconds; `None` if no condition counts messages.
    looks_back: Option<f64>,
    /// Whether the source may be silent for a while, because the expectations say how long its silence may last. Then,
    /// after silence, a window without messages can also be a good window (see [`AfterSilence`]).
    may_be_silent: bool,
    phase: Phase,
    /// The total length of all windows that the judge has accepted.
    elapsed: Duration,
    /// The total length of the windows without a message since the last window that had a message. A window with an
    /// unknown number of messages sets this length to 0.
    silent: Duration,
    /// The value of `elapsed` when the present level began.
    since: Duration,
    health: Health,
    /// Whether the last window changed the health.
    has_changed: bool,
    /// The number of windows that were compared with the expectations, by level.
    windows: [u64; Level::ALL.len()],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No message was received yet.
    NoMessageYet,
    /// Messages were received in an earlier window. So the next window is a whole window, and is compared with the
    /// conditions.
    Judging {
        /// The count of good windows since messages resumed after silence. `None` if there was no silence, or if there
        /// were enough good windows since the silence.
        after_silence: Option<AfterSilence>,
    },
    Silent,
}

/// Counts the good windows in a row after silence. In a good window, no condition is violated. A good window also has
/// messages, unless the source may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AfterSilence {
    windows: u32,
    /// The value of `elapsed` when the first of these windows began.
    since: Duration,
}

/// A condition, and its results in the windows up to now.
#[derive(Clone, Debug)]
struct Judged {
    level: Level,
    condition: Condition,
    fails: bool,
    /// The number of the latest windows in a row whose result contradicts `fails`.
    opposed: u32,
    /// The value of `Judge::elapsed` when the first window with the opposite result began.
    opposed_since: Duration,
    /// The value of `Judge::elapsed` when `fails` last changed.
    since: Duration,
    /// The last value that was compared with the condition; NaN if the value was missing. `None` before the first
    /// value.
    value: Option<f64>,
    /// The last value that violated the condition, in the unit of the condition's quantity.
    violated_by: f64,
    /// If the last value that violated the condition was missing, the reason; `None` if this value was measured.
    missing: Option<Missing>,
}

/// A condition and its result in the last window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct JudgedCondition<'a> {
    /// The level of the source while this condition fails.
    pub level: Level,
    /// The condition.
    pub condition: &'a Condition,
    /// Whether the condition fails: enough windows in a row violated it.
    pub fails: bool,
    /// The last value that was compared with the condition, in the unit of the condition's quantity; NaN if the value
    /// was missing. `None` before the first value.
    pub value: Option<f64>,
}

impl Judge {
    /// Creates the judge of a source that has had no window yet.
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

    /// Assumes that the source had messages before its first window. Then the judge does not wait for a first message,
    /// and silence at the start is stale after the same time as silence after a message. An example is a map that was
    /// published before the first window, and is not published again.
    #[must_use]
    pub fn after_messages(self) -> Self {
        Self { had_messages: true, ..self }
    }

    /// Returns the expectations of the source.
    pub fn expectations(&self) -> &Arc<Expectations> {
        &self.expectations
    }

    /// Returns the health after the last window.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Returns how many windows led to each level, in the order of [`Level::ALL`]. A window is not counted if the
    /// source still waits for its first message and this message is not overdue yet.
    pub fn windows(&self) -> [u64; Level::ALL.len()] {
        self.windows
    }

    /// Returns each condition with its last value. The conditions for ERROR come first.
    pub fn conditions(&self) -> impl Iterator<Item = JudgedCondition<'_>> {
        self.conditions.iter().map(|judged| JudgedCondition {
            level: judged.level,
            condition: &judged.condition,
            fails: judged.fails,
            value: judged.value,
        })
    }

    /// Accepts the next window. Returns the change if the level changed, or if the cause of a level other than
    /// [`Level::Ok`] changed.
    ///
    /// Windows have to follow each other without a gap. After a gap, use a new judge. `value` returns the window's
    /// value of a quantity. [Counted quantities](super) are an exception: the judge counts them itself, and calls
    /// `value` only for the bytes that it needs for this ([`Quantity::Bytes`]).
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
            // This window has history: messages that were published earlier. So the rate is counted from the next
            // window on.
            Phase::Judging { .. } if window.has_history => self.spans.clear(),
            Phase::Judging { after_silence } => self.judge(window, start, after_silence, &mut value),
        }
        if self.phase != Phase::NoMessageYet || self.health.level != Level::Ok {
            let windows = &mut self.windows[self.health.level as usize];
            *windows = windows.saturating_add(window.count);
        }
        self.health.window = Some(window.window);
        self.health.lasting = self.elapsed.saturating_sub(self.since);
        let stop = window.window.stop.as_nanoseconds();
        let since = stop.saturating_sub(nanoseconds(self.health.lasting));
        self.health.since = Some(Timestamp::from_nanoseconds(since));
        self.has_changed.then(|| Change { before, health: self.health.clone() })
    }

    /// Begins to compare windows with the expectations: after the first messages, or after the first messages that
    /// follow silence.
    fn begin(&mut self, start: Duration, is_after_silence: bool) {
        let after_silence = is_after_silence.then_some(AfterSilence { windows: 0, since: start });
        self.phase = Phase::Judging { after_silence };
        match is_after_silence {
            true => self.set(Level::Warn, Cause::MessagesAgain, start),
            false => self.set(Level::Ok, Cause::AsExpected, start),
        }
    }

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
            // The number of messages in this window is unknown, so a rate cannot be counted over this window. The next
            // count begins after this window.
            _ => self.spans.clear(),
        }
        let is_after_silence = after_silence.is_some();
        // If the source may be silent, windows without messages are good windows, too. For example, a map may be
        // published only once after silence.
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
        // The conditions for ERROR come first, so the result is a failing condition of the worst level.
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

    /// Sets the level and the cause. If the level or the cause changes, `since` is the time of the change.
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

/// A function that returns three values of a span (the messages of several windows in a row): the lowest value that is
/// possible with these messages, the counted value, and the highest possible value.
type Evidence = fn(&Span) -> (f64, f64, f64);

/// A quantity that is counted over as many windows as a decision needs.
struct Counted {
    looks_back: f64,
    evidence: Evidence,
}

impl Judged {
    /// The largest number of messages over which a rate is counted.
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

    /// Returns whether the condition is about the time since the last message. Such a condition fails after one window.
    fn is_of_silence(&self) -> bool {
        matches!(self.condition.quantity(), Quantity::Metric(Metric::TimeSinceLastMessage, _))
    }

    /// Returns how the quantity of the condition is counted; `None` if the quantity is not counted.
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
            // A limit in bytes per second does not say how many messages are needed for a decision, so the messages are
            // counted over a fixed time.
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

    /// Returns whether the windows up to now fulfill the condition; `None` if this is unknown.
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
            // These metrics can have samples in a window without messages: a callback or a goal that began earlier may
            // end, or a response may arrive.
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
            // The value was not measured, for example because the window has no period. So the value is computed from
            // the number of messages.
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

    /// Checks the condition over the shortest time before now that has enough messages for a decision.
    fn count(&mut self, spans: &Spans, counted: &Counted, has_messages: bool) -> Option<bool> {
        for span in spans.up_to_now() {
            if span.seconds == 0.0 {
                return None; // this window has no length, and the earlier windows were already checked
            }
            let (lowest, value, highest) = (counted.evidence)(&span);
            if value.is_nan() {
                return None; // the bytes of the messages are unknown
            }
            if let Some(fulfils) = self.condition.is_fulfilled_by_all(lowest, highest) {
                self.observe(value, fulfils);
                return Some(fulfils);
            }
            self.value = Some(value);
            if span.seconds >= counted.looks_back {
                // The counted messages prove no violation. A window without messages does not prove that the condition
                // is fulfilled, so its result is unknown.
                return has_messages.then_some(true);
            }
        }
        None // the messages of the next windows may decide
    }

    fn observe(&mut self, value: f64, fulfils: bool) {
        self.value = Some(value);
        if !fulfils {
            (self.violated_by, self.missing) = (value, None);
        }
    }

    /// Adds the result of the window that starts at `start`. After `windows` results in a row that contradict `fails`,
    /// changes `fails`.
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

    /// The time over which a condition on the bandwidth counts messages, in seconds.
    const BANDWIDTH_LOOKS_BACK: f64 = 60.0;
}

impl Span {
    /// Returns the rate in Hz: the lowest rate that is possible with these messages, the counted rate, and the highest
    /// possible rate.
    fn rate(&self) -> (f64, f64, f64) {
        let messages = self.messages as f64;
        ((messages - 1.0).max(0.0) / self.seconds, messages / self.seconds, (messages + 1.0) / self.seconds)
    }

    /// Returns the period in milliseconds: the lowest period that is possible with these messages, the counted period,
    /// and the highest possible period.
    fn period(&self) -> (f64, f64, f64) {
        let (lowest, rate, highest) = self.rate();
        (1e3 / highest, 1e3 / rate, 1e3 / lowest)
    }

    /// Returns the bytes per second: the lowest value that is possible with these messages, the counted value, and the
    /// highest possible value. NaN if the bytes are unknown.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_does_not_grow_with_the_number_of_windows() {
        let window = Window::from_nanoseconds(0, 1_000_000_000);
        let window = JudgedWindow::new(window, Duration::from_secs(1), Some(10));
        for text in ["rate>=0", "rate=0..10", "rate=5..10", "period<200", "period=0..200", "bandwidth>=0"] {
            let mut judge = Judge::new(Expectations::new().warn_unless(text.parse().unwrap()));
            // A limit of zero has no time of 100 messages.
            (0..100_000).for_each(|_| drop(judge.accept(&window, |_| Value::Measured(100.0))));
            assert!(judge.spans.len() <= 20, "{text}: {} spans", judge.spans.len());
        }
    }
}
