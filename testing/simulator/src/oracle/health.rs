// SPDX-License-Identifier: Apache-2.0

//! The health of a subscription after each window, by the rules of docs/health.md. Unlike the library, the oracle keeps
//! all windows and samples. So the simulation finds false alarms, missing alarms, and alarms at a wrong time.

use topic_statistics_core::{
    condition::{Condition, Conditions},
    health::{self, Expectations, Health, Level, Missing, Silence},
    Metric, WindowStatistics,
};

use super::distribution::relative_error;
use super::{Expected, Window};

#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// The lower limit of the rate, in Hz.
    Rate(f64),
    /// The upper limit of the mean age, in milliseconds. The limits of the variants below are in milliseconds, too.
    Age(f64),
    LargestAge(f64),
    /// The quantile, from 0 to 1, and its limit.
    AgeQuantile(f64, f64),
    CallbackDuration(f64),
    Silence(f64),
    NoLoss,
}

#[derive(Clone, Debug)]
pub struct Wanted {
    /// Each limit with the level that its violation raises. Limits for ERROR come first.
    pub limits: Vec<(Level, Limit)>,
    pub raise_after: u32,
    pub clear_after: u32,
    /// The silence after which the topic is stale, in nanoseconds; `None` for the default.
    pub stale_after: Option<i64>,
    pub silence: Silence,
}

/// The health of a subscription, window by window.
pub struct Judgement {
    pub wanted: Wanted,
    conditions: Vec<Condition>,
    /// The states that are possible after the windows so far. There can be several, because the library chooses over
    /// how many windows it counts a rate.
    states: Vec<State>,
    has_begun: bool,
    /// Whether the topic had messages before this judgement. If so, the judgement does not wait for a first message.
    had_messages: bool,
    is_silent: bool,
    /// The total length of the windows since the last message, in nanoseconds.
    silent: i64,
    /// The number of messages and the length in seconds of each window that can decide on a rate, the last window
    /// first.
    windows: Vec<(f64, f64)>,
    /// For each limit, the samples since its quantile was last compared. It is compared whenever there are enough
    /// samples.
    samples: Vec<Samples>,
    last: (Level, Cause),
    pub has_window: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    NoMessageYet,
    AsExpected,
    /// The condition with this index fails.
    Fails(usize),
    Silence,
    MessagesAgain,
}

#[derive(Clone, Debug, PartialEq)]
struct State {
    /// After silence, how many windows without a violation there have been; `None` if there was no silence, or if there
    /// were enough such windows.
    after_silence: Option<u32>,
    conditions: Vec<Progress>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Progress {
    fails: bool,
    /// How many of the latest windows in a row had a result that is the opposite of `fails`.
    opposed: u32,
    violated_by: Violation,
}

/// The value that violates a condition: either two bounds that enclose the library's value, or the fact that the value
/// is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Violation {
    lowest: f64,
    highest: f64,
    missing: Option<Missing>,
}

/// Whether a window fulfils a condition. If not, the value that violates the condition.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Fulfils,
    Violates(Violation),
    NotKnown,
}

#[derive(Clone, Debug, Default)]
struct Samples {
    known: Vec<f64>,
    unknown: usize,
}

impl Limit {
    /// Parses the output of [`text`](Self::text).
    fn parse(text: &str) -> Option<Self> {
        let condition = text.parse::<Conditions>().ok()?.into_iter().next()?;
        let limit = condition.upper_limit().or(condition.lower_limit())?;
        let name = text.split(['<', '=', '>']).next()?;
        Some(match (name, name.strip_prefix("age.p")) {
            ("rate", _) => Self::Rate(limit),
            ("age", _) => Self::Age(limit),
            ("age.max", _) => Self::LargestAge(limit),
            ("callback_duration.max", _) => Self::CallbackDuration(limit),
            ("silent", _) => Self::Silence(limit),
            ("lost", _) => Self::NoLoss,
            (_, Some(percent)) => Self::AgeQuantile(percent.parse::<f64>().ok()? / 100.0, limit),
            _ => return None,
        })
    }

