// SPDX-License-Identifier: Apache-2.0

//! Tests with the SQLite files of rosbag2.

use std::{fs, io::Write, path::PathBuf, sync::Mutex};

use rusqlite::Connection;
use topic_statistics_bag::{Bag, BagClock, BagError, BagTime, NoteKind, ReadOptions, Stamps};
use topic_statistics_core::Metric;

use crate::support::*;

const OWN: &str = "own_msgs/msg/Own";

fn messages() -> Vec<Message> {
    let size = |number| if number % 7 == 0 { 30_000 } else { 60 };
    let message =
        |number: usize| Message { size: size(number), ..Message::at(number % 3, number as i64 * 10 * MS) };
    let mut messages: Vec<_> = (0..600).map(message).collect();
    messages.swap(3, 300);
    messages
}

/// Writes a database with these messages, and with the definitions of the types in `defined`.
fn database(messages: &[Message], defined: &[&str]) -> TestFile {
    let file = TestFile::named("bag_0.db3");
    let channels = [Channel::new("/imu", IMU), Channel::new("/text", STRING), Channel::new("/own", OWN)];
    sqlite(&file.path, &channels, messages, defined);
    file
}

/// Writes a database with 600 messages, and then executes `sql` on it.
fn changed(sql: &str) -> TestFile {
    let database = database(&messages(), &[OWN]);
    Connection::open(&database.path).unwrap().execute_batch(sql).unwrap();
    database
}

fn read_file(file: &TestFile) -> ReadBag {
    read_path(&file.path, &ReadOptions::new())
}

#[test]
fn a_database_has_the_same_windows_as_mcap_without_what_it_does_not_keep() {
    let database = database(&messages(), &[OWN]);
    let bag = read_file(&database);
    let channels = [Channel::new("/imu", IMU), Channel::new("/text", STRING), Channel::new("/own", IMU)];
    let same: Vec<_> =
        messages().into_iter().map(|message| Message { publish: message.log, ..message }).collect();
    let mcap = read(&mcap(mcap::WriteOptions::new(), &channels, &same));
    for topic in ["/imu", "/own"] {
        assert_eq!(format!("{:?}", bag.windows.of(topic)), format!("{:?}", mcap.windows.of(topic)));
        assert_eq!(bag.topic(topic).summary(Metric::MessageAge).sample_count, 200);
    }
    let totals = bag.topic("/imu").totals();
    assert_eq!((totals.lost, totals.publishers, bag.notes()), (None, None, vec![]));
    assert_eq!(bag.topic("/text").stamps(), Stamps::Unknown, "no definition");
    // If only a part of the bag is read, its messages are found with the index of times.
    let second = |seconds| BagTime::After(std::time::Duration::from_secs(seconds));
    let read = |options: ReadOptions| read_path(&database.path, &options);
    let part = read(ReadOptions::new().from(second(2)).to(second(4)));
    assert_eq!((part.statistics.messages, part.windows.of("/imu").len()), (200, 3));
    assert_eq!(read(ReadOptions::new().clock(BagClock::Stamp)).topic("/imu").windows(), 7);
    assert_eq!(read(ReadOptions::new().clock(BagClock::Publish)).topic("/imu").without_time(), 200);
    // Bags from before ROS 2 Iron have no definitions, so common types are found by their names.
    let bag = read_file(&self::database(&messages(), &[]));
    assert_eq!(bag.topic("/imu").summary(Metric::MessageAge).sample_count, 200);
    let own = bag.topic("/own");
    assert_eq!((own.stamps(), own.summary(Metric::MessageAge).sample_count), (Stamps::Unknown, 0));
    assert!(!bag.windows.of("/own")[0].unstamped, "unknown stamps are not unset stamps");
}

#[test]
fn rows_qos_and_schemas_are_read() {
    let bag = read_file(&changed(
        "UPDATE topics SET offered_qos_profiles = '- depth: 7' WHERE name = '/own'; INSERT INTO messages VALUES
         (1001, 0, -5, x'00010000'), (1002, 0, 7, 'text'), (1003, 99, 7, x'00010000');",
    ));
    assert_eq!(bag.notes(), [NoteKind::InvalidTime { messages: 1 }, NoteKind::InvalidData { messages: 2 }]);
    assert_eq!(bag.statistics.messages, 600);
    let topics = &bag.statistics.recording.topics;
    assert_eq!(
        (&topics["/own"].offered_qos[..], &*topics["/own"].encoding),
        (&["- depth: 7".into()][..], "ros2msg")
    );
    assert!(topics["/imu"].offered_qos.is_empty());
}

