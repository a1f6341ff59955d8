// SPDX-License-Identifier: Apache-2.0

//! Writes finished windows as a table for the node's log.

use std::{fmt::Write, sync::Arc, time::Duration};

use crate::{
    escape::Escaped, executor::ExecutorWindow, metric::Metric, summary::Summary, window::WindowStatistics,
};

/// A row of the table.
pub struct Row {
    name: String,
    /// The number of messages; `None` if the number is unknown.
    count: Option<u64>,
    rate: f64,
    metric: Metric,
    summary: Summary,
    /// The 99th percentile of the metric; `None` if the metric has no distribution.
    p99: Option<f64>,
    executor: Option<Arc<ExecutorWindow>>,
}

impl Row {
    /// Returns the row of a window. The row shows the first metric that has samples. If no metric has samples, it shows
    /// the first metric.
    pub fn new(source: &str, statistics: &WindowStatistics) -> Self {
        let metrics = &statistics.metrics;
        let shown = metrics.iter().find(|(_, summary)| summary.sample_count > 0).or(metrics.first());
        let (metric, summary) = shown.copied().unwrap_or((Metric::MessagePeriod, Summary::default()));
        // A custom name can contain any character, so the name is escaped.
        Self {
            name: Escaped(source).to_string(),
            count: statistics.is_count_known.then_some(statistics.count),
            rate: statistics.rate(),
            metric,
            summary,
            p99: statistics.distribution(metric).map(|distribution| distribution.quantile(0.99)),
            executor: statistics.executor.clone(),
        }
    }
}

/// Returns a table of windows of the given length. If at least one row has a distribution, the table has a column for
/// the 99th percentile. Below the row of an executor are lines about its threads and callbacks. The table starts with a
/// title on a separate line, because the log puts a prefix before the first line.
pub fn render(length: Duration, rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(4);
    let has_p99 = rows.iter().any(|row| row.p99.is_some());
    let p99 = |text: &str| if has_p99 { format!(" {text:>10}") } else { String::new() };
    let mut table = format!(
        "Topic statistics of {length:?}:\n{:<width$} {:>8} {:>9} {:>10} {:>10} {:>10}{}  of",
        "name",
        "count",
        "Hz",
        "mean",
        "min",
        "max",
        p99("p99")
    );
    for Row { name, count, rate, metric, summary, p99: quantile, executor } in rows {
        let figure = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.3}") };
        // Writing to a string cannot fail.
        let _written = write!(
            table,
            "\n{name:<width$} {:>8} {:>9} {:>10} {:>10} {:>10}{}  {} [{}]",
            count.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            if rate.is_nan() { "-".to_owned() } else { format!("{rate:.1}") },
            figure(summary.average),
            figure(summary.minimum),
            figure(summary.maximum),
            p99(&figure(quantile.unwrap_or(f64::NAN))),
            metric.name(),
            metric.unit(),
        );
        if let Some(executor) = executor {
            let _written = write!(table, "\n  {}", executor.to_string().replace('\n', "\n  "));
        }
    }
    table
}

opaque_debug!(Row);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collector::{single_sample, SummaryCollector},
        distributions::Distributions,
        executor::{CallbackKind, ExecutorCallback, ExecutorThread, LongestCallback},
        metric_set::MetricSet,
        window::Window,
    };

    #[test]
    fn a_name_cannot_forge_a_row() {
        let statistics =
            WindowStatistics::new(Window::from_nanoseconds(0, 1), Duration::from_secs(1), 0, vec![]);
        let table = render(Duration::from_secs(1), &[Row::new("x\u{1b}[2J\n/imu", &statistics)]);
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(table.contains("x\\u{1b}[2J\\u{a}/imu"), "{table}");
    }

    #[test]
    fn a_row_has_the_first_metric_with_samples() {
        let statistics = WindowStatistics::new(
            Window::from_nanoseconds(0, 2_000_000_000),
            Duration::from_secs(2),
            3,
            vec![
                (Metric::MessageAge, single_sample(None)),
                (Metric::MessagePeriod, single_sample(Some(500.0))),
            ],
        );
        let silent = WindowStatistics {
            count: 0,
            metrics: vec![(Metric::Duration, single_sample(None))],
            ..statistics.clone()
        };
        let unknown = WindowStatistics { is_count_known: false, ..silent.clone() };
        let rows = [("chatter", &statistics), ("get_pose", &silent), ("unknown", &unknown)];
        let rows = rows.map(|(topic, statistics)| Row::new(&format!("/listener:/{topic}"), statistics));
        assert_eq!(
            render(Duration::from_secs(2), &rows),
            "Topic statistics of 2s:\n\
             name                   count        Hz       mean        min        max  of\n\
             /listener:/chatter         3       1.5    500.000    500.000    500.000  message_period [ms]\n\
             /listener:/get_pose        0       0.0          -          -          -  duration_ms [ms]\n\
             /listener:/unknown         -         -          -          -          -  duration_ms [ms]"
        );
    }

    #[test]
    fn below_the_row_of_an_executor_are_its_threads_and_callbacks() {
        let executor = ExecutorWindow {
            threads: vec![ExecutorThread { name: "spin".into(), busy: 5.5 }],
            longest: Some(LongestCallback {
                callback: ExecutorCallback::new(CallbackKind::Timer, "10ms"),
                thread: "spin".into(),
                milliseconds: 55.0,
            }),
            ..ExecutorWindow::default()
        };
        let metrics = vec![(Metric::Busy, single_sample(Some(5.5)))];
        let mut statistics =
            WindowStatistics::new(Window::from_nanoseconds(0, 1), Duration::from_secs(1), 3, metrics);
        (statistics.is_count_known, statistics.executor) = (false, Some(Arc::new(executor)));
        let table = render(Duration::from_secs(1), &[Row::new("/robot:executor", &statistics)]);
        assert_eq!(
            table.lines().skip(2).collect::<Vec<_>>(),
            [
                "/robot:executor        -         -      5.500      5.500      5.500  busy [%]",
                "  busy: spin 5.5 %",
                "  longest: timer 10ms on spin, 55.000 ms",
            ]
        );
    }

    #[test]
    fn a_row_has_p99_if_there_are_distributions_with_enough_samples() {
        let row = |name: &str, samples: u32| {
            let (mut summary, mut distributions) =
                (SummaryCollector::default(), Distributions::new(MetricSet::of(&[Metric::Duration])));
            for sample in (1..=samples).map(f64::from) {
                summary.accept(sample);
                distributions.accept(Metric::Duration, sample);
            }
            let metrics = vec![(Metric::Duration, summary.summary())];
            let distributions = distributions.of_window(&metrics);
            let window = Window::from_nanoseconds(0, 1_000_000_000);
            let statistics = WindowStatistics {
                distributions,
                ..WindowStatistics::new(window, Duration::from_secs(1), samples.into(), metrics)
            };
            Row::new(name, &statistics)
        };
        let rows = [row("/bridge:many", 100), row("/bridge:few", 99), row("/bridge:none", 0)];
        let table = render(Duration::from_secs(1), &rows);
        let columns: Vec<Vec<&str>> =
            table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(columns[0][5..], ["max", "p99", "of"]);
        let p99: f64 = columns[1][6].parse().unwrap();
        assert!((p99 - 99.0).abs() < 99.0 * 0.045, "the error at scale 4 is below 4.5 %: {table}");
        assert_eq!(columns[2][5..7], ["99.000", "-"]);
        assert_eq!(columns[3][5..7], ["-", "-"]);
    }
}
