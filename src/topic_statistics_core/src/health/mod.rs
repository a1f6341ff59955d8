// SPDX-License-Identifier: Apache-2.0

//! Decides whether a topic is as expected. The module is a state machine. Finished windows are its only input.
//!
//! [`Expectations`] are conditions for [`Level::Warn`] and [`Level::Error`], and the times after which silence is
//! [`Level::Stale`]. A [`Judge`] accepts one window after the other, without a gap, compares each window with the
//! expectations, and returns each change.
//!
//! # The rules
//!
//! - **A condition fails** after two windows in a row that violate it, and holds again after three windows in a row
//!   that fulfill it ([`raise_after`](Expectations::raise_after) and [`clear_after`](Expectations::clear_after) change
//!   these numbers). The level of a source is the worst level of its failing conditions. A condition on `silent` fails
//!   after one window.
//! - **A [value](Value) has one of three states**: measured, unknown, or missing because of a fault of the source. A
//!   missing value violates its condition. An unknown value neither fulfills nor violates its condition: the window is
//!   ignored for the condition.
//! - **A window without a message** proves nothing, with one exception: it can prove that a limit is violated, for
//!   example the lower limit of a rate.
//! - **A rate is counted.** The start and the end of a window can each cut a period in two, so n messages prove only a
//!   rate of `n - 1` to `n + 1` messages in the window's time. The rate is checked over the shortest time before now
//!   that has enough messages for a decision: at most the time that 100 messages take at the limit of the condition. If
//!   this time is not enough to decide, the condition does not fail. So a condition never fails if every period of the
//!   topic keeps the limit, even if the topic is slow and the windows are short. A rate that misses its limit by 2 % or
//!   more is detected. `bandwidth` and `frequency_hz` are counted in the same way, and so are the mean, minimum and
//!   maximum of a period in windows without a period.
//! - **Stale means silence** and nothing else. A source is stale if its silence lasts for three times the longest
//!   period that the conditions on `rate`, `period` or `silent` accept. Without such a condition, it is stale after a
//!   silence of 10 s. In both cases, the silence has to last for at least a whole window. The level changes after the
//!   first window at whose end the silence has lasted this long.
//! - **A latched topic** (all its publishers are transient local) may be published only once. Its silence is stale only
//!   if `rate`, `period` or [`stale_after`](Expectations::stale_after) limits the silence. A publisher delivers its
//!   history when a subscription matches it. A window with history is not compared with the conditions.
//! - **After silence** the level is [`Level::Warn`] until `clear_after` windows in a row had messages and violated no
//!   condition. A window with an unknown number of messages does not count. Windows without messages count if `silent`
//!   or [`stale_after`](Expectations::stale_after) limits the silence.
//! - **At the start** no window is compared with the conditions until the first message. The next whole window is the
//!   first one that is compared. A topic without any message is stale after 10 s, or after three times the longest
//!   period that its conditions accept if this time is longer.
//!
//! ```
//! use topic_statistics_core::health::{Expectations, JudgedWindow, Judge, Level, Value};
//! use topic_statistics_core::{condition::Quantity, Window};
//! use std::time::Duration;
//!
//! let expectations = Expectations::new().warn_unless("rate=90..110".parse()?).error_unless("rate>=50".parse()?);
//! let mut judge = Judge::new(expectations);
//! let mut judge_second = |second: i64, messages: u64| {
//!     let window = Window::from_nanoseconds(second * 1_000_000_000, (second + 1) * 1_000_000_000);
//!     let window = JudgedWindow::new(window, Duration::from_secs(1), Some(messages));
//!     judge.accept(&window, |_: Quantity| Value::Unknown) // a rate needs no other value
//! };
//! assert!(judge_second(0, 100).is_none() && judge_second(1, 100).is_none());
//! assert!(judge_second(2, 41).is_none());
//! let change = judge_second(3, 41).unwrap();
//! assert_eq!((change.before, change.health.level), (Level::Ok, Level::Error));
//! assert_eq!(change.health.to_string(), "rate 41 Hz, expected at least 50, since 2 s");
//! # Ok::<(), topic_statistics_core::condition::ConditionError>(())
//! ```

mod judge;
mod node;
mod spans;
mod text;
mod value;
mod values;

pub use judge::{Change, Judge, JudgedCondition, JudgedWindow};
#[doc(hidden)] // for the expectations of a whole node
pub use node::{check, needed, Names, NodeExpectations};
pub use value::{Missing, Value};
pub use values::{LastWindow, SourceStatus, CALLBACK_WAIT, LONGEST_CALLBACK, WINDOWS_JUDGED};

use std::time::Duration;

