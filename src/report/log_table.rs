// SPDX-License-Identifier: Apache-2.0

//! Finished windows as a table for the node's log.

use std::{fmt::Write, time::Duration};

use crate::{
    escape::Escaped,
    window::{Metric, Summary, WindowStatistics},
};

/// A row of the table.
pub(crate) struct Row {
    name: String,
    count: u64,
    rate: f64,
    metric: Metric,
    summary: Summary,
}

impl Row {
    /// Returns the row of a window: its first metric that has samples, or its first metric.
    pub(crate) fn new(source: &str, statistics: &WindowStatistics) -> Self {
        let metrics = &statistics.metrics;
        let shown = metrics.iter().find(|(_, summary)| summary.sample_count > 0).or(metrics.first());
        let (metric, summary) = shown.copied().unwrap_or((Metric::MessagePeriod, Summary::default()));
        // A custom name can have any character.
        Self {
            name: Escaped(source).to_string(),
            count: statistics.count,
            rate: statistics.rate(),
            metric,
            summary,
        }
    }
}

/// Returns the table of windows of that length. It starts with a line of its own, because the log has a prefix.
pub(crate) fn render(length: Duration, rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(4);
    let mut table = format!(
        "Topic statistics of {length:?}:\n{:<width$} {:>8} {:>9} {:>10} {:>10} {:>10}  of",
        "name", "count", "Hz", "mean", "min", "max"
    );
    for Row { name, count, rate, metric, summary } in rows {
        let figure = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.3}") };
        // Writing to a string cannot fail.
        let _written = write!(
            table,
            "\n{name:<width$} {count:>8} {:>9} {:>10} {:>10} {:>10}  {} [{}]",
            if rate.is_nan() { "-".to_owned() } else { format!("{rate:.1}") },
            figure(summary.average),
            figure(summary.minimum),
            figure(summary.maximum),
            metric.name(),
            metric.unit(),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collector::single_sample,
        window::{Distributions, Window},
    };

    #[test]
    fn a_name_cannot_forge_a_row() {
        let statistics = WindowStatistics {
            window: Window { start: 0, stop: 1 },
            length: Duration::from_secs(1),
            clock_step: None,
            count: 0,
            unrecorded: 0,
            distributions: Distributions::default(),
            metrics: vec![],
            totals: None,
        };
        let table = render(Duration::from_secs(1), &[Row::new("x\u{1b}[2J\n/imu", &statistics)]);
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(table.contains("x\\u{1b}[2J\\u{a}/imu"), "{table}");
    }

    #[test]
    fn a_row_has_the_first_metric_with_samples() {
        let statistics = WindowStatistics {
            window: Window { start: 0, stop: 2_000_000_000 },
            length: Duration::from_secs(2),
            clock_step: None,
            count: 3,
            unrecorded: 0,
            distributions: Distributions::default(),
            metrics: vec![
                (Metric::MessageAge, single_sample(None)),
                (Metric::MessagePeriod, single_sample(Some(500.0))),
            ],
            totals: None,
        };
        let silent = WindowStatistics {
            count: 0,
            metrics: vec![(Metric::Duration, single_sample(None))],
            ..statistics.clone()
        };
        let rows = [Row::new("/listener:/chatter", &statistics), Row::new("/listener:get_pose", &silent)];
        assert_eq!(
            render(Duration::from_secs(2), &rows),
            "Topic statistics of 2s:\n\
             name                  count        Hz       mean        min        max  of\n\
             /listener:/chatter        3       1.5    500.000    500.000    500.000  message_period [ms]\n\
             /listener:get_pose        0       0.0          -          -          -  duration_ms [ms]"
        );
    }
}
