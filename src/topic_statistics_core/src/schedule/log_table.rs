// SPDX-License-Identifier: Apache-2.0

//! Writes finished windows as a table for the node's log.

use std::{fmt::Write, time::Duration};

use crate::{escape::Escaped, metric::Metric, summary::Summary, window::WindowStatistics};

/// Returns a table of windows of the given length, each with the name of its source. A row shows the first metric that
/// has samples. If no metric has samples, it shows the first metric. If at least one of these metrics has a
/// distribution, the table has a column for the 99th percentile. Below the row of an executor are lines about its
/// threads and callbacks. The table starts with a title on a separate line, because the log puts a prefix before the
/// first line.
pub fn render(length: Duration, windows: &[(&str, &WindowStatistics)]) -> String {
    let row = |(name, window): &(&str, &'_ WindowStatistics)| {
        let shown = window.metrics.iter().find(|(_, summary)| summary.sample_count > 0);
        let shown = shown.or(window.metrics.first()).copied();
        let (metric, summary) = shown.unwrap_or((Metric::MessagePeriod, Summary::default()));
        let p99 = window.distribution(metric).map(|distribution| distribution.quantile(0.99));
        // A custom name can contain any character, so the name is escaped.
        (Escaped(name).to_string(), metric, summary, p99)
    };
    let rows: Vec<_> = windows.iter().map(row).collect();
    let width = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0).max(4);
    let has_p99 = rows.iter().any(|(.., p99)| p99.is_some());
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
    for ((name, metric, summary, quantile), (_, window)) in rows.iter().zip(windows) {
        let figure = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.3}") };
        let rate = window.rate();
        // Writing to a string cannot fail.
        let _written = write!(
            table,
            "\n{name:<width$} {:>8} {:>9} {:>10} {:>10} {:>10}{}  {} [{}]",
            if window.is_count_known { window.count.to_string() } else { "-".to_owned() },
            if rate.is_nan() { "-".to_owned() } else { format!("{rate:.1}") },
            figure(summary.average),
            figure(summary.minimum),
            figure(summary.maximum),
            p99(&figure(quantile.unwrap_or(f64::NAN))),
            metric.name(),
            metric.unit(),
        );
        if let Some(executor) = &window.executor {
            let _written = write!(table, "\n  {}", executor.to_string().replace('\n', "\n  "));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        collector::{single_sample, SummaryCollector},
        distributions::Distributions,
        executor::{CallbackKind, ExecutorCallback, ExecutorThread, ExecutorWindow, LongestCallback},
        metric_set::MetricSet,
        window::Window,
    };

    #[test]
    fn a_name_cannot_forge_a_row() {
        let statistics =
            WindowStatistics::new(Window::from_nanoseconds(0, 1), Duration::from_secs(1), 0, vec![]);
        let table = render(Duration::from_secs(1), &[("x\u{1b}[2J\n/imu", &statistics)]);
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
        let rows = [
            ("/listener:/chatter", &statistics),
            ("/listener:/get_pose", &silent),
            ("/listener:/unknown", &unknown),
        ];
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
        let table = render(Duration::from_secs(1), &[("/robot:executor", &statistics)]);
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
        let windows = [100_u32, 99, 0].map(|samples| {
            let (mut summary, mut distributions) =
                (SummaryCollector::default(), Distributions::new(MetricSet::of(&[Metric::Duration])));
            for sample in (1..=samples).map(f64::from) {
                summary.accept(sample);
                distributions.accept(Metric::Duration, sample);
            }
            let metrics = vec![(Metric::Duration, summary.summary())];
            let distributions = distributions.of_window(&metrics);
            let window = Window::from_nanoseconds(0, 1_000_000_000);
            WindowStatistics {
                distributions,
                ..WindowStatistics::new(window, Duration::from_secs(1), samples.into(), metrics)
            }
        });
        let [many, few, none] = &windows;
        let rows = [("/bridge:many", many), ("/bridge:few", few), ("/bridge:none", none)];
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
