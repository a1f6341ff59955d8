// SPDX-License-Identifier: Apache-2.0

//! Tests with bags that other libraries have written. `foreign_bags.py` computes the figures with these libraries.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;
use topic_statistics_bag::{ReadOptions, Stamps};
use topic_statistics_core::{Metric, Summary};

use crate::{packages::packages, support::*};

/// Asserts that a summary has the expected figures: mean, minimum, maximum, standard deviation, count.
fn assert_figures(of: &Summary, expected: &Value, what: &str) {
    let figures = [of.average, of.minimum, of.maximum, of.standard_deviation, of.sample_count as f64];
    for (ours, theirs) in figures.iter().zip(expected.as_array().unwrap()) {
        let is_same = match theirs.as_f64() {
            None => ours.is_nan(),
            // Python computes exact sums. This crate uses Welford's algorithm, which has rounding errors.
            Some(theirs) => (ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0),
        };
        assert!(is_same, "{what}: {figures:?}, expected {expected}");
    }
}

fn compare(bag: &ReadBag, expected: &Value, name: &str) {
    assert_eq!(bag.notes(), [], "{name}");
    let topics = expected.as_object().unwrap();
    assert_eq!(bag.statistics.topics.len(), topics.len(), "{name}");
    for (topic, expected) in topics {
        let what = format!("{name} {topic}");
        let ours = bag.topic(topic);
        assert_eq!(ours.message_type(), expected["type"].as_str(), "{what}");
        assert_eq!(Some(ours.totals().received), expected["received"].as_u64(), "{what}");
        assert_eq!((ours.without_time(), ours.misplaced()), (0, 0), "{what}");
        assert_eq!(ours.totals().lost, None, "{what}: the writer's own numbers prove no losses");
        let windows = bag.windows.of(topic);
        let expected = expected["windows"].as_array().unwrap();
        assert_eq!(windows.len(), expected.len(), "{what}");
        for (window, expected) in windows.iter().zip(expected) {
            let what = format!("{what} {}", expected["start"]);
            let [start, stop] =
                [window.window.start, window.window.stop].map(|time| Some(time.as_nanoseconds()));
            assert_eq!([start, stop], [expected["start"].as_i64(), expected["stop"].as_i64()], "{what}");
            assert_eq!(Some(window.count), expected["count"].as_u64(), "{what}");
            let metrics = expected["metrics"].as_object().unwrap();
            assert_eq!(metrics.len(), 6);
            for (metric, figures) in metrics {
                let summary = window.get(metric.parse::<Metric>().unwrap()).unwrap();
                assert_figures(summary, figures, &format!("{what} {metric}"));
            }
        }
    }
}

#[test]
fn bags_of_other_libraries_have_the_figures_of_what_these_libraries_read() {
    let Some(packages) = packages() else {
        return skip("bags of other libraries", "rosbags and mcap cannot be installed from PyPI");
    };
    let directory = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/foreign_bags.py");
    let mut python = Command::new("python3");
    python.arg(program).arg(directory.path()).env("PYTHONPATH", packages).stderr(Stdio::inherit());
    let output = python.output().unwrap();
    assert!(output.status.success());
    let expected: Value = serde_json::from_slice(&output.stdout).unwrap();
    let bags = expected.as_object().unwrap();
    assert_eq!(bags.len(), 24);
    for (name, expected) in bags {
        for verify in [false, true] {
            let path = directory.path().join(name);
            compare(&read_path(&path, &ReadOptions::new().verify(verify)), expected, name);
        }
    }
    // If the bag has no definitions, as before ROS 2 Iron, common types with a header are found by their names.
    let path = directory.path().join("rosbags_8_SQLITE3_1");
    let with = read_path(&path, &ReadOptions::new());
    let database = rusqlite::Connection::open(path.join("rosbags_8_SQLITE3_1.db3")).unwrap();
    database.execute_batch("DROP TABLE message_definitions").unwrap();
    drop(database);
    let without = read_path(&path, &ReadOptions::new());
    let mut stamped = 0;
    for topic in &with.statistics.topics {
        let is_known = without.topic(topic.name()).stamps() == Stamps::Read;
        let is_own = topic.message_type() == Some("other_msgs/msg/Late");
        assert_eq!(is_known, topic.stamps() == Stamps::Read && !is_own, "{}", topic.name());
        stamped += u32::from(is_known);
    }
    assert!(stamped > 50, "{stamped}");
}
