// SPDX-License-Identifier: Apache-2.0

//! The live view: its state, its keys, and how it is drawn.

mod column;
mod list;

use std::time::Instant;

use ratatui::{
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    layout::Rect,
    style::{Modifier, Style},
    text::Line,
    Frame,
};

use rclrs_topic_statistics::Metric;
use topic_statistics_views::{
    format::start_of,
    row::{Kind, Row, Status},
};

use super::detail;
use column::Column;
use list::Layout;

/// The state of the live view.
#[derive(Debug)]
pub struct Screen {
    /// The name of the selected topic. A name stays the same while lines move.
    selected: Option<String>,
    sort: Column,
    is_reversed: bool,
    filter: String,
    mode: Mode,
    /// The index of the first topic on the screen.
    first: usize,
    /// How many topics fit the screen.
    page: usize,
    /// The first line of the detail view.
    scrolled: u16,
    /// The metric whose histogram the detail view shows.
    histogram: Option<Metric>,
    /// A notice for the first line.
    pub notice: Option<String>,
    /// What the rows are about.
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    List,
    /// The list, while the user types the filter.
    Filter,
    Detail,
}

impl Default for Screen {
    fn default() -> Self {
        Self {
            selected: None,
            sort: Column::Topic,
            is_reversed: false,
            filter: String::new(),
            mode: Mode::List,
            first: 0,
            page: 1,
            scrolled: 0,
            histogram: None,
            notice: None,
            kind: Kind::default(),
        }
    }
}

impl Screen {
    /// Handles a key; returns whether it quits.
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

    /// Moves the selection by a number of topics.
    fn select(&mut self, topics: isize, rows: &[Row], now: Instant) {
        let shown = self.shown(rows, now);
        let at = self.position(&shown).unwrap_or_default();
        let to = at.saturating_add_signed(topics).min(shown.len().saturating_sub(1));
        self.selected = shown.get(to).map(|row| row.name.clone());
    }

    /// Chooses the next metric that the selected topic has a distribution of; after the last one, none.
    fn next_histogram(&mut self, rows: &[Row], now: Instant) {
        let selected = rows.iter().find(|row| Some(&row.name) == self.selected.as_ref());
        let mut metrics = selected.into_iter().flat_map(|row| row.last_minute.metrics(now));
        self.histogram = metrics.find(|metric| Some(*metric) > self.histogram);
        self.scrolled = 0;
    }

    fn position(&self, shown: &[&Row]) -> Option<usize> {
        shown.iter().position(|row| Some(&row.name) == self.selected.as_ref())
    }

    /// Returns the topics that pass the filter, sorted.
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

    /// Draws the list, or the details of the selected topic.
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

