// SPDX-License-Identifier: Apache-2.0

//! Tests of `--record`: the recording has all received messages, and reports lost messages.

mod foreign;
mod live;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{mpsc, Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rclrs::*;
use ros_env::{
    diagnostic_msgs::msg::DiagnosticArray,
    std_msgs::msg::String as StringMsg,
    std_srvs::srv::{Trigger, Trigger_Request, Trigger_Response},
    topic_statistics_interfaces::srv::{
        GetTopicStatistics, GetTopicStatistics_Request, GetTopicStatistics_Response,
    },
};
use tempfile::TempDir;
use test_support::{domain, preload, program, wait_for, Spinning, LIMIT};
use topic_statistics_bag::{Bag, BagStatistics, NoteKind, ReadOptions};
use topic_statistics_observe::recorded::{RecordedTotals, Scope};

use crate::run::{text, Json};

/// A monitor that records `/chatter`.
struct Recording {
    monitor: Json,
    directory: TempDir,
}

impl Recording {
    fn start(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("run.mcap");
        let arguments = [&["/chatter", "--record", file.to_str().unwrap()], arguments].concat();
        let mut command = Json::command(&arguments, domain());
        change(&mut command);
        Self { monitor: Json::spawn(command), directory }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("run.mcap")
    }

    /// Waits until windows that begin after this call show one second without messages. Returns the number of messages
    /// received so far.
    fn received(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let mut silent = 0;
        let object = self.monitor.until("windows without a message", |object| {
            if object["topic"] == "/chatter" {
                let is_after = object["window_start"].as_u64().is_some_and(|start| start > now);
                silent = if object["received"] == 0 && is_after { silent + 1 } else { 0 };
            }
            silent == 4
        });
        object["total"]["received"].as_u64().unwrap()
    }

    /// Ends the monitor by a signal. Returns the line that describes what was recorded.
    fn end(&mut self, signal: &str) -> String {
        assert_eq!(self.monitor.end(signal), Some(0));
        self.monitor.until_error("recorded ")
    }
}

/// A node that publishes texts on `/chatter`.
struct Talker {
    publisher: Publisher<StringMsg>,
    node: Node,
    _spinning: Spinning,
}

impl Talker {
    fn new() -> Self {
        let (executor, node) = test_support::node("talker", &[]);
        let publisher = node.create_publisher("chatter".keep_last(5000)).unwrap();
        Self { publisher, node, _spinning: Spinning::start(executor) }
    }

