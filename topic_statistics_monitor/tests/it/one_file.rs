// SPDX-License-Identifier: Apache-2.0

//! A test that one file of expectations gives the same result for one topic in topic_monitor, in a preloaded node, in a
//! node with the library, and in the recording.

use std::{
    collections::BTreeMap,
    fs,
    process::Command,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    thread,
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    health::{ExpectationFile, Namespace},
    NodeStatistics, NodeStatisticsOptions, StatisticsOptions,
};
use ros_env::sensor_msgs::msg::Imu;
use serde_json::Value;
use test_support::{domain, node, preload, program, Program, Spinning};

use crate::run::{objects, Json};

const FILE: &str =
    "topics: {imu: {error_unless: rate>=20, stale_after: 3}, never: {first_message_within: 1}}";
const JUDGES: [&str; 3] = ["listener: /imu", "subscriber: /imu", "topic_monitor: /imu"];

/// Waits until the last status of each program has this level and this text in its message. Returns the statuses.
fn wait_for_all(reader: &Program, level: u8, text: &str) -> Vec<Value> {
    let mut last: BTreeMap<String, Value> = BTreeMap::new();
    let is_it = |status: &Value| {
        status["level"] == level && status["message"].as_str().is_some_and(|message| message.contains(text))
    };
    loop {
        let array: Value = serde_json::from_str(&reader.read(&format!("{text}: {last:#?}"))).unwrap();
        let statuses = array["status"].as_array().unwrap().iter();
        last.extend(statuses.map(|status| (status["name"].as_str().unwrap().to_owned(), status.clone())));
        let of_judges: Vec<_> = JUDGES.iter().filter_map(|name| last.get(*name)).cloned().collect();
        if of_judges.len() == JUDGES.len() && of_judges.iter().all(is_it) {
            return of_judges;
        }
    }
}

/// Reads statuses until one has this name and level. Returns this status.
fn status(reader: &Program, name: &str, level: u8) -> Value {
    loop {
        let mut array: Value = serde_json::from_str(&reader.read(name)).unwrap();
        let mut all = array["status"].as_array_mut().unwrap().iter_mut();
        if let Some(status) = all.find(|status| status["name"] == name && status["level"] == level) {
            return status.take();
        }
    }
}

#[test]
fn one_file_judges_one_stream_in_four_programs() {
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let [file, bag] = ["robot.yaml", "run.mcap"].map(|name| directory.path().join(name));
    fs::write(&file, FILE).unwrap();
    let path = file.to_str().unwrap();

    let (executor, node) = node("listener", &[]);
    let options = NodeStatisticsOptions::new()
        .statistics(StatisticsOptions::new().publish_period(Duration::from_millis(250)))
        .expectation_file(ExpectationFile::read(&file, &Namespace::default()).unwrap());
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let _imu = statistics.create_subscription("imu".keep_last(1000), |_: Imu| {}).unwrap();
    let _spinning = Spinning::start(executor);

    let mut subscriber = Program::command("subscriber.py", &[], domain);
    preload::preload(&mut subscriber, &preload::statistics());
    subscriber.env("TOPIC_STATISTICS_EXPECT", path).env("TOPIC_STATISTICS_PERIOD", "0.25");
    let _subscriber = Program::from(subscriber.spawn().unwrap());

    let reader = Program::start("diagnostics.py", &[], domain);
    let arguments = ["/imu", "/other", "/never", "--expect", path, "--record", bag.to_str().unwrap()];
    let diagnostics = ["--diagnostics", "--hardware-id", "robot7"];
    let mut monitor = Json::start(&[&arguments[..], &diagnostics].concat(), domain);

    // Messages on the other topic continue, so that the recording includes the time in which `/imu` is silent.
    let imu: Publisher<Imu> = node.create_publisher("imu".keep_last(1000)).unwrap();
    let other: Publisher<Imu> = node.create_publisher("other".keep_last(1000)).unwrap();
    let every = Arc::new(AtomicU64::new(1));
    let of_thread = Arc::clone(&every);
    thread::spawn(move || {
        for number in 0_u64.. {
            let every = of_thread.load(Ordering::Relaxed);
            // On a busy machine, Fast DDS can refuse a publication, because it waits for a lock for only 100 ms.
            if every > 0 && number % every == 0 {
                let _refused = imu.publish(Imu::default());
            }
            let _refused = other.publish(Imu::default());
            thread::sleep(Duration::from_millis(10));
        }
    });
    let mut seen = vec![];
    for (every_of_stream, level, text) in [
        (1, 0, "as expected, since"),
        (20, 2, "Hz, expected at least 20, since"),
        (0, 3, "no message any more, since"),
    ] {
        every.store(every_of_stream, Ordering::Relaxed);
        seen.push(wait_for_all(&reader, level, text));
    }
    let is =
        |json: &Value, level: &str, state: &str| json["health"]["level"] == level && json["state"] == state;
    monitor.until_of("/imu", |json| is(json, "OK", "good"));
    monitor.until_of("/imu", |json| json["change"]["to"]["level"] == "ERROR");
    let window = monitor.until_of("/imu", |json| is(json, "ERROR", "error"));
    monitor.until_of("/imu", |json| json["change"]["to"]["level"] == "STALE");
    assert_eq!(window["health"]["condition"], "rate>=20", "{window}");
    let never = status(&reader, "topic_monitor: /never", 3);
    assert!(never["message"].as_str().unwrap().starts_with("no message yet"), "{never}");
    assert_eq!(never["hardware_id"], "robot7");

    for status in seen.iter().flatten() {
        assert_eq!(status["values"]["error_unless"], "rate>=20", "{status:#}");
        assert_eq!(status["values"]["Minimum acceptable frequency (Hz)"], "20.000000", "{status:#}");
    }
    for status in &seen[1] {
        let failing = status["values"]["failing"].as_str().unwrap();
        assert!(failing.starts_with("rate>=20 ("), "{failing}");
    }
    assert_eq!(monitor.end("INT"), Some(0));

    let mut bag_statistics = Command::new(program("bag_statistics"));
    bag_statistics.arg(&bag).args(["--json", "--window", "0.25", "--expect", path]);
    let printed = bag_statistics.args(["--topics", "/imu", "/other"]).output().unwrap().stdout;
    let of_imu = objects(&printed).into_iter().filter(|object| object["topic"] == "/imu");
    let mut changes: Vec<_> =
        of_imu.filter_map(|object| Some(object.get("change")?["to"]["level"].as_str()?.to_owned())).collect();
    changes.dedup();
    assert_eq!(changes, ["ERROR", "STALE"]);
}
