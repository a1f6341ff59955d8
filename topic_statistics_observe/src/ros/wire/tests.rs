// SPDX-License-Identifier: Apache-2.0

//! Tests of the messages that are accepted, and of the messages that are refused.

use super::*;
use crate::ros::testing::{message, status, FIGURES};
use topic_statistics_core::health::{Level, WINDOWS_JUDGED};

fn with(change: impl FnOnce(&mut [f64; 5])) -> Result<MetricWindow, Refused> {
    let mut figures = FIGURES;
    change(&mut figures);
    MetricWindow::new(&message("/listener:/imu", "message_age", "ms", 100, figures))
}

#[test]
fn a_window_is_read_as_it_was_published() {
    let read = with(|_| ()).unwrap();
    assert_eq!((&*read.source, &*read.metric, &*read.unit), ("/listener:/imu", "message_age", "ms"));
    assert_eq!(read.window, Window::from_nanoseconds(99_000_000_000, 100_000_000_000));
    assert_eq!(read.figures, Summary::new(1.5, 1.0, 4.0, 0.5, 50));
    let nothing = with(|figures| *figures = [f64::NAN, f64::NAN, f64::NAN, 0.0, f64::NAN]).unwrap();
    assert!(nothing.figures.average.is_nan() && nothing.figures.sample_count == 0);
}

#[test]
fn impossible_figures_and_long_names_are_refused() {
    const INFINITE: f64 = f64::INFINITY;
    let of_each: [&[f64]; 5] = [
        &[INFINITE, 1e300, 0.5, 4.1],
        &[-INFINITE],
        &[4.5],
        &[-1.0, 0.5, f64::NAN, INFINITE, 1e13],
        &[-0.1, INFINITE],
    ];
    for (index, value) in
        (0..).zip(of_each).flat_map(|(index, values)| values.iter().map(move |value| (index, *value)))
    {
        let refused = with(|figures| figures[index] = value).unwrap_err().to_string();
        assert!(refused.contains(" has to be ") || refused.contains(" have to be "), "{refused}");
    }
    let mut no_count = message("a", "message_age", "ms", 1, FIGURES);
    no_count.statistics.retain(|point| point.data_type != 5);
    assert_eq!(MetricWindow::new(&no_count), Err(Refused::Count { count: None }));
    let long = "x".repeat(MAX_NAME + 1);
    for [source, metric, unit] in [[&*long, "a", "b"], ["a", &long, "b"], ["a", "b", &long]] {
        let refused = MetricWindow::new(&message(source, metric, unit, 1, FIGURES)).unwrap_err();
        assert_eq!(refused, Refused::Name { bytes: MAX_NAME + 1 });
    }
}

#[cfg(feature = "interfaces")]
#[test]
fn impossible_distributions_are_refused() {
    use crate::ros::testing::distribution;

    let right = MetricDistribution::new(&distribution("/listener:/imu", 1)).unwrap();
    assert_eq!((&*right.source, right.metric), ("/listener:/imu", Metric::MessageAge));
    assert_eq!((right.distribution.count(), right.distribution.quantile(0.5)), (10, 1.5));
    let refused = |change: &dyn Fn(&mut MetricsDistribution)| {
        let mut message = distribution("a", 1);
        change(&mut message);
        MetricDistribution::new(&message).unwrap_err()
    };
    assert_eq!(refused(&|message| message.metrics_source = "x".to_owned()), Refused::Metric);
    let unit = refused(&|message| message.unit = "s\u{1b}".to_owned()).to_string();
    assert_eq!(unit, "The unit is s\\u{1b}: it has to be ms");
    let scale = refused(&|message| message.scale = 9).to_string();
    assert_eq!(scale, "The scale is 9: it has to be from 2 to 8");
    assert!(matches!(refused(&|message| message.count = 11), Refused::Distribution(_)));
    assert!(matches!(refused(&|message| message.sum = 16.0), Refused::Order { .. }));
    let no_sum = refused(&|message| message.sum = f64::NAN);
    assert!(matches!(no_sum, Refused::Figure { figure: "sum", .. }), "{no_sum}");
    let many = |message: &mut MetricsDistribution| {
        (message.count, message.positive_counts, message.sum) =
            (1 << 40, vec![1 << 40], 1.5 * (1_u64 << 40) as f64);
    };
    assert!(matches!(refused(&many), Refused::Count { .. }));
    assert!(matches!(refused(&|message| message.unit = "x".repeat(MAX_NAME + 1)), Refused::Name { .. }));
}