use crate::{
    condition::{Condition, Conditions, Figure, Quantity},
    metric::Metric,
    timestamp::Timestamp,
    window::Window,
};

/// The level of a source, with the values and names of `diagnostic_msgs/msg/DiagnosticStatus`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Level {
    /// The source is as expected, or nothing is known about the source yet.
    #[default]
    Ok = 0,
    /// A condition for WARN fails, or messages have only recently resumed after silence.
    Warn = 1,
    /// A condition for ERROR fails, or the source is silent and the expectations say that silence is an error.
    Error = 2,
    /// The source is silent: it has no messages.
    Stale = 3,
}

impl Level {
    /// All levels, in the order of their values.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Warn, Self::Error, Self::Stale];

    /// Returns the word of diagnostic_msgs: `OK`, `WARN`, `ERROR`, `STALE`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
            Self::Stale => "STALE",
        }
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The level that silence leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Silence {
    /// Silence leads to [`Level::Stale`].
    #[default]
    Stale,
    /// Silence leads to [`Level::Error`].
    Error,
}

/// The expectations of a source: conditions, and limits for silence.
///
/// ```
/// # extern crate topic_statistics_core as rclrs_topic_statistics;
/// use rclrs_topic_statistics::health::Expectations;
/// use std::time::Duration;
///
/// let lidar = Expectations::new()
///     .warn_unless("rate=10±10% age<80ms".parse()?)
///     .error_unless("rate>=5 age<200ms".parse()?)
///     .raise_after(3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Expectations {
    pub(crate) warn_unless: Vec<Condition>,
    pub(crate) error_unless: Vec<Condition>,
    pub(crate) raise_after: u32,
    pub(crate) clear_after: u32,
    pub(crate) first_message_within: Option<Duration>,
    pub(crate) stale_after: Option<Duration>,
    pub(crate) silence: Silence,
}

impl Default for Expectations {
    fn default() -> Self {
        Self {
            warn_unless: vec![],
            error_unless: vec![],
            raise_after: Self::RAISE_AFTER,
            clear_after: Self::CLEAR_AFTER,
            first_message_within: None,
            stale_after: None,
            silence: Silence::Stale,
        }
    }
}

impl Expectations {
    const RAISE_AFTER: u32 = 2;
    const CLEAR_AFTER: u32 = 3;
    /// How long to wait for the first message, and how long silence may last after a message, unless the conditions set
    /// another time.
    const SILENCE: Duration = Duration::from_secs(10);
    /// Silence is stale after this number of periods. The period is the longest period that the conditions accept.
    const SILENT_PERIODS: f64 = 3.0;

    /// Returns expectations without conditions: the source is only expected to have messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds conditions. If one of these conditions fails, the level is [`Level::Warn`] or worse.
    pub fn warn_unless(mut self, conditions: Conditions) -> Self {
        self.warn_unless.extend(conditions.0);
        self
    }

    /// Adds conditions. If one of these conditions fails, the level is [`Level::Error`].
    pub fn error_unless(mut self, conditions: Conditions) -> Self {
        self.error_unless.extend(conditions.0);
        self
    }

    /// Sets the number of windows in a row that have to violate a condition until the condition fails; 0 means 1.
    /// Default: 2.
    pub fn raise_after(self, windows: u32) -> Self {
        Self { raise_after: windows.max(1), ..self }
    }

    /// Sets how a condition that fails ends to fail: after this number of windows in a row that fulfill it; 0 means 1.
    /// Default: 3.
    pub fn clear_after(self, windows: u32) -> Self {
        Self { clear_after: windows.max(1), ..self }
    }

    /// Sets how long to wait for the first message. Default: 10 s, or three times the longest period that a condition
    /// accepts if this time is longer.
    pub fn first_message_within(self, time: Duration) -> Self {
        Self { first_message_within: Some(time), ..self }
    }

    /// Sets how long a source has to be silent to be stale. The silence always has to last for at least a whole window.
    /// With [`Duration::MAX`], the source is never stale. Default: three times the longest period that a condition
    /// accepts, or 10 s without such a condition.
    pub fn stale_after(self, time: Duration) -> Self {
        Self { stale_after: Some(time), ..self }
    }

    /// Sets the level that silence leads to. This level also applies if the first message does not arrive in time.
    /// Default: [`Silence::Stale`].
    pub fn silence(self, silence: Silence) -> Self {
        Self { silence, ..self }
    }

    /// Returns the conditions. The conditions for ERROR come first.
    pub fn conditions(&self) -> impl Iterator<Item = (Level, &Condition)> {
        let errors = self.error_unless.iter().map(|condition| (Level::Error, condition));
        errors.chain(self.warn_unless.iter().map(|condition| (Level::Warn, condition)))
    }