    fn text(self) -> String {
        match self {
            Self::Rate(limit) => format!("rate>={limit}"),
            Self::Age(limit) => format!("age<{limit}"),
            Self::LargestAge(limit) => format!("age.max<{limit}"),
            Self::AgeQuantile(quantile, limit) => format!("age.p{}<{limit}", quantile * 100.0),
            Self::CallbackDuration(limit) => format!("callback_duration.max<{limit}"),
            Self::Silence(limit) => format!("silent<{limit}"),
            Self::NoLoss => "lost=0".to_owned(),
        }
    }

    pub fn metric(self) -> Option<Metric> {
        match self {
            Self::Rate(_) => None,
            Self::Age(_) | Self::LargestAge(_) | Self::AgeQuantile(..) => Some(Metric::MessageAge),
            Self::CallbackDuration(_) => Some(Metric::CallbackDuration),
            Self::Silence(_) => Some(Metric::TimeSinceLastMessage),
            Self::NoLoss => Some(Metric::PublicationSeqGap),
        }
    }

    fn limits_silence(self) -> bool {
        matches!(self, Self::Silence(_))
    }
}

impl Wanted {
    /// Parses the conditions of a node.
    pub fn parse(warn_unless: &str, error_unless: &str) -> Option<Self> {
        let limits = [(Level::Error, error_unless), (Level::Warn, warn_unless)];
        let limits = limits
            .into_iter()
            .flat_map(|(level, text)| text.split_whitespace().map(move |text| (level, text)));
        let limits =
            limits.map(|(level, text)| Some((level, Limit::parse(text)?))).collect::<Option<Vec<_>>>()?;
        Some(Self { limits, raise_after: 2, clear_after: 3, stale_after: None, silence: Silence::Stale })
    }

    /// Returns these expectations as the library's type.
    pub fn expectations(&self) -> Expectations {
        let conditions_of = |level: Level| {
            let limits = self.limits.iter().filter(|(limit_level, _)| *limit_level == level);
            limits.map(|(_, limit)| condition(*limit)).collect::<Conditions>()
        };
        let expectations = Expectations::new()
            .error_unless(conditions_of(Level::Error))
            .warn_unless(conditions_of(Level::Warn))
            .raise_after(self.raise_after)
            .clear_after(self.clear_after)
            .silence(self.silence);
        match self.stale_after {
            Some(time) => expectations.stale_after(std::time::Duration::from_nanos(time as u64)),
            None => expectations,
        }
    }

    pub fn needs_distributions(&self) -> bool {
        self.limits.iter().any(|(_, limit)| matches!(limit, Limit::AgeQuantile(..)))
    }

    /// Returns three times the longest period that the conditions accept, in nanoseconds.
    fn accepted(&self, period: impl Fn(Limit) -> Option<f64>) -> Option<f64> {
        self.limits
            .iter()
            .filter_map(|(_, limit)| period(*limit))
            .reduce(f64::max)
            .map(|longest| 3e9 * longest)
    }

    /// Returns the duration of silence after which the topic is stale, in nanoseconds.
    fn stale_after(&self) -> f64 {
        let accepted = self.accepted(|limit| match limit {
            Limit::Rate(rate) => Some(1.0 / rate),
            Limit::Silence(milliseconds) => Some(milliseconds * 1e-3),
            _ => None,
        });
        self.stale_after.map(|time| time as f64).or(accepted).unwrap_or(10e9)
    }

    /// Returns the time within which the first message is expected, in nanoseconds.
    fn first_message_within(&self) -> f64 {
        let of_rates = self.accepted(|limit| match limit {
            Limit::Rate(rate) => Some(1.0 / rate),
            _ => None,
        });
        of_rates.unwrap_or(0.0).max(10e9)
    }

    fn may_be_silent(&self) -> bool {
        self.stale_after.is_some() || self.limits.iter().any(|(_, limit)| limit.limits_silence())
    }
}

fn condition(limit: Limit) -> Condition {
    let conditions: Conditions = limit.text().parse().unwrap_or_else(|error| panic!("{error}"));
    conditions.into_iter().next().expect("one condition")
}

impl Judgement {
    /// A rate is counted over a limited time: the time in which this number of messages arrive at the limit's rate.
    const COUNTED: f64 = 100.0;
    /// The number of latest windows that the library certainly keeps separately. The library may join older windows, so
    /// their results are uncertain.
    const SINGLE: usize = 3;

