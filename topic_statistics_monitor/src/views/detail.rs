// SPDX-License-Identifier: Apache-2.0

//! The details of one row: all metrics, the histogram of the chosen metric, and the publishers.

use std::time::Instant;

use ratatui::{
    style::{Modifier, Style},
    text::Line,
};

use rclrs_topic_statistics::Metric;
use topic_statistics_observe::{
    format::{count, count_if_known, figure, milliseconds, name, seconds, start_of},
    histogram,
    row::{MetricFigures, Row},
};

use super::sparkline::sparkline;

/// The smallest width of a screen whose table of metrics has the percentiles of the last minute.
const WITH_PERCENTILES: usize = 92;

/// Returns the lines of the details, with the histogram of the chosen metric, if any.
pub fn lines(row: &Row, chosen: Option<Metric>, now: Instant, width: usize) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let status = row.status(now).text();
    let mut lines = vec![
        Line::styled(format!("{}  {status}", name(&row.name)), bold),
        Line::raw(format!("type        {}", name(row.message_type.as_deref().unwrap_or("-")))),
    ];
    if let Some(health) = &row.health {
        lines.push(Line::raw(format!("health      {}: {health}", health.level)));
    }
    if let Some(problem) = &row.problem {
        for (index, part) in wrapped(problem.text(), width.saturating_sub(12)).into_iter().enumerate() {
            lines.push(Line::raw(format!("{:12}{part}", if index == 0 { "problem" } else { "" })));
        }
    }
    if let Some(count) = row.publisher_count {
        let nodes: Vec<String> = row.nodes.iter().map(|node| name(node)).collect();
        lines.push(Line::raw(format!("publishers  {count}: {}", nodes.join(" "))));
        let again = match row.earlier_subscriptions {
            0 => String::new(),
            earlier => format!("; subscription {}", earlier + 1),
        };
        lines.push(Line::raw(format!(
            "subscribed  {}{again}",
            if row.qos.is_empty() { "-" } else { &row.qos }
        )));
    }
    lines.push(Line::raw(format!(
        "in all      {} received, {} lost, {} out of order, last {} ago",
        row.received,
        count_if_known(row.lost),
        count_if_known(row.out_of_order),
        seconds(row.silence(now)),
    )));
    if let Some(window) = &row.window {
        lines.push(Line::raw(format!(
            "window      {:.3} s, {} Hz, {} B/s, {} received, {} lost, {} out of order",
            window.length.as_secs_f64(),
            figure(window.rate),
            figure(window.bandwidth()),
            count_if_known(window.received),
            count_if_known(window.lost),
            count_if_known(window.out_of_order),
        )));
    }
    for (index, callback) in row.callbacks.iter().enumerate() {
        let title = if index == 0 { "callbacks" } else { "" };
        lines.push(Line::raw(start_of(&format!("{title:12}{}", name(callback)), width)));
    }
    lines.push(Line::raw(format!("last minute {}", sparkline(&row.history, now, width.saturating_sub(13)))));
    if let Some(metric) = chosen {
        let distribution = row.last_minute.distribution(metric, now);
        lines.push(Line::raw(""));
        lines.extend(histogram::lines(metric, distribution.as_ref(), width).into_iter().map(Line::raw));
        lines.push(Line::raw(""));
    }
    let has_percentiles = width >= WITH_PERCENTILES;
    let columns = format!(
        "{:27} {:8} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "metric", "unit", "mean", "min", "max", "std dev", "count"
    );
    let percentiles = if has_percentiles { "     p50     p99 of the last minute" } else { "" };
    lines.push(Line::styled(columns + percentiles, bold));
    for metric in row.window.iter().flat_map(|window| &window.metrics) {
        lines.push(Line::raw(metric_line(row, metric, has_percentiles, now)));
    }
    if !row.publishers.is_empty() {
        lines.push(Line::raw(""));
        lines.push(Line::styled(
            format!(
                "{:32} {:>9} {:>6} {:>6} {:>6}  {}",
                "publisher (GID)", "received", "lost", "order", "last", "node"
            ),
            bold,
        ));
    }
    for publisher in &row.publishers {
        lines.push(Line::raw(format!(
            "{:32} {:>9} {:>6} {:>6} {:>6}  {}",
            publisher.gid,
            publisher.received,
            count_if_known(publisher.lost),
            count_if_known(publisher.out_of_order),
            seconds(milliseconds(now.saturating_duration_since(publisher.last_received))),
            name(publisher.node.as_deref().unwrap_or("-")),
        )));
    }
    lines
}