    /// Returns these expectations for a source that may be silent. The silence of such a source is stale only if an
    /// option or a condition limits the silence.
    pub(crate) fn with_silence(self) -> Self {
        let is_limited = self.conditions().any(|(_, condition)| longest_period(condition).is_some());
        let never = |limit: Option<Duration>| limit.or((!is_limited).then_some(Duration::MAX));
        Self {
            first_message_within: never(self.first_message_within),
            stale_after: never(self.stale_after),
            ..self
        }
    }

    /// Returns these expectations for a latched topic, whose publishers are transient local and may publish only once.
    /// Silence after the first message is stale only if an option or a condition limits the silence.
    pub fn latched(self) -> Self {
        Self { stale_after: self.clone().with_silence().stale_after, ..self }
    }

    /// Returns how long silence has to last to be stale. A [`Judge`] also requires at least one whole window of
    /// silence.
    fn silence_limit(&self) -> Duration {
        self.stale_after.unwrap_or_else(|| {
            let accepted = self.conditions().filter_map(|(_, condition)| {
                let silent =
                    matches!(condition.quantity(), Quantity::Metric(Metric::TimeSinceLastMessage, _));
                let limit = condition.upper_limit().filter(|_| silent).map(|silent| silent * 1e-3);
                limit.or_else(|| longest_period(condition))
            });
            let accepted = accepted.reduce(f64::max).map(|period| seconds(Self::SILENT_PERIODS * period));
            accepted.unwrap_or_else(|| self.default_limit())
        })
    }

    fn first_message_limit(&self) -> Duration {
        self.first_message_within.unwrap_or_else(|| self.default_limit())
    }

    /// Returns 10 s, or three times the longest period that the conditions have as a limit, if this time is longer.
    fn default_limit(&self) -> Duration {
        let shortest = |condition: &Condition| match condition.quantity() {
            Quantity::Rate => condition.upper_limit().map(|rate| 1.0 / rate.max(0.0)),
            Quantity::Metric(metric, _) if metric.is_period() => {
                condition.lower_limit().map(|period| period * 1e-3)
            }
            _ => None,
        };
        let periods =
            self.conditions().filter_map(|(_, condition)| longest_period(condition).or(shortest(condition)));
        let longest = periods.reduce(f64::max).map(|period| seconds(Self::SILENT_PERIODS * period));
        longest.unwrap_or_default().max(Self::SILENCE)
    }
}

/// Returns the longest period that a condition accepts, in seconds; infinite if the condition accepts any period.
/// `None` if the condition does not limit periods.
fn longest_period(condition: &Condition) -> Option<f64> {
    match condition.quantity() {
        // A rate of 0 means an infinite period.
        Quantity::Rate | Quantity::Metric(Metric::Frequency, Figure::Average) => {
            condition.lower_limit().map(|rate| 1.0 / rate.max(0.0))
        }
        Quantity::Metric(metric, Figure::Average | Figure::Maximum) if metric.is_period() => {
            condition.upper_limit().map(|period| period * 1e-3)
        }
        _ => None,
    }
}

/// Converts seconds into a duration; the longest duration if the seconds are infinite.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// The health of a source. `Display` writes one sentence: `rate 41.2 Hz, expected 90 to 110, since 3 s`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// The level of the source.
    pub level: Level,
    /// The cause of the level.
    pub cause: Cause,
    /// The last window that the source's [`Judge`] accepted, on the system clock; `None` before the first window.
    pub window: Option<Window>,
    /// The start of the first window with this level, on the system clock; `None` before the first window.
    pub since: Option<Timestamp>,
    /// The time from `since` to the end of the last window, on the monotonic clock.
    pub lasting: Duration,
}

/// The reason for a source's level.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The source has had no message yet.
    #[default]
    NoMessageYet,
    /// All conditions are fulfilled.
    AsExpected,
    /// A condition fails. If several conditions fail, this is the first failing condition of the worst level.
    Condition {
        /// The condition, with its limits.
        condition: Condition,
        /// The last value that violated the condition, in the unit of the condition's quantity; NaN if the value was
        /// [missing](Value::Missing).
        value: f64,
        /// Why the value was missing; `None` if the value was measured.
        missing: Option<Missing>,
    },
    /// The source has no messages any more.
    Silence,
    /// The source has messages again after silence, but too few windows with messages since then for the level OK.
    MessagesAgain,
}

impl Cause {
    /// Returns whether two causes are the same. The value that violated a condition is not compared.
    fn is_the_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Condition { condition, .. }, Self::Condition { condition: other, .. }) => {
                condition == other
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

#[cfg(test)]
mod tests;
