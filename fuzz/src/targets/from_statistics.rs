// SPDX-License-Identifier: Apache-2.0

//! Any messages on `/statistics` into `topic_monitor --from-statistics`.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use ratatui::{backend::TestBackend, crossterm::event::KeyCode, Terminal};
use ros_env::{
    builtin_interfaces::msg::Time,
    statistics_msgs::msg::{MetricsMessage, StatisticDataPoint},
};

use crate::{
    check::{has_no_control, is_no_infinity},
    input::Input,
    monitor::statistics::{message::SourceMetric, sources::Sources},
    pattern::Pattern,
    require::{self, Conditions},
    row::{Figures, Row},
    views::{detail, Report, Screen},
};

/// What is kept has a bound. Figures are finite or NaN. What is written has no control character, and JSON keeps each name.
pub fn from_statistics(bytes: &[u8]) {
    let mut input = Input(bytes);
    let max = input.below(4) + 1;
    let patterns: &[&str] = match input.below(4) {
        0 => &["/a:/b", "asked_for"],
        1 => &["/**"],
        _ => &[],
    };
    let patterns: Vec<Pattern> = patterns.iter().map(|pattern| pattern.parse().expect("a pattern")).collect();
    let asked_for = patterns.iter().filter(|pattern| pattern.name().is_some()).count();
    let mut sources = Sources::new(patterns, "/statistics", max);
    let mut live = LiveView::new(&mut input);
    let mut report = Report::new(vec![], false);
    // A time that others can be before.
    static START: OnceLock<Instant> = OnceLock::new();
    let mut now = *START.get_or_init(Instant::now) + Duration::from_secs(1000);
    for number in 0..200 {
        if input.is_empty() {
            break;
        }
        now += [Duration::from_millis(input.u8().into()), Duration::from_millis(input.u16().into())]
            [usize::from(number % 4 == 3)];
        if let Some(message) = SourceMetric::new(message(&mut input), now) {
            sources.accept(message);
        }
        let complete = sources.settle(now + Duration::from_millis(u64::from(input.u8()) * 2));
        let rows: Vec<&Row> = sources.rows().collect();
        assert!(rows.len() <= max.max(asked_for), "{} sources, at most {max}", rows.len());
        assert!(sources.left_out() <= max);
        for row in &rows {
            is_sound(row, now);
        }
        for row in rows.iter().filter(|row| complete.contains(&row.name)) {
            report.write(row, now).expect("writes to memory");
            is_json(row, now);
            detail::lines(row, None, now, 80)
                .iter()
                .for_each(|line| has_no_control(&line.to_string(), "a detail"));
        }
        if number % 64 == 16 {
            live.draw(&mut input, &rows, now);
        }
    }
    let rows: Vec<&Row> = sources.rows().collect();
    live.draw(&mut input, &rows, now);
    let Conditions(conditions) = "rate>1 age.max<5 gap.count=0 lost=0".parse().expect("conditions");
    for failure in require::failures(&conditions, &rows, now) {
        has_no_control(&failure, "a failure of a condition");
    }
}

/// Panics if a row keeps more than its bounds, or has a figure that cannot be shown.
fn is_sound(row: &Row, now: Instant) {
    assert!(row.name.len() <= SourceMetric::MAX_NAME);
    assert!(row.history.len() <= 601, "{} entries of the history", row.history.len());
    let status = row.status(now).text();
    assert!(status.chars().count() <= 11, "{status}");
    is_no_infinity(row.silence(now), "the silence");
    is_no_infinity(row.mean_period, "the mean period");
    for entry in &row.history {
        is_no_infinity(entry.rate, "a rate of the history");
    }
    let Some(window) = &row.window else { return };
    assert!(window.rate.is_nan() || (window.rate > 0.0 && window.rate.is_finite()), "rate {}", window.rate);
    assert!(window.metrics.len() <= 64, "{} metrics", window.metrics.len());
    for metric in &window.metrics {
        let Figures { mean, min, max, std_dev, count: _ } = metric.figures;
        [mean, min, max, std_dev].into_iter().for_each(|figure| is_no_infinity(figure, &metric.name));
    }
}

