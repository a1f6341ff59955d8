// SPDX-License-Identifier: Apache-2.0

//! Passes messages on `/statistics`, `/statistics/distribution`, `/diagnostics` to `topic_monitor --from-statistics`.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use ratatui::{backend::TestBackend, crossterm::event::KeyCode, Terminal};
use ros_env::{
    builtin_interfaces::msg::Time,
    diagnostic_msgs::msg::{DiagnosticStatus, KeyValue},
    statistics_msgs::msg::{MetricsMessage, StatisticDataPoint},
    topic_statistics_interfaces::msg::MetricsDistribution,
};

use rclrs_topic_statistics::{Distribution, Metric, Summary};
use topic_statistics_monitor::testing::{detail, Screen, Sources};
use topic_statistics_observe::{
    bounds::Sender,
    page::{self, Origin},
    pattern::Pattern,
    recording::Recording,
    report::Report,
    require::{failures, Conditions},
    ros::wire::{ExecutorCallbacks, MetricDistribution, MetricWindow, MAX_NAME},
    row::{MetricFigures, Row, Window},
};

use crate::{
    check::{has_no_control, has_no_infinity, is_no_infinity},
    input::Input,
};

/// The usual metrics of a message.
const METRICS: [&str; 4] =
    ["message_age", "message_period", "publication_seq_gap", "time_since_last_message_ms"];

/// Memory must be bounded, and figures must be finite or NaN. The output must have no control character. JSON must keep
/// names.
pub fn from_statistics(bytes: &[u8]) {
    let mut input = Input(bytes);
    let first = input.u8();
    let (max, has_distributions) = (usize::from(first % 4) + 1, first / 4 % 2 == 1);
    let has_report = first / 8 % 8 == 1;
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
    // Every input starts at the same time. The clock is read only once, so that an input always gives the same result.
    static START: OnceLock<Instant> = OnceLock::new();
    let started = *START.get_or_init(Instant::now);
    let mut now = started + Duration::from_secs(1000);
    let Conditions(conditions) =
        "rate>1 age.max<5 age.p99<5 bandwidth>1 gap.count=0 lost=0".parse().expect("conditions");
    let mut recording = Recording::new(Duration::from_secs(1), conditions.clone());
    recording.started = started;
    for number in 0..200 {
        if input.is_empty() {
            break;
        }
        now += [Duration::from_millis(input.u8().into()), Duration::from_millis(input.u16().into())]
            [usize::from(number % 4 == 3)];
        if has_distributions && input.below(2) == 1 {
            match MetricDistribution::new(&distribution(&mut input)) {
                Ok(message) => sources.accept_distribution(&message, now),
                Err(why) => has_no_control(&why.to_string(), "why a distribution is refused"),
            }
        } else {
            match MetricWindow::new(&message(&mut input)) {
                Ok(message) => drop(sources.add_metric(message, Sender::default(), now)),
                Err(why) => has_no_control(&why.to_string(), "why a message is refused"),
            }
        }
        if has_distributions && input.below(4) == 1 {
            if let Some(callbacks) = ExecutorCallbacks::new(&status(&mut input)) {
                assert!(callbacks.lines.len() <= ExecutorCallbacks::MAX_LINES, "{:?}", callbacks.lines);
                sources.accept_callbacks(callbacks);
            }
        }
        let complete = sources.settle(now + Duration::from_millis(u64::from(input.u8()) * 2));
        let rows: Vec<&Row> = sources.rows().collect();
        assert!(rows.len() <= max + asked_for, "{} sources, at most {max} and {asked_for}", rows.len());
        assert!(sources.left_out() <= max);
        for row in &rows {
            is_sound(row, now);
        }
        for row in rows.iter().filter(|row| complete.contains(&row.name)) {
            report.write(row, now).expect("writes to memory");
            recording.add(row);
            is_json(row, now);
            for chosen in row.last_minute.metrics(now).map(Some).chain([None]) {
                let lines = detail::lines(row, chosen, now, 80 + 10 * usize::from(first % 4));
                lines.iter().for_each(|line| has_no_control(&line.to_string(), "a detail"));
            }
        }
        if number % 64 == 16 {
            live.draw(&mut input, &rows, now);
        }
    }
    let rows: Vec<&Row> = sources.rows().collect();
    live.draw(&mut input, &rows, now);
    for failure in failures(&conditions, &rows, now) {
        has_no_control(&failure, "a failure of a condition");
    }
    if has_report {
        is_page(&mut recording, &rows, now);
    }
}

