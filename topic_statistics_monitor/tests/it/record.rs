// SPDX-License-Identifier: Apache-2.0

//! Tests of `--record`: the recording has all received messages, and reports lost messages.

mod black_box;
mod disk;
mod foreign;
mod live;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rclrs::*;
use ros_env::std_msgs::msg::String as StringMsg;
use tempfile::TempDir;
use test_support::{domain, program, wait_for, Spinning};
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

    /// Waits for a second without messages, in windows that begin now. Returns the number received so far.
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
    // metadata.yaml has the same files in the same order.
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