    /// Publishes `number` texts of `bytes` bytes each, one every 2 ms.
    fn send(&self, number: u64, bytes: usize) {
        for _ in 0..number {
            self.publisher.publish(StringMsg { data: "x".repeat(bytes) }).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Publishes texts until a recording has a message.
    fn reach(&self, recording: &Recording) {
        recording.monitor.until("first message", |object| {
            self.send(1, 10);
            object["topic"] == "/chatter" && object["total"]["received"].as_u64() > Some(0)
        });
    }
}

fn read(files: &[PathBuf]) -> BagStatistics {
    Bag::open(files).unwrap().read(&ReadOptions::new().verify(true), &mut ()).unwrap()
}

/// Returns the totals of `/chatter` in the whole recording.
fn whole(bag: &BagStatistics) -> RecordedTotals {
    let whole = bag.recording.whole();
    let of_chatter = whole.into_iter().find(|entry| entry.topic == "/chatter").unwrap();
    assert_eq!(of_chatter.scope, Scope::Recording);
    of_chatter.clone()
}

fn messages(bag: &BagStatistics, topic: &str) -> u64 {
    bag.topics.iter().find(|other| other.name() == topic).map_or(0, |topic| topic.messages())
}

/// Runs bag_statistics on a file. Returns the exit status and the standard output.
fn bag_statistics(file: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(program("bag_statistics")).arg(file).args(arguments).output().unwrap();
    (output.status.code(), text(&output.stdout))
}

#[test]
fn recordings_end_by_signals_limits_and_a_crash() {
    let start = |arguments: &[&str]| Recording::start(arguments, |_| ());
    let mut whole_one = start(&["--compression", "zstd"]);
    let mut split = start(&["--split", "--max-size", "100kB"]);
    let (mut limited, mut crashed) = (start(&["--max-size", "50kB"]), start(&[]));
    let mut timed = start(&["--max-duration", "5"]);
    let talker = Talker::new();
    for recording in [&whole_one, &split, &limited, &crashed] {
        talker.reach(recording);
    }
    talker.send(400, 1000);

    let received = whole_one.received();
    let line = whole_one.end("INT");
    assert!(line.contains(&format!("recorded {received} messages")), "{line}");
    let bag = read(&[whole_one.file()]);
    assert!(bag.notes.is_empty(), "{:?}", bag.notes);
    let totals = whole(&bag);
    let counts = (bag.messages, totals.messages_recorded, totals.messages_lost_in_recorder);
    assert_eq!(counts, (received, received, 0));

    let received = split.received();
    let line = split.end("TERM");
    let directory = split.directory.path();
    let files = (0..).map(|number| directory.join(format!("run_{number}.mcap")));
    let files: Vec<PathBuf> = files.take_while(|path| path.exists()).collect();
    assert!(files.len() >= 4 && line.contains(&format!("run_{}.mcap", files.len() - 1)), "{line}: {files:?}");
    for file in &files {
        let bag = read(std::slice::from_ref(file));
        let own = &bag.recording.totals[0].totals[&(Scope::File, "/chatter".to_owned())];
        assert_eq!((own.messages_recorded, bag.notes.len()), (bag.messages, 0), "{:?}", bag.notes);
        assert!((1..=110_000).contains(&own.bytes_written), "{own:?}");
    }
    // metadata.yaml lists the files of `files` in the same order.
    assert!(directory.join("metadata.yaml").is_file());
    for bag in [read(&files), read(&[directory.to_owned()])] {
        assert_eq!((bag.messages, whole(&bag).messages_recorded), (received, received));
    }

    let received = crashed.received();
    wait_for("messages on the disk", || read(&[crashed.file()]).messages == received);
    assert_eq!(crashed.monitor.end("KILL"), None);
    let bag = read(&[crashed.file()]);
    let is_expected = |kind: &NoteKind| matches!(kind, NoteKind::Unfinished | NoteKind::CutOff { .. });
    assert!(bag.notes.iter().all(|note| is_expected(&note.kind)), "{:?}", bag.notes);
    assert_eq!((bag.notes.is_empty(), bag.messages), (false, received));

    timed.monitor.until_error("recorded ");
    assert_eq!(timed.monitor.process.wait().code(), Some(0));
    assert_eq!(limited.monitor.process.wait().code(), Some(0));
    let bag = read(&[limited.file()]);
    let totals = whole(&bag);
    assert_eq!((totals.messages_recorded, totals.messages_lost_in_recorder), (bag.messages, 0));
    assert!(bag.notes.is_empty() && (40_000..120_000).contains(&totals.bytes_written), "{totals:?}");
}

/// An ERROR triggers a file of `--last` with exactly the messages before and after it.
#[test]
fn an_error_writes_what_was_before_and_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let expect = directory.path().join("expect.yaml");
    fs::write(&expect, "topics: {/chatter: {silence: error, stale_after: 1}, /map: {}}").unwrap();
    let talker = Talker::new();
    let map = talker.node.create_publisher::<StringMsg>("map".keep_last(1).transient_local()).unwrap();
    map.publish(StringMsg::default()).unwrap();
    let arguments = ["/map", "--last", "600s", "--after", "8s", "--on", "error"];
    let mut recording = Recording::start(&arguments, |monitor| {
        monitor.arg("--expect").arg(&expect);
    });
    recording.monitor.until_of("/map", |object| object["total"]["received"] == 1);
    talker.reach(&recording);
    talker.send(300, 100);
    let line = recording.monitor.until_error("/chatter is ERROR");
    assert!(line.contains("no message any more") && line.contains(": writing "), "{line}");
    talker.send(50, 100);
    // The silence after these messages causes another ERROR. This second ERROR belongs to the same file.
    recording.monitor.until_error("added to the file");
    recording.monitor.until_error("wrote ");
    let received = recording.received();
    // A trigger has to wait if it comes within a minute after the first file began. The file of this trigger is written
    // at the end of the program.
    recording.monitor.process.signal("USR1");
    recording.monitor.until_error("SIGUSR1: a file begins in ");
    // The service is another trigger.
    let service = talker.node.create_client::<Trigger>("/topic_monitor/write_recording").unwrap();
    wait_for("service", || service.service_is_ready().unwrap());
    let (sender, answer) = mpsc::channel();
    let take = move |response: Trigger_Response| sender.send(response).unwrap();
    let _promise = service.call_then(&Trigger_Request::default(), take).unwrap();
    let answer = answer.recv_timeout(LIMIT).unwrap();
    assert!(answer.success && answer.message.contains(": a file begins in "), "{answer:?}");
    assert!(recording.monitor.until_error("service call: ").ends_with(&answer.message), "{answer:?}");
    talker.send(20, 100);
    let all = recording.received();
    assert_eq!(all, received + 20);
    assert_eq!(recording.monitor.end("INT"), Some(1), "/chatter is ERROR at the end");
    recording.monitor.until_error("wrote 2 files; 0 lost in the transport, 0 in the recorder");
    recording.monitor.until_error("/chatter: ERROR: no message any more");

    let entries = fs::read_dir(recording.directory.path()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let bags: Vec<_> = files.iter().map(|file| read(std::slice::from_ref(file))).collect();
    let counts: Vec<_> = bags.iter().map(|bag| (messages(bag, "/chatter"), messages(bag, "/map"))).collect();
    assert_eq!(counts, [(received, 1), (all, 1)]);
    for (bag, expected) in bags.iter().zip([received, all]) {
        assert!(bag.notes.is_empty(), "{:?}", bag.notes);
        let totals = whole(bag);
        assert_eq!((totals.messages_recorded, totals.messages_lost_in_recorder), (expected, 0));
    }
    let bytes = fs::read(&files[0]).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for part in ["topic_statistics:trigger", "level_before", "no message any more, since", "window_stop"] {
        assert!(text.contains(part), "{part}");
    }
}

/// Losses in the recorder, because of a slow disk, and losses in the transport are reported separately.
#[test]
fn a_slow_disk_loses_messages_in_the_recorder_only() {
    let Some(library) = preload::library("slow_fsync") else { return };
    // The monitor records all topics except its own events. The topic `/quiet` loses no message, so it has no events.
    let arguments = ["/**", "--max-cache-size", "100kB", "--statistics-update-rate", "10"];
    let mut recording = Recording::start(&arguments, |monitor| preload::preload(monitor, &library));
    let talker = Talker::new();
    let quiet = talker.node.create_publisher::<StringMsg>("quiet".keep_last(10)).unwrap();
    let sums = Arc::new(Mutex::new(BTreeMap::<String, u64>::new()));
    let to = Arc::clone(&sums);
    let add = move |event: DiagnosticArray| {
        for status in event.status {
            assert!(status.name.ends_with("/chatter"), "{}", status.name);
            for pair in status.values {
                let number = pair.value.parse::<u64>().unwrap_or(0);
                *to.lock().unwrap().entry(pair.key).or_default() += number;
            }
        }
    };
    let events = "/topic_monitor/messages_lost".keep_last(1000);
    let _events = talker.node.create_subscription(events, add).unwrap();
    let sum = |key: &str| sums.lock().unwrap().get(key).copied().unwrap_or_default();
    let name = "/topic_monitor/get_topic_statistics";
    let client = talker.node.create_client::<GetTopicStatistics>(name).unwrap();
    wait_for("service", || client.service_is_ready().unwrap());
    talker.reach(&recording);
    recording.monitor.until("message without losses", |object| {
        assert_ne!(object["topic"], "/topic_monitor/messages_lost");
        quiet.publish(StringMsg::default()).unwrap();
        object["topic"] == "/quiet" && object["total"]["received"].as_u64() > Some(0)
    });
    assert!(sums.lock().unwrap().is_empty(), "an event was published without a loss: {sums:?}");

    wait_for("losses in the recorder", || {
        talker.send(200, 1000);
        sum("messages_lost_in_recorder") > 0
    });
    let received = recording.received();
    let (sender, answer) = mpsc::channel();
    let take = move |response: GetTopicStatistics_Response| sender.send(response).unwrap();
    let _promise = client.call_then(&GetTopicStatistics_Request::default(), take).unwrap();
    let answer = answer.recv_timeout(LIMIT).unwrap();
    assert_eq!(answer.node_name, "/topic_monitor");
    let totals = answer.topic_statistics.iter().find(|topic| topic.topic_name == "/chatter").unwrap();
    assert_eq!((totals.messages_received, totals.messages_lost), (received, 0), "no loss in the transport");
    let mut counted =
        totals.metrics.iter().filter(|metric| metric.metrics_source == "messages_lost_in_recorder");
    let lost = counted.next().unwrap().count;
    wait_for("last event", || sum("messages_lost_in_recorder") == lost);
    assert_eq!(sum("messages_lost_in_transport"), 0);

    let line = recording.end("INT");
    assert!(line.contains(&format!("0 lost in the transport, {lost} in the recorder")), "{line}");
    let bag = read(&[recording.file()]);
    assert!(bag.notes.is_empty(), "{:?}", bag.notes);
    let whole = whole(&bag);
    assert_eq!((whole.messages_lost_in_transport, whole.messages_lost_in_recorder), (Some(0), lost));
    assert_eq!(whole.messages_recorded + lost, received);
}