    /// Draws the first line and the last one.
    fn draw_frame(&self, buffer: &mut Buffer, area: Rect, rows: &[Row], now: Instant, keys: &str) {
        let number = |is: fn(Status) -> bool| rows.iter().filter(|row| is(row.status(now))).count();
        let order = if self.is_reversed { "▲" } else { "▼" };
        let plural = if rows.len() == 1 { "" } else { "s" };
        let noun = self.kind.noun();
        let mut title = format!(" {} {noun}{plural}  sort {} {order}", rows.len(), self.sort.name(self.kind));
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

fn draw_lines(buffer: &mut Buffer, area: Rect, lines: impl Iterator<Item = Line<'static>>) {
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        buffer.set_line(area.x, y, &line, area.width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::{backend::TestBackend, Terminal};
    use rclrs_topic_statistics::Distribution;
    use topic_statistics_views::{
        row::Problem,
        testing::{at, row},
    };

    fn rows() -> Vec<Row> {
        let mut lossy = row("/camera/image_raw", 30.0, 12);
        lossy.message_type = Some("sensor_msgs/msg/Image".to_owned());
        let mut stale = row("/odom", 50.0, 0);
        stale.last_message = Some(at(93));
        let mut unknown = Row::new("/unknown");
        unknown.problem = Some(Problem::Error("the package my_msgs cannot be loaded".to_owned()));
        let mut waiting = Row::new("/waits");
        waiting.problem = Some(Problem::Waiting("no topic yet".to_owned()));
        vec![lossy, row("/imu", 100.0, 0), stale, unknown, waiting]
    }

    fn draw(screen: &mut Screen, rows: &[Row], width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame, rows, at(100))).unwrap();
        let buffer = terminal.backend().buffer();
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

    /// The rows, with 200 ages and periods of the first one: one in twenty is ten times as high.
    fn rows_with_percentiles() -> Vec<Row> {
        let mut rows = rows();
        for (metric, usual) in [(Metric::MessageAge, 4.0), (Metric::MessagePeriod, 32.0)] {
            let mut distribution = Distribution::default();
            (0..200).for_each(|number| {
                assert!(distribution.accept(if number % 20 == 0 { 10.0 * usual } else { usual }))
            });
            rows[0].last_minute.add(metric, &distribution, at(99));
        }
        rows
    }

    #[test]
    fn wide_characters_shift_no_column() {
        let mut wide = row(&"/相机/图像/原始/数据/左前".repeat(3), 30.0, 12);
        wide.message_type = Some("传感器/消息/图像/传感器/消息/图像".to_owned());
        let rows = [wide, row("/imu", 100.0, 12)];
        for width in 79..200 {
            let screen = draw(&mut Screen::default(), &rows, width, 24);
            let per_topic = if width < 175 { 2 } else { 1 };
            // A cell after a wide character is empty: by cells, not by characters.
            let cells = |line: usize| {
                let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
                terminal.draw(|frame| Screen::default().draw(frame, &rows, at(100))).unwrap();
                let buffer = terminal.backend().buffer().clone();
                let from = screen[2].chars().collect::<String>().find("  lost").unwrap() as u16;
                (from..from + 12).map(|x| buffer[(x, line as u16)].symbol().to_owned()).collect::<String>()
            };
            assert_eq!(cells(2), "  lost  seen", "{width}");
            for line in [3, 3 + per_topic] {
                assert_eq!(cells(line), "    12  0.0s", "{width}: {screen:#?}");
            }
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
            let screen = draw(&mut Screen::default(), &rows_with_percentiles(), width, 24);
            let words: Vec<&str> = screen[2].split_whitespace().collect();
            assert!(
                words.join(" ").starts_with(&format!("topic pub {columns} lost seen")),
                "{width}: {words:?}"
            );
            // Only the titles of percentiles contain "1 min": the last minute.
            let ends = |line: &str, titles: &[&str]| -> Vec<usize> {
                let mut ends: Vec<usize> = titles
                    .iter()
                    .flat_map(|title| line.match_indices(title))
                    .map(|(at, title)| at + title.len())
                    .collect();
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
            // Each figure ends below the end of its title.
            let row = screen[3].chars().collect::<Vec<_>>();
            let (mut end, header) = (0, screen[2].chars().collect::<String>());
            for title in columns.split(' ').chain(["lost", "seen"]) {
                end += header[end..].find(title).unwrap() + title.len();
                assert!(
                    row[end - 1] != ' ' && row.get(end).is_none_or(|c| *c == ' '),
                    "{title}: {screen:#?}"
                );
            }
        }
    }

    #[test]
    fn eighty_columns_have_all_figures() {
        let screen = draw(&mut Screen::default(), &rows_with_percentiles(), 80, 24);
        let text = screen.join("\n");
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
        ] {
            assert!(text.contains(expected), "{expected}\nnot in\n{text}");
        }
        assert!(text.contains('█'), "a sparkline:\n{text}");
    }

    #[test]
    fn any_size_is_drawn() {
        for (width, height) in [(1, 1), (1, 2), (20, 3), (40, 10), (79, 5), (149, 24), (150, 24), (300, 100)]
        {
            let mut screen = Screen::default();
            draw(&mut screen, &rows(), width, height);
            press(&mut screen, &rows(), "\n");
            draw(&mut screen, &rows(), width, height);
            draw(&mut Screen::default(), &[], width, height);
        }
        let wide = draw(&mut Screen::default(), &rows(), 200, 24).join("\n");
        assert!(wide.contains("last minute") && wide.contains("LOSS 12"), "{wide}");
    }

    #[test]
    fn topics_are_sorted_by_each_column_and_reversed() {
        let (rows, mut screen) = (rows(), Screen::default());
        assert_eq!(names(&screen, &rows)[0], "/camera/image_raw");
        press(&mut screen, &rows, "s");
        assert_eq!(
            names(&screen, &rows)[..3],
            ["/unknown", "/odom", "/camera/image_raw"],
            "the worst state first"
        );
        press(&mut screen, &rows, "s");
        assert_eq!(names(&screen, &rows)[..2], ["/imu", "/odom"], "the highest rate first");
        press(&mut screen, &rows, "r");
        assert_eq!(names(&screen, &rows)[4], "/imu");
        press(&mut screen, &rows, "rsss");
        assert_eq!(names(&screen, &rows)[0], "/camera/image_raw", "the most losses first");
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
        assert_eq!(names(&screen, &rows), ["/camera/image_raw", "/imu", "/odom"], "types count too");
        press(&mut screen, &rows, "\x1b");
        assert_eq!(names(&screen, &rows).len(), 5);
    }

    #[test]
    fn the_selected_topic_stays_selected_and_in_sight() {
        let (rows, mut screen) = (
            (0..50).map(|n| row(&format!("/t{n:02}"), f64::from(n + 1), 0)).collect::<Vec<_>>(),
            Screen::default(),
        );
        draw(&mut screen, &rows, 80, 24);
        press(&mut screen, &rows, "jj");
        assert_eq!(screen.selected.as_deref(), Some("/t02"));
        press(&mut screen, &rows, "ss");
        assert!(
            draw(&mut screen, &rows, 80, 24).iter().any(|line| line.starts_with("> /t02")),
            "at the end by rate"
        );
        press(&mut screen, &rows, "g");
        assert!(draw(&mut screen, &rows, 80, 24)[3].starts_with("> /t49"));
        press(&mut screen, &rows, "G");
        assert!(draw(&mut screen, &rows, 80, 24).iter().any(|line| line.starts_with("> /t00")));
    }

    #[test]
    fn h_goes_through_the_histograms_of_the_topic() {
        let (rows, mut screen) = (rows_with_percentiles(), Screen::default());
        draw(&mut screen, &rows, 80, 40);
        press(&mut screen, &rows, "\n");
        let histogram = |screen: &mut Screen| {
            let text = draw(screen, &rows, 80, 40).join("\n");
            let shown: Vec<&str> = ["message_age", "message_period"]
                .into_iter()
                .filter(|metric| text.contains(&format!("{metric} in the last minute, ms: 200 samples")))
                .collect();
            shown.join(" ")
        };
        for expected in ["", "message_age", "message_period", "", "message_age"] {
            assert_eq!(histogram(&mut screen), expected);
            press(&mut screen, &rows, "h");
        }
        // Another topic has no sample of that metric, and shows so.
        press(&mut screen, &rows, "\x1bj\n");
        let text = draw(&mut screen, &rows, 80, 40).join("\n");
        assert!(
            text.contains("/imu") && text.contains("message_period: no sample in the last minute"),
            "{text}"
        );
        press(&mut screen, &rows, "h");
        assert!(!draw(&mut screen, &rows, 80, 40).join("\n").contains("no sample"));
    }

    #[test]
    fn q_quits_but_not_while_the_filter_is_typed() {
        let mut screen = Screen::default();
        assert!(screen.key(KeyCode::Char('q').into(), &[], at(0)));
        press(&mut screen, &[], "/q");
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(screen.key(control_c, &[], at(0)));
    }
}
