// SPDX-License-Identifier: Apache-2.0

//! The list of topics: its header, and the lines of a topic.

use std::time::Instant;

use ratatui::{
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use crate::{
    format::{self, count_if_known, end_of, figure, seconds, start_of},
    row::{Row, Status},
    views::sparkline::sparkline,
};

/// From this width on, a topic has one line instead of two.
const WIDE: u16 = 150;
/// The width of the columns of figures.
const FIGURES: usize = 58;
/// The width of the type and of the state: on the second line of a topic, or on the first if the list is wide.
const TYPE: usize = 27;
const STATE: usize = 11;

/// How the list fits the width of the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    width: usize,
    is_wide: bool,
}

impl Layout {
    pub fn new(width: u16) -> Self {
        Self { width: width.into(), is_wide: width >= WIDE }
    }

    /// Returns how many lines a topic has.
    pub fn lines_per_topic(self) -> usize {
        if self.is_wide {
            1
        } else {
            2
        }
    }

    /// Returns the width of a topic's name.
    fn name_width(self) -> usize {
        let others = if self.is_wide { TYPE + STATE + 2 + 20 } else { 0 };
        self.width.saturating_sub(2 + FIGURES + others).clamp(8, 60)
    }

    pub fn header(self) -> Vec<Line<'static>> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let name = self.name_width();
        let above = format!("  {:name$}         Hz -------- period ms --------     ms", "");
        let mut columns =
            format!("  {:name$} pub   rate    min   mean    max  stdev    age  lost  seen", "topic");
        if self.is_wide {
            columns += &format!(" {:TYPE$} {:STATE$}last minute", "type", "state");
        }
        vec![Line::styled(above, bold), Line::styled(columns, bold)]
    }

    /// Returns the lines of a topic.
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
            Span::styled(format!("{:name$}", end_of(&format::name(&row.name), name)), name_style),
            Span::raw(figures(row)),
            Span::styled(format!(" {lost:>5}"), emphasis(is_lossy)),
            Span::styled(format!(" {seen:>5}"), emphasis(is_stale)),
        ];
        let message_type = format::name(row.message_type.as_deref().unwrap_or("-"));
        let state = Span::styled(format!("{:STATE$}", status.text()), style);
        if self.is_wide {
            line.push(Span::raw(format!(" {:TYPE$} ", start_of(&message_type, TYPE))));
            line.push(state);
            line.push(self.problem_or_sparkline(row, now, 2 + name + FIGURES + TYPE + STATE + 2));
            return vec![Line::from(line)];
        }
        let below = vec![
            Span::raw("    "),
            Span::styled(
                format!("{:TYPE$} ", start_of(&message_type, TYPE)),
                Style::new().add_modifier(Modifier::DIM),
            ),
            state,
            self.problem_or_sparkline(row, now, 4 + TYPE + 1 + STATE),
        ];
        vec![Line::from(line), Line::from(below)]
    }

    /// Returns what fills the rest of a line of which `used` characters are taken.
    fn problem_or_sparkline(self, row: &Row, now: Instant, used: usize) -> Span<'static> {
        match &row.problem {
            Some(problem) => Span::raw(start_of(problem.text(), self.width.saturating_sub(used))),
            None => Span::raw(sparkline(&row.history, now, self.width.saturating_sub(used + 1).min(60))),
        }
    }
}

/// Returns the mark of a state, and its colour.
fn mark(status: Status) -> (&'static str, Style) {
    let bold = |color| Style::new().fg(color).add_modifier(Modifier::BOLD);
    match status {
        Status::Error => ("✗", bold(Color::Red)),
        Status::Stale(_) => ("!", bold(Color::Red)),
        Status::Loss(_) => ("!", bold(Color::Yellow)),
        Status::Waiting => ("…", Style::new().add_modifier(Modifier::DIM)),
        Status::Good => (" ", Style::new()),
    }
}

/// Returns the columns of publishers, rate, period and age.
fn figures(row: &Row) -> String {
    let (period, age) = (row.figures("message_period"), row.figures("message_age"));
    let publishers = row.publisher_count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    format!(
        " {publishers:>3} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}",
        figure(row.window.as_ref().map_or(f64::NAN, |window| window.rate)),
        figure(period.min),
        figure(period.mean),
        figure(period.max),
        figure(period.std_dev),
        figure(age.mean),
    )
}
