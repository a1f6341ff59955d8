// SPDX-License-Identifier: Apache-2.0

//! Bags that other libraries have written, compared with figures of what these libraries read: `foreign_bags.py`.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use topic_statistics_bag::{ReadOptions, Stamps};
use topic_statistics_core::{Metric, Summary};

use crate::{packages::packages, support::*};

/// Asserts that a summary has these figures: mean, minimum, maximum, standard deviation, count.
fn assert_figures(summary: &Summary, expected: &Value, what: &str) {
    let figures = [
        summary.average,
        summary.minimum,
        summary.maximum,
        summary.standard_deviation,
        summary.sample_count as f64,
    ];
    for (ours, theirs) in figures.iter().zip(expected.as_array().unwrap()) {
        let is_same = match theirs.as_f64() {
            None => ours.is_nan(),
            // Python's sums are exact, ours are Welford's.
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
        assert_eq!(ours.totals().received, expected["received"].as_u64().unwrap(), "{what}");
        assert_eq!((ours.without_time(), ours.misplaced()), (0, 0), "{what}");
        assert_eq!(ours.totals().lost, None, "{what}: a count of the writer proves nothing");
        let windows = bag.windows.of(topic);
        let expected = expected["windows"].as_array().unwrap();
        assert_eq!(windows.len(), expected.len(), "{what}");
        for (window, expected) in windows.iter().zip(expected) {
            let what = format!("{what} {}", expected["start"]);
            assert_eq!(Some(window.window.start.as_nanoseconds()), expected["start"].as_i64(), "{what}");
            assert_eq!(Some(window.window.stop.as_nanoseconds()), expected["stop"].as_i64(), "{what}");
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
        // Not `eprintln!`, which the test harness keeps to itself.
        let why = "skipped: bags of other libraries: rosbags and mcap cannot be installed from PyPI";
        let _closed = writeln!(std::io::stderr(), "{why}");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/foreign_bags.py");
    let mut python = Command::new("python3");
    python.arg(program).arg(directory.path()).env("PYTHONPATH", packages).stderr(Stdio::inherit());
    let output = python.output().unwrap();
    assert!(output.status.success());
    let expected: Value = serde_json::from_slice(&output.stdout).unwrap();
    let bags = expected.as_object().unwrap();
    assert_eq!(bags.len(), 30);
    for (name, expected) in bags {
        for verify in [false, true] {
            let path = directory.path().join(name);
            compare(&read_path(&path, &ReadOptions::new().verify(verify)), expected, name);
        }
    }
    every_type_with_a_header_is_known(directory.path());
    let types = types_of_the_prefix();
    println!("{} message types of the ROS prefix", types.len());
    for bag in
        ["types_NONE.mcap", "types_LZ4.mcap", "types_ZSTD.mcap", "rosbags_9_SQLITE3_1", "rosbags_9_MCAP_1"]
    {
        let topics = expected[bag].as_object().unwrap();
        let missing: Vec<_> =
            types.iter().filter(|name| !topics.contains_key(&format!("/of/{name}"))).collect();
        assert!(missing.is_empty(), "{bag}: {missing:?}");
    }
}

/// Returns the message types of the ROS that is sourced, but for those with a `wstring`, which rosbags cannot write.
fn types_of_the_prefix() -> Vec<String> {
    let list = |directory: &Path| -> Vec<PathBuf> {
        let entries = directory.read_dir().into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let prefixes = std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let mut types = vec![];
    for package in std::env::split_paths(&prefixes).flat_map(|prefix| list(&prefix.join("share"))) {
        for file in list(&package.join("msg")) {
            let is_definition = file.extension().is_some_and(|extension| extension == "msg");
            if is_definition && !std::fs::read_to_string(&file).unwrap().contains("wstring") {
                types.push(format!("{}/msg/{}", name(&package), name(&file)));
            }
        }
    }
    types
}

/// Without definitions, as before Iron, the types with a header are known by their names.
fn every_type_with_a_header_is_known(directory: &Path) {
    let path = directory.join("rosbags_8_SQLITE3_1");
    let with = read_path(&path, &ReadOptions::new());
    let file = path.join("rosbags_8_SQLITE3_1.db3");
    let database = rusqlite::Connection::open(&file).unwrap();
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
