// SPDX-License-Identifier: Apache-2.0

//! A message on /statistics or /statistics/distribution, with its names and figures checked; and what an executor ran,
//! from its status on /diagnostics.

use std::time::Instant;

use rclrs_topic_statistics::{Distribution, Metric};
#[cfg(feature = "interfaces")]
use ros_env::topic_statistics_interfaces::msg::MetricsDistribution;
use ros_env::{
    diagnostic_msgs::msg::{DiagnosticStatus, KeyValue},
    statistics_msgs::msg::MetricsMessage,
};
use topic_statistics_core::health::{CALLBACK_WAIT, LONGEST_CALLBACK};
#[cfg(feature = "interfaces")]
use topic_statistics_observe::ros::statistics::read_distribution;
use topic_statistics_observe::ros::statistics::{check_names, nanoseconds, DataPoints};
use topic_statistics_observe::{
    bounds::Sender,
    row::{Figures, MetricFigures},
};

/// One metric in one window of a source, as it was received.
#[derive(Clone, Debug)]
pub struct SourceMetric {
    /// When the message was received.
    pub received_at: Instant,
    /// The process that published it.
    pub sender: Sender,
    /// The `measurement_source_name`.
    pub source: String,
    /// The start of the window, as nanoseconds since the epoch.
    pub start: i64,
    /// The stop of the window, as nanoseconds since the epoch.
    pub stop: i64,
    /// The metric and its figures.
    pub metric: MetricFigures,
}

impl SourceMetric {
    /// Checks a message, of no known sender. `None` if one of its names is too long.
    pub fn new(message: MetricsMessage, received_at: Instant) -> Option<Self> {
        let names = [&message.measurement_source_name, &message.metrics_source, &message.unit];
        check_names(&names.map(String::as_str)).ok()?;
        Some(Self {
            received_at,
            sender: Sender::default(),
            start: nanoseconds(&message.window_start),
            stop: nanoseconds(&message.window_stop),
            metric: MetricFigures {
                figures: figures(DataPoints::new(&message.statistics)),
                name: message.metrics_source,
                unit: message.unit,
            },
            source: message.measurement_source_name,
        })
    }
}

/// The distribution of one metric in one window of a source, as it was received.
#[derive(Clone, Debug)]
pub struct SourceDistribution {
    /// When the message was received.
    pub received_at: Instant,
    /// The `measurement_source_name`.
    pub source: String,
    /// The metric.
    pub metric: Metric,
    /// Boxed, because many messages can wait.
    pub distribution: Box<Distribution>,
}

#[cfg(feature = "interfaces")]
impl SourceDistribution {
    /// Checks a message. Errors with the mistake and the valid values, in printable characters.
    pub fn new(message: MetricsDistribution, received_at: Instant) -> Result<Self, String> {
        let names = [&message.measurement_source_name, &message.metrics_source, &message.unit];
        check_names(&names.map(String::as_str)).map_err(|error| error.to_string())?;
        let (metric, distribution) = read_distribution(&message).map_err(|error| {
            let [source, name, _] = names.map(|name| topic_statistics_observe::format::name(name));
            format!("{name} of {source}: {error}")
        })?;
        let distribution = Box::new(distribution);
        Ok(Self { received_at, source: message.measurement_source_name, metric, distribution })
    }
}

/// What an executor ran in its last window, as its node has published it.
#[derive(Clone, Debug)]
pub struct SourceCallbacks {
    /// The source.
    pub source: String,
    /// The share of each thread, the longest callback, and the waits, in words. At most [`MAX_LINES`](Self::MAX_LINES).
    pub lines: Vec<String>,
}

impl SourceCallbacks {
    /// The share of all threads in one line, the longest callback, and five waits.
    pub const MAX_LINES: usize = 7;
    /// How many threads are shown.
    const MAX_THREADS: usize = 32;

    /// Reads a status. `None` if it is not an executor's, or if one of its texts is too long.
    pub fn new(status: DiagnosticStatus) -> Option<Self> {
        let (mut source, mut threads, mut lines) = (None, vec![], vec![]);
        for KeyValue { key, value } in status.values {
            check_names(&[&key, &value]).ok()?;
            match key.strip_prefix("busy.") {
                Some("average" | "maximum") => {} // of all threads
                Some(thread) => {
                    let busy = value.parse().ok().filter(|busy: &f64| busy.is_finite())?;
                    threads.push(format!("{thread} {busy:.1} %"));
                }
                None if key == "measurement_source_name" => source = Some(value),
                None if key == LONGEST_CALLBACK => lines.insert(0, format!("longest: {value}")),
                None if key.starts_with(CALLBACK_WAIT) => lines.push(value),
                None => {}
            }
        }
        threads.truncate(Self::MAX_THREADS);
        let busy = Some(threads).filter(|threads| !threads.is_empty())?.join(", ");
        let lines = [format!("busy: {busy}")].into_iter().chain(lines).take(Self::MAX_LINES).collect();
        Some(Self { source: source?, lines })
    }
}

