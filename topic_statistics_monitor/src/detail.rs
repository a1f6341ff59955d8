// SPDX-License-Identifier: Apache-2.0

//! The view of one topic: all metrics, and who sends.

use std::time::Instant;

use ratatui::{
    style::{Modifier, Style},
    text::Line,
};

use crate::{
    format::{count, count_if_known, figure, name, seconds, sparkline, start_of},
    row::{milliseconds, Row},
};

/// Returns the lines of the view.
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
    if let Some(publishers) = row.publishers {
        let nodes: Vec<String> = row.nodes.iter().map(|node| name(node)).collect();
        lines.push(Line::raw(format!("publishers  {publishers}: {}", nodes.join(" "))));
        lines.push(Line::raw(format!("heard as    {}", if row.qos.is_empty() { "-" } else { &row.qos })));
    }
    lines.push(Line::raw(format!(
        "in all      {} received, {} lost, {} out of order, last {} ago",
        row.received,
        count_if_known(row.lost),
        count_if_known(row.out_of_order),
        seconds(row.silence(now)),
    )));
    if let Some(reading) = &row.reading {
        lines.push(Line::raw(format!(
            "window      {:.3} s, rate {} Hz, {} received, {} lost, {} out of order",
            reading.length.as_secs_f64(),
            figure(reading.rate),
            count_if_known(reading.received),
            count_if_known(reading.lost),
            count_if_known(reading.out_of_order),
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
    for measured in row.reading.iter().flat_map(|reading| &reading.metrics) {
        let summary = &measured.summary;
        lines.push(Line::raw(format!(
            "{:27} {:8} {:>7} {:>7} {:>7} {:>7} {:>7}",
            start_of(&name(&measured.name), 27),
            start_of(&name(&measured.unit), 8),
            figure(summary.average),
            figure(summary.minimum),
            figure(summary.maximum),
            figure(summary.standard_deviation),
            count(summary.sample_count),
        )));
    }
    if !row.senders.is_empty() {
        lines.push(Line::raw(""));
        lines.push(Line::styled(
            format!(
                "{:32} {:>9} {:>6} {:>6} {:>6}  {}",
                "publisher (GID)", "received", "lost", "order", "last", "node"
            ),
            bold,
        ));
    }
    for sender in &row.senders {
        lines.push(Line::raw(format!(
            "{:32} {:>9} {:>6} {:>6} {:>6}  {}",
            sender.gid,
            sender.received,
            count_if_known(sender.lost),
            count_if_known(sender.out_of_order),
            seconds(milliseconds(now.saturating_duration_since(sender.last_heard))),
            name(sender.node.as_deref().unwrap_or("-")),
        )));
    }
    lines
}

/// A text in lines of so many characters, broken between words.
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
        tests::{at, reading, row, S},
        Problem, Sender,
    };

    #[test]
    fn all_metrics_and_the_losses_of_each_publisher_are_told() {
        let mut imu = row("/imu", 100.0, 12);
        let sender = |gid: &str, node: Option<&str>, lost| Sender {
            gid: gid.repeat(32),
            node: node.map(str::to_owned),
            received: 600,
            lost: Some(lost),
            out_of_order: Some(1),
            last_message: 99 * S,
            last_heard: at(99),
        };
        imu.senders = vec![sender("a", Some("/front"), 12), sender("b", None, 0)];
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
    fn nothing_foreign_reaches_the_terminal_as_it_is() {
        let hostile = "x\u{1b}[2J\n\u{202e}";
        let mut imu = row(hostile, 100.0, 0);
        (imu.message_type, imu.nodes) = (Some(hostile.to_owned()), vec![hostile.to_owned()]);
        let mut window = reading(101, 100.0, 0);
        (window.metrics[0].name, window.metrics[0].unit) = (hostile.to_owned(), hostile.to_owned());
        imu.take(window);
        let lines: String = lines(&imu, at(101), 80).iter().map(ToString::to_string).collect();
        assert!(!lines.contains(['\u{1b}', '\n', '\u{202e}']) && lines.contains("x\\u{1b}[2J"), "{lines:?}");
    }
}
