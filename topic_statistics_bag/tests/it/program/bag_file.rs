// SPDX-License-Identifier: Apache-2.0

//! Bags that the tests write: by the `mcap` crate, and by SQLite with rosbag2's tables.

use std::{
    collections::BTreeMap,
    fs::File,
    io::BufWriter,
    path::{Path, PathBuf},
};

use mcap::{records::MessageHeader, WriteOptions};
use rusqlite::{params, Connection};

/// The start of the bags, in nanoseconds since the epoch: 2026-03-01T12:00:00Z.
pub const START: i64 = 1_772_366_400 * S;
/// One second, in nanoseconds.
pub const S: i64 = 1_000_000_000;
/// One millisecond, in nanoseconds.
pub const MS: i64 = 1_000_000;

/// The definition of the type of the topics, as rosbag2 writes it.
const STAMPED: &str = "std_msgs/Header header\n\
    ================================================================================\n\
    MSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n\
    ================================================================================\n\
    MSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n";
const TYPE: &str = "demo_msgs/msg/Stamped";

/// A message of a topic.
#[derive(Clone, Debug)]
pub struct Sent {
    pub topic: &'static str,
    /// In nanoseconds since the epoch, as all times.
    pub log: i64,
    pub publish: i64,
    pub stamp: i64,
    /// Its number, which proves losses. None: as rosbag2 writes it.
    pub number: Option<u32>,
}

/// Messages of a topic at a rate (Hz), from `from` to `to` (s after the start). They are published 2 ms after their
/// stamps, and logged `age` (ms) after them.
pub fn regular(topic: &'static str, rate: i64, from: i64, to: i64, age: i64) -> Vec<Sent> {
    let first = START + from * S + S / rate / 2;
    let messages = (0..(to - from) * rate).map(|number| {
        let stamp = first + number * S / rate;
        Sent { topic, log: stamp + age * MS, publish: stamp + 2 * MS, stamp, number: None }
    });
    messages.collect()
}

/// The same with the publisher's numbers, without the messages whose numbers (from 1) are `lost`.
pub fn numbered(messages: Vec<Sent>, lost: &[u32]) -> Vec<Sent> {
    let numbered = (1..).zip(messages).map(|(number, sent)| Sent { number: Some(number), ..sent });
    numbered.filter(|sent| !sent.number.is_some_and(|number| lost.contains(&number))).collect()
}

/// A message in CDR: a header with a frame.
fn data(sent: &Sent) -> Vec<u8> {
    let (sec, nanosec) = ((sent.stamp / S) as i32, (sent.stamp % S) as u32);
    let frame = b"imu\0";
    let parts: [&[u8]; 5] = [
        &[0, 1, 0, 0],
        &sec.to_le_bytes(),
        &nanosec.to_le_bytes(),
        &(frame.len() as u32).to_le_bytes(),
        frame,
    ];
    parts.concat()
}

/// Writes a file of MCAP, with the messages in the order of time.
pub fn mcap(path: &Path, messages: &[Sent]) -> PathBuf {
    let mut sorted = messages.to_vec();
    sorted.sort_by_key(|sent| sent.log);
    mcap_as_it_is(path, &sorted)
}

/// Writes a file of MCAP, with the messages in this order.
pub fn mcap_as_it_is(path: &Path, messages: &[Sent]) -> PathBuf {
    let file = BufWriter::new(File::create(path).unwrap());
    // Small chunks, so that a file that is cut off has some.
    let options = WriteOptions::new().profile("ros2").chunk_size(Some(10_000));
    let mut writer = options.create(file).unwrap();
    let schema = writer.add_schema(TYPE, "ros2msg", STAMPED.as_bytes()).unwrap();
    let mut channels = BTreeMap::new();
    for sent in messages {
        let channel = *channels.entry((sent.topic, sent.number.is_some())).or_insert_with(|| {
            let mut metadata = BTreeMap::new();
            if sent.number.is_some() {
                let keys = [
                    ("topic_statistics:sequence", "publication_sequence_number"),
                    ("topic_statistics:publisher_gid", "010f78fd6b5290710000000000001003"),
                    ("topic_statistics:publisher_node", "/talker"),
                ];
                metadata.extend(keys.map(|(key, value)| (key.to_owned(), value.to_owned())));
            }
            writer.add_channel(schema, sent.topic, "cdr", &metadata).unwrap()
        });
        let header = MessageHeader {
            channel_id: channel,
            sequence: sent.number.unwrap_or(0),
            log_time: sent.log as u64,
            publish_time: sent.publish as u64,
        };
        writer.write_to_known_channel(&header, &data(sent)).unwrap();
    }
    writer.finish().unwrap();
    path.to_owned()
}

/// Writes a database as rosbag2 of Kilted does.
pub fn sqlite(path: &Path, messages: &[Sent]) -> PathBuf {
    let database = Connection::open(path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
             CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, metadata TEXT NOT NULL);
             CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
               serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL, \
               type_description_hash TEXT NOT NULL);
             CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL, encoding TEXT NOT NULL,
               encoded_message_definition TEXT NOT NULL, type_description_hash TEXT NOT NULL);
             CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL, \
               data BLOB NOT NULL);
             CREATE INDEX timestamp_idx ON messages (timestamp ASC);
             INSERT INTO schema VALUES (4, 'kilted');",
        )
        .unwrap();
    let insert = "INSERT INTO message_definitions(topic_type, encoding, encoded_message_definition, \
                  type_description_hash)
                  VALUES (?, 'ros2msg', ?, '')";
    database.execute(insert, params![TYPE, STAMPED]).unwrap();
    let mut topics = BTreeMap::new();
    for sent in messages {
        let next = topics.len() as i64 + 1;
        let topic = *topics.entry(sent.topic).or_insert(next);
        if topic == next {
            let insert = "INSERT INTO topics VALUES (?, ?, ?, 'cdr', '', '')";
            database.execute(insert, params![topic, sent.topic, TYPE]).unwrap();
        }
        let insert = "INSERT INTO messages(topic_id, timestamp, data) VALUES (?, ?, ?)";
        database.execute(insert, params![topic, sent.log, data(sent)]).unwrap();
    }
    path.to_owned()
}
