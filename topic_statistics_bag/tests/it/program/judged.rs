// SPDX-License-Identifier: Apache-2.0

//! `--require`, `--expect`, `--print-expectations` and `--compare`.

use std::{fs, path::Path};

use super::{
    bag_file::{mcap, mcap_as_it_is, numbered, regular, Sent},
    run::run,
};

/// 20 s of /imu at 100 Hz, but 40 Hz from 8 s to 12 s.
fn slow_in_the_middle() -> Vec<Sent> {
    [regular("/imu", 100, 0, 8, 5), regular("/imu", 40, 8, 12, 5), regular("/imu", 100, 12, 20, 5)].concat()
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn conditions_are_judged_in_each_window() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &slow_in_the_middle());
    let ended = run(&bag, &["--require", "/imu: rate>=30 age<50ms"]);
    assert_eq!((ended.status, &*ended.errors), (Some(0), ""), "{ended:?}");
    let ended = run(&bag, &["--require", "/imu: rate>=90", "--require", "age.max<=5.5"]);
    assert_eq!(ended.status, Some(1));
    assert!(ended.errors.contains("/imu: rate>=90 failed in 4 of 19 windows, first after "), "{ended:?}");
    assert!(ended.errors.contains("rate was 41.00") && !ended.errors.contains("age"), "{ended:?}");
}

#[test]
fn a_loss_that_is_not_known_fulfils_no_condition_and_one_that_is_proved_fails_it() {
    let directory = tempfile::tempdir().unwrap();
    let status = |name: &str, messages: &[Sent]| {
        run(&mcap(&directory.path().join(name), messages), &["--require", "lost=0"]).status
    };
    let imu = || regular("/imu", 100, 0, 5, 5);
    assert_eq!(status("unknown.mcap", &imu()), Some(1));
    assert_eq!(status("all.mcap", &numbered(imu(), &[])), Some(0));
    assert_eq!(status("lost.mcap", &numbered(imu(), &[222])), Some(1));
}

#[test]
fn messages_that_are_not_measured_fail_what_is_judged() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "robot.yaml", "topics: {/imu: {}}");
    let other = write(directory.path(), "other.yaml", "topics: {/odom: {}}");
    let page = directory.path().join("page.html");
    let page = page.to_str().unwrap();
    // More messages than wait for their order are before the last one, which is of the first window.
    let mut messages = regular("/imu", 2000, 0, 35, 5);
    messages.push(Sent { log: messages[0].log, ..messages[0].clone() });
    let odom = regular("/odom", 10, 0, 35, 5);
    let late = mcap_as_it_is(&directory.path().join("late.mcap"), &[odom, messages].concat());
    let status = |arguments: &[&str]| run(&late, arguments).status;
    assert_eq!(status(&[]), Some(0));
    assert_eq!(status(&["--require", "/imu: rate>=90"]), Some(1));
    assert_eq!(status(&["--require", "rate>=1"]), Some(1));
    assert_eq!(status(&["--require", "/odom: rate>=1"]), Some(0));
    assert_eq!(status(&["--expect", &file]), Some(1));
    assert_eq!(status(&["--expect", &other, "--all"]), Some(0));
    let ended = run(&late, &["--json", "--report", page]);
    assert_eq!(ended.recording("/imu")["unmeasured"], 1);
    assert_eq!(ended.recording("/odom")["unmeasured"], 0);
    let line = "/imu: 1 of 70001 messages come too late for their windows, and are left out";
    assert!(ended.errors.contains(line), "{ended:?}");
    assert!(fs::read_to_string(page).unwrap().contains(line));

    let mut unstamped = regular("/imu", 100, 0, 5, 5);
    unstamped[250].stamp = 0;
    let unstamped = mcap(&directory.path().join("unstamped.mcap"), &unstamped);
    assert_eq!(run(&unstamped, &["--require", "rate>=90", "--clock", "stamp"]).status, Some(1));
    assert_eq!(run(&unstamped, &["--require", "rate>=90"]).status, Some(0));
}

#[test]
fn bytes_per_second_are_of_the_whole_bag_whichever_topics_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let messages = [regular("/imu", 100, 0, 20, 5), regular("/chat", 1, 8, 12, 5)].concat();
    let bag = mcap(&directory.path().join("a.mcap"), &messages);
    let figures = |arguments: &[&str]| {
        let chat = run(&bag, &[&["--json"], arguments].concat()).recording("/chat");
        [&chat["bandwidth"], &chat["start"], &chat["stop"]].map(ToString::to_string)
    };
    assert_eq!(figures(&["--all"]), figures(&["--topics", "/chat"]));
}

