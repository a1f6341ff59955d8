// SPDX-License-Identifier: Apache-2.0

//! The error of a condition: the mistake, and its place in the text.

use std::ops::Range;

use crate::{
    escape::Escaped,
    metric::{nearest, Metric},
};

/// The error for a condition that cannot be read. Its text names the place, the mistake and the correct form.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{problem} (character {character} of \"{text}\")", character = self.character(), text = Escaped(&self.text))]
pub struct ConditionError {
    text: Box<str>,
    place: Range<usize>,
    problem: String,
}

/// A wrong word of a condition, and the description of the mistake.
pub(super) type Wrong<'a> = (&'a str, String);

impl ConditionError {
    pub(super) fn new(text: &str, place: Range<usize>, problem: String) -> Self {
        Self { text: text.into(), place, problem }
    }

    /// Returns the whole text of the conditions.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the place of the wrong part in the text, as a range of bytes. The range is empty if something is missing
    /// at the end of the text.
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Returns the number of the first wrong character, counted from 1.
    fn character(&self) -> usize {
        self.text[..self.place.start].chars().count() + 1
    }
}

/// Quotes a word, without control characters. An empty word becomes `the end`.
pub(super) fn quoted(word: &str) -> String {
    match word {
        "" => "the end".to_owned(),
        _ => format!("\"{}\"", Escaped(word)),
    }
}

/// All quantities, for an error message.
pub(super) const QUANTITIES: &str =
    "it has to be one of rate, period, age, bandwidth, received, bytes, lost, out_of_order, publishers, gap, silent, \
     or the name of a metric, such as callback_duration_ms (docs/statistics.md lists them)";

/// Returns the text of the error for the name of a metric that does not exist.
pub(super) fn unknown_metric(name: &str) -> String {
    let hint = similar(name).unwrap_or_else(|| QUANTITIES.to_owned());
    format!("there is no metric {}; {hint}", quoted(name))
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
