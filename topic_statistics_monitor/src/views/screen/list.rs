// SPDX-License-Identifier: Apache-2.0

//! The list of rows in the live view: the header, and the lines of a row.

use std::time::Instant;

use ratatui::{
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use topic_statistics_core::Summary;
use topic_statistics_observe::{
    format::{self, count_if_known, end_of, figure, seconds, start_of},
    row::{Kind, Row, Status, Window},
};

use crate::views::sparkline::sparkline;

/// From this width on, the list has room for all columns, and a row has one line instead of two.
const WIDE: u16 = 175;
/// The width of the columns that are always shown: publishers, losses, silence and six columns of numbers.
const ALWAYS: usize = 16 + 6 * FIGURE;
/// The width of a column of numbers, with the blank before the number.
const FIGURE: usize = 7;
/// The minimum width of a name. If the list becomes wider, it first gets more columns, and then longer names.
const NAME: usize = 19;
/// The width of the column with the message type, which is on the second line of a row, or on the only line of a row in
/// a wide list.
const TYPE: usize = 27;
/// The width of the state, which is next to the message type.
const STATE: usize = 11;

/// A column of numbers: its group, its title, how many optional columns must fit before it is shown, and its value.
struct Figure(Group, &'static str, usize, fn(&Row, Instant) -> f64);

/// A group of neighbouring columns that share a title.
#[derive(Clone, Copy, PartialEq)]
enum Group {
    Rate,
    Bandwidth,
    Period,
    PeriodPercentiles,
    Age,
    AgePercentiles,
}

/// The columns of numbers, from left to right.
const FIGURES: [Figure; 11] = [
    Figure(Group::Rate, "rate", 0, |row, _| row.window.as_ref().map_or(f64::NAN, |window| window.rate)),
    Figure(Group::Bandwidth, "B/s", 3, |row, _| row.window.as_ref().map_or(f64::NAN, Window::bandwidth)),
    Figure(Group::Period, "min", 4, |row, _| first(row).minimum),
    Figure(Group::Period, "mean", 0, |row, _| first(row).average),
    Figure(Group::Period, "max", 0, |row, _| first(row).maximum),
    Figure(Group::Period, "stdev", 5, |row, _| first(row).standard_deviation),
    Figure(Group::PeriodPercentiles, "p50", 2, |row, now| row.quantile(row.metrics()[0], 0.5, now)),
    Figure(Group::PeriodPercentiles, "p99", 0, |row, now| row.quantile(row.metrics()[0], 0.99, now)),
    Figure(Group::Age, "mean", 0, |row, _| row.figures(row.metrics()[1].name()).average),
    Figure(Group::AgePercentiles, "p50", 1, |row, now| row.quantile(row.metrics()[1], 0.5, now)),
    Figure(Group::AgePercentiles, "p99", 0, |row, now| row.quantile(row.metrics()[1], 0.99, now)),
];

/// Returns the statistics of the metric that is shown first. For a topic, this metric is the message period.
fn first(row: &Row) -> Summary {
    row.figures(row.metrics()[0].name())
}

/// The number of optional columns.
const MORE: usize = 5;

impl Group {
    /// Returns the title above `columns` columns. The title says that percentiles are of the last minute. Otherwise a
    /// percentile of the last minute that is higher than the maximum of the last window would seem wrong.
    fn title(self, columns: usize, kind: Kind) -> String {
        let width = columns * FIGURE;
        let [first, second] = kind.titles();
        let first = format!(" {first} ");
        let title = match self {
            Self::Rate => "Hz",
            Self::Bandwidth => "",
            Self::Period => &first,
            Self::Age => second,
            Self::PeriodPercentiles | Self::AgePercentiles if columns > 1 => "last minute",
            Self::PeriodPercentiles | Self::AgePercentiles => "1 min",
        };
        match columns {
            1 => format!("{title:>width$}"),
            _ => format!(" {title:-^width$}", width = width - 1),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Layout {
    width: usize,
    is_wide: bool,
    /// The number of optional columns that are shown.
    more: usize,
    /// The width of all columns of numbers.
    figures: usize,
    /// The width of the column of names.
    name: usize,
}

impl Layout {
    pub fn new(width: u16) -> Self {
        let is_wide = width >= WIDE;
        let width = usize::from(width);
        // In a wide list, a row's message type, state and sparkline are on the same line as its numbers.
        let beside = if is_wide { TYPE + STATE + 2 + 20 } else { 0 };
        let more = (width.saturating_sub(2 + NAME + ALWAYS + beside) / FIGURE).min(MORE);
        let figures = ALWAYS + more * FIGURE;
        let name = width.saturating_sub(2 + figures + beside).clamp(8, 60);
        Self { width, is_wide, more, figures, name }
    }

    pub fn lines_per_topic(self) -> usize {
        if self.is_wide {
            1
        } else {
            2
        }
    }

    fn figures(self) -> Vec<&'static Figure> {
        FIGURES.iter().filter(|Figure(_, _, rank, _)| *rank <= self.more).collect()
    }

    pub fn header(self, kind: Kind) -> Vec<Line<'static>> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let (name, figures) = (self.name, self.figures());
        let mut above = format!("  {:name$}    ", "");
        for group in figures.chunk_by(|one, other| one.0 == other.0) {
            above += &group[0].0.title(group.len(), kind);
        }
        let mut columns = format!("  {:name$} pub", kind.noun());
        columns.extend(figures.iter().map(|Figure(_, title, ..)| format!("{title:>FIGURE$}")));
        columns += "  lost  seen";
        if self.is_wide {
            columns += &format!(" {:TYPE$} {:STATE$}last minute", "type", "state");
        }
        vec![Line::styled(above, bold), Line::styled(columns, bold)]
    }

    pub fn topic_lines(self, row: &Row, is_selected: bool, now: Instant) -> Vec<Line<'static>> {
        let status = row.status(now);
        let (mark, style) = mark(status);
        let cursor = if is_selected { ">" } else { " " };
        let name_style = if is_selected { style.add_modifier(Modifier::REVERSED) } else { style };
        let emphasis = |is: bool| if is { style.add_modifier(Modifier::BOLD) } else { Style::new() };
        let is_lossy = row.lost.is_some_and(|lost| lost > 0);
        let is_stale = matches!(status, Status::Stale(_));
        let (lost, seen) = (count_if_known(row.lost), seconds(row.silence(now)));
        let mut line = vec![
            Span::raw(cursor),
            Span::styled(mark, style),
            Span::styled(cells(&format::name(&row.name), self.name, end_of), name_style),
            Span::raw(self.figures_of(row, now)),
            Span::styled(format!(" {lost:>5}"), emphasis(is_lossy)),
            Span::styled(format!(" {seen:>5}"), emphasis(is_stale)),
        ];
        let message_type = format::name(row.message_type.as_deref().unwrap_or("-"));
        let state = Span::styled(format!("{:STATE$}", status.text()), style);
        if self.is_wide {
            line.push(Span::raw(format!(" {} ", cells(&message_type, TYPE, start_of))));
            line.push(state);
            let used = 2 + self.name + self.figures + TYPE + STATE + 2;
            line.push(self.problem_or_sparkline(row, now, used));
            return vec![Line::from(line)];
        }
        let dim = Style::new().add_modifier(Modifier::DIM);
        let message_type = Span::styled(format!("{} ", cells(&message_type, TYPE, start_of)), dim);
        let rest = self.problem_or_sparkline(row, now, 4 + TYPE + 1 + STATE);
        let below = vec![Span::raw("    "), message_type, state, rest];
        vec![Line::from(line), Line::from(below)]
    }

    fn figures_of(self, row: &Row, now: Instant) -> String {
        let publishers = row.publisher_count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let mut columns = format!(" {publishers:>3}");
        let values = self.figures().into_iter().map(|Figure(.., value)| figure(value(row, now)));
        columns.extend(values.map(|value| format!("{value:>FIGURE$}")));
        columns
    }

    /// Returns the end of a line after `used` characters: the problem of the row, or the sparkline.
    fn problem_or_sparkline(self, row: &Row, now: Instant, used: usize) -> Span<'static> {
        match &row.problem {
            Some(problem) => Span::raw(start_of(problem.text(), self.width.saturating_sub(used))),
            None => Span::raw(sparkline(&row.history, now, self.width.saturating_sub(used + 1).min(60))),
        }
    }
}

/// Returns a text that fills `width` cells, shortened by `cut`. Some characters fill two cells.
fn cells(text: &str, width: usize, cut: fn(&str, usize) -> String) -> String {
    let mut characters = width;
    loop {
        let text = cut(text, characters);
        let filled = Span::raw(&*text).width();
        if filled <= width {
            return text + &" ".repeat(width - filled);
        }
        // A character fills one or two cells, so at least this number of characters has to be removed.
        characters = characters.saturating_sub((filled - width).div_ceil(2));
    }
}

fn mark(status: Status) -> (&'static str, Style) {
    let bold = |color| Style::new().fg(color).add_modifier(Modifier::BOLD);
    match status {
        Status::Error | Status::Failed(_) => ("✗", bold(Color::Red)),
        Status::Stale(_) => ("!", bold(Color::Red)),
        Status::Warned(_) | Status::Loss(_) => ("!", bold(Color::Yellow)),
        Status::Waiting => ("…", Style::new().add_modifier(Modifier::DIM)),
        Status::Ok | Status::Good => (" ", Style::new()),
    }
}