#[test]
fn expectations_report_changes_and_the_state_at_the_end_decides() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "robot.yaml", "topics: {/imu: {error_unless: rate>=90}}");
    let middle = mcap(&directory.path().join("middle.mcap"), &slow_in_the_middle());
    let ended = run(&middle, &["--expect", &file]);
    assert_eq!(ended.status, Some(0), "it has recovered: {ended:?}");
    let changes: Vec<&str> = ended.errors.lines().collect();
    assert_eq!(changes.len(), 2, "{ended:?}");
    assert!(
        changes[0]
            .starts_with("bag_statistics: after 10.0 s, /imu: OK -> ERROR: rate 40 Hz, expected at least 90"),
        "{ended:?}"
    );
    assert!(changes[1].starts_with("bag_statistics: after 15.0 s, /imu: ERROR -> OK: "), "{ended:?}");

    let end = [regular("/imu", 100, 0, 8, 5), regular("/imu", 40, 8, 12, 5)].concat();
    let end = mcap(&directory.path().join("end.mcap"), &end);
    let ended = run(&end, &["--expect", &file, "--json"]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    let change = ended.objects().into_iter().find(|object| object.get("change").is_some()).unwrap();
    assert_eq!((&change["topic"], &change["change"]["to"]["level"]), (&"/imu".into(), &"ERROR".into()));
    assert_eq!(ended.windows("/imu").last().unwrap()["health"]["level"], "ERROR");
}

#[test]
fn silence_and_a_topic_that_is_missing_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        "topics: {/imu: {silence: error}, /scan: {silence: error, first_message_within: 5}, /odom: {}}";
    let file = write(directory.path(), "robot.yaml", text);
    let messages = [regular("/imu", 100, 0, 8, 5), regular("/odom", 10, 0, 30, 5)].concat();
    let ended = run(&mcap(&directory.path().join("a.mcap"), &messages), &["--expect", &file]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    for expected in ["/imu: ERROR: ", "/scan: ERROR: ", "there is no topic /scan in the bag"] {
        assert!(ended.errors.contains(expected), "{expected}: {}", ended.errors);
    }
    assert!(!ended.errors.contains("/odom: "), "{}", ended.errors);
}

#[test]
fn expectations_that_are_printed_are_fulfilled_by_the_bag_and_not_by_a_slower_one() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/imu", 100, 0, 10, 5));
    let ended = run(&bag, &["--print-expectations"]);
    assert_eq!((ended.status, &*ended.errors), (Some(0), ""), "{ended:?}");
    assert!(ended.output.contains("warn_unless: rate=100±20% age<6ms"), "{}", ended.output);
    let file = write(directory.path(), "robot.yaml", &ended.output);
    let fulfilled = run(&bag, &["--expect", &file]);
    assert_eq!((fulfilled.status, &*fulfilled.errors), (Some(0), ""), "{fulfilled:?}");
    let slow = mcap(&directory.path().join("slow.mcap"), &regular("/imu", 20, 0, 10, 5));
    assert_eq!(run(&slow, &["--expect", &file]).status, Some(1));
}

#[test]
fn a_bag_that_became_worse_fails_against_a_bag_and_against_the_json_of_an_earlier_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let good = mcap(&path("good.mcap"), &regular("/imu", 100, 0, 30, 5));
    let same = mcap(&path("same.mcap"), &regular("/imu", 100, 0, 30, 5));
    let late = mcap(&path("late.mcap"), &regular("/imu", 100, 0, 30, 60));
    let json = write(directory.path(), "baseline.jsonl", &run(&good, &["--json"]).output);
    for baseline in [good.to_str().unwrap(), &json] {
        let ended = run(&same, &["--compare", baseline]);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        let ended = run(&late, &["--compare", baseline]);
        assert_eq!(ended.status, Some(1), "{ended:?}");
        assert!(ended.output.contains("message_age") && ended.output.contains("worse"), "{ended:?}");
    }
}

#[test]
fn bags_that_are_too_short_to_be_compared_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("short.mcap"), &regular("/imu", 100, 0, 5, 5));
    let ended = run(&bag, &["--compare", bag.to_str().unwrap()]);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert!(ended.errors.contains("nothing can be said"), "{ended:?}");
}