/// Returns the figures of a message. Infinite and missing ones are NaN; a negative or missing count is 0.
fn figures(points: DataPoints) -> Figures {
    let finite = |value: f64| if value.is_finite() { value } else { f64::NAN };
    Figures {
        mean: finite(points.average),
        min: finite(points.minimum),
        max: finite(points.maximum),
        std_dev: finite(points.standard_deviation),
        count: points.sample_count.map_or(0, |count| finite(count) as u64),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use ros_env::{builtin_interfaces::msg::Time, statistics_msgs::msg::StatisticDataPoint};
    use topic_statistics_observe::ros::statistics::MAX_NAME;
    use topic_statistics_observe::testing::at;

    /// A metric of a window of one second that ends at `stop` (s), received then.
    pub fn message(source: &str, metric: &str, stop: i64, average: f64) -> SourceMetric {
        let point = |data_type, data| StatisticDataPoint { data_type, data };
        let message = MetricsMessage {
            measurement_source_name: source.to_owned(),
            metrics_source: metric.to_owned(),
            unit: "ms".to_owned(),
            window_start: Time { sec: stop as i32 - 1, nanosec: 0 },
            window_stop: Time { sec: stop as i32, nanosec: 0 },
            statistics: vec![point(1, average), point(5, 50.0)],
        };
        SourceMetric::new(message, at(stop)).unwrap()
    }

    /// The distribution of ten ages, received at `second`.
    pub fn distribution(source: &str) -> MetricsDistribution {
        MetricsDistribution {
            measurement_source_name: source.to_owned(),
            metrics_source: "message_age".to_owned(),
            unit: "ms".to_owned(),
            count: 10,
            sum: 15.0,
            minimum: 1.5,
            maximum: 1.5,
            scale: 8,
            positive_offset: 149,
            positive_counts: vec![10],
            ..Default::default()
        }
    }

    #[test]
    fn distributions_are_checked() {
        let right = SourceDistribution::new(distribution("/listener:/imu"), at(1)).unwrap();
        assert_eq!((right.metric, right.distribution.count()), (Metric::MessageAge, 10));
        assert_eq!(right.distribution.quantile(0.5), 1.5);
        let wrong = || distribution("/x\u{1b}[2J");
        for (message, why) in [
            (
                MetricsDistribution { scale: 9, ..wrong() },
                "message_age of /x\\u{1b}[2J: The scale is 9: it has to be from 2 to 8",
            ),
            (MetricsDistribution { count: 11, ..wrong() }, "The count is 11"),
            (MetricsDistribution { unit: "s".to_owned(), ..wrong() }, "it has to be ms"),
            (MetricsDistribution { unit: "x".repeat(100_000), ..wrong() }, "100000 bytes"),
            (MetricsDistribution { metrics_source: "jitter\n".to_owned(), ..wrong() }, "jitter\\u{a} of "),
        ] {
            let error = SourceDistribution::new(message, at(1)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let long = || "x".repeat(MAX_NAME + 1);
        for message in [
            MetricsMessage { measurement_source_name: long(), ..Default::default() },
            MetricsMessage { metrics_source: long(), ..Default::default() },
            MetricsMessage { unit: long(), ..Default::default() },
        ] {
            assert!(SourceMetric::new(message, at(0)).is_none());
        }
    }

    #[test]
    fn only_an_executors_status_has_callbacks_and_they_are_bounded() {
        let read = |values: &[(&str, &str)]| {
            let value =
                |(key, value): &(&str, &str)| KeyValue { key: (*key).to_owned(), value: (*value).to_owned() };
            let values = values.iter().map(value).collect();
            SourceCallbacks::new(DiagnosticStatus { values, ..Default::default() })
        };
        let (name, busy) = (("measurement_source_name", "/a:executor"), ("busy.spin", "1"));
        let callbacks = read(&[
            name,
            ("busy.average", "30.000000"),
            ("busy.maximum", "60.000000"),
            ("busy.spin", "60.000000"),
            ("busy.worker 1", "0.040000"),
            ("longest_callback", "task on spin, 1.000 ms"),
            ("callback_wait_1", "task waited 1.000 ms for task"),
            ("warn_unless", "busy<80"),
        ])
        .unwrap();
        assert_eq!(callbacks.source, "/a:executor");
        let lines =
            "busy: spin 60.0 %, worker 1 0.0 %|longest: task on spin, 1.000 ms|task waited 1.000 ms for task";
        assert_eq!(callbacks.lines.join("|"), lines);
        let long = "x".repeat(MAX_NAME + 1);
        for wrong in [
            &[name, ("message_age.average", "1"), ("busy.maximum", "1")][..], // of a subscription
            &[busy],                                                          // of no source
            &[name, ("busy.spin", "much")],
            &[name, ("busy.spin", "inf")],
            &[name, ("busy.spin", "NaN")],
            &[name, busy, ("callback_wait_1", &long)],
        ] {
            assert!(read(wrong).is_none(), "{wrong:?}");
        }
        let flood = [&[name][..], &[busy; 1000], &[("callback_wait_9", "x"); 1000]].concat();
        let flood = read(&flood).unwrap();
        assert_eq!(flood.lines.len(), SourceCallbacks::MAX_LINES);
        assert!(flood.lines.iter().all(|line| line.len() < 1000), "{:?}", flood.lines);
    }
}
