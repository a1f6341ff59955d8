// SPDX-License-Identifier: Apache-2.0

//! Runs the program `bag_statistics` on bags that the tests write.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use portable_pty::{native_pty_system, CommandBuilder, PtySize};
use serde_json::Value;

use crate::support::*;

/// A topic and its messages.
type Part = (Channel, Vec<Message>);

/// Returns messages of a topic at a rate (Hz); the messages begin at `from` and end at `to` (seconds after the start).
/// A message is published 2 ms after its stamp, and logged `age` ms after its stamp. The sequence numbers begin with 1.
fn regular(topic: &str, rate: i64, from: i64, to: i64, age: i64) -> Part {
    let first = from * S + S / rate / 2;
    let message = |number: i64| {
        let stamp = START + first + number * S / rate;
        let (log, publish, sequence) = (stamp + age * MS, stamp + 2 * MS, number as u32 + 1);
        Message { channel: 0, log, publish, sequence, stamp, size: 24 }
    };
    (Channel::new(topic, IMU), (0..(to - from) * rate).map(message).collect())
}

/// Gives the topic a channel whose sequence numbers prove losses. Removes the messages with the numbers in `lost`.
fn numbered((channel, mut messages): Part, lost: &[u32]) -> Part {
    messages.retain(|message| !lost.contains(&message.sequence));
    (proved(&channel.topic, ONE, "/talker"), messages)
}

/// Writes a file with the messages in the order in which `sort` puts them.
fn write_as_it_is(name: &str, parts: &[Part], sort: impl FnOnce(&mut Vec<Message>)) -> TestFile {
    let channels: Vec<Channel> = parts.iter().map(|(channel, _)| channel.clone()).collect();
    let of_part = |(channel, (_, messages)): (usize, &Part)| -> Vec<Message> {
        messages.iter().map(|message| Message { channel, ..*message }).collect()
    };
    let mut messages: Vec<Message> = parts.iter().enumerate().flat_map(of_part).collect();
    sort(&mut messages);
    let file = TestFile::named(name);
    if name.ends_with("db3") {
        sqlite(&file.path, &channels, &messages, &[IMU]);
    } else {
        // The chunks are small, so that a truncated file still has complete chunks.
        let options = mcap::WriteOptions::new().chunk_size(Some(10_000));
        fs::write(&file.path, mcap(options, &channels, &messages)).unwrap();
    }
    file
}

/// Writes a file with the messages in the order of their log times.
fn write(name: &str, parts: &[Part]) -> TestFile {
    write_as_it_is(name, parts, |messages| messages.sort_by_key(|message| message.log))
}

/// Returns 10 s of messages: /imu at 100 Hz with an age of 5 ms, and /odom at 20 Hz with an age of 7 ms.
fn imu_and_odom() -> [Part; 2] {
    [regular("/imu", 100, 0, 10, 5), regular("/odom", 20, 0, 10, 7)]
}

/// Writes a file with 10 s of /imu at 100 Hz.
fn ten_seconds() -> TestFile {
    write("a.mcap", &imu_and_odom()[..1])
}