    pub fn new(wanted: Wanted, had_messages: bool) -> Self {
        let count = wanted.limits.len();
        let progress = vec![Progress::default(); count];
        Self {
            conditions: wanted.limits.iter().map(|(_, limit)| condition(*limit)).collect(),
            wanted,
            states: vec![State { after_silence: None, conditions: progress }],
            has_begun: false,
            had_messages,
            is_silent: false,
            silent: 0,
            windows: vec![],
            samples: vec![Samples::default(); count],
            last: (Level::Ok, Cause::NoMessageYet),
            has_window: false,
        }
    }

    /// Judges the next window, and compares the library's health after this window. `health` is `None` if only
    /// `is_change` is known. `ours` has the library's figures. They are used where the oracle knows only bounds.
    pub fn check_window(
        &mut self,
        window: &Window,
        ours: &WindowStatistics,
        health: Option<&Health>,
        is_change: bool,
    ) -> Result<Level, String> {
        self.has_window = true;
        let length = window.stop - window.start;
        self.silent = if window.count == Some(0) { self.silent + length } else { 0 };
        let has_messages = window.count.is_some_and(|count| count > 0);
        let ages = Ages::new(window, ours);
        if window.has_distributions {
            self.samples.iter_mut().for_each(|samples| samples.add(&ages));
        }
        let silence = match self.wanted.silence {
            Silence::Stale => Level::Stale,
            Silence::Error => Level::Error,
            other => unreachable!("{other:?}"),
        };
        let possible = if self.has_begun && !self.is_silent {
            if self.silent > 0 && self.silent as f64 >= self.wanted.stale_after() {
                self.is_silent = true;
                vec![(silence, Cause::Silence)]
            } else {
                let length = length as f64 * 1e-9;
                self.judge(window, &ages, ours, length);
                self.states.iter().map(|state| self.worst_level(state)).collect()
            }
        } else if has_messages {
            // This window has the first messages, so it is not whole and is not judged. The next window is the first
            // one that is judged.
            let was_ok = self.last.0 == Level::Ok;
            let conditions = vec![Progress::default(); self.conditions.len()];
            self.states = vec![State { after_silence: (!was_ok).then_some(0), conditions }];
            (self.has_begun, self.is_silent) = (true, false);
            self.windows.clear();
            let begins = if was_ok { Cause::AsExpected } else { Cause::MessagesAgain };
            vec![(if was_ok { Level::Ok } else { Level::Warn }, begins)]
        } else {
            let (limit, cause) = match self.had_messages {
                true => (self.wanted.stale_after(), Cause::Silence),
                false => (self.wanted.first_message_within(), Cause::NoMessageYet),
            };
            let is_late = !self.has_begun && self.last.0 == Level::Ok && self.silent as f64 >= limit;
            vec![if is_late { (silence, cause) } else { self.last }]
        };
        let found = self.compare(&possible, health)?;
        let is_other = found.0 != self.last.0 || (found.0 != Level::Ok && found.1 != self.last.1);
        if is_other != is_change {
            return Err(format!("a change: {is_change}, expected {is_other}"));
        }
        self.last = found;
        for (samples, (_, limit)) in self.samples.iter_mut().zip(&self.wanted.limits) {
            let Limit::AgeQuantile(quantile, _) = limit else { continue };
            if samples.are_enough(*quantile) || found.1 == Cause::Silence {
                *samples = Samples::default();
            }
        }
        Ok(found.0)
    }

