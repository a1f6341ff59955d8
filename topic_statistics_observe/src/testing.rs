// SPDX-License-Identifier: Apache-2.0

//! Rows with simple values, for the tests of this package and of the programs.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use topic_statistics_core::{collector::Distribution, Summary, Window as Times};

use crate::row::{MetricFigures, Row, Window};

/// One second in nanoseconds.
pub const S: i64 = 1_000_000_000;

/// Returns a time on the monotonic clock: `seconds` after the first call.
pub fn at(seconds: i64) -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(Instant::now) + Duration::from_secs(seconds.try_into().unwrap())
}

pub fn distribution(samples: &[f64]) -> Distribution {
    let mut distribution = Distribution::default();
    samples.iter().for_each(|sample| assert!(distribution.accept(*sample)));
    distribution
}

pub fn figures(mean: f64, count: u64) -> Summary {
    Summary::new(mean, mean, mean, f64::NAN, count)
}

pub fn metric(name: &str, mean: f64, count: u64) -> MetricFigures {
    MetricFigures { name: name.to_owned(), unit: String::new(), figures: figures(mean, count) }
}

/// Returns a window of one second that ends at `stop` (in seconds).
pub fn window(stop: i64, rate: f64, lost: u64) -> Window {
    let metric = |name: &str, unit: &str, mean: f64| MetricFigures {
        name: name.to_owned(),
        unit: unit.to_owned(),
        figures: Summary::new(mean, mean - 1.0, mean + 1.0, 0.5, rate as u64),
    };
    let times = Times::from_nanoseconds((stop - 1) * S, stop * S);
    Window {
        rate,
        received: Some(rate as u64),
        lost: Some(lost),
        lost_since: Some(lost),
        out_of_order: Some(0),
        bytes: Some(320 * rate as u64),
        metrics: vec![metric("message_age", "ms", 2.5), metric("message_period", "ms", 1000.0 / rate)],
        ..Window::new(times, at(stop), Duration::from_secs(1))
    }
}

/// Returns the window, but without any samples of its metrics.
pub fn without_samples(mut window: Window) -> Window {
    window.metrics.iter_mut().for_each(|metric| metric.figures = Summary::default());
    window
}

/// Returns the row of a topic with this rate, whose last window and message were at 100 s.
pub fn row(name: &str, rate: f64, lost: u64) -> Row {
    let mut row = Row::new(name);
    row.message_type = Some("sensor_msgs/msg/Imu".to_owned());
    (row.publisher_count, row.nodes) = (Some(1), vec!["/talker".to_owned()]);
    (row.received, row.lost, row.out_of_order) = (1234, Some(lost), Some(0));
    (row.last_message, row.mean_period) = (Some(at(100)), 1000.0 / rate);
    row.add_window(window(100, rate, lost));
    row
}