impl TestFile {
    /// Writes another file into the same directory. Returns the path of the new file.
    fn beside(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[derive(Debug)]
struct Ended {
    status: Option<i32>,
    output: String,
    errors: String,
}

fn run(bag: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bag_statistics"));
    let Output { status, stdout, stderr } = command.arg(bag).args(arguments).output().unwrap();
    let [output, errors] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    Ended { status: status.code(), output, errors }
}

/// Runs the program. Panics unless the exit status is 0 and standard error is empty.
fn run_well(bag: &Path, arguments: &[&str]) -> Ended {
    let ended = run(bag, arguments);
    assert_eq!((ended.status, &*ended.errors), (Some(0), ""), "{ended:?}");
    ended
}

impl Ended {
    /// Returns the objects in the `--json` output.
    fn objects(&self) -> Vec<Value> {
        self.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the objects for the windows of a topic.
    fn windows(&self, topic: &str) -> Vec<Value> {
        let is_window = |object: &Value| object["topic"] == topic && object.get("window_start").is_some();
        self.objects().into_iter().filter(is_window).collect()
    }

    /// Returns the topics with their figures over the whole bag.
    fn recordings(&self) -> Vec<(String, Value)> {
        let recording =
            |object: Value| Some((object["topic"].as_str()?.to_owned(), object.get("recording")?.clone()));
        self.objects().into_iter().filter_map(recording).collect()
    }

    /// Returns the figures of a topic over the whole bag.
    fn recording(&self, topic: &str) -> Value {
        self.recordings().into_iter().find(|(name, _)| name == topic).expect(topic).1
    }

    /// Returns the words in the line of a topic in the table.
    fn table_line(&self, topic: &str) -> Vec<&str> {
        let mut lines = self.output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.find(|line| line.first() == Some(&topic)).expect(topic)
    }
}

#[test]
fn what_cannot_be_read_ends_it_with_3_and_is_named() {
    let file = TestFile::named("missing.mcap");
    let text: PathBuf = file.beside("text.mcap", "no bag").into();
    fs::create_dir(file.directory.path().join("empty")).unwrap();
    for path in [file.path.clone(), text, file.directory.path().join("empty")] {
        let ended = run(&path, &[]);
        assert_eq!((ended.status, &*ended.output), (Some(3), ""), "{ended:?}");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(ended.errors.starts_with("bag_statistics: ") && ended.errors.contains(name), "{ended:?}");
    }
    // For a truncated file, the program prints the figures of the readable part.
    let bag = write("a.mcap", &[regular("/imu", 100, 0, 30, 5)]);
    let whole = fs::read(&bag.path).unwrap();
    fs::write(&bag.path, &whole[..whole.len() / 2]).unwrap();
    let ended = run(&bag.path, &["--json", "--require", "/imu: rate>=90"]);
    assert!(ended.status == Some(3) && ended.errors.contains("a.mcap: "), "{ended:?}");
    let received = ended.recording("/imu")["received"].as_u64().unwrap();
    assert!((500..2500).contains(&received), "{received}");
    assert!(ended.windows("/imu").iter().all(|window| window["rate"] == 100.0), "{ended:?}");
    assert!(!ended.errors.contains("rate>=90 failed"), "a truncated file is not a slow topic: {ended:?}");
    // If the HTML report cannot be written, the program reports the error before it reads the bag.
    let page = file.directory.path().join("missing/page.html");
    let ended = run(&bag.path, &["--report", page.to_str().unwrap()]);
    assert_eq!((ended.status, &*ended.output), (Some(3), ""), "{ended:?}");
    assert!(ended.errors.contains("cannot write the report"), "{ended:?}");
}

#[test]
fn a_bag_without_a_message_ends_it_with_1_and_wrong_usage_with_2() {
    for name in ["a.mcap", "a.db3"] {
        let bag = write(name, &[]);
        for arguments in [&[][..], &["--json"], &["--print-expectations"], &["--require", "rate>1"]] {
            let ended = run(&bag.path, arguments);
            assert_eq!((ended.status, ended.errors.is_empty()), (Some(1), false), "{arguments:?}: {ended:?}");
        }
    }
    let bag = ten_seconds();
    let ended = run(&bag.path, &["--topics", "/scan"]);
    assert!(
        ended.status == Some(1) && ended.errors.contains("there is no topic /scan in the bag"),
        "{ended:?}"
    );
    let ended = run(&bag.path, &["--require", "rte>1"]);
    assert_eq!((ended.status, &*ended.output), (Some(2), ""), "{ended:?}");
    assert_eq!(Command::new(env!("CARGO_BIN_EXE_bag_statistics")).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_name_in_a_bag_reaches_no_terminal_unescaped() {
    let bag = write("a.mcap", &[regular("/x\u{1b}[2J\u{202e}", 10, 0, 5, 5)]);
    for arguments in [&[][..], &["--plain"], &["--json"], &["--info"], &["--require", "rate>100"]] {
        let ended = run(&bag.path, arguments);
        let is_escaped = |text: &str| !text.contains(['\u{1b}', '\u{202e}']);
        assert!(is_escaped(&ended.output) && is_escaped(&ended.errors), "{arguments:?}: {ended:?}");
        assert!(
            ended.output.contains("u{1b}") || ended.output.contains("\\u001b"),
            "{arguments:?}: {ended:?}"
        );
    }
}

#[test]
#[cfg(unix)]
fn a_reader_that_goes_away_is_no_error() {
    let bag = write("a.mcap", &[regular("/imu", 100, 0, 30, 5)]);
    let script = "\"$0\" \"$1\" --json --window 0.1 | head -n 1; exit ${PIPESTATUS[0]}";
    let mut bash = Command::new("bash");
    bash.args(["-c", script, env!("CARGO_BIN_EXE_bag_statistics")]).arg(&bag.path);
    let output = bash.output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
}

#[test]
fn conditions_are_judged_in_each_window() {
    // The rate is 40 Hz from 8 s to 12 s, and 100 Hz at other times.
    let bag = write("a.mcap", &slow_from_8_to_12_s());
    run_well(&bag.path, &["--require", "/imu: rate>=30 age<50ms"]);
    let junit = bag.beside("tests.xml", "");
    let required = ["--require", "/imu: rate>=90", "--require", "age.max<=5.5", "--junit", &junit];
    let ended = run(&bag.path, &required);
    let tests = fs::read_to_string(junit).unwrap();
    let passed = "<testcase name=\"age.max&lt;=5.5\" classname=\"/imu\"/>";
    let failed = "<failure message=\"rate&gt;=90 failed in 4 of 19 windows, first after ";
    assert!(tests.contains(passed) && tests.contains(failed), "{tests}");
    assert_eq!(ended.status, Some(1));
    assert!(ended.errors.contains("/imu: rate>=90 failed in 4 of 19 windows, first after "), "{ended:?}");
    assert!(ended.errors.contains("rate was 41.00") && !ended.errors.contains("age"), "{ended:?}");
    // If losses are unknown, the condition `lost=0` fails.
    let imu = || regular("/imu", 100, 0, 5, 5);
    for (messages, status) in [(imu(), 1), (numbered(imu(), &[]), 0), (numbered(imu(), &[222]), 1)] {
        assert_eq!(run(&write("a.mcap", &[messages]).path, &["--require", "lost=0"]).status, Some(status));
    }
}

#[test]
fn losses_in_the_first_and_the_last_part_of_a_window_are_judged() {
    // The last window has only the last message, at 10 s.
    let bag = write("a.mcap", &[numbered(regular("/imu", 100, 0, 10, 5), &[50, 51, 999])]);
    let [page, expect] =
        [("page.html", ""), ("robot.yaml", "topics: {/imu: {error_unless: lost=0, raise_after: 1}}")]
            .map(|(name, text)| bag.beside(name, text));
    let ended = run(&bag.path, &["--json", "--require", "lost=0 rate>=200 publishers=2", "--report", &page]);
    let lost: Vec<_> = ended.windows("/imu").iter().map(|window| window["lost"].as_u64()).collect();
    assert_eq!(lost, [2, 0, 0, 0, 0, 0, 0, 0, 0].map(Some));
    for expected in
        ["lost=0 failed in 2 of 10", "rate>=200 failed in 9 of 9", "publishers=2 failed in 9 of 9"]
    {
        assert!(ended.errors.contains(expected), "{expected}: {}", ended.errors);
    }
    let page = fs::read_to_string(page).unwrap();
    for expected in ["class=\"received\" value=\"997\"", "class=\"lost\" value=\"3\""] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let ended = run(&bag.path, &["--expect", &expect]);
    assert!(
        ended.status == Some(1) && ended.errors.contains("after 10.0 s, /imu: OK -> ERROR: lost"),
        "{ended:?}"
    );
    assert!(run_well(&bag.path, &[]).output.contains(" LOSS 3"));
}

fn slow_from_8_to_12_s() -> [Part; 3] {
    [regular("/imu", 100, 0, 8, 5), regular("/imu", 40, 8, 12, 5), regular("/imu", 100, 12, 20, 5)]
}

#[test]
fn messages_that_are_not_measured_fail_what_is_judged() {
    // The last message of the file belongs to the first window. When it is read, this window has already ended, because
    // the buffer for sorting holds fewer messages than the file.
    let mut messages = regular("/imu", 2000, 0, 35, 5);
    messages.1.push(messages.1[0]);
    let late = write_as_it_is("late.mcap", &[regular("/odom", 10, 0, 35, 5), messages], |_| ());
    let [imu, odom] = ["imu", "odom"].map(|topic| late.beside(topic, &format!("topics: {{/{topic}: {{}}}}")));
    for (arguments, status) in [
        (&[][..], 0),
        (&["--require", "/imu: rate>=90"], 1),
        (&["--require", "rate>=1"], 1),
        (&["--require", "/odom: rate>=1"], 0),
        (&["--expect", &imu], 1),
        (&["--expect", &odom, "--all"], 0),
    ] {
        assert_eq!(run(&late.path, arguments).status, Some(status), "{arguments:?}");
    }
    let page = late.beside("page.html", "");
    let ended = run(&late.path, &["--json", "--report", &page]);
    assert_eq!(
        ["/imu", "/odom"].map(|topic| ended.recording(topic)["unmeasured"].as_u64()),
        [Some(1), Some(0)]
    );
    let line = "/imu: 1 of 70001 messages come too late for their windows, and are left out";
    assert!(ended.errors.contains(line), "{ended:?}");
    assert!(fs::read_to_string(page).unwrap().contains(line));

    let mut unstamped = regular("/imu", 100, 0, 5, 5);
    unstamped.1[250].stamp = 0;
    let unstamped = write("unstamped.mcap", &[unstamped]);
    assert_eq!(run(&unstamped.path, &["--require", "rate>=90"]).status, Some(0));
    let ended = run(&unstamped.path, &["--require", "rate>=90", "--clock", "stamp", "--json"]);
    assert!(ended.status == Some(1) && ended.recording("/imu")["received"] == 499, "{ended:?}");
    assert!(ended.errors.contains("/imu: 1 of 500 messages have no time on the clock stamp"), "{ended:?}");
}

#[test]
fn expectations_report_changes_and_the_state_at_the_end_decides() {
    let middle = write("middle.mcap", &slow_from_8_to_12_s());
    let file = middle.beside("robot.yaml", "topics: {/imu: {error_unless: rate>=90}}");
    let ended = run(&middle.path, &["--expect", &file]);
    assert_eq!(ended.status, Some(0), "the topic is OK at the end: {ended:?}");
    let changes: Vec<&str> = ended.errors.lines().collect();
    let [bad, good] = [
        "bag_statistics: after 10.0 s, /imu: OK -> ERROR: rate 40 Hz, expected at least 90",
        "bag_statistics: after 15.0 s, /imu: ERROR -> OK: ",
    ];
    assert!(changes.len() == 2 && changes[0].starts_with(bad) && changes[1].starts_with(good), "{ended:?}");

    let end = write("end.mcap", &slow_from_8_to_12_s()[..2]);
    let ended = run(&end.path, &["--expect", &file, "--json"]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    let change = ended.objects().into_iter().find(|object| object.get("change").is_some()).unwrap();
    assert_eq!((&change["topic"], &change["change"]["to"]["level"]), (&"/imu".into(), &"ERROR".into()));
    assert_eq!(ended.windows("/imu").last().unwrap()["health"]["level"], "ERROR");

    let silent = write("silent.mcap", &[regular("/imu", 100, 0, 8, 5), regular("/odom", 10, 0, 30, 5)]);
    let text =
        "topics: {/imu: {silence: error}, /scan: {silence: error, first_message_within: 5}, /odom: {}}";
    let ended = run(&silent.path, &["--expect", &silent.beside("robot.yaml", text)]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    for expected in ["/imu: ERROR: ", "/scan: ERROR: ", "there is no topic /scan in the bag"] {
        assert!(ended.errors.contains(expected), "{expected}: {}", ended.errors);
    }
    assert!(!ended.errors.contains("/odom: "), "{}", ended.errors);

    // A silence of 15 minutes at the end is judged in each window, also if no other topic is read.
    let dead = write("dead.mcap", &[regular("/imu", 10, 0, 20, 5), regular("/odom", 1, 0, 920, 5)]);
    let text = "topics: {/imu: {error_unless: rate>=5, stale_after: never}}";
    let expect = dead.beside("robot.yaml", text);
    let ended = run(&dead.path, &["--expect", &expect, "--require", "/imu: rate>=5"]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    for expected in ["/imu: OK -> ERROR: rate 0 Hz", "/imu: rate>=5 failed in 899 of 918 windows"] {
        assert!(ended.errors.contains(expected), "{expected}: {}", ended.errors);
    }
}

/// The verdict and the times of the changes do not depend on whether other topics of the bag are read.
#[test]
fn a_topic_is_judged_from_the_start_of_the_bag_whatever_topics_are_read() {
    let late = regular("/late", 100, 16, 18, 5);
    let bag = write("a.mcap", &[regular("/imu", 10, 0, 18, 5), late]);
    let text = "topics: {/late: {error_unless: rate>=200, silence: error}}";
    let file = bag.beside("robot.yaml", text);
    let ended =
        [&["--topics", "/late"][..], &["--topics", "/late", "/imu"], &["--topics", "/late", "--from", "2"]]
            .map(|topics| {
                run(&bag.path, &[topics, &["--expect", &file, "--require", "/late: rate>=200"]].concat())
            });
    for (ended, slow) in ended.iter().zip(["17.9", "17.9", "15.9"]) {
        assert_eq!(ended.status, Some(1), "{ended:?}");
        for expected in [
            "after 12.9 s, /late: OK -> ERROR: no message yet, since 13 s",
            &format!("/late: rate>=200 failed in 1 of 1 window, first after {slow} s"),
        ] {
            assert!(ended.errors.contains(expected), "{expected}: {}", ended.errors);
        }
    }
}

#[test]
fn printed_expectations_are_fulfilled_by_the_bag_and_not_by_a_slower_one() {
    let bag = ten_seconds();
    let ended = run_well(&bag.path, &["--print-expectations"]);
    assert!(ended.output.contains("warn_unless: rate=100±20% age<6ms"), "{}", ended.output);
    let file = bag.beside("robot.yaml", &ended.output);
    run_well(&bag.path, &["--expect", &file]);
    let slow = write("slow.mcap", &[regular("/imu", 20, 0, 10, 5)]);
    assert_eq!(run(&slow.path, &["--expect", &file]).status, Some(1));
}

#[test]
fn a_bag_is_compared_with_a_bag_or_with_the_json_of_an_earlier_run() {
    let [good, same, late, short] = [(30, 5), (30, 5), (30, 60), (5, 5)]
        .map(|(seconds, age)| write("a.mcap", &[regular("/imu", 100, 0, seconds, age)]));
    let json = good.beside("baseline.jsonl", &run(&good.path, &["--json"]).output);
    for baseline in [good.path.to_str().unwrap(), &json] {
        assert_eq!(run(&same.path, &["--compare", baseline]).status, Some(0));
        let ended = run(&late.path, &["--compare", baseline]);
        assert_eq!(ended.status, Some(1), "{ended:?}");
        assert!(ended.output.contains("message_age") && ended.output.contains("worse"), "{ended:?}");
    }
    let whole = fs::read(&good.path).unwrap();
    let cut = good.beside("cut.mcap", "");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let ended = run(&same.path, &["--compare", &cut]);
    assert!(ended.status == Some(3) && ended.errors.contains("baseline: "), "{ended:?}");
    let ended = run(&short.path, &["--compare", short.path.to_str().unwrap()]);
    assert!(ended.status == Some(0) && ended.errors.contains("nothing can be said"), "{ended:?}");
}

#[test]
fn the_table_lines_and_info_have_the_figures_of_all_messages() {
    for name in ["a.mcap", "a.db3"] {
        let bag = write(name, &imu_and_odom());
        let ended = run_well(&bag.path, &["--info"]);
        let storage = if name == "a.mcap" { "mcap" } else { "sqlite3" };
        for expected in
            [&*format!("Storage id:        {storage}\n"), "/imu", IMU, "1000", "/odom", "200", "1200"]
        {
            assert!(ended.output.contains(expected), "{expected}: {}", ended.output);
        }
        let ended = run_well(&bag.path, &[]);
        let imu = ended.table_line("/imu");
        // The columns: publishers, rate; mean, p50, p99 and maximum of the period and of the age; received, lost.
        assert_eq!((imu[1], imu[2]), ("-", "100.0"), "{ended:?}");
        assert_eq!(
            (&imu[4..8], &imu[8..12], &imu[12..]),
            (&["10.00"; 4][..], &["5.000"; 4][..], &["1000", "-"][..])
        );
        let odom = ended.table_line("/odom");
        assert_eq!((odom[2], odom[4], odom[8], odom[12]), ("20.00", "50.00", "7.000", "200"), "{ended:?}");
        assert_eq!(ended.output.lines().count(), 4, "two header lines and two topics: {}", ended.output);
    }
    let bag = write("a.mcap", &imu_and_odom());
    let other = write("b.mcap", &[regular("/imu", 100, 10, 20, 5)]);
    let ended = run_well(&bag.path, &[other.path.to_str().unwrap()]);
    assert_eq!(ended.table_line("/imu")[12], "2000", "in two files");
    let ended = run(&bag.path, &["--plain", "--topics", "imu"]);
    let lines: Vec<Vec<&str>> = ended.output.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        (lines.len(), lines[2][0], lines[2][2], lines[2][4]),
        (2 + 9, "/imu", "100.0", "10.00"),
        "{ended:?}"
    );
}

#[test]
fn json_has_each_whole_window_and_then_the_figures_of_all_messages() {
    let ended = run_well(&write("a.mcap", &imu_and_odom()).path, &["--json"]);
    let windows = ended.windows("/imu");
    // There are 9 full windows, from 1 s to 10 s. The window before 1 s is shorter, because a topic's first window
    // begins with the topic's first message.
    assert_eq!(windows.len(), 9);
    for (second, window) in (1..).zip(&windows) {
        assert_eq!(window["window_start"], START + second * S);
        assert_eq!(window["window_stop"], START + (second + 1) * S);
        assert_eq!((&window["rate"], &window["received"]), (&100.0.into(), &100.into()));
        assert!(
            window["lost"].is_null() && window["publishers"].is_null(),
            "rosbag2 does not tell it: {window}"
        );
        for (metric, expected) in [
            ("message_period", 10.0),
            ("message_age", 5.0),
            ("header_to_source_ms", 2.0),
            ("source_to_receive_ms", 3.0),
        ] {
            let mean = window["metrics"][metric]["mean"].as_f64().unwrap();
            assert!((mean - expected).abs() < 1e-9, "{metric}: {window}");
        }
    }
    let imu = ended.recording("/imu");
    assert_eq!((&imu["received"], &imu["type"]), (&1000.into(), &IMU.into()), "{imu}");
    assert_eq!(imu["metrics"]["message_age"]["count"], 1000, "the first and the last window, too: {imu}");
    assert_eq!((&imu["metrics"]["message_period"]["count"], &imu["bytes"]), (&999.into(), &24_000.into()));
    assert!((imu["rate"].as_f64().unwrap() - 100.0).abs() < 1e-6, "{imu}");

    let ended = run(
        &write("a.mcap", &[numbered(regular("/imu", 100, 0, 10, 5), &[350, 351, 720])]).path,
        &["--json"],
    );
    let lost: Vec<_> = ended.windows("/imu").iter().map(|window| window["lost"].as_u64()).collect();
    assert_eq!(lost, [0, 0, 2, 0, 0, 0, 1, 0, 0].map(Some));
    let imu = ended.recording("/imu");
    assert_eq!(
        (&imu["lost"], &imu["received"], &imu["publishers"]),
        (&3.into(), &997.into(), &1.into()),
        "{imu}"
    );
    let sender = &imu["senders"][0];
    assert_eq!((&sender["gid"], &sender["node"]), (&ONE.into(), &"/talker".into()));
    assert_eq!((&sender["lost"], &sender["received"]), (&3.into(), &997.into()));
}

#[test]
fn a_page_is_written_with_the_name_of_the_bag_and_its_start() {
    let bag = write("robot<7>.mcap", &imu_and_odom());
    let page = bag.beside("page.html", "");
    let ended = run(&bag.path, &["--report", &page, "--require", "/imu: rate>=90 /odom: rate>=90"]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    let page = fs::read_to_string(page).unwrap();
    for expected in [
        "<h1>ROS 2 topics in robot&lt;7&gt;.mcap</h1>",
        ">bag_statistics ",
        "data-topic=\"/odom\" data-condition=\"rate&gt;=90\"",
        "2026-03-0",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.contains("data-topic=\"/imu\" data-condition"), "{page}");
    assert!(page.matches("<svg").count() > 8);
}

#[test]
fn topics_are_selected_by_name_and_pattern_as_in_topic_monitor() {
    let topics = ["/imu", "/camera/left", "/camera/right", "/rosout", "/_hidden"];
    let bag = write("a.mcap", &topics.map(|topic| regular(topic, 10, 0, 3, 1)));
    for (arguments, expected) in [
        (&[][..], &["/camera/left", "/camera/right", "/imu"][..]),
        (&["--topics", "imu", "/camera/l*"], &["/camera/left", "/imu"]),
        (&["--topics", "/rosout"], &["/rosout"]),
        (&["--all"], &["/_hidden", "/camera/left", "/camera/right", "/imu", "/rosout"]),
        (&["--require", "/imu: rate>1"], &["/imu"]),
    ] {
        let ended = run(&bag.path, &[&["--json"], arguments].concat());
        let mut topics: Vec<_> = ended.recordings().into_iter().map(|(topic, _)| topic).collect();
        topics.sort();
        assert_eq!(
            (ended.status, &topics[..]),
            (Some(0), &expected.iter().map(|topic| (*topic).to_owned()).collect::<Vec<_>>()[..])
        );
    }
}

#[test]
fn a_part_a_length_and_an_origin_are_chosen() {
    let bag = ten_seconds();
    // The first message is logged 10 ms after noon.
    for (part, expected) in [
        (&["--from", "2", "--to", "5"][..], 300),
        (&["--to", "0.5"], 50),
        (&["--from", "2026-03-01T12:00:09Z", "--to", "2026-03-01T13:00:10+01:00"], 100),
        (&["--from", "9.5"], 50),
    ] {
        let ended = run(&bag.path, &[&["--json"], part].concat());
        assert_eq!(
            (ended.status, &ended.recording("/imu")["received"]),
            (Some(0), &expected.into()),
            "{part:?}"
        );
    }
    for (part, status, expected) in [
        (&["--from", "20", "--to", "10"][..], 2, "There is nothing to read from 20 s to 10 s: "),
        (&["--from", "10", "--to", "2026-03-01T13:00:10+01:00"], 2, "from 10 s to 2026-03-01T12:00:10Z: "),
        (
            &["--from", "20"],
            1,
            ": the bag is from 2026-03-01T12:00:00.01Z to 2026-03-01T12:00:10Z (9.990 s)\n",
        ),
    ] {
        let ended = run(&bag.path, part);
        assert!(ended.status == Some(status) && ended.errors.contains(expected), "{ended:?}");
    }
    for (length, windows, received) in [("0.5", 19, 50), ("2", 4, 200)] {
        let found = run(&bag.path, &["--json", "--window", length]).windows("/imu");
        assert_eq!(found.len(), windows, "{length}");
        assert!(found.iter().all(|window| window["received"] == received), "{length}: {found:?}");
    }
    for (origin, expected) in [(&*(START + 123).to_string(), 123), ("2026-03-01T12:00:00.25Z", 250 * MS)] {
        let windows = run(&bag.path, &["--json", "--origin", origin]).windows("/imu");
        let since =
            |window: &Value| (window["window_start"].as_i64().unwrap() - START - expected).rem_euclid(S);
        assert!(
            windows.len() > 7 && windows.iter().all(|window| since(window) == 0),
            "{origin}: {windows:?}"
        );
    }
    // The second run in a database is placed after the first run, even if only a part of the bag is read.
    let two_runs = |messages: &mut Vec<Message>| messages.extend(messages.clone());
    let bag = write_as_it_is("a.db3", &[regular("/imu", 10, 0, 10, 5)], two_runs);
    for part in [&["--json"][..], &["--json", "--from", "0", "--to", "20"]] {
        let ended = run(&bag.path, part);
        assert!(ended.errors.contains("the log times go back by 9.900 s"), "{ended:?}");
        let rate = ended.recording("/imu")["rate"].as_f64().unwrap();
        assert!((rate - 10.0).abs() < 0.1, "{rate}");
    }
}

#[test]
fn on_a_terminal_a_bar_with_bytes_per_second_is_shown_until_the_table_is() {
    let bag = ten_seconds();
    let size = PtySize { rows: 24, cols: 120, ..PtySize::default() };
    let terminal = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bag_statistics"));
    command.arg(&bag.path);
    command.env("TERM", "xterm");
    let mut output = terminal.master.try_clone_reader().unwrap();
    let mut child = terminal.slave.spawn_command(command).unwrap();
    drop(terminal.slave);
    let mut text = vec![];
    // On Linux, the end of a pseudoterminal is reported as an error.
    let _end = output.read_to_end(&mut text);
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8_lossy(&text);
    let (bar, table) = text.split_once("/imu").unwrap();
    assert!(bar.contains("B/s") && bar.contains("left") && !table.contains("B/s"), "{text:?}");
}