/// Writes the last window of a row as a line and as JSON.
pub fn is_json(row: &Row, now: Instant) {
    let Some(window) = &row.window else { return };
    let written = |is_json| {
        let mut to = vec![];
        Report::new(&mut to, is_json).write(row, now).expect("writes to memory");
        String::from_utf8(to).expect("UTF-8")
    };
    let lines = written(false);
    assert_eq!(lines.lines().count(), 3, "{lines:?}");
    lines.lines().for_each(|line| has_no_control(line, "a line"));

    let json = written(true);
    let line = json.strip_suffix('\n').expect("a line");
    assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
    let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(object["topic"], *row.name);
    assert_eq!(object["type"].as_str(), row.message_type.as_deref());
    assert_eq!(object["problem"].as_str(), row.problem.as_ref().map(|problem| problem.text()));
    for (json, node) in object["nodes"].as_array().expect("nodes").iter().zip(&row.nodes) {
        assert_eq!(json, &**node);
    }
    for metric in &window.metrics {
        let json = &object["metrics"][&metric.name];
        assert!(json["unit"].is_string(), "{line} has no metric {:?}", metric.name);
        assert!(json["mean"].is_number() || json["mean"].is_null(), "{line}");
    }
}

/// The live view on a terminal of any size, and the keys that are pressed.
pub struct LiveView {
    screen: Screen,
    terminal: Terminal<TestBackend>,
}

impl LiveView {
    pub fn new(input: &mut Input) -> Self {
        let (width, height) = (1 + u16::from(input.u8() % 160), 1 + u16::from(input.u8() % 8));
        let terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        Self { screen: Screen::new(), terminal }
    }

    /// Presses a few keys, and draws. Panics if a cell has a control character.
    pub fn draw(&mut self, input: &mut Input, rows: &[&Row], now: Instant) {
        let rows: Vec<Row> = rows.iter().map(|row| (*row).clone()).collect();
        for _ in 0..input.below(4) {
            let keys = [
                KeyCode::Char('s'),
                KeyCode::Char('r'),
                KeyCode::Char('/'),
                KeyCode::Char('a'),
                KeyCode::Char('G'),
                KeyCode::Down,
                KeyCode::Up,
                KeyCode::PageDown,
                KeyCode::PageUp,
                KeyCode::Enter,
                KeyCode::Esc,
                KeyCode::Backspace,
            ];
            self.screen.key(keys[input.below(keys.len())].into(), &rows, now);
        }
        self.terminal.draw(|frame| self.screen.draw(frame, &rows, now)).expect("a terminal in memory");
        let cells = self.terminal.backend().buffer().content().iter().map(|cell| cell.symbol());
        has_no_control(&cells.filter(|symbol| *symbol != " ").collect::<String>(), "the screen");
    }
}

fn message(input: &mut Input) -> MetricsMessage {
    let name = |input: &mut Input, usual: &[&str]| match usual.get(input.below(usual.len() + 2)) {
        Some(name) => (*name).to_owned(),
        None => input.text(),
    };
    MetricsMessage {
        measurement_source_name: name(input, &["/a:/b", "asked_for", "c", "/d:/e", "/f:g"]),
        metrics_source: name(
            input,
            &["message_age", "message_period", "publication_seq_gap", "time_since_last_message_ms"],
        ),
        unit: name(input, &["ms"]),
        window_start: Time { sec: input.i32(), nanosec: input.u32() },
        window_stop: Time { sec: input.i32(), nanosec: input.u32() },
        statistics: (0..input.below(8))
            .map(|_| StatisticDataPoint { data_type: input.u8() % 7, data: input.f64() })
            .collect(),
    }
}