/// Panics if a row of topic_monitor's table keeps too much data, or has a figure that cannot be shown.
fn is_sound(row: &Row, now: Instant) {
    assert!(row.name.len() <= MAX_NAME && row.history.len() <= 601, "{row:?}");
    assert!(row.status(now).text().chars().count() <= 11, "{}", row.status(now).text());
    let rates = row.history.iter().map(|entry| entry.rate);
    let figures = rates.chain([row.silence(now), row.mean_period]);
    figures.for_each(|figure| is_no_infinity(figure, "a figure of a row"));
    for metric in row.last_minute.metrics(now) {
        // `None` if the number of samples is too large for a distribution.
        let Some(distribution) = row.last_minute.distribution(metric, now) else { continue };
        let range = distribution.minimum()..=distribution.maximum();
        for quantile in [0.5, 0.9, 0.99, 0.999].map(|quantile| distribution.quantile(quantile)) {
            assert!(range.contains(&quantile) || quantile.is_nan(), "{quantile} of {distribution:?}");
        }
    }
    let Some(window) = &row.window else { return };
    is_no_infinity(window.bandwidth(), "the bandwidth");
    is_rate_of_messages(window);
    let messages = (window.rate * window.length.as_secs_f64()).round();
    // The product of large numbers is not exact.
    let is_in_total = messages.is_nan() || messages * (1.0 - 1e-9) <= row.received as f64;
    assert!(is_in_total, "{messages} of {} in {window:?}", row.received);
    assert!(window.metrics.len() <= 64, "{} metrics", window.metrics.len());
    for metric in &window.metrics {
        has_no_infinity(&metric.figures, &metric.name);
    }
}

/// Panics if a rate is not the number of messages in its window. A message has at most one age and one sequence gap. n
/// messages have n periods, or n - 1 if the window has no message before them.
fn is_rate_of_messages(window: &Window) {
    let is_other =
        |metric: &MetricFigures| !METRICS.contains(&&*metric.name) && metric.name.parse::<Metric>().is_ok();
    if window.rate.is_nan() || window.metrics.iter().any(is_other) {
        return;
    }
    let figures = |name| {
        let of_name = window.metrics.iter().find(|metric| metric.name == name);
        of_name.map_or(Summary::default(), |metric| metric.figures)
    };
    let samples = figures("message_age").sample_count.max(figures("publication_seq_gap").sample_count);
    let periods = figures("message_period");
    let (least, most) = match periods.sample_count {
        count if count > samples && periods.average > 0.0 => (count, count + 1),
        _ => (samples, samples),
    };
    let messages = (window.rate * window.length.as_secs_f64()).round();
    assert!((least as f64..=most as f64).contains(&messages), "{messages} messages in {window:?}");
}

/// Checks the last window of a row in both formats of topic_monitor, a line of text and JSON.
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

/// Panics if a name causes markup or a control character on the page of a report, or if a figure is not a number.
pub fn is_page(recording: &mut Recording, rows: &[&Row], now: Instant) {
    recording.finish(rows, now);
    recording.failures().iter().for_each(|failure| has_no_control(failure, "a failure of a condition"));
    let (title, program) = ("ROS 2 topics on robot".to_owned(), "topic_monitor");
    let origin = Origin { title, facts: vec![], program, arguments: vec![] };
    let page = page::render(recording, &origin, now);
    page.lines().for_each(|line| has_no_control(line, "the page"));
    assert_eq!(page.matches('<').count(), page.matches('>').count(), "{page}");
    for wrong in ["<script", "<img", "value=\"inf", "value=\"-inf", "value=\"NaN"] {
        assert!(!page.contains(wrong), "{wrong} on the page");
    }
}

pub struct LiveView {
    screen: Screen,
    terminal: Terminal<TestBackend>,
}

impl LiveView {
    pub fn new(input: &mut Input) -> Self {
        let (width, height) = (1 + u16::from(input.u8() % 160), 1 + u16::from(input.u8() % 8));
        let terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        Self { screen: Screen::default(), terminal }
    }

    /// Passes a few keys to the live view, and draws it. Panics if a cell of the terminal has a control character.
    pub fn draw(&mut self, input: &mut Input, rows: &[&Row], now: Instant) {
        let rows: Vec<Row> = rows.iter().map(|row| (*row).clone()).collect();
        for _ in 0..input.below(4) {
            let keys = [
                "sr/aGh".chars().map(KeyCode::Char).collect::<Vec<_>>(),
                [KeyCode::Down, KeyCode::Up, KeyCode::PageDown, KeyCode::PageUp].into(),
                [KeyCode::Enter, KeyCode::Esc, KeyCode::Backspace].into(),
            ]
            .concat();
            self.screen.key(keys[input.below(keys.len())].into(), &rows, now);
        }
        self.terminal.draw(|frame| self.screen.draw(frame, &rows, now)).expect("a terminal in memory");
        let cells = self.terminal.backend().buffer().content().iter().map(|cell| cell.symbol());
        has_no_control(&cells.filter(|symbol| *symbol != " ").collect::<String>(), "the screen");
    }
}