#[test]
fn databases_that_are_no_bags_are_refused() {
    let error = |path: &PathBuf| Bag::open([path]).unwrap().read(&ReadOptions::new(), &mut ()).unwrap_err();
    let refused = |sql: &str| {
        let file = TestFile::named("a.db3");
        Connection::open(&file.path).unwrap().execute_batch(sql).unwrap();
        error(&file.path)
    };
    let found = refused("CREATE TABLE a(b)");
    assert!(matches!(found, BagError::MissingTable { table: "topics", .. }), "{found}");
    // A view can run any query, such as this query without an end.
    let found = refused(
        "CREATE TABLE topics(id, name, type, serialization_format); CREATE VIEW messages AS
         WITH RECURSIVE n(timestamp) AS (SELECT 1 UNION ALL SELECT timestamp FROM n)
         SELECT timestamp, timestamp AS topic_id, x'00' AS data FROM n;",
    );
    assert!(matches!(found, BagError::MissingTable { table: "messages", .. }), "{found}");
    let found = refused("CREATE TABLE topics(id); CREATE TABLE messages(id)");
    assert!(matches!(found, BagError::Sqlite { .. }), "{found}");
    let own = "version: 9\nrelative_file_paths: []\ncompression_mode: MESSAGE\ncompression_format: own\n";
    let found = error(&changed(&format!("INSERT INTO metadata VALUES (1, 9, '{own}')")).path);
    assert!(matches!(found, BagError::CompressedMessages { .. }), "{found}");
}

#[test]
fn a_database_that_is_cut_off_is_read_up_to_there_with_a_note() {
    let file = fs::read(database(&messages(), &[OWN]).path).unwrap();
    let mut read_some = 0;
    for length in (100..file.len()).step_by(4096 * 3 + 1000) {
        let cut = TestFile::new(&file[..length]);
        match Bag::open([cut.path]).unwrap().read(&ReadOptions::new(), &mut Windows::default()) {
            Ok(statistics) => {
                read_some += u64::from(statistics.messages > 0);
                assert!(statistics.messages <= 600 && !statistics.notes.is_empty(), "at {length}");
            }
            Err(BagError::Sqlite { .. } | BagError::MissingTable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(read_some > 0);
}

fn names(file: &TestFile) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(file.directory.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_recorder_goes_on_while_its_bag_is_read() {
    // The pragmas that rosbag2 uses: first by default, then with the preset `resilient`.
    for pragmas in ["journal_mode = MEMORY; PRAGMA synchronous = OFF", "journal_mode = WAL"] {
        let database = database(&messages(), &[OWN]);
        let recorder = Connection::open(&database.path).unwrap();
        let begin = format!("PRAGMA {pragmas}; UPDATE messages SET topic_id = 0 WHERE id = 1");
        recorder.execute_batch(&begin).unwrap();
        let before = names(&database);
        // The recorder writes while the topics are read.
        let recorder = Mutex::new(recorder);
        let options = ReadOptions::new().topics(move |_| {
            let recorder = recorder.lock().unwrap();
            recorder.execute_batch("INSERT INTO metadata VALUES (NULL, 9, zeroblob(9000))").unwrap();
            true
        });
        let bag = read_path(&database.path, &options);
        assert_eq!(bag.statistics.messages, 600, "{pragmas}");
        assert!(bag.notes().contains(&NoteKind::Changed), "{:?}", bag.notes());
        assert_eq!(names(&database), before, "nothing is written beside the bag");
        drop(options);
    }
}

#[test]
fn a_database_in_wal_mode_is_read_whole_and_nothing_is_written_beside_it() {
    let database = changed("PRAGMA journal_mode = WAL");
    let before = names(&database);
    assert_eq!(read_file(&database).statistics.messages, 600);
    assert_eq!(names(&database), before);
    // A recorder that was killed leaves the write-ahead log behind.
    let recorder = Connection::open(&database.path).unwrap();
    recorder.execute_batch("PRAGMA wal_autocheckpoint = 0; DELETE FROM messages WHERE id > 500").unwrap();
    let killed = TestFile::named("a b?%.db3");
    let log = killed.path.with_extension("db3-wal");
    fs::copy(&database.path, &killed.path).unwrap();
    fs::copy(database.path.with_extension("db3-wal"), &log).unwrap();
    let bag = read_file(&killed);
    assert_eq!((bag.statistics.messages, bag.notes(), names(&killed).len()), (500, vec![], 2));
    fs::remove_file(log).unwrap();
    assert_eq!(read_file(&killed).statistics.messages, 600, "special characters in a name are escaped");
}

#[test]
fn compressed_data_without_an_end_are_read_up_to_there_and_complete_if_their_content_is() {
    // A zstd block has at most 128 kB, so both files have several blocks.
    let (channels, some) = two_topics(100);
    let database = fs::read(database(&messages(), &[OWN]).path).unwrap();
    for (content, least) in [(database, 0), (mcap(Default::default(), &channels, &some), 1000)] {
        let mut encoder = zstd::stream::write::Encoder::new(vec![], 1).unwrap();
        encoder.write_all(&content).unwrap();
        encoder.flush().unwrap();
        let unended = encoder.get_ref();
        let bag = read(unended);
        assert!(bag.notes().is_empty() && bag.statistics.messages >= 600, "not complete: {:?}", bag.notes());
        let cut = read(&unended[..unended.len() / 2]);
        assert!(matches!(cut.notes()[0], NoteKind::Decompression { bytes: 1.., .. }), "{:?}", cut.notes());
        let part = least..bag.statistics.messages;
        assert!(part.contains(&cut.statistics.messages), "{}", cut.statistics.messages);
    }
}
