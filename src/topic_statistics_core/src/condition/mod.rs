// SPDX-License-Identifier: Apache-2.0

//! Conditions on the values of a window: `rate>=90 age.p99<50ms lost=0`.
//!
//! ```text
//! [TOPIC:] METRIC[.FIGURE] OPERATOR VALUE
//! ```
//!
//! - `TOPIC` is the name of a topic or of a source; the program that reads the condition decides whether the name means
//!   a topic or a source. A topic also applies to the following conditions of the same text, up to the next topic:
//!   `/imu: rate>=90 age<50ms /scan: rate>=9`. Conditions before the first topic have no topic.
//! - `METRIC` is a [quantity](Quantity): `rate` (Hz), `bandwidth` (bytes/s), `received`, `bytes`, `lost`,
//!   `out_of_order`, `publishers`, or the name of a [`Metric`](crate::Metric), with or without `_ms`. Short names are
//!   `age`, `period`, `gap`, `silent` and `skipped`.
//! - `FIGURE` is a [figure](Figure) of a metric: `mean` (the default), `min`, `max` (the default of `busy`), `std`,
//!   `count`, `p50`, `p90`, `p99`, `p999`.
//! - `OPERATOR` is one of `<`, `<=`, `>`, `>=`, `=` (or `==`), `!=`.
//! - `VALUE` is a number. With `=` and `!=` the value can also be a range with both ends (`90..110`), or a number with
//!   a tolerance (`100±10%`, or `100+-10%`). A value without a unit is in the unit of the quantity: ms, Hz, bytes,
//!   bytes/s, %. Units are `ns`, `us`, `ms`, `s` and `min`; `Hz` and `kHz`; `B`, `kB`, `MB`, `GB`, `KiB`, `MiB` and
//!   `GiB`; the units of bytes with `/s`; `%`. In a range, a unit after the second number also applies to the first
//!   number. If the first number has a unit, the second number needs a unit, too.
//!
//! Spaces separate conditions. The value NaN fulfills no condition.
//!
//! ```
//! use topic_statistics_core::condition::{Condition, Conditions};
//!
//! let conditions: Conditions = "/imu: rate=100±10% age.p99<0.05s".parse()?;
//! let conditions: Vec<Condition> = conditions.into_iter().collect();
//! let [rate, age] = &conditions[..] else { panic!("two conditions") };
//! assert_eq!((rate.topic(), age.topic()), (Some("/imu"), Some("/imu")));
//! assert!(rate.is_fulfilled_by(91.0) && !rate.is_fulfilled_by(89.0) && !rate.is_fulfilled_by(f64::NAN));
//! assert!(age.is_fulfilled_by(49.9) && !age.is_fulfilled_by(50.0)); // milliseconds
//!
//! let error = "rate>=90 lost<fast".parse::<Conditions>().unwrap_err();
//! assert_eq!(&error.text()[error.place()], "fast");
//! # Ok::<(), topic_statistics_core::condition::ConditionError>(())
//! ```

use std::{fmt, str::FromStr};

use crate::escape::is_control;
use error::{quoted, QUANTITIES};
use expected::Expected;

pub use error::ConditionError;
pub use quantity::{Figure, Quantity};

mod error;
mod expected;
mod quantity;
#[cfg(test)]
mod tests;
mod units;

/// A list of conditions. Each condition is about one quantity. A parsed list has at least one condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions(pub(crate) Vec<Condition>);

impl Conditions {
    /// Returns each condition.
    pub fn iter(&self) -> std::slice::Iter<'_, Condition> {
        self.0.iter()
    }
}

impl FromIterator<Condition> for Conditions {
    fn from_iter<I: IntoIterator<Item = Condition>>(conditions: I) -> Self {
        Self(conditions.into_iter().collect())
    }
}

impl IntoIterator for Conditions {
    type Item = Condition;
    type IntoIter = std::vec::IntoIter<Condition>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A condition on one quantity. `Display` writes the text that was parsed, but without the spaces around the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    topic: Option<Box<str>>,
    quantity: Quantity,
    operator: Operator,
    expected: Expected,
    /// The quantity as it was written.
    name: Box<str>,
    /// The value as it was written.
    value: Box<str>,
}

impl Condition {
    /// Returns the topic or the source that this condition is about: the name that was written before this condition,
    /// or otherwise the last name before an earlier condition of the same text. `None` if no topic was written.
    pub fn topic(&self) -> Option<&str> {
        self.topic.as_deref()
    }

    /// Returns the quantity that this condition is about.
    pub fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// Returns whether a value fulfills this condition. The value is in the [unit](Quantity::unit) of the quantity. NaN
    /// never fulfills a condition.
    pub fn is_fulfilled_by(&self, value: f64) -> bool {
        let Expected { lowest, highest } = self.expected;
        match self.operator {
            Operator::Less => value < lowest,
            Operator::LessOrEqual => value <= lowest,
            Operator::Greater => value > highest,
            Operator::GreaterOrEqual => value >= highest,
            Operator::Equal => (lowest..=highest).contains(&value),
            Operator::NotEqual => value < lowest || value > highest,
        }
    }

