// SPDX-License-Identifier: Apache-2.0

//! `--record`: what is recorded is what was seen, and what was lost is said.

mod ending;
mod foreign;
mod limits;
mod live;
mod losses;

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rclrs::*;
use ros_env::std_msgs::msg::String as StringMsg;
use serde_json::Value;
use tempfile::TempDir;
use test_support::{program, wait_for, Spinning};
use topic_statistics_bag::{Bag, BagStatistics, ReadOptions};
use topic_statistics_views::recorded::{RecordedTotals, Scope};

use crate::run::{text, Json};

/// A recording of `/chatter`, with its talker.
struct Recording {
    monitor: Json,
    talker: Talker,
    directory: TempDir,
}

/// A node that publishes texts on `/chatter`.
struct Talker {
    publisher: Publisher<StringMsg>,
    node: Node,
    sent: u64,
    _spinning: Spinning,
}

impl Talker {
    fn new(domain: u32) -> Self {
        let executor = test_support::context(domain, &[]).create_basic_executor();
        let node = executor.create_node("talker").unwrap();
        let publisher = node.create_publisher("chatter".keep_last(5000)).unwrap();
        Self { publisher, node, sent: 0, _spinning: Spinning::start(executor) }
    }

    /// Publishes a text of that many bytes.
    fn send(&mut self, bytes: usize) {
        self.sent += 1;
        self.publisher.publish(StringMsg { data: "x".repeat(bytes) }).unwrap();
    }

    /// Publishes texts, one each 2 ms.
    fn send_many(&mut self, number: u64, bytes: usize) {
        for _ in 0..number {
            self.send(bytes);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Recording {
    fn start(arguments: &[&str]) -> Self {
        Self::start_as(arguments, |_| ())
    }

    /// Starts it with a changed command, and waits until messages are recorded.
    fn start_as(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::start_in(directory.path().join("run.mcap"), directory, arguments, change)
    }

    fn start_in(
        file: PathBuf,
        directory: TempDir,
        arguments: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let domain = test_support::domain();
        let file = file.to_str().unwrap();
        let arguments = [&["/chatter", "--period", "0.25", "--record", file], arguments].concat();
        let monitor = Json::start_as(&arguments, domain, change);
        let mut talker = Talker::new(domain);
        wait_for("subscription", || talker.node.count_subscriptions("/chatter").unwrap() > 0);
        wait_for("first message", || {
            talker.send(10);
            monitor.lines.try_iter().any(|line| {
                let object: Value = serde_json::from_str(&line).unwrap();
                object["total"]["received"].as_u64().unwrap() > 0
            })
        });
        Self { monitor, talker, directory }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("run.mcap")
    }

    /// Waits for windows of a second without a message that begin after this call. Returns how many messages were
    /// received.
    fn received(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let is_silent = |object: &Value| {
            object["received"] == 0 && object["window_start"].as_u64().is_some_and(|start| start > now)
        };
        let silent = Cell::new(0);
        let object = self.monitor.until("windows without a message", |object| {
            if object["topic"] == "/chatter" {
                silent.set(if is_silent(object) { silent.get() + 1 } else { 0 });
            }
            silent.get() == 4
        });
        object["total"]["received"].as_u64().unwrap()
    }

    /// Ends it by a signal. Returns the line that says what was recorded.
    fn end(&mut self, signal: &str) -> String {
        self.monitor.signal(signal);
        let line = self.monitor.until_error("recorded ");
        assert_eq!(self.monitor.end(), Some(0), "{line}");
        line
    }
}

fn read(files: &[PathBuf]) -> BagStatistics {
    Bag::open(files).unwrap().read(&ReadOptions::new().verify(true), &mut ()).unwrap()
}

/// Returns the totals of the recording, which has one topic.
fn whole(bag: &BagStatistics) -> RecordedTotals {
    let whole = bag.recording.whole();
    assert_eq!(whole.len(), 1, "{whole:?}");
    assert_eq!(whole[0].scope, Scope::Recording);
    whole[0].clone()
}

/// Returns what `bag_statistics --info` prints.
fn info(file: &Path) -> String {
    let output = Command::new(program("bag_statistics")).arg(file).arg("--info").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}
