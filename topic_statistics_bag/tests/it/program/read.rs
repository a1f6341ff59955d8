// SPDX-License-Identifier: Apache-2.0

//! What is read: `--topics`, `--all`, `--from`, `--to`, `--clock`, `--window`.

use super::{
    bag_file::{mcap, regular, sqlite, Sent, MS, START},
    run::run,
};

#[test]
fn topics_are_selected_by_name_and_pattern_as_in_topic_monitor() {
    let directory = tempfile::tempdir().unwrap();
    let messages = ["/imu", "/camera/left", "/camera/right", "/rosout", "/_hidden"]
        .map(|topic| regular(topic, 10, 0, 3, 1));
    let bag = mcap(&directory.path().join("a.mcap"), &messages.concat());
    let topics = |arguments: &[&str]| {
        let ended = run(&bag, &[&["--json"], arguments].concat());
        assert_eq!(ended.status, Some(0), "{ended:?}");
        let objects = ended.objects().into_iter().filter(|object| object.get("recording").is_some());
        objects.map(|object| object["topic"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(topics(&[]), ["/camera/left", "/camera/right", "/imu"]);
    assert_eq!(topics(&["--topics", "imu", "/camera/l*"]), ["/camera/left", "/imu"]);
    assert_eq!(topics(&["--topics", "/rosout"]), ["/rosout"]);
    assert_eq!(topics(&["--all"]).len(), 5);
    assert_eq!(topics(&["--require", "/imu: rate>1"]), ["/imu"]);
}

#[test]
fn a_part_of_a_bag_is_read_by_its_log_times() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/imu", 100, 0, 10, 5));
    let received = |arguments: &[&str]| {
        let ended = run(&bag, &[&["--json"], arguments].concat());
        assert_eq!(ended.status, Some(0), "{ended:?}");
        ended.recording("/imu")["received"].as_u64().unwrap()
    };
    assert_eq!(received(&["--from", "2", "--to", "5"]), 300);
    assert_eq!(received(&["--to", "0.5"]), 50);
    // The first message is 10 ms after noon.
    assert_eq!(received(&["--from", "2026-03-01T12:00:09Z", "--to", "2026-03-01T13:00:10+01:00"]), 100);
    assert_eq!(received(&["--from", "9.5"]), 50);
}

#[test]
fn windows_and_periods_are_on_the_chosen_clock() {
    let directory = tempfile::tempdir().unwrap();
    // A sensor at 100 Hz, a publisher that is 1 or 5 ms behind, and a recorder that is 1 or 5 ms behind the publisher.
    let messages = (0..1000).map(|number| {
        let stamp = START + (number * 10 + 1) * MS;
        let publish = stamp + [1, 5][number as usize % 2] * MS;
        let log = publish + [1, 5][number as usize / 2 % 2] * MS;
        Sent { topic: "/imu", log, publish, stamp, number: None }
    });
    let bag = mcap(&directory.path().join("a.mcap"), &messages.collect::<Vec<_>>());
    // The shortest and the longest period. Ages are up to the log time on each clock: 1 + 1 to 5 + 5 ms.
    for (clock, period) in [("log", [2.0, 14.0]), ("publish", [6.0, 14.0]), ("stamp", [10.0, 10.0])] {
        let ended = run(&bag, &["--json", "--clock", clock]);
        assert_eq!((ended.status, &*ended.errors), (Some(0), ""), "{ended:?}");
        let metrics = &ended.recording("/imu")["metrics"];
        for (metric, [min, max]) in [("message_period", period), ("message_age", [2.0, 10.0])] {
            let figure = |name: &str| metrics[metric][name].as_f64().unwrap();
            let difference = (figure("min") - min).abs().max((figure("max") - max).abs());
            assert!(difference < 1e-6, "{clock}: {}", metrics[metric]);
        }
    }
}

#[test]
fn messages_without_a_time_on_the_clock_are_left_out_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let mut messages = regular("/imu", 10, 0, 3, 5);
    messages[7].stamp = 0;
    let bag = mcap(&directory.path().join("a.mcap"), &messages);
    let ended = run(&bag, &["--json", "--clock", "stamp"]);
    assert_eq!(ended.recording("/imu")["received"], 29, "{ended:?}");
    assert!(ended.errors.contains("/imu: 1 of 30 messages have no time on the clock stamp"), "{ended:?}");
}

#[test]
fn windows_have_the_chosen_length() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/imu", 100, 0, 10, 5));
    for (length, windows, received) in [("0.5", 19, 50), ("2", 4, 200)] {
        let ended = run(&bag, &["--json", "--window", length]);
        let found = ended.windows("/imu");
        assert_eq!(found.len(), windows, "{length}");
        assert!(found.iter().all(|window| window["received"] == received), "{length}: {found:?}");
    }
}

#[test]
fn windows_start_at_the_origin_as_those_of_a_live_run_do() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/imu", 100, 0, 10, 5));
    for (origin, expected) in
        [(format!("{}", START + 123), START + 123), ("2026-03-01T12:00:00.25Z".to_owned(), START + 250 * MS)]
    {
        let ended = run(&bag, &["--json", "--origin", &origin]);
        let windows = ended.windows("/imu");
        let starts: Vec<_> = windows.iter().map(|window| window["window_start"].as_i64().unwrap()).collect();
        let since = |start: &i64| (start - expected).rem_euclid(1000 * MS);
        assert!(starts.len() > 7 && starts.iter().all(|start| since(start) == 0), "{origin}: {starts:?}");
    }
}

#[test]
fn runs_of_a_database_lie_behind_each_other_in_a_part_of_it_too() {
    let directory = tempfile::tempdir().unwrap();
    let run_of_10_s = regular("/imu", 10, 0, 10, 5);
    let bag = sqlite(&directory.path().join("a.db3"), &[run_of_10_s.clone(), run_of_10_s].concat());
    for part in [&["--json"][..], &["--json", "--from", "0", "--to", "20"]] {
        let ended = run(&bag, part);
        assert!(ended.errors.contains("the log times go back by 9.900 s"), "{ended:?}");
        let rate = ended.recording("/imu")["rate"].as_f64().unwrap();
        assert!((rate - 10.0).abs() < 0.1, "{rate}");
    }
}
