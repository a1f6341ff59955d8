// SPDX-License-Identifier: Apache-2.0

//! The screen of the live view: its state, its keys, and the drawing.

mod list;

use std::{cmp::Ordering, time::Instant};

use ratatui::{
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    layout::Rect,
    style::{Modifier, Style},
    text::Line,
    Frame,
};

use rclrs_topic_statistics::Metric;
use topic_statistics_observe::{
    format::{number_of, start_of},
    row::{Kind, Row, Status, Window},
};

use super::detail;
use list::Layout;

/// The state of the live view.
#[derive(Debug, Default)]
pub struct Screen {
    /// The name of the selected row. The name, not a position, is stored, because the order of the rows changes.
    selected: Option<String>,
    sort: Column,
    is_reversed: bool,
    filter: String,
    mode: Mode,
    first: usize,
    /// The number of rows that fit the screen.
    page: usize,
    scrolled: u16,
    /// The metric whose histogram the detail view shows.
    histogram: Option<Metric>,
    /// A notice that is shown in the first line of the screen.
    pub notice: Option<String>,
    /// The kind of the rows, for example topics.
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    List,
    /// The list of rows, while the user types the filter.
    Filter,
    Detail,
}

impl Screen {
    /// Handles a key. Returns whether the key ends the program.
    pub fn key(&mut self, key: KeyEvent, rows: &[Row], now: Instant) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return true;
        }
        match self.mode {
            Mode::Filter => match key.code {
                KeyCode::Enter => self.mode = Mode::List,
                KeyCode::Esc => (self.mode, self.filter) = (Mode::List, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) if !is_control => self.filter.push(c),
                _ => {}
            },
            Mode::Detail => match key.code {
                KeyCode::Char('q') => return true,
                KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Left => self.mode = Mode::List,
                KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
                KeyCode::Down | KeyCode::Char('j') => self.scrolled = self.scrolled.saturating_add(1),
                KeyCode::Char('h') => self.next_histogram(rows, now),
                _ => {}
            },
            Mode::List => return self.list_key(key.code, rows, now),
        }
        false
    }

    fn list_key(&mut self, key: KeyCode, rows: &[Row], now: Instant) -> bool {
        let page = isize::try_from(self.page).unwrap_or(1);
        match key {
            KeyCode::Char('q') => return true,
            KeyCode::Up | KeyCode::Char('k') => self.select(-1, rows, now),
            KeyCode::Down | KeyCode::Char('j') => self.select(1, rows, now),
            KeyCode::PageUp => self.select(-page, rows, now),
            KeyCode::PageDown => self.select(page, rows, now),
            KeyCode::Home | KeyCode::Char('g') => self.select(isize::MIN, rows, now),
            KeyCode::End | KeyCode::Char('G') => self.select(isize::MAX, rows, now),
            KeyCode::Enter | KeyCode::Right => {
                self.select(0, rows, now);
                if self.selected.is_some() {
                    (self.mode, self.scrolled) = (Mode::Detail, 0);
                }
            }
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.filter.clear(),
            _ => {}
        }
        false
    }

    fn select(&mut self, topics: isize, rows: &[Row], now: Instant) {
        let shown = self.shown(rows, now);
        let at = self.position(&shown).unwrap_or_default();
        let to = at.saturating_add_signed(topics).min(shown.len().saturating_sub(1));
        self.selected = shown.get(to).map(|row| row.name.clone());
    }

    /// Chooses the next metric of the selected row that has a distribution. After the last metric, no metric is chosen.
    fn next_histogram(&mut self, rows: &[Row], now: Instant) {
        let selected = rows.iter().find(|row| Some(&row.name) == self.selected.as_ref());
        let mut metrics = selected.into_iter().flat_map(|row| row.last_minute.metrics(now));
        self.histogram = metrics.find(|metric| Some(*metric) > self.histogram);
        self.scrolled = 0;
    }

    fn position(&self, shown: &[&Row]) -> Option<usize> {
        shown.iter().position(|row| Some(&row.name) == self.selected.as_ref())
    }

    fn shown<'a>(&self, rows: &'a [Row], now: Instant) -> Vec<&'a Row> {
        let filter = self.filter.to_lowercase();
        let passes = |text: &str| text.to_lowercase().contains(&filter);
        let mut shown: Vec<&Row> = rows
            .iter()
            .filter(|row| passes(&row.name) || row.message_type.as_deref().is_some_and(passes))
            .collect();
        shown.sort_by(|one, other| self.sort.compare(one, other, now));
        if self.is_reversed {
            shown.reverse();
        }
        shown
    }

    /// Draws the list of rows, or the details of the selected row.
    pub fn draw(&mut self, frame: &mut Frame, rows: &[Row], now: Instant) {
        let area = frame.area();
        if area.height < 2 || area.width == 0 {
            return;
        }
        let shown = self.shown(rows, now);
        if self.position(&shown).is_none() {
            self.selected = shown.first().map(|row| row.name.clone());
        }
        let body = Rect { y: area.y + 1, height: area.height - 2, ..area };
        let selected = rows.iter().find(|row| Some(&row.name) == self.selected.as_ref());
        match (self.mode, selected) {
            (Mode::Detail, Some(row)) => {
                let lines = detail::lines(row, self.histogram, now, area.width.into());
                let max = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(body.height);
                self.scrolled = self.scrolled.min(max);
                draw_lines(frame.buffer_mut(), body, lines.into_iter().skip(self.scrolled.into()));
                self.draw_frame(
                    frame.buffer_mut(),
                    area,
                    rows,
                    now,
                    " q quit  Esc back  ↑↓ scroll  h next histogram",
                );
            }
            (mode, _) => {
                self.draw_list(frame.buffer_mut(), body, &shown, now);
                let typed = format!(" filter: {}▏ Enter keep  Esc clear", self.filter);
                let keys = match mode {
                    Mode::Filter => &*typed,
                    _ => " q quit  ↑↓ select  Enter details  s sort  r reverse  / filter",
                };
                self.draw_frame(frame.buffer_mut(), area, rows, now, keys);
            }
        }
    }

    fn draw_frame(&self, buffer: &mut Buffer, area: Rect, rows: &[Row], now: Instant, keys: &str) {
        let number = |is: fn(Status) -> bool| rows.iter().filter(|row| is(row.status(now))).count();
        let order = if self.is_reversed { "▲" } else { "▼" };
        let count = number_of(rows.len() as u64, self.kind.noun());
        let mut title = format!(" {count}  sort {} {order}", self.sort.name(self.kind));
        if !self.filter.is_empty() {
            title += &format!("  filter {:?}", self.filter);
        }
        for (number, word) in [
            (number(|status| matches!(status, Status::Stale(_))), "stale"),
            (number(|status| matches!(status, Status::Loss(_))), "with losses"),
            (number(|status| matches!(status, Status::Error | Status::Failed(_))), "with errors"),
            (number(|status| matches!(status, Status::Warned(_))), "with warnings"),
            (number(|status| status == Status::Waiting), "waiting"),
        ] {
            if number > 0 {
                title += &format!("  {number} {word}");
            }
        }
        if let Some(notice) = &self.notice {
            title += &format!("  {notice}");
        }
        let style = Style::new().add_modifier(Modifier::REVERSED);
        for (y, text) in [(area.y, &*title), (area.bottom() - 1, keys)] {
            let width = usize::from(area.width);
            let text = format!("{:width$}", start_of(text, width));
            buffer.set_stringn(area.x, y, text, width, style);
        }
    }

    fn draw_list(&mut self, buffer: &mut Buffer, area: Rect, shown: &[&Row], now: Instant) {
        let layout = Layout::new(area.width);
        let mut lines = layout.header(self.kind);
        let room = usize::from(area.height).saturating_sub(lines.len());
        self.page = (room / layout.lines_per_topic()).max(1);
        let at = self.position(shown).unwrap_or_default();
        self.first = self.first.min(at).max((at + 1).saturating_sub(self.page));
        self.first = self.first.min(shown.len().saturating_sub(self.page));
        if shown.is_empty() {
            let noun = self.kind.noun();
            lines.push(Line::raw(match self.filter.is_empty() {
                true => format!("  No {noun} yet; waiting."),
                false => format!("  No {noun} passes the filter."),
            }));
        }
        for (index, row) in shown.iter().enumerate().skip(self.first).take(self.page) {
            lines.extend(layout.topic_lines(row, index == at, now));
        }
        draw_lines(buffer, area, lines.into_iter());
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Column {
    #[default]
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
    const ALL: [Self; 8] = {
        use Column::*;
        [Topic, State, Rate, Period, Age, Lost, Seen, Bandwidth]
    };

    /// Returns the name of the column in a list of rows of this kind.
    fn name(self, kind: Kind) -> &'static str {
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

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|column| *column == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// Compares two rows: by name in alphabetical order, or the worst state or the highest value first.
    fn compare(self, one: &Row, other: &Row, now: Instant) -> Ordering {
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

fn draw_lines(buffer: &mut Buffer, area: Rect, lines: impl Iterator<Item = Line<'static>>) {
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        buffer.set_line(area.x, y, &line, area.width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::{backend::TestBackend, buffer::Buffer, Terminal};
    use topic_statistics_observe::{
        row::Problem,
        testing::{at, distribution, row},
    };

    /// Returns five rows. The first one has 200 ages and 200 periods, of which ten are ten times as high as the others.
    fn rows() -> Vec<Row> {
        let mut lossy = row("/camera/image_raw", 30.0, 12);
        lossy.message_type = Some("sensor_msgs/msg/Image".to_owned());
        for (metric, usual) in [(Metric::MessageAge, 4.0), (Metric::MessagePeriod, 32.0)] {
            let samples = [[10.0 * usual; 10].as_slice(), &[usual; 190]].concat();
            lossy.last_minute.add(metric, &distribution(&samples), at(99));
        }
        let stale = Row { last_message: Some(at(93)), ..row("/odom", 50.0, 0) };
        let problem = |name: &str, problem| Row { problem: Some(problem), ..Row::new(name) };
        let unknown = problem("/unknown", Problem::Error("the package my_msgs cannot be loaded".to_owned()));
        let waiting = problem("/waits", Problem::Waiting("no topic yet".to_owned()));
        vec![lossy, row("/imu", 100.0, 0), stale, unknown, waiting]
    }

    fn buffer(screen: &mut Screen, rows: &[Row], width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame, rows, at(100))).unwrap();
        terminal.backend().buffer().clone()
    }

    fn draw(screen: &mut Screen, rows: &[Row], width: u16, height: u16) -> Vec<String> {
        let buffer = buffer(screen, rows, width, height);
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(line).collect()
    }

    fn press(screen: &mut Screen, rows: &[Row], keys: &str) {
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            assert!(!screen.key(code.into(), rows, at(100)));
        }
    }

    fn names(screen: &Screen, rows: &[Row]) -> Vec<String> {
        screen.shown(rows, at(100)).iter().map(|row| row.name.clone()).collect()
    }

    #[test]
    fn wide_characters_shift_no_column() {
        let mut wide = row(&"/相机/图像/原始/数据/左前".repeat(3), 30.0, 12);
        wide.message_type = Some("传感器/消息/图像/传感器/消息/图像".to_owned());
        let rows = [wide, row("/imu", 100.0, 12)];
        for width in 79..200 {
            let from = draw(&mut Screen::default(), &rows, width, 24)[2].find("  lost").unwrap() as u16;
            let buffer = buffer(&mut Screen::default(), &rows, width, 24);
            // The columns are compared by the terminal's cells, not by characters, because a wide character fills two
            // cells.
            let cells = |line| (from..from + 12).map(|x| buffer[(x, line)].symbol()).collect::<String>();
            let second = if width < 175 { 5 } else { 4 };
            let expected = ["  lost  seen", "    12  0.0s", "    12  0.0s"];
            assert_eq!([2, 3, second].map(cells), expected, "{width}");
        }
    }

    #[test]
    fn wider_lists_have_more_columns() {
        for (width, columns) in [
            (79, "rate mean max p99 mean p99"),
            (86, "rate mean max p99 mean p50 p99"),
            (100, "rate B/s mean max p50 p99 mean p50 p99"),
            (120, "rate B/s min mean max stdev p50 p99 mean p50 p99"),
            (174, "rate B/s min mean max stdev p50 p99 mean p50 p99"),
            (175, "rate B/s min mean max stdev p50 p99 mean p50 p99"),
        ] {
            let screen = draw(&mut Screen::default(), &rows(), width, 24);
            let words = screen[2].split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.starts_with(&format!("topic pub {columns} lost seen")), "{width}: {words:?}");
            // Only the titles of percentile columns contain "1 min" or "last minute".
            let ends = |line: &str, titles: &[&str]| -> Vec<usize> {
                let found = titles.iter().flat_map(|title| line.match_indices(title));
                let mut ends: Vec<usize> = found.map(|(at, title)| at + title.len()).collect();
                ends.sort_unstable();
                ends
            };
            let minutes = ends(&screen[1], &["-last minute-", " 1 min"]);
            assert_eq!(minutes, ends(&screen[2][..screen[2].find("lost").unwrap()], &["p99"]), "{screen:#?}");
            for end in ends(&screen[2], &["p50"]) {
                assert_eq!(&screen[1][end - 6..end + 7], "-last minute-", "{screen:#?}");
            }
            let title = screen[1].find("- period ms -").zip(screen[1].find(" age ms "));
            assert!(title.is_some_and(|(period, age)| period < age), "{}", screen[1]);
            // Each number ends in the same column as its title.
            let row = screen[3].chars().collect::<Vec<_>>();
            let mut end = 0;
            for title in columns.split(' ').chain(["lost", "seen"]) {
                end += screen[2][end..].find(title).unwrap() + title.len();
                let ends = row[end - 1] != ' ' && row.get(end).is_none_or(|c| *c == ' ');
                assert!(ends, "{title}: {screen:#?}");
            }
        }
    }

    #[test]
    fn eighty_columns_have_all_figures() {
        let text = draw(&mut Screen::default(), &rows(), 80, 24).join("\n");
        for expected in [
            "                               Hz - period ms -  1 min age ms  1 min",
            "  topic                pub   rate   mean    max    p99   mean    p99  lost  seen",
            ">!/camera/image_raw      1  30.00  33.33  34.33  320.0  2.500  40.00    12  0.0s",
            "    sensor_msgs/msg/Image       LOSS 12    ",
            "  /imu                   1  100.0  10.00  11.00      -  2.500      -     0  0.0s",
            " !/odom                  1  50.00  20.00  21.00      -  2.500      -     0  7.0s",
            "STALE 7.0s",
            "ERROR      the package my_msgs cannot be lo",
            "WAITING    no topic yet",
            "5 topics  sort topic ▼  1 stale  1 with losses  1 with errors  1 waiting",
            "█", // a bar of the sparkline
        ] {
            assert!(text.contains(expected), "{expected}\nnot in\n{text}");
        }
        let mut services = Screen { kind: Kind::Service, ..Screen::default() };
        let text = draw(&mut services, &rows()[1..2], 80, 24).join("\n");
        assert!(text.contains("1 service  sort service") && text.contains("round trip ms"), "{text}");
    }

    #[test]
    fn topics_are_sorted_by_each_column_and_reversed() {
        let (rows, mut screen) = (rows(), Screen::default());
        for (keys, place, name) in [
            ("", 0, "/camera/image_raw"),
            ("s", 0, "/unknown"), // the worst state first
            ("", 1, "/odom"),
            ("s", 0, "/imu"), // the highest rate
            ("r", 4, "/imu"),
            ("rsss", 0, "/camera/image_raw"), // the most losses
        ] {
            press(&mut screen, &rows, keys);
            assert_eq!(names(&screen, &rows)[place], name, "{keys}");
        }
        assert!(draw(&mut screen, &rows, 80, 24)[0].contains("sort lost ▼"));
    }

    #[test]
    fn the_filter_is_typed_kept_and_cleared() {
        let (rows, mut screen) = (rows(), Screen::default());
        press(&mut screen, &rows, "/IMq");
        assert!(names(&screen, &rows).is_empty());
        assert!(draw(&mut screen, &rows, 80, 24).join("\n").contains("No topic passes the filter"));
        screen.key(KeyCode::Backspace.into(), &rows, at(100));
        assert!(draw(&mut screen, &rows, 80, 24)[23].contains("filter: IM"));
        press(&mut screen, &rows, "\n");
        assert_eq!(names(&screen, &rows), ["/camera/image_raw", "/imu", "/odom"], "types match, too");
        press(&mut screen, &rows, "\x1b");
        assert_eq!(names(&screen, &rows).len(), 5);
        // While the filter is typed, q is a character of the filter. At any other time, q ends the program.
        press(&mut screen, &rows, "/q");
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(screen.key(control_c, &[], at(0)));
        assert!(Screen::default().key(KeyCode::Char('q').into(), &[], at(0)));
    }

    #[test]
    fn the_selected_topic_stays_selected_and_in_sight() {
        let rows: Vec<Row> = (0..50).map(|n| row(&format!("/t{n:02}"), f64::from(n + 1), 0)).collect();
        let mut screen = Screen::default();
        // In the order by rate, the selected row /t02 is near the end. `g` and `G` then select the first and the last
        // row in this order.
        for (keys, selected) in
            [("", "> /t00"), ("jj", "> /t02"), ("ss", "> /t02"), ("g", "> /t49"), ("G", "> /t00")]
        {
            press(&mut screen, &rows, keys);
            let lines = draw(&mut screen, &rows, 80, 24);
            assert!(lines.iter().any(|line| line.starts_with(selected)), "{keys}: {lines:#?}");
        }
    }

    #[test]
    fn h_goes_through_the_histograms_of_the_topic() {
        let (rows, mut screen) = (rows(), Screen::default());
        draw(&mut screen, &rows, 80, 40);
        press(&mut screen, &rows, "\n");
        let shown = |screen: &mut Screen, text: &str| draw(screen, &rows, 80, 40).join("\n").contains(text);
        for expected in ["", "message_age", "message_period", "", "message_age"] {
            for metric in ["message_age", "message_period"] {
                let title = format!("{metric} in the last minute, ms: 200 samples");
                assert_eq!(shown(&mut screen, &title), metric == expected);
            }
            press(&mut screen, &rows, "h");
        }
        // The details of another topic report that the chosen metric has no sample.
        press(&mut screen, &rows, "\x1bj\n");
        for expected in ["/imu", "message_period: no sample in the last minute"] {
            assert!(shown(&mut screen, expected), "{expected}");
        }
        press(&mut screen, &rows, "h");
        assert!(!shown(&mut screen, "no sample"));
    }
}
