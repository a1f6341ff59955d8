// SPDX-License-Identifier: Apache-2.0

//! The details of one topic: all metrics, and the publishers.

use std::time::Instant;

use ratatui::{
    style::{Modifier, Style},
    text::Line,
};

use crate::{
    format::{count, count_if_known, figure, milliseconds, name, seconds, start_of},
    row::Row,
    views::sparkline::sparkline,
};

/// Returns the lines of the details.
pub fn lines(row: &Row, now: Instant, width: usize) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let status = row.status(now).text();
    let mut lines = vec![
        Line::styled(format!("{}  {status}", name(&row.name)), bold),
        Line::raw(format!("type        {}", name(row.message_type.as_deref().unwrap_or("-")))),
    ];
    if let Some(problem) = &row.problem {
        for (index, part) in wrapped(problem.text(), width.saturating_sub(12)).into_iter().enumerate() {
            lines.push(Line::raw(format!("{:12}{part}", if index == 0 { "problem" } else { "" })));
        }
    }
    if let Some(count) = row.publisher_count {
        let nodes: Vec<String> = row.nodes.iter().map(|node| name(node)).collect();
        lines.push(Line::raw(format!("publishers  {count}: {}", nodes.join(" "))));
        lines.push(Line::raw(format!("subscribed  {}", if row.qos.is_empty() { "-" } else { &row.qos })));
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
            "window      {:.3} s, rate {} Hz, {} received, {} lost, {} out of order",
            window.length.as_secs_f64(),
            figure(window.rate),
            count_if_known(window.received),
            count_if_known(window.lost),
            count_if_known(window.out_of_order),
        )));
    }
    lines.push(Line::raw(format!("last minute {}", sparkline(&row.history, now, width.saturating_sub(13)))));
    lines.push(Line::raw(""));
    lines.push(Line::styled(
        format!(
            "{:27} {:8} {:>7} {:>7} {:>7} {:>7} {:>7}",
            "metric", "unit", "mean", "min", "max", "std dev", "count"
        ),
        bold,
    ));
    for metric in row.window.iter().flat_map(|window| &window.metrics) {
        let figures = &metric.figures;
        lines.push(Line::raw(format!(
            "{:27} {:8} {:>7} {:>7} {:>7} {:>7} {:>7}",
            start_of(&name(&metric.name), 27),
            start_of(&name(&metric.unit), 8),
            figure(figures.mean),
            figure(figures.min),
            figure(figures.max),
            figure(figures.std_dev),
            count(figures.count),
        )));
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

/// Returns a text in lines of at most `width` characters, broken between words. A longer word has a line of its own.
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
    use crate::row::{
        tests::{at, row, window, S},
        Problem, Publisher,
    };

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
        imu.publishers = vec![publisher("a", Some("/front"), 12), publisher("b", None, 0)];
        imu.problem = Some(Problem::Error("something is wrong ".repeat(10)));
        let lines: Vec<String> = lines(&imu, at(100), 80).iter().map(ToString::to_string).collect();
        let text = lines.join("\n");
        for expected in [
            "/imu  ERROR",
            "message_period              ms         10.00   9.000   11.00   0.500     100",
            "in all      1234 received, 12 lost, 0 out of order, last 0.0s ago",
            &format!("{}       600     12      1   1.0s  /front", "a".repeat(32)),
            &format!("{}       600      0      1   1.0s  -", "b".repeat(32)),
        ] {
            assert!(text.contains(expected), "{expected}\nnot in\n{text}");
        }
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn no_name_reaches_the_terminal_unescaped() {
        let hostile = "x\u{1b}[2J\n\u{202e}";
        let mut imu = row(hostile, 100.0, 0);
        (imu.message_type, imu.nodes) = (Some(hostile.to_owned()), vec![hostile.to_owned()]);
        let mut window = window(101, 100.0, 0);
        (window.metrics[0].name, window.metrics[0].unit) = (hostile.to_owned(), hostile.to_owned());
        imu.add_window(window);
        let lines: String = lines(&imu, at(101), 80).iter().map(ToString::to_string).collect();
        assert!(!lines.contains(['\u{1b}', '\n', '\u{202e}']) && lines.contains("x\\u{1b}[2J"), "{lines:?}");
    }
}
