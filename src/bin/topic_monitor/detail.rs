//! The view of one topic: all metrics, and who sends.

use ratatui::{
    style::{Modifier, Style},
    text::Line,
};

use crate::{
    format::{count, count_if_known, figure, seconds, sparkline, start_of},
    row::Row,
};

/// Returns the lines of the view.
pub fn lines(row: &Row, now: i64, width: usize) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let status = row.status(now).text();
    let mut lines = vec![
        Line::styled(format!("{}  {status}", row.name), bold),
        Line::raw(format!("type        {}", row.message_type.as_deref().unwrap_or("-"))),
    ];
    if let Some(problem) = &row.problem {
        for (index, part) in wrapped(problem.text(), width.saturating_sub(12)).into_iter().enumerate() {
            lines.push(Line::raw(format!("{:12}{part}", if index == 0 { "problem" } else { "" })));
        }
    }
    if let Some(publishers) = row.publishers {
        lines.push(Line::raw(format!("publishers  {publishers}: {}", row.nodes.join(" "))));
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
            (reading.stop - reading.start) as f64 / 1e9,
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
            start_of(&measured.name, 27),
            start_of(&measured.unit, 8),
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
            count(sender.lost),
            count(sender.out_of_order),
            seconds((now - sender.last_message).max(0) as f64 / 1e6),
            sender.node.as_deref().unwrap_or("-"),
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
        tests::{row, S},
        Problem, Sender,
    };

    #[test]
    fn all_metrics_and_the_losses_of_each_publisher_are_told() {
        let mut imu = row("/imu", 100.0, 12);
        let sender = |gid: &str, node: Option<&str>, lost| Sender {
            gid: gid.repeat(32),
            node: node.map(str::to_owned),
            received: 600,
            lost,
            out_of_order: 1,
            last_message: 99 * S,
        };
        imu.senders = vec![sender("a", Some("/front"), 12), sender("b", None, 0)];
        imu.problem = Some(Problem::Error("something is wrong ".repeat(10)));
        let lines: Vec<String> = lines(&imu, 100 * S, 80).iter().map(ToString::to_string).collect();
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
}
