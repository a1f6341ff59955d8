// SPDX-License-Identifier: Apache-2.0

//! The table, lines, JSON, the page and `--info`.

use std::fs;

use super::{
    bag_file::{mcap, numbered, regular, sqlite, Sent, S, START},
    run::run,
};

/// 10 s of /imu at 100 Hz, whose messages are logged 5 ms after their stamps, and of /odom at 20 Hz.
fn imu_and_odom() -> Vec<Sent> {
    [regular("/imu", 100, 0, 10, 5), regular("/odom", 20, 0, 10, 7)].concat()
}

#[test]
fn the_table_has_a_line_for_each_topic_with_the_figures_of_all_messages() {
    let directory = tempfile::tempdir().unwrap();
    let ended = run(&mcap(&directory.path().join("a.mcap"), &imu_and_odom()), &[]);
    assert_eq!((ended.status, &*ended.errors), (Some(0), ""), "{ended:?}");
    let imu = ended.table_line("/imu");
    // Publishers, rate; mean, p50, p99 and maximum of period and age; received, lost.
    assert_eq!((imu[1], imu[2]), ("-", "100.0"), "{ended:?}");
    assert_eq!(
        &imu[4..],
        ["10.00", "10.00", "10.00", "10.00", "5.000", "5.000", "5.000", "5.000", "1000", "-"]
    );
    let odom = ended.table_line("/odom");
    assert_eq!((odom[2], odom[4], odom[8], odom[12]), ("20.00", "50.00", "7.000", "200"), "{ended:?}");
    assert_eq!(ended.output.lines().count(), 4, "a header of two lines: {}", ended.output);
}

#[test]
fn json_has_each_whole_window_and_then_the_figures_of_all_messages() {
    let directory = tempfile::tempdir().unwrap();
    let ended = run(&mcap(&directory.path().join("a.mcap"), &imu_and_odom()), &["--json"]);
    assert_eq!((ended.status, &*ended.errors), (Some(0), ""), "{ended:?}");
    let windows = ended.windows("/imu");
    // From 1 s to 10 s: the first one begins with the first message, and the last message is at 10 s.
    assert_eq!(windows.len(), 9);
    for (second, window) in (1..).zip(&windows) {
        assert_eq!(window["window_start"], START + second * S);
        assert_eq!(window["window_stop"], START + (second + 1) * S);
        assert_eq!((&window["rate"], &window["received"]), (&100.0.into(), &100.into()));
        assert!(
            window["lost"].is_null() && window["publishers"].is_null(),
            "rosbag2 does not tell it: {window}"
        );
        let mean = |metric: &str| window["metrics"][metric]["mean"].as_f64().unwrap();
        for (metric, expected) in [
            ("message_period", 10.0),
            ("message_age", 5.0),
            ("header_to_source_ms", 2.0),
            ("source_to_receive_ms", 3.0),
        ] {
            assert!((mean(metric) - expected).abs() < 1e-9, "{metric}: {window}");
        }
    }
    let imu = ended.recording("/imu");
    assert_eq!((&imu["received"], &imu["type"]), (&1000.into(), &"demo_msgs/msg/Stamped".into()), "{imu}");
    assert_eq!(imu["metrics"]["message_age"]["count"], 1000, "the first and the last window, too: {imu}");
    assert_eq!(imu["metrics"]["message_period"]["count"], 999);
    assert_eq!(imu["bytes"].as_u64().unwrap() % 1000, 0);
    assert!((imu["rate"].as_f64().unwrap() - 100.0).abs() < 1e-6, "{imu}");
}

