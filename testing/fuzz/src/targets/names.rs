// SPDX-License-Identifier: Apache-2.0

//! Passes names of nodes, topics, types and sources to all code that writes them.

use std::time::{Duration, Instant};

use rclrs::{DynamicMessageError, RclrsError};
use rclrs_topic_statistics::{
    testing::{metrics_message, render_totals},
    SourceKind, StatisticsError,
};
use saphyr::{LoadableYamlNode, Yaml};
use topic_statistics_core::{
    distributions::Distributions, schedule::log_table, window, Escaped, Incompatibility,
    IncompatiblePublisher, Metric, Summary, TopicTotals, Totals, Window as Times, WindowStatistics,
};
use topic_statistics_monitor::testing::{detail, explain};
use topic_statistics_observe::{
    format,
    recording::Recording,
    require::{failures, Conditions},
    row::{MetricFigures, Problem, Publisher, Row, Window},
};

use super::from_statistics::{is_json, is_page, LiveView};
use crate::{
    check::{has_lines, has_no_control},
    input::Input,
};

/// No control character may be written where a terminal may show it. Messages, YAML and JSON must keep each name.
pub fn names(bytes: &[u8]) {
    let mut input = Input(bytes);
    let view = [input.u8(), input.u8(), input.u8(), input.u8(), input.u8(), input.u8()];
    let [node, topic, message_type, source, other] = [(); 5].map(|()| input.text());
    for name in [&node, &topic, &message_type, &source, &other] {
        let text = Escaped(name).to_string();
        has_no_control(&text, "an escaped name");
        assert!(text.chars().count() <= 255 * "\\u{10ffff}".len() + 1);
        assert_eq!(text, format::name(name), "topic_monitor escapes the same");
    }
    library(&node, &topic, &message_type, &source, &other);
    monitor(&node, &topic, &message_type, &other, &view);
}

fn library(node: &str, topic: &str, message_type: &str, source: &str, other: &str) {
    let window = window::Window::from_nanoseconds(0, 1_000_000_000);
    let statistics =
        |metric| WindowStatistics::new(window, Duration::from_secs(1), 1, vec![(metric, Summary::default())]);
    let windows = [statistics(Metric::MessageAge), statistics(Metric::Duration)];
    let rows = [(source, &windows[0]), (other, &windows[1])];
    has_lines(&log_table::render(Duration::from_secs(1), &rows), 4, "the table in the log");

    let reasons = vec![
        Incompatibility::Type { offered: other.to_owned(), requested: message_type.to_owned() },
        Incompatibility::Reliability,
    ];
    let warning = IncompatiblePublisher::new(node.to_owned(), topic.to_owned(), reasons);
    has_no_control(&warning.to_string(), "a warning");
    errors(node, topic, other);

    let window = window::Window::from_nanoseconds(0, 1);
    let message = metrics_message(source, Metric::MessageAge, window, &Summary::default());
    assert_eq!(message.measurement_source_name, source);

    let totals = |topic_name: &str, source_name: &str| {
        let mut totals = Totals::default();
        (totals.received, totals.lost) = (3, Some(1));
        TopicTotals::new(topic_name, source_name, totals, Distributions::default())
    };
    let totals = [totals(topic, source), totals(other, node)];
    let yaml = render_totals(node, &totals, 5);
    // Programs read this file, and no terminal shows it. So characters that change the direction of text are allowed
    // here, as in YAML.
    assert!(!yaml.contains(|c: char| c.is_control() && c != '\n'), "the file of totals: {yaml:?}");
    let read = &Yaml::load_from_str(&yaml).expect("YAML")[0];
    assert_eq!(read["node_name"].as_str(), Some(node), "{yaml}");
    for (read, expected) in read["topics"].as_sequence().expect("topics").iter().zip(&totals) {
        assert_eq!(read["topic_name"].as_str(), Some(&*expected.topic_name), "{yaml}");
        assert_eq!(read["measurement_source_name"].as_str(), Some(&*expected.source_name), "{yaml}");
        assert_eq!(read["messages_received"].as_integer(), Some(3), "{yaml}");
    }
}

fn errors(node: &str, topic: &str, other: &str) {
    let [node, topic] = [node, topic].map(str::to_owned);
    let io = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let rclrs = || RclrsError::NegativeDuration(1);
    let errors = [
        StatisticsError::Create {
            kind: SourceKind::Subscription,
            name: topic.clone(),
            node: node.clone(),
            source: rclrs(),
        },
        StatisticsError::CallbackForm { topic },
        StatisticsError::TotalsFile { node: node.clone(), path: other.into(), source: io() },
        StatisticsError::InvalidParameter { name: "x", node, reason: "it has to be a number".to_owned() },
    ];
    errors.iter().for_each(|error| has_no_control(&error.to_string(), "an error"));
    if let Err(error) = other.parse::<Metric>() {
        has_no_control(&error.to_string(), "an error");
    }
}

fn monitor(node: &str, topic: &str, message_type: &str, other: &str, view: &[u8]) {
    let mut view = Input(view);
    let error = DynamicMessageError::InvalidMessageType;
    let explained = explain(topic, message_type, &error);
    has_no_control(&explained, "a problem");
    // This error of rclrs can contain any name as the package.
    let package = message_type.split('/').next().unwrap_or_default().to_owned();
    let error = DynamicMessageError::RequiredPrefixNotSourced { package };
    has_no_control(&explain(topic, message_type, &error), "a problem");

    let now = Instant::now();
    let mut row = Row::new(topic);
    row.message_type = Some(message_type.to_owned());
    row.publisher_count = Some(2);
    row.nodes = vec![node.to_owned(), other.to_owned()];
    row.problem = view.bool().then_some(Problem::Error(explained));
    row.publishers = vec![Publisher {
        gid: "0".repeat(32),
        node: Some(node.to_owned()),
        received: 1,
        lost: None,
        out_of_order: None,
        last_message: 0,
        last_received: now,
    }];
    let metric = |name: &str, unit: &str| MetricFigures {
        name: name.to_owned(),
        unit: unit.to_owned(),
        figures: Summary::default(),
    };
    row.add_window(Window {
        rate: 1.0,
        metrics: vec![metric(other, node), metric("message_age", "ms")],
        ..Window::new(Times::from_nanoseconds(0, 1), now, Duration::from_secs(1))
    });
    is_json(&row, now);
    for line in detail::lines(&row, None, now, 80) {
        has_no_control(&line.to_string(), "a detail");
    }
    let Conditions(conditions) = "rate>2 age<1".parse().expect("conditions");
    for failure in failures(&conditions, &[&row], now) {
        has_no_control(&failure, "a failure of a condition");
    }
    let mut recording = Recording::new(Duration::from_secs(1), conditions);
    recording.add(&row);
    is_page(&mut recording, &[&row, &Row::new(other)], now);
    let mut live = LiveView::new(&mut view);
    live.draw(&mut view, &[&row, &Row::new(other)], now);
}
