// SPDX-License-Identifier: Apache-2.0

//! What is wrong with a condition, and where.

use std::ops::Range;

use super::units;
use crate::{
    escape::Escaped,
    metric::{nearest, Metric},
};

/// A condition that cannot be read. Its text names the place, the mistake and the correct form.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{problem} (character {character} of \"{text}\")", character = self.character(), text = Escaped(&self.text))]
pub struct ConditionError {
    text: Box<str>,
    place: Range<usize>,
    problem: ConditionProblem,
}

impl ConditionError {
    pub(super) fn new(text: &str, place: Range<usize>, problem: ConditionProblem) -> Self {
        Self { text: text.into(), place, problem }
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the place of the wrong part in the text, in bytes. It is empty where something is missing at the end.
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Returns what is wrong.
    pub fn problem(&self) -> &ConditionProblem {
        &self.problem
    }

    /// Returns the number of the first wrong character, from 1.
    fn character(&self) -> usize {
        self.text[..self.place.start].chars().count() + 1
    }
}

/// The mistake in a condition. Words are quoted as written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionProblem {
    /// The text is empty.
    #[error("there is no condition; an example is rate>=90")]
    Empty,
    /// There is no name before the colon.
    #[error("a topic is missing before \":\"; an example is /imu: rate>=90")]
    EmptyTopic,
    /// No topic and no source has such a name.
    #[error("the topic {} has a control character, which no name has", quoted(topic))]
    ControlCharacter {
        /// The topic.
        topic: String,
    },
    /// There is something else where a metric is expected.
    #[error("a metric is missing before {}; {}", quoted(found), metrics())]
    MissingMetric {
        /// What is there; empty at the end.
        found: String,
    },
    /// A topic without the colon after it.
    #[error("a colon is missing after the topic {}; an example is /imu: rate>=90", quoted(topic))]
    MissingColon {
        /// What seems to be a topic.
        topic: String,
    },
    /// There is no such metric.
    #[error("there is no metric {}; {}", quoted(name), similar(name).unwrap_or_else(metrics))]
    UnknownMetric {
        /// Its name.
        name: String,
    },
    /// There is no such figure.
    #[error(
        "there is no figure {}; it has to be one of mean, min, max, std, count, p50, p90, p99, p999",
        quoted(figure)
    )]
    UnknownFigure {
        /// Its name.
        figure: String,
    },
    /// A quantity that is one value has no figures.
    #[error("{} is one value per window and has no figure {}", quoted(name), quoted(figure))]
    NoFigures {
        /// The quantity.
        name: String,
        /// The figure.
        figure: String,
    },
    /// One sample has no percentiles and no standard deviation.
    #[error("{} has one sample per window, and that has no {}", quoted(name), quoted(figure))]
    OneSample {
        /// The metric.
        name: String,
        /// The figure.
        figure: String,
    },
    /// There is something else where an operator is expected.
    #[error("{} is followed by {} instead of one of < <= > >= = == !=", quoted(after), quoted(found))]
    MissingOperator {
        /// The metric before it.
        after: String,
        /// What is there; empty at the end.
        found: String,
    },
    /// The value is not a number, or not a finite one.
    #[error("{} needs a number, such as 90 or 0.5, not {}", quoted(name), quoted(value))]
    NoNumber {
        /// The metric.
        name: String,
        /// What is there; empty at the end.
        value: String,
    },
    /// The quantity cannot have this unit.
    #[error("{} cannot have the unit {}; {}", quoted(name), quoted(unit), units::names(own))]
    UnknownUnit {
        /// The quantity.
        name: String,
        /// The unit.
        unit: String,
        /// The quantity's own [unit](super::Quantity::unit).
        own: &'static str,
    },
    /// A tolerance is a percentage.
    #[error("a tolerance is a percentage from 0, such as ±10%, not {}", quoted(tolerance))]
    NoPercentage {
        /// What is there.
        tolerance: String,
    },
    /// The start of the range is above its end.
    #[error("the range {} is empty: its start is above its end", quoted(range))]
    EmptyRange {
        /// The range.
        range: String,
    },
    /// The start of the range has a unit, and its end has none.
    #[error(
        "the end of the range {} needs a unit, too; a unit at the end alone is that of both",
        quoted(range)
    )]
    HalfUnit {
        /// The range.
        range: String,
    },
    /// A range is compared by an operator that needs one number.
    #[error("a range or a tolerance needs = or !=, not {operator}")]
    RangeNeedsEqual {
        /// The operator.
        operator: &'static str,
    },
}

/// Quotes a word, without control characters; `the end` if it is empty.
fn quoted(word: &str) -> String {
    match word {
        "" => "the end".to_owned(),
        _ => format!("\"{}\"", Escaped(word)),
    }
}

/// Returns all quantities for an error message.
fn metrics() -> String {
    "it has to be one of rate, period, age, bandwidth, received, bytes, lost, out_of_order, publishers, gap, silent, \
     or the name of a metric, such as callback_duration_ms (docs/statistics.md lists them)"
        .to_owned()
}

fn similar(name: &str) -> Option<String> {
    let short = [
        "rate",
        "period",
        "age",
        "bandwidth",
        "received",
        "bytes",
        "lost",
        "out_of_order",
        "publishers",
        "gap",
        "silent",
        "skipped",
    ];
    let names = short.into_iter().chain(Metric::ALL.iter().map(|metric| metric.name()));
    nearest(name, names).map(|nearest| format!("perhaps {nearest} is meant"))
}
