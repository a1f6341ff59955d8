// SPDX-License-Identifier: Apache-2.0

//! A test that the statistics of `topic_monitor --json --record` and of `bag_statistics --json` on the recorded file
//! agree.

use std::{collections::BTreeSet, time::Duration};

use rclrs::*;
use ros_env::{sensor_msgs::msg::Imu, std_msgs::msg::String as StringMsg};
use serde_json::Value;
use test_support::{domain, middleware, node};

use super::bag_statistics;
use crate::run::{objects, Json};

/// Metrics that need the callback. The statistics of a bag do not have these metrics, because a bag has no callbacks.
const OF_CALLBACK: [&str; 4] =
    ["clock_offset_ms", "header_to_callback_ms", "receive_to_callback_ms", "source_to_callback_ms"];

/// Metrics that end at the callback in live statistics, and at the reception in the statistics of a bag.
const UP_TO_CALLBACK: [&str; 3] = ["message_age", "message_period", "time_since_last_message_ms"];

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Compares a window of the live statistics with the same window of the bag's statistics.
fn compare(live: &Value, bag: &Value) {
    assert_eq!(keys(live), keys(bag));
    for key in ["type", "window_start", "window_stop", "received", "lost", "out_of_order", "bytes", "rate"] {
        assert_eq!(live[key], bag[key], "{key}");
    }
    let (live, bag) = (&live["metrics"], &bag["metrics"]);
    assert_eq!(&keys(live) - &BTreeSet::from(OF_CALLBACK), keys(bag));
    let delay = live["receive_to_callback_ms"]["max"].as_f64().unwrap();
    for metric in keys(bag) {
        let (live, bag) = (&live[metric], &bag[metric]);
        assert_eq!((&live["unit"], &live["count"]), (&bag["unit"], &bag["count"]), "{metric}");
        for figure in ["mean", "min", "max", "std_dev"] {
            let [of_live, of_bag] = [live, bag].map(|of| of[figure].as_f64().unwrap_or(f64::NAN));
            // Such values differ, because a callback is called some time after the reception, and a window may end
            // late.
            let most = if UP_TO_CALLBACK.contains(&metric) { delay + 100.0 } else { 1e-9 };
            let is_same = of_live.is_nan() && of_bag.is_nan() || (of_live - of_bag).abs() <= most;
            assert!(is_same || metric == "message_period", "{metric} {figure}: {live} {bag}");
        }
    }
}

#[test]
fn a_bag_has_the_figures_that_were_seen_live() {
    let what = "a recording with the figures seen live";
    if middleware::lacks_sequence_numbers(what) || middleware::lacks_reception_timestamps(what) {
        return;
    }
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let file = directory.path().join("run.mcap");
    let (_executor, node) = node("talker", &[]);
    let imu: Publisher<Imu> = node.create_publisher("imu".keep_last(1000)).unwrap();
    let burst: Publisher<StringMsg> = node.create_publisher("burst".keep_last(10).best_effort()).unwrap();
    let stamped = || {
        let mut message = Imu::default();
        let stamp = node.get_clock().now().to_ros_msg().unwrap();
        (message.header.stamp.sec, message.header.stamp.nanosec) = (stamp.sec, stamp.nanosec);
        imu.publish(message).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    };
    let send_burst = |number: u64| {
        (0..number).for_each(|_| burst.publish(StringMsg { data: "x".repeat(1000) }).unwrap());
        number
    };
    let arguments = ["/imu", "/burst", "--period", "0.5", "--record", file.to_str().unwrap()];
    let mut monitor = Json::start(&arguments, domain);
    // A recording contains the name of a publisher's node only if the node is in the ROS graph when the first message
    // arrives.
    let is_known = |json: &Value| json["nodes"].as_array().is_some_and(|all| all.contains(&"/talker".into()));
    monitor.until_of("/imu", is_known);
    monitor.until_of("/burst", is_known);
    let total = |json: &Value, count: &str| json["total"][count].as_u64().unwrap_or(0);
    for topic in ["/imu", "/burst"] {
        monitor.until_of(topic, |json| {
            stamped();
            send_burst(1);
            total(json, "received") > 0
        });
    }
    monitor.until_of("/imu", |json| json["received"] == 0);
    (0..20).for_each(|_| stamped()); // all in one window: the callback may be in a later window
    let live = monitor.until_of("/imu", |json| json["received"].as_u64() > Some(0));

    // While the monitor is stopped, more messages are sent than the sockets can hold, so messages are lost.
    let before = monitor.until_of("/burst", |json| json["received"] == 0);
    monitor.process.signal("STOP");
    let mut sent = send_burst(20_000);
    monitor.process.signal("CONT");
    let mut lossy = 0;
    monitor.until_of("/burst", |json| {
        sent += send_burst(1);
        lossy += u32::from(total(json, "lost") > total(&before, "lost"));
        lossy == 6
    });
    let whole = monitor.until_of("/burst", |json| json["received"] == 0);
    let counted = |json: &Value| total(json, "received") + total(json, "lost");
    assert_eq!(counted(&whole) - counted(&before), sent, "{whole}");
    assert_eq!(monitor.end("INT"), Some(0));
    let line = monitor.until_error("recorded ");
    assert!(line.contains(", 0 in the recorder"), "{line}");

    let bag = |arguments: &[&str]| {
        let (status, printed) = bag_statistics(&file, &[&["--json"], arguments].concat());
        assert_eq!(status, Some(0), "{printed}");
        objects(printed.as_bytes())
    };
    let [start, stop] = ["window_start", "window_stop"].map(|edge| live[edge].as_i64().unwrap());
    let length = format!("{}.{:09}", (stop - start) / 1_000_000_000, (stop - start) % 1_000_000_000);
    let windows = bag(&["--topics", "/imu", "--origin", &start.to_string(), "--window", &length]);
    compare(&live, windows.iter().find(|window| window["window_start"] == start).unwrap());
    let recordings = bag(&["--topics", "/burst"]);
    let recorded = &recordings.iter().find(|object| object["recording"].is_object()).unwrap()["recording"];
    for count in ["received", "lost", "out_of_order"] {
        assert_eq!(whole["total"][count], recorded[count], "{count}");
    }
    let sender = |object: &Value| {
        let sender = &object["senders"][0];
        ["gid", "node", "received", "lost", "out_of_order"].map(|key| sender[key].clone())
    };
    assert_eq!(sender(&whole), sender(recorded));
    for (condition, status) in [("/burst: lost=0", 1), ("/imu: lost=0", 0)] {
        assert_eq!(bag_statistics(&file, &["--require", condition]).0, Some(status), "{condition}");
    }
}
