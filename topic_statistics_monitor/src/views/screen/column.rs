// SPDX-License-Identifier: Apache-2.0

//! The columns by which the live view can sort rows.

use std::{cmp::Ordering, time::Instant};

use topic_statistics_observe::row::{Kind, Row, Window};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Topic,
    State,
    Rate,
    Period,
    Age,
    Lost,
    Seen,
    Bandwidth,
}

impl Column {
    const ALL: [Self; 8] = [
        Self::Topic,
        Self::State,
        Self::Rate,
        Self::Period,
        Self::Age,
        Self::Lost,
        Self::Seen,
        Self::Bandwidth,
    ];

    /// Returns the name of the column in a list of rows of this kind.
    pub fn name(self, kind: Kind) -> &'static str {
        let [first, second] = kind.titles();
        match self {
            Self::Topic => kind.noun(),
            Self::State => "state",
            Self::Rate => "rate",
            Self::Period => first.trim_end_matches(" ms"),
            Self::Age => second.trim_end_matches(" ms"),
            Self::Lost => "lost",
            Self::Seen => "seen",
            Self::Bandwidth => "bandwidth",
        }
    }

    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|column| *column == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// Compares two rows by the column. Names are in alphabetical order. In the other columns, the worst state or the
    /// highest value comes first.
    pub fn compare(self, one: &Row, other: &Row, now: Instant) -> Ordering {
        let highest = |figure: &dyn Fn(&Row) -> f64| {
            let sort_key =
                |row| Some(figure(row)).filter(|value| !value.is_nan()).unwrap_or(f64::NEG_INFINITY);
            sort_key(other).total_cmp(&sort_key(one))
        };
        let column = match self {
            Self::Topic => Ordering::Equal,
            Self::State => one.status(now).cmp(&other.status(now)),
            Self::Rate => highest(&|row| row.window.as_ref().map_or(f64::NAN, |window| window.rate)),
            Self::Period => highest(&|row| row.figures(row.metrics()[0].name()).average),
            Self::Age => highest(&|row| row.figures(row.metrics()[1].name()).average),
            Self::Lost => other.lost.cmp(&one.lost),
            Self::Seen => highest(&|row| row.silence(now)),
            Self::Bandwidth => highest(&|row| row.window.as_ref().map_or(f64::NAN, Window::bandwidth)),
        };
        column.then_with(|| one.name.cmp(&other.name))
    }
}
