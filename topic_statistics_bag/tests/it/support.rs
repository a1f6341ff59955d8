// SPDX-License-Identifier: Apache-2.0

//! Functions that write bags for the tests, and read these bags.

use std::{
    collections::BTreeMap,
    fs,
    io::{Cursor, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use mcap::{records::MessageHeader, WriteOptions};
use rusqlite::{params, Connection};
use tempfile::TempDir;
use topic_statistics_bag::channel_metadata::{
    PUBLICATION_SEQUENCE_NUMBER, PUBLISHER_GID, PUBLISHER_NODE, SEQUENCE,
};
use topic_statistics_bag::{Bag, BagStatistics, Note, NoteKind, ReadOptions, Topic, TopicWindow, Visitor};
use topic_statistics_core::WindowStatistics;

pub const MS: i64 = 1_000_000;
pub const S: i64 = 1000 * MS;
/// 2026-03-01T12:00:00Z, in nanoseconds of Unix time.
pub const START: i64 = 1_772_366_400 * S;

pub const IMU: &str = "sensor_msgs/msg/Imu";
pub const STRING: &str = "std_msgs/msg/String";

/// The definition of a message type with a header.
const STAMPED: &str = "std_msgs/Header header
float64 x
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
";

#[derive(Clone, Debug)]
pub struct Channel {
    pub topic: String,
    pub message_type: &'static str,
    pub metadata: BTreeMap<String, String>,
}

impl Channel {
    pub fn new(topic: &str, message_type: &'static str) -> Self {
        Self { topic: topic.to_owned(), message_type, metadata: BTreeMap::new() }
    }
}

/// A message in a file. The times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub channel: usize,
    pub log: i64,
    pub publish: i64,
    pub sequence: u32,
    pub stamp: i64,
    pub size: usize,
}

impl Message {
    /// Returns a message that was logged `log` nanoseconds after [`START`], stamped 5 ms before the log time, and
    /// published 2 ms before the log time.
    pub fn at(channel: usize, log: i64) -> Self {
        let log = START + log;
        Self { channel, log, publish: log - 2 * MS, sequence: 0, stamp: log - 5 * MS, size: 60 }
    }

    pub fn data(&self) -> Vec<u8> {
        let mut data = vec![0, 1, 0, 0];
        data.extend((self.stamp.div_euclid(S) as i32).to_le_bytes());
        data.extend((self.stamp.rem_euclid(S) as u32).to_le_bytes());
        // The bytes are pseudorandom, so that they do not compress well.
        let mut value = self.log as u64 ^ self.sequence as u64;
        while data.len() < self.size {
            value = value.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            data.push((value >> 56) as u8);
        }
        data
    }
}

/// Writes a file with MCAP's own library.
pub fn mcap(options: WriteOptions, channels: &[Channel], messages: &[Message]) -> Vec<u8> {
    let mut writer = options.profile("ros2").create(Cursor::new(vec![])).unwrap();
    let ids: Vec<u16> = channels
        .iter()
        .map(|channel| {
            let text = if channel.message_type == STRING { "string data\n" } else { STAMPED };
            let schema = writer.add_schema(channel.message_type, "ros2msg", text.as_bytes()).unwrap();
            writer.add_channel(schema, &channel.topic, "cdr", &channel.metadata).unwrap()
        })
        .collect();
    for message in messages {
        let header = MessageHeader {
            channel_id: ids[message.channel],
            sequence: message.sequence,
            log_time: message.log as u64,
            publish_time: message.publish as u64,
        };
        writer.write_to_known_channel(&header, &message.data()).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().into_inner()
}

/// Writes a database as rosbag2 does, with definitions (since ROS 2 Iron) of the types in `defined`.
pub fn sqlite(path: &Path, channels: &[Channel], messages: &[Message], defined: &[&str]) {
    let database = Connection::open(path).unwrap();
    let tables = "BEGIN; CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
        CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, metadata TEXT NOT NULL);
        CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
            serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,
            data BLOB NOT NULL);
        CREATE INDEX timestamp_idx ON messages (timestamp ASC);";
    database.execute_batch(tables).unwrap();
    if !defined.is_empty() {
        let table = "CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL,
            encoding TEXT NOT NULL, encoded_message_definition TEXT NOT NULL, type_description_hash TEXT NOT NULL);";
        database.execute_batch(table).unwrap();
    }
    for of_type in defined {
        let insert = "INSERT INTO message_definitions VALUES (NULL, ?, 'ros2msg', ?, '')";
        database.execute(insert, [of_type, STAMPED]).unwrap();
    }
    for (id, channel) in channels.iter().enumerate() {
        let insert = "INSERT INTO topics VALUES (?, ?, ?, 'cdr', '')";
        database.execute(insert, params![id as i64, channel.topic, channel.message_type]).unwrap();
    }
    for message in messages {
        let insert = "INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)";
        database.execute(insert, params![message.channel as i64, message.log, message.data()]).unwrap();
    }
    database.execute_batch("COMMIT").unwrap();
}

