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
/// The width of the message type, which is on the second line of a row, or on the only line of a wide list.
const TYPE: usize = 27;
/// The width of the state, which is next to the message type.
const STATE: usize = 11;

struct Figure {
    group: Group,
    title: &'static str,
    /// The column is shown if the list has room for this number of optional columns.
    rank: usize,
    value: fn(&Row, Instant) -> f64,
}

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
const FIGURES: [Figure; 11] = {
    use Group::{Age, AgePercentiles, Bandwidth, Period, PeriodPercentiles, Rate};
    const fn figure(
        group: Group,
        title: &'static str,
        rank: usize,
        value: fn(&Row, Instant) -> f64,
    ) -> Figure {
        Figure { group, title, rank, value }
    }
    [
        figure(Rate, "rate", 0, |row, _| row.window.as_ref().map_or(f64::NAN, |window| window.rate)),
        figure(Bandwidth, "B/s", 3, |row, _| row.window.as_ref().map_or(f64::NAN, Window::bandwidth)),
        figure(Period, "min", 4, |row, _| first(row).minimum),
        figure(Period, "mean", 0, |row, _| first(row).average),
        figure(Period, "max", 0, |row, _| first(row).maximum),
        figure(Period, "stdev", 5, |row, _| first(row).standard_deviation),
        figure(PeriodPercentiles, "p50", 2, |row, now| row.quantile(row.metrics()[0], 0.5, now)),
        figure(PeriodPercentiles, "p99", 0, |row, now| row.quantile(row.metrics()[0], 0.99, now)),
        figure(Age, "mean", 0, |row, _| row.figures(row.metrics()[1].name()).average),
        figure(AgePercentiles, "p50", 1, |row, now| row.quantile(row.metrics()[1], 0.5, now)),
        figure(AgePercentiles, "p99", 0, |row, now| row.quantile(row.metrics()[1], 0.99, now)),
    ]
};
/// Returns the statistics of the metric that is shown first. For a topic, this metric is the message period.
fn first(row: &Row) -> Summary {
    row.figures(row.metrics()[0].name())
}

/// The number of optional columns.
const MORE: usize = 5;

impl Group {
    const ALL: [Self; 6] =
        [Self::Rate, Self::Bandwidth, Self::Period, Self::PeriodPercentiles, Self::Age, Self::AgePercentiles];

    /// Returns the title above `columns` columns of the group. The title of percentiles contains "1 min" or "last
    /// minute": percentiles are of the last minute, but all other values are of the last window, so a percentile may be
    /// higher than the maximum.
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
            0 | 1 => format!("{title:>width$}"),
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
}

impl Layout {
    pub fn new(width: u16) -> Self {
        let is_wide = width >= WIDE;
        let width = usize::from(width);
        let room = width.saturating_sub(2 + NAME + ALWAYS + Self::beside(is_wide));
        Self { width, is_wide, more: (room / FIGURE).min(MORE) }
    }

    pub fn lines_per_topic(self) -> usize {
        if self.is_wide {
            1
        } else {
            2
        }
    }

    /// Returns the width of the message type, the state and the sparkline, if they are on the same line as the numbers.
    fn beside(is_wide: bool) -> usize {
        if is_wide {
            TYPE + STATE + 2 + 20
        } else {
            0
        }
    }

    fn figures_width(self) -> usize {
        ALWAYS + self.more * FIGURE
    }

    fn name_width(self) -> usize {
        self.width.saturating_sub(2 + self.figures_width() + Self::beside(self.is_wide)).clamp(8, 60)
    }

    fn figures(self) -> impl Iterator<Item = &'static Figure> {
        FIGURES.iter().filter(move |figure| figure.rank <= self.more)
    }

    pub fn header(self, kind: Kind) -> Vec<Line<'static>> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let name = self.name_width();
        let mut above = format!("  {:name$}    ", "");
        for group in Group::ALL {
            above += &group.title(self.figures().filter(|figure| figure.group == group).count(), kind);
        }
        let mut columns = format!("  {:name$} pub", kind.noun());
        columns.extend(self.figures().map(|figure| format!("{:>FIGURE$}", figure.title)));
        columns += "  lost  seen";
        if self.is_wide {
            columns += &format!(" {:TYPE$} {:STATE$}last minute", "type", "state");
        }
        vec![Line::styled(above, bold), Line::styled(columns, bold)]
    }

    pub fn topic_lines(self, row: &Row, is_selected: bool, now: Instant) -> Vec<Line<'static>> {
        let status = row.status(now);
        let (mark, style) = mark(status);
        let name = self.name_width();
        let cursor = if is_selected { ">" } else { " " };
        let name_style = if is_selected { style.add_modifier(Modifier::REVERSED) } else { style };
        let emphasis = |is: bool| if is { style.add_modifier(Modifier::BOLD) } else { Style::new() };
        let is_lossy = row.lost.is_some_and(|lost| lost > 0);
        let is_stale = matches!(status, Status::Stale(_));
        let (lost, seen) = (count_if_known(row.lost), seconds(row.silence(now)));
        let mut line = vec![
            Span::raw(cursor),
            Span::styled(mark, style),
            Span::styled(cells(&format::name(&row.name), name, end_of), name_style),
            Span::raw(self.figures_of(row, now)),
            Span::styled(format!(" {lost:>5}"), emphasis(is_lossy)),
            Span::styled(format!(" {seen:>5}"), emphasis(is_stale)),
        ];
        let message_type = format::name(row.message_type.as_deref().unwrap_or("-"));
        let state = Span::styled(format!("{:STATE$}", status.text()), style);
        if self.is_wide {
            line.push(Span::raw(format!(" {} ", cells(&message_type, TYPE, start_of))));
            line.push(state);
            line.push(self.problem_or_sparkline(
                row,
                now,
                2 + name + self.figures_width() + TYPE + STATE + 2,
            ));
            return vec![Line::from(line)];
        }
        let below = vec![
            Span::raw("    "),
            Span::styled(
                format!("{} ", cells(&message_type, TYPE, start_of)),
                Style::new().add_modifier(Modifier::DIM),
            ),
            state,
            self.problem_or_sparkline(row, now, 4 + TYPE + 1 + STATE),
        ];
        vec![Line::from(line), Line::from(below)]
    }

    fn figures_of(self, row: &Row, now: Instant) -> String {
        let publishers = row.publisher_count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let mut columns = format!(" {publishers:>3}");
        columns.extend(self.figures().map(|column| format!("{:>FIGURE$}", figure((column.value)(row, now)))));
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

/// Returns a text that fills `width` cells of the terminal. The function `cut` shortens a longer text. Some characters
/// fill two cells.
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