    /// Compares a health with the possible states, and keeps the states that agree.
    fn compare(
        &mut self,
        possible: &[(Level, Cause)],
        health: Option<&Health>,
    ) -> Result<(Level, Cause), String> {
        let has_cause = |health: &Health, cause: Cause| match (&health.cause, cause) {
            (health::Cause::NoMessageYet, Cause::NoMessageYet)
            | (health::Cause::AsExpected, Cause::AsExpected)
            | (health::Cause::Silence, Cause::Silence)
            | (health::Cause::MessagesAgain, Cause::MessagesAgain) => true,
            (health::Cause::Condition { condition, .. }, Cause::Fails(index)) => {
                *condition == self.conditions[index]
            }
            _ => false,
        };
        let agrees = |(level, cause): (Level, Cause), state: Option<&State>| {
            let Some(health) = health else {
                return level == self.last.0 && (level == Level::Ok || cause == self.last.1);
            };
            level == health.level
                && has_cause(health, cause)
                && match (&health.cause, cause, state) {
                    (health::Cause::Condition { value, missing, .. }, Cause::Fails(index), Some(state)) => {
                        state.conditions[index].violated_by.is(*value, *missing)
                    }
                    _ => true,
                }
        };
        let is_judged = possible.len() == self.states.len();
        let mut found = None;
        let mut kept = vec![];
        for (index, candidate) in possible.iter().enumerate() {
            let state = self.states.get(index).filter(|_| is_judged);
            if agrees(*candidate, state) {
                found = Some(*candidate);
                kept.extend(state.cloned());
            }
        }
        let Some(found) = found else {
            return Err(format!(
                "health {health:?}, expected {possible:?}\n  of {:?}, {:?}, silent for {} ns",
                self.wanted, self.states, self.silent
            ));
        };
        if !kept.is_empty() {
            self.states = kept;
        }
        Ok(found)
    }

    fn judge(&mut self, window: &Window, ages: &Ages, ours: &WindowStatistics, length: f64) {
        match window.count {
            Some(count) => self.windows.insert(0, (count as f64, length)),
            // If the number of messages in this window is unknown, earlier windows do not count for the rate.
            None => self.windows.clear(),
        }
        let limits = self.wanted.limits.iter().zip(&self.samples);
        let answers: Vec<Vec<Answer>> =
            limits.map(|((_, limit), samples)| self.answers(*limit, window, ages, ours, samples)).collect();
        // After silence, a window without messages counts as good only if the topic may be silent.
        let counts = window.count.is_some_and(|count| count > 0 || self.wanted.may_be_silent());
        let mut after: Vec<State> = vec![];
        for state in &self.states {
            let mut possible = vec![(state.clone(), false)];
            for (index, answers) in answers.iter().enumerate() {
                let limits_silence = self.wanted.limits[index].1.limits_silence();
                let raise = if limits_silence { 1 } else { self.wanted.raise_after };
                let clear = self.wanted.clear_after;
                let each = |(state, violated): &(State, bool)| {
                    let (state, violated) = (state.clone(), *violated);
                    answers.iter().map(move |answer| {
                        let mut state = state.clone();
                        state.conditions[index].update(*answer, raise, clear);
                        (state, violated || matches!(answer, Answer::Violates(_)))
                    })
                };
                possible = possible.iter().flat_map(each).collect();
            }
            for (mut state, violated) in possible {
                state.after_silence = state.after_silence.and_then(|windows| match windows {
                    _ if violated => Some(0),
                    windows if counts && windows + 1 >= self.wanted.clear_after => None,
                    windows => Some(windows + u32::from(counts)),
                });
                match after.iter_mut().find(|known| known.has_same_outcomes(&state)) {
                    Some(known) => known.widen(&state),
                    None => after.push(state),
                }
            }
        }
        self.states = after;
    }

    fn worst_level(&self, state: &State) -> (Level, Cause) {
        match state.conditions.iter().position(|condition| condition.fails) {
            Some(index) => (self.wanted.limits[index].0, Cause::Fails(index)),
            None if state.after_silence.is_some() => (Level::Warn, Cause::MessagesAgain),
            None => (Level::Ok, Cause::AsExpected),
        }
    }

