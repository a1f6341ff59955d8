// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use topic_statistics_core::Metric;

use super::*;
use crate::{
    require::Conditions,
    row::{Problem, Publisher, Window},
    testing::{at, distribution, metric, row, window},
};

const AGE: &str = "message_age";

fn recording(conditions: &str, windows: impl IntoIterator<Item = Window>) -> (Recording, Row) {
    let conditions = conditions.parse::<Conditions>().map_or(vec![], |conditions| conditions.0);
    let new = Recording::new(Duration::from_secs(1), conditions);
    let (mut recording, mut imu) = (Recording { started: at(0), ..new }, Row::new("/imu"));
    for window in windows {
        imu.add_window(window);
        recording.add(&imu);
    }
    (recording, imu)
}

fn ages(stop: i64, samples: &[f64]) -> Window {
    let distribution = distribution(samples);
    let mut metric = metric(AGE, samples.iter().sum::<f64>() / samples.len() as f64, samples.len() as u64);
    (metric.figures.minimum, metric.figures.maximum) = (distribution.minimum(), distribution.maximum());
    Window {
        metrics: vec![metric],
        distributions: vec![(Metric::MessageAge, Arc::new(distribution))],
        ..window(stop, samples.len() as f64, 0)
    }
}

#[test]
fn figures_and_percentiles_are_those_of_all_samples() {
    let second = ages(2, &[[1.0; 10].as_slice(), &[100.0; 90]].concat());
    let (recording, _) = recording("", [ages(1, &[1.0; 1000]), second]);
    let topics = recording.topics(at(2));
    let age = topics[0].metric(AGE).unwrap();
    assert_eq!((age.figures.count(), age.figures.min(), age.figures.max()), (1100, 1.0, 100.0));
    assert!((age.figures.mean() - (1010.0 + 9000.0) / 1100.0).abs() < 1e-9);
    assert!((age.quantile(0.9) - 1.0).abs() < 0.1, "{}: not the average of 1 and 100", age.quantile(0.9));
    assert!((age.quantile(0.95) - 100.0).abs() < 10.0);
    assert_eq!(topics[0].windows, 2);

    // Windows without a distribution have no percentiles.
    let without = Window { distributions: vec![], ..ages(1, &[5.0; 10]) };
    for (windows, expected) in [(vec![without.clone()], f64::NAN), (vec![without, ages(2, &[1.0; 100])], 1.0)]
    {
        let (recording, _) = self::recording("", windows);
        let median = recording.topics(at(2))[0].metric(AGE).unwrap().quantile(0.5);
        assert_eq!(median.to_bits(), expected.to_bits());
    }
}

#[test]
fn conditions_fail_in_windows_with_a_value() {
    let rates = [100.0, 80.0, 95.0, 70.0, 85.0, 100.0];
    let rates = (1..).zip(rates).map(|(stop, rate)| window(stop, rate, 0)).collect();
    let silent = |stop| Window { metrics: vec![], ..window(stop, 0.0, 0) };
    let unknown = |stop| Window { rate: f64::NAN, received: None, ..silent(stop) };
    for (conditions, windows, failures) in [
        (
            "rate>=90 lost=0",
            rates,
            &["/imu: rate>=90 failed in 3 of 6 windows, first after 2.0 s: rate was 80.00"][..],
        ),
        ("age<5", vec![silent(1), ages(2, &[1.0])], &[]), // the condition applies from its first value on
        (
            "age<5",
            vec![silent(1), ages(2, &[1.0]), silent(3)],
            &["/imu: age<5 failed in 1 of 2 windows, first after 3.0 s: age was -"],
        ),
        ("age<5 rate>=3", vec![ages(1, &[1.0; 3]), ages(2, &[1.0; 3]), unknown(3)], &[]),
    ] {
        let (mut recording, imu) = self::recording(conditions, windows);
        recording.finish(&[&imu], imu.window.as_ref().unwrap().ended);
        assert_eq!(recording.failures(), failures, "{conditions}");
    }
}

#[test]
fn a_condition_without_a_value_in_the_whole_run_has_failed() {
    let first = Window { metrics: vec![], ..window(1, 100.0, 0) };
    let (mut recording, imu) = recording("age<5 /imu:rate>1 /nope:rate>1", [first]);
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
    assert_eq!(failed, 3, "three conditions with a topic fail");
    recording.finish(&[], at(60));
    let last = "/imu: rate>1 failed: no window at the end of the run".to_owned();
    assert!(recording.failures().contains(&last), "{:?}", recording.failures());
}

#[test]
fn the_totals_of_publishers_are_those_of_the_end() {
    let (mut recording, mut imu) = recording("", [window(1, 100.0, 0)]);
    let publisher = Publisher {
        gid: String::new(),
        node: None,
        received: 150,
        lost: Some(2),
        out_of_order: Some(0),
        last_message: 0,
        last_received: at(1),
    };
    // These messages came after the last whole window.
    (imu.received, imu.lost, imu.publishers) = (150, Some(2), vec![publisher]);
    recording.finish(&[&imu], at(1));
    let recorded = &recording.topics["/imu"].row;
    assert_eq!((recorded.received, &recorded.publishers), (150, &imu.publishers));
}

#[test]
fn topics_and_metrics_have_a_bound() {
    let (mut recording, _) = recording("", []);
    for number in 0..Recording::MAX_TOPICS + 7 {
        let mut topic = row(&format!("/topic_{number}"), 10.0, 0);
        let metrics = (0..64).map(|name| metric(&name.to_string(), 1.0, 5));
        topic.window.as_mut().unwrap().metrics = metrics.collect();
        recording.add(&topic);
    }
    recording.finish(&[&Row::new("/more")], at(200));
    assert_eq!((recording.topics.len(), recording.left_out), (Recording::MAX_TOPICS, 7));
    assert!(recording.topics.values().all(|topic| topic.metrics.len() == RecordedTopic::MAX_METRICS));
}

#[test]
fn topics_with_failed_conditions_are_first_then_the_worst_state() {
    let (mut recording, _) = recording("/slow: rate>50", []);
    for (name, rate, lost) in [("/good", 100.0, 0), ("/lossy", 100.0, 3), ("/slow", 10.0, 0)] {
        recording.add(&row(name, rate, lost));
    }
    let names: Vec<&str> = recording.topics(at(101)).iter().map(|topic| &*topic.row.name).collect();
    assert_eq!(names, ["/slow", "/lossy", "/good"]);
}
