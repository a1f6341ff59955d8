// SPDX-License-Identifier: Apache-2.0

//! The details of one row: all metrics, the histogram of the chosen metric, and the publishers.

use std::time::Instant;

use ratatui::{
    style::{Modifier, Style},
    text::Line,
};

use rclrs_topic_statistics::{Metric, Summary};
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
    let field = |title: &str, text: String| Line::raw(format!("{title:12}{text}"));
    let heading = Line::styled(format!("{}  {}", name(&row.name), row.status(now).text()), bold);
    let mut lines = vec![heading, field("type", name(row.message_type.as_deref().unwrap_or("-")))];
    lines.extend(row.health.iter().map(|health| field("health", format!("{}: {health}", health.level))));
    if let Some(problem) = &row.problem {
        for (index, part) in wrapped(problem.text(), width.saturating_sub(12)).into_iter().enumerate() {
            lines.push(field(if index == 0 { "problem" } else { "" }, part));
        }
    }
    if let Some(count) = row.publisher_count {
        let nodes: Vec<String> = row.nodes.iter().map(|node| name(node)).collect();
        lines.push(field("publishers", format!("{count}: {}", nodes.join(" "))));
        let again = match row.earlier_subscriptions {
            0 => String::new(),
            earlier => format!("; subscription {}", earlier + 1),
        };
        let qos = if row.qos.is_empty() { "-" } else { &row.qos };
        lines.push(field("subscribed", format!("{qos}{again}")));
    }
    let [lost, order] = [row.lost, row.out_of_order].map(count_if_known);
    let (received, ago) = (row.received, seconds(row.silence(now)));
    let all = format!("{received} received, {lost} lost, {order} out of order, last {ago} ago");
    lines.push(field("in all", all));
    if let Some(window) = &row.window {
        let [received, lost, order] = [window.received, window.lost, window.out_of_order].map(count_if_known);
        let [rate, bandwidth] = [window.rate, window.bandwidth()].map(figure);
        let counts = format!("{received} received, {lost} lost, {order} out of order");
        let length = window.length.as_secs_f64();
        lines.push(field("window", format!("{length:.3} s, {rate} Hz, {bandwidth} B/s, {counts}")));
    }
    for (index, callback) in row.callbacks.iter().enumerate() {
        let title = if index == 0 { "callbacks" } else { "" };
        lines.push(Line::raw(start_of(&format!("{title:12}{}", name(callback)), width)));
    }
    lines.push(field("last minute", sparkline(&row.history, now, width.saturating_sub(13))));
    if let Some(metric) = chosen {
        let distribution = row.last_minute.distribution(metric, now);
        lines.push(Line::raw(""));
        lines.extend(histogram::lines(metric, distribution.as_ref(), width).into_iter().map(Line::raw));
        lines.push(Line::raw(""));
    }
    let has_percentiles = width >= WITH_PERCENTILES;
    let columns = ["mean", "min", "max", "std dev", "count"].map(|title| format!(" {title:>7}")).concat();
    let percentiles = if has_percentiles { "     p50     p99 of the last minute" } else { "" };
    lines.push(Line::styled(format!("{:27} {:8}{columns}{percentiles}", "metric", "unit"), bold));
    for metric in row.window.iter().flat_map(|window| &window.metrics) {
        lines.push(Line::raw(metric_line(row, metric, has_percentiles, now)));
    }
    let publisher_line = |gid: &str, received: &str, [lost, order, last]: [&str; 3], node: &str| {
        format!("{gid:32} {received:>9} {lost:>6} {order:>6} {last:>6}  {node}")
    };
    if !row.publishers.is_empty() {
        lines.push(Line::raw(""));
        let titles = publisher_line("publisher (GID)", "received", ["lost", "order", "last"], "node");
        lines.push(Line::styled(titles, bold));
    }
    for publisher in &row.publishers {
        let [lost, order] = [publisher.lost, publisher.out_of_order].map(count_if_known);
        let last = seconds(milliseconds(now.saturating_duration_since(publisher.last_received)));
        let (received, node) = (publisher.received.to_string(), publisher.node.as_deref().unwrap_or("-"));
        let line = publisher_line(&publisher.gid, &received, [&lost, &order, &last], &name(node));
        lines.push(Line::raw(line));
    }
    lines
}

fn metric_line(row: &Row, metric: &MetricFigures, has_percentiles: bool, now: Instant) -> String {
    let Summary { average, minimum, maximum, standard_deviation, sample_count, .. } = metric.figures;
    let [unit, title] = [&metric.unit, &metric.name].map(|text| name(text));
    let mut line = format!("{:27} {:8}", start_of(&title, 27), start_of(&unit, 8));
    let mut figures = [average, minimum, maximum, standard_deviation].map(figure).to_vec();
    figures.push(count(sample_count));
    if let (true, Ok(metric)) = (has_percentiles, metric.name.parse()) {
        figures.extend([0.5, 0.99].map(|quantile| figure(row.quantile(metric, quantile, now))));
    }
    line.extend(figures.iter().map(|figure| format!(" {figure:>7}")));
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
            let error = (figure.parse::<f64>().unwrap() - exact).abs();
            assert!(error <= exact * ages.relative_error(), "{wide}");
        }
        assert_eq!((figures("message_age").len(), figures("message_period")), (2, vec!["-".to_owned(); 2]));
        assert!(!wide.contains("samples"), "{wide}");
    }
}