    fn answers(
        &self,
        limit: Limit,
        window: &Window,
        ages: &Ages,
        ours: &WindowStatistics,
        samples: &Samples,
    ) -> Vec<Answer> {
        let has_messages = window.count != Some(0);
        // As docs/health.md says, a window without a message proves nothing about ages, losses and similar values.
        let if_any_message = |answer: Answer| vec![if has_messages { answer } else { Answer::NotKnown }];
        let below = |value: f64, limit: f64| match value {
            value if value < limit => Answer::Fulfils,
            value => Answer::Violates(Violation::by(value)),
        };
        let judge_ages = |value: fn(&[f64]) -> f64, ours: f64, limit: f64| match ages {
            Ages::Known(ages) => below(value(ages), limit),
            Ages::Some(_) => below(ours, limit),
            Ages::Missing(reason) => Answer::Violates(Violation::missing(*reason)),
            Ages::NotKnown => Answer::NotKnown,
        };
        let single = |metric: Metric| {
            let values = window.metrics.iter().find(|(measured, _)| *measured == metric);
            match values {
                Some((_, Expected::Samples(samples))) => samples.iter().copied().reduce(f64::max),
                _ => None,
            }
        };
        let summary = ours.get(Metric::MessageAge).copied().unwrap_or_default();
        match limit {
            Limit::Rate(limit) => self.rate(limit, has_messages),
            Limit::Age(limit) => if_any_message(judge_ages(
                |ages| ages.iter().sum::<f64>() / ages.len() as f64,
                summary.average,
                limit,
            )),
            Limit::LargestAge(limit) => if_any_message(judge_ages(
                |ages| ages.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                summary.maximum,
                limit,
            )),
            Limit::AgeQuantile(quantile, limit) => match ages {
                _ if !has_messages => vec![Answer::NotKnown],
                Ages::Missing(reason) => vec![Answer::Violates(Violation::missing(*reason))],
                Ages::NotKnown => vec![Answer::NotKnown],
                _ => samples.judge(quantile, limit),
            },
            // A callback may end in a window without a message, so its duration is compared in such a window, too.
            Limit::CallbackDuration(limit) => {
                vec![single(Metric::CallbackDuration).map_or(Answer::NotKnown, |value| below(value, limit))]
            }
            Limit::Silence(limit) => {
                vec![single(Metric::TimeSinceLastMessage)
                    .map_or(Answer::NotKnown, |value| below(value, limit))]
            }
            Limit::NoLoss => if_any_message(match window.lost {
                Some(0) => Answer::Fulfils,
                Some(lost) => Answer::Violates(Violation::by(lost as f64)),
                None => Answer::NotKnown,
            }),
        }
    }

    /// After the windows so far, returns the possible results of comparing the rate with this limit. n messages in a
    /// time prove a rate of n - 1 to n + 1 messages in this time.
    fn rate(&self, limit: f64, has_messages: bool) -> Vec<Answer> {
        if self.windows.first().is_some_and(|(_, length)| *length == 0.0) {
            return vec![Answer::NotKnown]; // this window has no length, and the earlier windows were already judged
        }
        let (mut messages, mut seconds) = (0.0, 0.0);
        let (mut fulfils, mut violates, mut decides_nothing) = (false, None::<Violation>, false);
        for (index, (count, length)) in self.windows.iter().enumerate() {
            messages += count;
            seconds += length;
            let answer = if (messages - 1.0) / seconds >= limit {
                Answer::Fulfils
            } else if (messages + 1.0) / seconds < limit {
                Answer::Violates(Violation::by(messages / seconds))
            } else if seconds < Self::COUNTED / limit {
                continue;
            } else if has_messages {
                Answer::Fulfils
            } else {
                Answer::NotKnown
            };
            if index < Self::SINGLE {
                return vec![answer];
            }
            match answer {
                Answer::Fulfils => fulfils = true,
                Answer::NotKnown => decides_nothing = true,
                Answer::Violates(by) => violates = Some(violates.map_or(by, |violation| violation.or(by))),
            }
            if seconds > 3.0 * Self::COUNTED / limit + 20.0 {
                break;
            }
        }
        let has_answer = fulfils || violates.is_some() || decides_nothing;
        let answers = [fulfils.then_some(Answer::Fulfils), violates.map(Answer::Violates)];
        let not_known =
            (decides_nothing || !has_answer || self.windows.len() > Self::SINGLE).then_some(Answer::NotKnown);
        answers.into_iter().chain([not_known]).flatten().collect()
    }
}

/// What the oracle knows about the ages of a window.
enum Ages {
    Known(Vec<f64>),
    /// Only the number of ages is known. The bounds of the ages are checked with the window's figures.
    Some(usize),
    Missing(Missing),
    NotKnown,
}