/// Returns a channel whose metadata say that the sequence numbers come from the publisher. Such a channel proves
/// losses.
pub fn proved(topic: &str, gid: &str, node: &str) -> Channel {
    let keys = [(SEQUENCE, PUBLICATION_SEQUENCE_NUMBER), (PUBLISHER_GID, gid), (PUBLISHER_NODE, node)];
    let metadata = keys.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    Channel { metadata, ..Channel::new(topic, IMU) }
}

pub const ONE: &str = "010f78fd6b5290710000000000001003";

/// Returns messages of channel 0 every 10 ms, with increasing sequence numbers.
pub fn every_10_ms(count: i64) -> Vec<Message> {
    (0..count).map(|number| Message { sequence: number as u32, ..Message::at(0, number * 10 * MS) }).collect()
}

pub fn imu() -> [Channel; 1] {
    [Channel::new("/imu", IMU)]
}

/// Returns two topics for `seconds` seconds: one with a message every 10 ms, and one every 300 ms without a header.
pub fn two_topics(seconds: i64) -> (Vec<Channel>, Vec<Message>) {
    let channels = vec![Channel::new("/imu", IMU), Channel::new("/text", STRING)];
    let imu = (0..seconds * 100).map(|number| Message::at(0, number * 10 * MS));
    let text = (0..seconds * 10 / 3).map(|number| Message::at(1, number * 300 * MS + 7 * MS));
    let mut messages: Vec<_> = imu.chain(text).collect();
    messages.sort_by_key(|message| message.log);
    (channels, messages)
}

#[derive(Debug, Default)]
pub struct Windows(pub Vec<(String, WindowStatistics, bool)>);

impl Visitor for Windows {
    fn window(&mut self, window: &TopicWindow<'_>) -> ControlFlow<()> {
        self.0.push((window.topic.name().to_owned(), window.statistics.clone(), window.is_whole));
        ControlFlow::Continue(())
    }
}

impl Windows {
    pub fn of(&self, topic: &str) -> Vec<&WindowStatistics> {
        self.0.iter().filter(|(name, ..)| name == topic).map(|(_, window, _)| window).collect()
    }

    /// Returns all figures as text. Texts can be compared for equality even if a figure is NaN; numbers cannot.
    pub fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[derive(Debug)]
pub struct ReadBag {
    pub windows: Windows,
    pub statistics: BagStatistics,
}

impl ReadBag {
    pub fn topic(&self, name: &str) -> &Topic {
        self.statistics.topics.iter().find(|topic| topic.name() == name).unwrap()
    }

    pub fn notes(&self) -> Vec<NoteKind> {
        self.statistics.notes.iter().map(|note: &Note| note.kind.clone()).collect()
    }
}

pub fn read_path(path: &Path, options: &ReadOptions) -> ReadBag {
    read_bag(&Bag::open([path]).unwrap(), options)
}

pub fn read_bag(bag: &Bag, options: &ReadOptions) -> ReadBag {
    let mut windows = Windows::default();
    let statistics = bag.read(options, &mut windows).unwrap();
    ReadBag { windows, statistics }
}

pub struct TestFile {
    pub directory: TempDir,
    pub path: PathBuf,
}

impl TestFile {
    pub fn new(bytes: &[u8]) -> Self {
        let file = Self::named("bag");
        fs::write(&file.path, bytes).unwrap();
        file
    }

    /// Returns a path for a file that does not exist yet.
    pub fn named(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { path: directory.path().join(name), directory }
    }
}

pub fn read_with(bytes: &[u8], options: &ReadOptions) -> ReadBag {
    read_path(&TestFile::new(bytes).path, options)
}

pub fn read(bytes: &[u8]) -> ReadBag {
    read_with(bytes, &ReadOptions::new())
}

/// Returns the offsets where the records of a file start, with the kinds of the records.
pub fn records(file: &[u8]) -> Vec<(usize, u8)> {
    let (mut at, mut records) = (8, vec![]);
    while at + 9 < file.len() {
        records.push((at, file[at]));
        at += 9 + u64::from_le_bytes(file[at + 1..at + 9].try_into().unwrap()) as usize;
    }
    records
}

pub fn records_of(file: &[u8], kind: u8) -> Vec<usize> {
    records(file).into_iter().filter(|(_, of)| *of == kind).map(|(at, _)| at).collect()
}

pub const CHUNK: u8 = 6;
/// The kind of the record that follows all messages of a file.
pub const DATA_END: u8 = 0x0f;

/// Prints that a test is skipped. `eprintln!` is not used, because the test harness captures the output of `eprintln!`.
pub fn skip(what: &str, why: &str) {
    let _closed = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}
