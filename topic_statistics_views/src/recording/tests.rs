// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use topic_statistics_core::Metric;

use super::*;
use crate::{
    require::Conditions,
    row::{Figures, MetricFigures, Problem, Window},
    testing::{at, row, window, S},
};

const AGE: &str = "message_age";

fn recording(conditions: &str) -> Recording {
    let conditions = conditions.parse::<Conditions>().map_or(vec![], |conditions| conditions.0);
    Recording { started: at(0), ..Recording::new(Duration::from_secs(1), conditions) }
}

fn distribution_of(samples: &[f64]) -> Distribution {
    let mut distribution = Distribution::default();
    samples.iter().for_each(|sample| assert!(distribution.accept(*sample)));
    distribution
}

/// A window that ends at `stop` (s) with these ages.
fn ages(stop: i64, samples: &[f64]) -> Window {
    let distribution = distribution_of(samples);
    let figures = Figures {
        mean: samples.iter().sum::<f64>() / samples.len() as f64,
        min: distribution.minimum(),
        max: distribution.maximum(),
        std_dev: f64::NAN,
        count: samples.len() as u64,
    };
    Window {
        metrics: vec![MetricFigures { name: AGE.to_owned(), unit: "ms".to_owned(), figures }],
        distributions: vec![(Metric::MessageAge, Arc::new(distribution))],
        ..window(stop, samples.len() as f64, 0)
    }
}

fn record(recording: &mut Recording, row: &mut Row, window: Window) {
    row.add_window(window);
    recording.add(row);
}

#[test]
fn the_distribution_of_the_run_is_that_of_all_samples() {
    let (mut recording, mut imu) = (recording(""), Row::new("/imu"));
    record(&mut recording, &mut imu, ages(1, &[1.0; 1000]));
    record(&mut recording, &mut imu, ages(2, &[[1.0; 10].as_slice(), &[100.0; 90]].concat()));
    let topics = recording.topics(at(2));
    let age = topics[0].metric(AGE).unwrap();
    assert_eq!((age.figures.count(), age.figures.min(), age.figures.max()), (1100, 1.0, 100.0));
    assert!((age.figures.mean() - (1010.0 + 9000.0) / 1100.0).abs() < 1e-9);
    assert!((age.quantile(0.9) - 1.0).abs() < 0.1, "{}: not the average of 1 and 100", age.quantile(0.9));
    assert!((age.quantile(0.95) - 100.0).abs() < 10.0);
    assert_eq!(topics[0].windows, 2);
}

#[test]
fn percentiles_are_of_the_windows_that_have_a_distribution() {
    let (mut recording, mut imu) = (recording(""), Row::new("/imu"));
    record(&mut recording, &mut imu, Window { distributions: vec![], ..ages(1, &[5.0; 10]) });
    let topics = recording.topics(at(1));
    assert!(topics[0].metric(AGE).unwrap().quantile(0.5).is_nan(), "not the average");
    record(&mut recording, &mut imu, ages(2, &[1.0; 100]));
    let topics = recording.topics(at(2));
    let age = topics[0].metric(AGE).unwrap();
    assert_eq!((age.figures.count(), age.distribution.count(), age.quantile(0.5)), (110, 100, 1.0));
}

#[test]
fn a_failed_condition_has_its_first_and_last_window_and_their_values() {
    let (mut recording, mut imu) = (recording("rate>=90 lost=0"), Row::new("/imu"));
    for (stop, rate) in [(1, 100.0), (2, 80.0), (3, 95.0), (4, 70.0), (5, 85.0), (6, 100.0)] {
        record(&mut recording, &mut imu, window(stop, rate, 0));
    }
    recording.finish(&[&imu], at(6));
    let verdicts = recording.verdicts();
    let (condition, topic, verdict) = verdicts[0];
    assert_eq!((condition.requirement(), &*topic.row.name), ("rate>=90".to_owned(), "/imu"));
    assert_eq!((verdict.judged, verdict.failed), (6, 3));
    let (first, last) = (verdict.first.unwrap(), verdict.last.unwrap());
    assert_eq!((first.ended, first.stop, first.value), (Duration::from_secs(2), 2 * S, 80.0));
    assert_eq!((last.ended, last.stop, last.value), (Duration::from_secs(5), 5 * S, 85.0));
    assert!(!verdicts[1].2.is_failed());
    assert_eq!(
        recording.failures(),
        ["/imu: rate>=90 failed in 3 of 6 windows, first after 2.0 s: rate was 80.00"]
    );
}