    /// Returns the lowest value that fulfills this condition, in the unit of the quantity. With the operator `>`, only
    /// values above the result fulfill the condition, and not the result itself. `None` if the condition has no lower
    /// limit.
    pub fn lower_limit(&self) -> Option<f64> {
        match self.operator {
            Operator::Greater | Operator::GreaterOrEqual => Some(self.expected.highest),
            Operator::Equal => Some(self.expected.lowest),
            Operator::Less | Operator::LessOrEqual | Operator::NotEqual => None,
        }
    }

    /// Returns the highest value that fulfills this condition, in the unit of the quantity. With the operator `<`, only
    /// values below the result fulfill the condition, and not the result itself. `None` if the condition has no upper
    /// limit.
    pub fn upper_limit(&self) -> Option<f64> {
        match self.operator {
            Operator::Less | Operator::LessOrEqual => Some(self.expected.lowest),
            Operator::Equal => Some(self.expected.highest),
            Operator::Greater | Operator::GreaterOrEqual | Operator::NotEqual => None,
        }
    }

    /// Returns true if all values of a range fulfill this condition, and false if no value fulfills it. Returns `None`
    /// if only some values fulfill it, or if an end of the range is NaN.
    pub(crate) fn is_fulfilled_by_all(&self, lowest: f64, highest: f64) -> Option<bool> {
        let Expected { lowest: from, highest: to } = self.expected;
        let (all, none) = match self.operator {
            Operator::NotEqual => (highest < from || lowest > to, lowest >= from && highest <= to),
            _ => {
                let is_below = match self.operator {
                    Operator::Greater => highest <= to,
                    _ => self.lower_limit().is_some_and(|limit| highest < limit),
                };
                let is_above = match self.operator {
                    Operator::Less => lowest >= from,
                    _ => self.upper_limit().is_some_and(|limit| lowest > limit),
                };
                (self.is_fulfilled_by(lowest) && self.is_fulfilled_by(highest), is_below || is_above)
            }
        };
        (all || none).then_some(all)
    }

    /// Returns the expected values in words, in the unit of the quantity: `90 to 110`.
    pub(crate) fn expectation(&self) -> String {
        let Expected { lowest, highest } = self.expected;
        let (lowest, highest) = (Figures(lowest), Figures(highest));
        match self.operator {
            Operator::Less => format!("below {highest}"),
            Operator::LessOrEqual => format!("at most {highest}"),
            Operator::Greater => format!("above {lowest}"),
            Operator::GreaterOrEqual => format!("at least {lowest}"),
            Operator::Equal if lowest == highest => lowest.to_string(),
            Operator::Equal => format!("{lowest} to {highest}"),
            Operator::NotEqual if lowest == highest => format!("not {lowest}"),
            Operator::NotEqual => format!("not {lowest} to {highest}"),
        }
    }

    /// Returns the quantity as it was written, for example `age.max`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the condition as it was written, but without its topic and without spaces around the operator:
    /// `rate=100±10%`.
    pub fn requirement(&self) -> String {
        format!("{}{}{}", self.name, self.operator.sign(), self.value)
    }
}

/// A number for a human reader: with four significant digits, and without zeros at its end. NaN is written as `-`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Figures(pub(crate) f64);

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value.is_nan() {
            return f.write_str("-");
        }
        let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
        if !(-4.0..15.0).contains(&magnitude) {
            return write!(f, "{value:.3e}");
        }
        let text = format!("{value:.*}", (3.0 - magnitude).max(0.0) as usize);
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        f.write_str(text)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(topic) = self.topic() {
            write!(f, "{topic}: ")?; // a topic has no control characters
        }
        f.write_str(&self.requirement())
    }
}

impl FromStr for Conditions {
    type Err = ConditionError;