impl Ages {
    fn new(window: &Window, ours: &WindowStatistics) -> Self {
        let ages = window.metrics.iter().find(|(metric, _)| *metric == Metric::MessageAge);
        let count = ours.get(Metric::MessageAge).map_or(0, |ages| ages.sample_count) as usize;
        match ages {
            Some((_, Expected::Samples(samples) | Expected::SomeOf(samples, _)))
                if count > 0 && count == samples.len() =>
            {
                Self::Known(samples.clone())
            }
            Some((_, Expected::SomeOf(..))) if count > 0 => Self::Some(count),
            _ => window.missing.map_or(Self::NotKnown, Self::Missing),
        }
    }
}

impl Samples {
    fn add(&mut self, ages: &Ages) {
        match ages {
            Ages::Known(ages) => self.known.extend(ages),
            Ages::Some(count) => self.unknown += count,
            Ages::Missing(_) | Ages::NotKnown => {}
        }
    }

    /// Returns whether there are enough samples: a quantile `q` needs 1 / (1 - q) samples.
    fn are_enough(&self, quantile: f64) -> bool {
        (self.known.len() + self.unknown) as f64 * (1.0 - quantile) >= 1.0 - 1e-9
    }

    fn judge(&self, quantile: f64, limit: f64) -> Vec<Answer> {
        if !self.are_enough(quantile) {
            return vec![Answer::NotKnown];
        }
        if self.unknown > 0 {
            let any = Violation { lowest: limit, highest: f64::INFINITY, missing: None };
            return vec![Answer::Fulfils, Answer::Violates(any), Answer::NotKnown];
        }
        let mut sorted = self.known.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() as f64 * quantile - 1e-9).ceil() as usize;
        let exact = sorted[rank - 1];
        let error = exact.abs() * relative_error(&sorted) * (1.0 + 1e-9);
        let by = Violation { lowest: exact - error, highest: exact + error, missing: None };
        let near_zero = sorted.last().map_or(0.0, |last| last.abs().max(sorted[0].abs())) / 9e11;
        let answers = [
            (by.lowest < limit).then_some(Answer::Fulfils),
            (by.highest >= limit).then_some(Answer::Violates(by)),
            (exact.abs() <= near_zero && exact != 0.0).then_some(Answer::NotKnown),
        ];
        answers.into_iter().flatten().collect()
    }
}

impl State {
    /// Returns whether both states are equal, except for the values that violated their conditions.
    fn has_same_outcomes(&self, other: &Self) -> bool {
        let outcomes = |state: &Self| {
            let conditions = state.conditions.iter();
            let conditions: Vec<_> = conditions
                .map(|condition| (condition.fails, condition.opposed, condition.violated_by.missing))
                .collect();
            (state.after_silence, conditions)
        };
        outcomes(self) == outcomes(other)
    }

    fn widen(&mut self, other: &Self) {
        for (condition, other) in self.conditions.iter_mut().zip(&other.conditions) {
            condition.violated_by = condition.violated_by.or(other.violated_by);
        }
    }
}

impl Violation {
    fn missing(reason: Missing) -> Self {
        Self { lowest: 0.0, highest: 0.0, missing: Some(reason) }
    }

    fn by(value: f64) -> Self {
        Self { lowest: value, highest: value, missing: None }
    }

    fn or(self, other: Self) -> Self {
        Self {
            lowest: self.lowest.min(other.lowest),
            highest: self.highest.max(other.highest),
            missing: self.missing,
        }
    }

    fn is(self, value: f64, missing: Option<Missing>) -> bool {
        let size = self.lowest.abs().max(self.highest.abs()).max(1.0) * 1e-9;
        match missing {
            Some(_) => missing == self.missing && value.is_nan(),
            None => self.missing.is_none() && value >= self.lowest - size && value <= self.highest + size,
        }
    }
}

impl Progress {
    fn update(&mut self, answer: Answer, raise: u32, clear: u32) {
        let fulfils = match answer {
            Answer::NotKnown => return,
            Answer::Fulfils => true,
            Answer::Violates(by) => {
                self.violated_by = by;
                false
            }
        };
        if fulfils != self.fails {
            self.opposed = 0;
            return;
        }
        self.opposed += 1;
        if self.opposed >= if fulfils { clear } else { raise } {
            (self.fails, self.opposed) = (!self.fails, 0);
        }
    }
}