#[test]
fn losses_are_those_of_the_publishers_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let messages = numbered(regular("/imu", 100, 0, 10, 5), &[350, 351, 720]);
    let ended = run(&mcap(&directory.path().join("a.mcap"), &messages), &["--json"]);
    let lost: Vec<_> = ended.windows("/imu").iter().map(|window| window["lost"].as_u64()).collect();
    assert_eq!(lost, [0, 0, 2, 0, 0, 0, 1, 0, 0].map(Some));
    let imu = ended.recording("/imu");
    assert_eq!(
        (&imu["lost"], &imu["received"], &imu["publishers"]),
        (&3.into(), &997.into(), &1.into()),
        "{imu}"
    );
    let sender = &imu["senders"][0];
    assert_eq!(
        (&sender["gid"], &sender["node"]),
        (&"010f78fd6b5290710000000000001003".into(), &"/talker".into())
    );
    assert_eq!((&sender["lost"], &sender["received"]), (&3.into(), &997.into()));
}

#[test]
fn lines_are_those_of_topic_monitor() {
    let directory = tempfile::tempdir().unwrap();
    let ended =
        run(&mcap(&directory.path().join("a.mcap"), &imu_and_odom()), &["--plain", "--topics", "imu"]);
    let lines: Vec<&str> = ended.output.lines().collect();
    assert_eq!(lines.len(), 2 + 9, "{ended:?}");
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!((words[0], words[2], words[4]), ("/imu", "100.0", "10.00"), "{ended:?}");
}

#[test]
fn a_page_is_written_with_the_name_of_the_bag_and_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let (bag, page) = (directory.path().join("robot<7>.mcap"), directory.path().join("page.html"));
    let ended = run(
        &mcap(&bag, &imu_and_odom()),
        &["--report", page.to_str().unwrap(), "--require", "/imu: rate>=90 /odom: rate>=90"],
    );
    assert_eq!(ended.status, Some(1), "{ended:?}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<h1>ROS 2 topics in robot&lt;7&gt;.mcap</h1>"), "{page}");
    assert!(page.contains(">bag_statistics "), "{page}");
    assert!(page.contains("data-topic=\"/odom\" data-condition=\"rate&gt;=90\""), "{page}");
    assert!(!page.contains("data-topic=\"/imu\" data-condition"), "{page}");
    assert!(page.contains("2026-03-0"), "the start is that of the bag: {page}");
    assert!(page.matches("<svg").count() > 8);
}

#[test]
fn the_same_messages_in_sqlite_have_the_same_figures() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let [mut from_mcap, mut from_sqlite] =
        [mcap(&path("a.mcap"), &imu_and_odom()), sqlite(&path("a.db3"), &imu_and_odom())]
            .map(|bag| run(&bag, &["--json"]).objects());
    for objects in [&mut from_mcap, &mut from_sqlite] {
        assert!(objects.pop().unwrap().get("profile").is_some());
        assert_eq!(objects.len(), 9 + 9 + 2, "windows and topics");
    }
    // SQLite has no publish time.
    for object in from_mcap.iter_mut().chain(&mut from_sqlite) {
        let figures = if object.get("recording").is_some() { &mut object["recording"] } else { object };
        for part in ["metrics", "last_minute"] {
            let Some(part) = figures[part].as_object_mut() else { continue };
            part.retain(|metric, _| !metric.contains("source"));
        }
    }
    assert_eq!(from_mcap, from_sqlite);
}

#[test]
fn info_describes_the_files() {
    let directory = tempfile::tempdir().unwrap();
    for bag in [
        mcap(&directory.path().join("a.mcap"), &imu_and_odom()),
        sqlite(&directory.path().join("a.db3"), &imu_and_odom()),
    ] {
        let ended = run(&bag, &["--info"]);
        assert_eq!((ended.status, &*ended.errors), (Some(0), ""), "{ended:?}");
        let storage = if bag.extension().unwrap() == "mcap" { "mcap" } else { "sqlite3" };
        assert!(ended.output.contains(&format!("Storage id:        {storage}\n")), "{}", ended.output);
        for expected in ["/imu", "demo_msgs/msg/Stamped", "1000", "/odom", "200", "1200"] {
            assert!(ended.output.contains(expected), "{expected}: {}", ended.output);
        }
    }
}