    /// If the text is wrong, returns an error with the place of the wrong word and with the words that are possible
    /// there.
    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let mut reader = Reader { text, rest: text.trim_start(), topic: None };
        let mut conditions = vec![];
        while !reader.rest.is_empty() {
            conditions.push(reader.condition()?);
        }
        match conditions.is_empty() {
            true => Err(reader.error("", "there is no condition; an example is rate>=90")),
            false => Ok(Self(conditions)),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    /// The last topic, which applies to the conditions that follow.
    topic: Option<Box<str>>,
}

impl<'a> Reader<'a> {
    fn condition(&mut self) -> Result<Condition, ConditionError> {
        self.read_topic()?;
        let name = self.word();
        if name.is_empty() {
            let found = first(self.rest);
            let problem = format!("a metric is missing before {}; {QUANTITIES}", quoted(found));
            return Err(self.error(found, problem));
        }
        if units::is_unit(name) {
            let problem = format!("the unit {} has to follow its number without a space", quoted(name));
            return Err(self.error(name, problem));
        }
        if self.is_topic_without_colon(name) {
            let name_and_example = format!("{}; an example is /imu: rate>=90", quoted(name));
            return Err(self.error(name, format!("a colon is missing after the topic {name_and_example}")));
        }
        let quantity = Quantity::parse(name).map_err(|(word, problem)| self.error(word, problem))?;
        let Some((sign, operator)) = Operator::at_start_of(self.rest) else {
            let found = first(self.rest);
            let instead = "instead of one of < <= > >= = == !=";
            let problem = format!("{} is followed by {} {instead}", quoted(name), quoted(found));
            return Err(self.error(found, problem));
        };
        let (operator_word, rest) = self.rest.split_at(sign.len());
        self.rest = rest.trim_start();
        let value = first(self.rest);
        let expected = Expected::parse(value, name, quantity.unit());
        let expected = expected.map_err(|(word, problem)| self.error(word, problem))?;
        if expected.lowest != expected.highest && !matches!(operator, Operator::Equal | Operator::NotEqual) {
            let problem = format!("a range or a tolerance needs = or !=, not {sign}");
            return Err(self.error(operator_word, problem));
        }
        self.rest = self.rest[value.len()..].trim_start();
        let topic = self.topic.clone();
        Ok(Condition { topic, quantity, operator, expected, name: name.into(), value: value.into() })
    }

    fn read_topic(&mut self) -> Result<(), ConditionError> {
        let operator = self.rest.find(SIGNS).unwrap_or(self.rest.len());
        // The name of a source may contain a colon, so the topic ends at the last colon.
        let Some((topic, _)) = self.rest[..operator].rsplit_once(':') else { return Ok(()) };
        let length = topic.len() + 1;
        let topic = topic.trim();
        if without_number(topic).contains(char::is_whitespace) {
            return Ok(());
        }
        if topic.is_empty() {
            let problem = "a topic is missing before \":\"; an example is /imu: rate>=90";
            return Err(self.error(&self.rest[..length], problem));
        }
        if topic.contains(is_control) {
            let problem = format!("the topic {} has a control character, which no name has", quoted(topic));
            return Err(self.error(topic, problem));
        }
        self.rest = self.rest[length..].trim_start();
        self.topic = Some(topic.into());
        Ok(())
    }

    fn word(&mut self) -> &'a str {
        let end = |c: char| c.is_whitespace() || c == ':' || SIGNS.contains(&c);
        let (word, rest) = self.rest.split_at(self.rest.find(end).unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        word
    }

    /// Returns whether a word is probably a topic whose colon was forgotten: the word is no metric, no colon follows,
    /// and either the word has a slash or a condition begins after it.
    fn is_topic_without_colon(&self, word: &str) -> bool {
        let is_metric = word.split('.').next().is_some_and(|name| Quantity::named(name).is_some());
        let mut next = Reader { text: self.text, rest: self.rest, topic: None };
        let has_colon = self.rest.split(SIGNS).next().is_some_and(|before| before.contains(':'));
        let is_condition = Quantity::parse(next.word()).is_ok() && Operator::at_start_of(next.rest).is_some();
        !is_metric && !has_colon && (word.contains('/') || is_condition)
    }

    /// Returns an error whose place is a word of the text. If the word is empty, the place is the end of the text.
    fn error(&self, word: &str, problem: impl Into<String>) -> ConditionError {
        let start = match word.is_empty() {
            true => self.text.trim_end().len(),
            false => word.as_ptr() as usize - self.text.as_ptr() as usize,
        };
        ConditionError::new(self.text, start..start + word.len(), problem.into())
    }
}

/// Returns the name of a source without its number. If two sources have the same node and name, a number is appended to
/// the second name: `/relay:/imu (2)` becomes `/relay:/imu`. `/relay:/imu (2)` becomes `/relay:/imu`.
fn without_number(topic: &str) -> &str {
    let parts = topic.strip_suffix(')').and_then(|topic| topic.rsplit_once(" ("));
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    parts.filter(|(_, number)| is_number(number)).map_or(topic, |(plain, _)| plain)
}

fn first(text: &str) -> &str {
    &text[..text.find(char::is_whitespace).unwrap_or(text.len())]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

const SIGNS: [char; 4] = ['<', '>', '=', '!'];

impl Operator {
    /// Returns the operator at the start of a text, and how the operator is written.
    fn at_start_of(text: &str) -> Option<(&'static str, Self)> {
        // Longer operators come first, because some operators begin with a shorter operator.
        let all = [
            ("<=", Self::LessOrEqual),
            (">=", Self::GreaterOrEqual),
            ("==", Self::Equal),
            ("!=", Self::NotEqual),
            ("<", Self::Less),
            (">", Self::Greater),
            ("=", Self::Equal),
        ];
        all.into_iter().find(|(sign, _)| text.starts_with(sign))
    }

    fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Equal => "=",
            Self::NotEqual => "!=",
        }
    }
}