#[test]
fn a_status_has_the_health_of_its_source() {
    let values = [
        ("measurement_source_name", "/a:/imu"),
        ("Actual frequency (Hz)", "41.5"),
        ("warn_unless", "rate>=90 age<50ms"),
        ("error_unless", "rate>=50 rate>=60"),
        (WINDOWS_JUDGED, "7 2 0 1"),
    ];
    let read = Diagnostic::new(&status("a: /imu", 2, &values)).unwrap();
    let health = read.health.unwrap();
    assert_eq!((read.level, &*health.source, health.rate), (Level::Error, "/a:/imu", Some(41.5)));
    assert_eq!(health.windows, Some([7, 2, 0, 1]));
    let limits: Vec<_> =
        health.limits.iter().map(|limit| (limit.is_error, limit.is_lower, limit.value)).collect();
    assert_eq!(
        limits,
        [(false, true, 90.0), (false, false, 50.0), (true, true, 60.0)],
        "of two limits, the narrower one is kept"
    );
    assert!(Diagnostic::new(&status("other", 0, &[])).unwrap().health.is_none());
    assert_eq!(Diagnostic::new(&status("other", 4, &[])), Err(Refused::Level { level: 4 }));
}

#[test]
fn only_an_executors_status_has_callbacks_and_they_are_bounded() {
    let read = |values: &[(&str, &str)]| ExecutorCallbacks::new(&status("", 0, values));
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
        &[name, ("message_age.average", "1"), ("busy.maximum", "1")][..], // a subscription's status
        &[busy],                                                          // without a source name
        &[name, ("busy.spin", "much")],
        &[name, ("busy.spin", "inf")],
        &[name, ("busy.spin", "NaN")],
        &[name, busy, ("callback_wait_1", &long)],
    ] {
        assert!(read(wrong).is_none(), "{wrong:?}");
    }
    let flood = [&[name][..], &[busy; 1000], &[("callback_wait_9", "x"); 1000]].concat();
    let flood = read(&flood).unwrap();
    assert_eq!(flood.lines.len(), ExecutorCallbacks::MAX_LINES);
    assert_eq!(flood.lines[0].matches("spin").count(), 32, "{:?}", flood.lines);
}

#[test]
fn the_texts_of_a_status_are_bounded() {
    let long = "x".repeat(MAX_NAME + 1);
    let refused = Err(Refused::Name { bytes: MAX_NAME + 1 });
    assert_eq!(Diagnostic::new(&status(&long, 0, &[])), refused);
    let hardware_id = long.clone();
    assert_eq!(
        Diagnostic::new(&ros_env::diagnostic_msgs::msg::DiagnosticStatus {
            hardware_id,
            ..status("a", 0, &[])
        }),
        refused
    );
    let read = |values: &[(&str, &str)]| Diagnostic::new(&status("a", 0, values)).unwrap().health;
    assert!(read(&[("measurement_source_name", &long)]).is_none());
    let limits = |text: &str| {
        let health = read(&[("measurement_source_name", "/a:/imu"), ("warn_unless", text)]);
        health.unwrap().limits.len()
    };
    let padded = |bytes| format!("{:bytes$}", "rate>1");
    assert_eq!([10_000, 10_001].map(|bytes| limits(&padded(bytes))), [1, 0], "a longer text is ignored");
    let quantities: Vec<String> = (["mean", "min", "max", "stddev", "count"].iter())
        .flat_map(|of| Metric::ALL.iter().map(move |metric| format!("{}.{of}>1", metric.name())))
        .collect();
    assert_eq!([49, 51].map(|number| limits(&quantities[..number].join(" "))), [49, 50]);
}