fn status(input: &mut Input) -> DiagnosticStatus {
    let keys =
        ["busy.spin", "busy.x\u{1b}[2J", "busy.average", "longest_callback", "callback_wait_1", "failing"];
    let texts = ["1.5", "1e999", "NaN", "timer 10ms waited 1 ms for task\n", "x\u{202e}", ""];
    let value = |key: &str, value: &str| KeyValue { key: key.to_owned(), value: value.to_owned() };
    let source = ["/a:/b", "asked_for", "c"][input.below(3)];
    let values =
        (0..input.below(100)).map(|_| value(keys[input.below(keys.len())], texts[input.below(texts.len())]));
    let values =
        [value("measurement_source_name", source), value("busy.node", "1")].into_iter().chain(values);
    DiagnosticStatus { values: values.collect(), ..Default::default() }
}

/// Returns the distribution of a few samples. Some of its fields may be wrong.
pub fn distribution(input: &mut Input) -> MetricsDistribution {
    let sources = ["/a:/b", "asked_for", "c", "/d:/e", "/f:g"];
    let metrics = [Metric::MessageAge, Metric::MessagePeriod, Metric::MessageSize, Metric::Duration];
    let metric = metrics[input.below(metrics.len())];
    let mut all = Distribution::default();
    for _ in 0..input.below(16) {
        all.accept(input.f64());
    }
    let counts = |buckets: Vec<(i32, u64)>| {
        let first = buckets.first().map_or(0, |(index, _)| *index);
        let mut counts = vec![];
        for (index, count) in buckets {
            counts.resize(index.abs_diff(first) as usize, 0);
            counts.push(count);
        }
        (first, counts)
    };
    let (positive_offset, positive_counts) = counts(all.positive().collect());
    let (negative_offset, negative_counts) = counts(all.negative().collect());
    let mut message = MetricsDistribution {
        measurement_source_name: sources[input.below(sources.len())].to_owned(),
        metrics_source: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        count: all.count(),
        sum: all.sum(),
        minimum: all.minimum(),
        maximum: all.maximum(),
        scale: all.scale(),
        zero_threshold: all.zero_threshold(),
        zero_count: all.zero_count(),
        positive_offset,
        positive_counts,
        negative_offset,
        negative_counts,
        ..Default::default()
    };
    // Some buckets get a very large number of samples.
    if let (true, Some(count)) = (input.bool(), message.positive_counts.first_mut()) {
        let more = input.u64() >> 1;
        *count += more;
        message.count += more;
    }
    match input.below(16) {
        0 => (message.scale, message.positive_offset) = (input.i32(), input.i32()),
        1 => message.zero_threshold = input.f64(),
        2 => (message.minimum, message.maximum) = (input.f64(), input.f64()),
        3 => message.maximum = input.f64(),
        4 => message.sum = input.f64(),
        5 => message.count = input.u64(),
        6 => message.zero_count = input.u64(),
        8 => message.negative_offset = input.i32(),
        9 => message.positive_counts = (0..input.u8()).map(|_| input.u64()).collect(),
        10 => message.negative_counts.resize(usize::from(input.u8()), 1),
        11 => message.metrics_source = input.text(),
        12 => message.unit = input.text(),
        13 => message.measurement_source_name = input.text(),
        _ => {}
    }
    message
}

pub fn message(input: &mut Input) -> MetricsMessage {
    let name = |input: &mut Input, usual: &[&str]| match usual.get(input.below(usual.len() + 2)) {
        Some(name) => (*name).to_owned(),
        None => input.text(),
    };
    MetricsMessage {
        measurement_source_name: name(input, &["/a:/b", "asked_for", "c", "/d:/e", "/f:g"]),
        metrics_source: name(input, &METRICS),
        unit: name(input, &["ms"]),
        window_start: Time { sec: input.i32(), nanosec: input.u32() },
        window_stop: Time { sec: input.i32(), nanosec: input.u32() },
        statistics: (0..input.below(8))
            .map(|_| StatisticDataPoint { data_type: input.u8() % 7, data: input.f64() })
            .collect(),
    }
}