fn metric_line(row: &Row, metric: &MetricFigures, has_percentiles: bool, now: Instant) -> String {
    let figures = &metric.figures;
    let mut line = format!(
        "{:27} {:8} {:>7} {:>7} {:>7} {:>7} {:>7}",
        start_of(&name(&metric.name), 27),
        start_of(&name(&metric.unit), 8),
        figure(figures.average),
        figure(figures.minimum),
        figure(figures.maximum),
        figure(figures.standard_deviation),
        count(figures.sample_count),
    );
    if let (true, Ok(metric)) = (has_percentiles, metric.name.parse()) {
        for quantile in [0.5, 0.99] {
            line += &format!(" {:>7}", figure(row.quantile(metric, quantile, now)));
        }
    }
    line
}

/// Breaks a text between words into lines of at most `width` characters, if no word is longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let length = lines[last].chars().count();
        if length == 0 {
            lines[last] += word;
        } else if length + 1 + word.chars().count() <= width {
            lines[last] = format!("{} {word}", lines[last]);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use topic_statistics_observe::{
        row::{Problem, Publisher},
        testing::{at, distribution, row, S},
    };

    fn text(row: &Row, chosen: Option<Metric>, width: usize) -> String {
        let lines = lines(row, chosen, at(100), width);
        lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn all_metrics_and_the_losses_of_each_publisher_are_shown() {
        let mut imu = row("/imu", 100.0, 12);
        let publisher = |gid: &str, node: Option<&str>, lost| Publisher {
            gid: gid.repeat(32),
            node: node.map(str::to_owned),
            received: 600,
            lost: Some(lost),
            out_of_order: Some(1),
            last_message: 99 * S,
            last_received: at(99),
        };
        (imu.qos, imu.earlier_subscriptions) = ("best effort, volatile, depth 1000".to_owned(), 1);
        imu.publishers = vec![publisher("a", Some("/front"), 12), publisher("b", None, 0)];
        imu.problem = Some(Problem::Error("something is wrong ".repeat(10)));
        let text = text(&imu, None, 80);
        for expected in [
            "/imu  ERROR",
            "subscribed  best effort, volatile, depth 1000; subscription 2",
            "message_period              ms         10.00   9.000   11.00   0.500     100",
            "in all      1234 received, 12 lost, 0 out of order, last 0.0s ago",
            "window      1.000 s, 100.0 Hz, 32000 B/s, 100 received, 12 lost, 0 out of order",
            &format!("{}       600     12      1   1.0s  /front", "a".repeat(32)),
            &format!("{}       600      0      1   1.0s  -", "b".repeat(32)),
        ] {
            assert!(text.contains(expected), "{expected}\nnot in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn the_chosen_histogram_is_above_the_table() {
        let mut imu = row("/imu", 100.0, 0);
        let ages: Vec<f64> = (1..=200).map(|age| f64::from(age.min(190)) / 10.0).collect();
        let ages = distribution(&ages);
        imu.last_minute.add(Metric::MessageAge, &ages, at(99));
        let narrow = text(&imu, Some(Metric::MessageAge), 80);
        let [histogram, table] =
            ["message_age in the last minute, ms: 200 samples", "metric   "].map(|part| narrow.find(part));
        assert!(histogram.is_some() && histogram < table && !narrow.contains("p99 of"), "{narrow}");
        assert!(narrow.contains('█') && narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        let none = text(&imu, Some(Metric::MessagePeriod), 80);
        assert!(none.contains("message_period: no sample in the last minute"));
        let wide = text(&imu, None, 100);
        let figures = |metric| {
            let line = wide.lines().find(|line| line.starts_with(metric)).unwrap();
            line.split_whitespace().skip(7).map(str::to_owned).collect::<Vec<_>>()
        };
        for (figure, exact) in figures("message_age").iter().zip([10.0, 19.0]) {
            assert!(
                (figure.parse::<f64>().unwrap() - exact).abs() <= exact * ages.relative_error(),
                "{wide}"
            );
        }
        assert_eq!((figures("message_age").len(), figures("message_period")), (2, vec!["-".to_owned(); 2]));
        assert!(!wide.contains("samples"), "{wide}");
    }
}