#[test]
fn a_condition_is_judged_from_its_first_value_on() {
    let (mut recording, mut imu) = (recording("age<5"), Row::new("/imu"));
    let silent = |stop| Window { metrics: vec![], ..window(stop, 0.0, 0) };
    record(&mut recording, &mut imu, silent(1));
    record(&mut recording, &mut imu, ages(2, &[1.0]));
    recording.finish(&[&imu], at(2));
    assert!(recording.failures().is_empty(), "{:?}", recording.failures());
    record(&mut recording, &mut imu, silent(3));
    recording.finish(&[&imu], at(3));
    assert_eq!(
        recording.failures(),
        ["/imu: age<5 failed in 1 of 2 windows, first after 3.0 s: age was -"],
        "what is not measured fulfils nothing"
    );
}

#[test]
fn a_window_whose_value_is_not_known_is_left_out() {
    let (mut recording, mut imu) = (recording("age<5 rate>=90"), Row::new("/imu"));
    for stop in 1..4 {
        record(
            &mut recording,
            &mut imu,
            Window { rate: 100.0, received: Some(100), ..ages(stop, &[1.0; 10]) },
        );
    }
    let stepped = Window { metrics: vec![], rate: f64::NAN, received: None, ..window(4, 100.0, 0) };
    record(&mut recording, &mut imu, stepped);
    recording.finish(&[&imu], at(4));
    assert!(recording.failures().is_empty(), "{:?}", recording.failures());
    assert!(recording.verdicts().iter().all(|(_, _, verdict)| verdict.judged == 3));
}

#[test]
fn a_condition_without_a_value_in_the_whole_run_has_failed() {
    let mut recording = recording("age<5 /imu:rate>1 /nope:rate>1");
    let mut imu = Row::new("/imu");
    record(&mut recording, &mut imu, Window { metrics: vec![], ..window(1, 100.0, 0) });
    let mut waiting = Row::new("/waiting");
    waiting.problem = Some(Problem::Waiting("there is no topic /waiting yet; waiting for it".to_owned()));
    recording.finish(&[&imu, &waiting, &Row::new("/new")], at(2));
    assert_eq!(
        recording.failures(),
        [
            "/nope: rate>1 fails: no topic matches",
            "/imu: age<5 failed: not measured in any window",
            "/new: age<5 failed: no whole window",
            "/waiting: age<5 failed: there is no topic /waiting yet; waiting for it",
        ]
    );
    let failed = recording.verdicts().iter().filter(|(_, _, verdict)| verdict.is_failed()).count();
    assert_eq!(failed, 3, "those with a topic");
    recording.finish(&[], at(60));
    let failures = recording.failures();
    assert!(
        failures.contains(&"/imu: rate>1 failed: no window at the end of the run".to_owned()),
        "{failures:?}"
    );
}

#[test]
fn topics_and_metrics_have_a_bound_and_what_exceeds_it_is_counted() {
    let mut recording = recording("");
    for number in 0..Recording::MAX_TOPICS + 7 {
        let mut topic = row(&format!("/topic_{number}"), 10.0, 0);
        let figures = Figures { mean: 1.0, min: 1.0, max: 1.0, std_dev: 0.0, count: 5 };
        let metric = |name: usize| MetricFigures { name: name.to_string(), unit: String::new(), figures };
        topic.window.as_mut().unwrap().metrics = (0..64).map(metric).collect();
        recording.add(&topic);
    }
    assert_eq!(recording.topics.len(), Recording::MAX_TOPICS);
    assert_eq!(recording.left_out(), 7);
    recording.finish(&[&Row::new("/more")], at(200));
    assert_eq!(recording.topics.len(), Recording::MAX_TOPICS);
    assert!(recording.topics.values().all(|topic| topic.metrics.len() == RecordedTopic::MAX_METRICS));
}

#[test]
fn topics_with_failed_conditions_are_first_then_the_worst_state() {
    let mut recording = recording("/slow: rate>50");
    for (name, rate, lost) in [("/good", 100.0, 0), ("/lossy", 100.0, 3), ("/slow", 10.0, 0)] {
        recording.add(&row(name, rate, lost));
    }
    let names: Vec<&str> = recording.topics(at(101)).iter().map(|topic| &*topic.row.name).collect();
    assert_eq!(names, ["/slow", "/lossy", "/good"]);
}
