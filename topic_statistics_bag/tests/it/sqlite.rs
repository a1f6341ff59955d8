// SPDX-License-Identifier: Apache-2.0

//! rosbag2's SQLite files.

use std::{fs, path::Path};

use proptest::prelude::*;
use rusqlite::{params, Connection};
use topic_statistics_bag::{Bag, BagClock, BagError, BagTime, NoteKind, ReadOptions, Stamps};
use topic_statistics_core::Metric;

use crate::support::*;

/// Writes a file as rosbag2 does. `definitions`: as since Iron.
fn write(path: &Path, messages: &[Message], definitions: bool) {
    let database = Connection::open(path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
             CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, metadata TEXT NOT NULL);
             CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
                 serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL);
             CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,
                 data BLOB NOT NULL);
             CREATE INDEX timestamp_idx ON messages (timestamp ASC);",
        )
        .unwrap();
    if definitions {
        database
            .execute_batch(
                "CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL,
                     encoding TEXT NOT NULL, encoded_message_definition TEXT NOT NULL,
                     type_description_hash TEXT NOT NULL);
                 INSERT INTO message_definitions VALUES (1, 'own_msgs/msg/Own', 'ros2msg', 'Header header', '');",
            )
            .unwrap();
    }
    let topics = [("/imu", IMU), ("/text", STRING), ("/own", "own_msgs/msg/Own")];
    for (id, (name, message_type)) in topics.iter().enumerate() {
        database
            .execute(
                "INSERT INTO topics VALUES (?1, ?2, ?3, 'cdr', '')",
                params![id as i64, name, message_type],
            )
            .unwrap();
    }
    database.execute_batch("BEGIN").unwrap();
    for message in messages {
        database
            .execute(
                "INSERT INTO messages (topic_id, timestamp, data) VALUES (?1, ?2, ?3)",
                params![message.channel as i64, message.log, message.data()],
            )
            .unwrap();
    }
    database.execute_batch("COMMIT").unwrap();
}

fn messages() -> Vec<Message> {
    let mut messages: Vec<_> = (0..600)
        .map(|number| Message {
            size: if number % 7 == 0 { 30_000 } else { 60 },
            ..Message::at(number % 3, number as i64 * 10 * MS)
        })
        .collect();
    messages.swap(3, 300);
    messages
}

struct Database(tempfile::TempDir);

impl Database {
    fn new(messages: &[Message], definitions: bool) -> Self {
        let database = Self(tempfile::tempdir().unwrap());
        write(&database.path(), messages, definitions);
        database
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("bag_0.db3")
    }
}

#[test]
fn a_database_has_the_same_windows_as_mcap_without_what_it_does_not_keep() {
    let database = Database::new(&messages(), true);
    let bag = read_path(&database.path(), &ReadOptions::new());
    let channels = [Channel::new("/imu", IMU), Channel::new("/text", STRING), Channel::new("/own", IMU)];
    let same: Vec<_> =
        messages().into_iter().map(|message| Message { publish: message.log, ..message }).collect();
    let mcap = read(&mcap(mcap::WriteOptions::new(), &channels, &same));
    for topic in ["/imu", "/own"] {
        assert_eq!(format!("{:?}", bag.windows.of(topic)), format!("{:?}", mcap.windows.of(topic)));
        assert_eq!(bag.topic(topic).summary(Metric::MessageAge).sample_count, 200);
    }
    assert_eq!(bag.topic("/imu").totals().lost, None);
    assert_eq!(bag.topic("/imu").totals().publishers, None);
    assert_eq!(bag.notes(), []);
    assert_eq!(bag.topic("/text").stamps(), Stamps::Unknown, "no definition");
}

#[test]
fn before_iron_common_types_are_known_by_their_names() {
    let database = Database::new(&messages(), false);
    let bag = read_path(&database.path(), &ReadOptions::new());
    assert_eq!(bag.topic("/imu").summary(Metric::MessageAge).sample_count, 200);
    let own = bag.topic("/own");
    assert_eq!((own.stamps(), own.summary(Metric::MessageAge).sample_count), (Stamps::Unknown, 0));
    assert!(!bag.windows.of("/own")[0].unstamped, "not known is not unset");
}

#[test]
fn a_part_is_found_by_the_index_of_times() {
    let database = Database::new(&messages(), true);
    let second = |seconds| BagTime::After(std::time::Duration::from_secs(seconds));
    let bag = read_path(&database.path(), &ReadOptions::new().from(second(2)).to(second(4)));
    assert_eq!(bag.statistics.messages, 200);
    assert_eq!(bag.windows.of("/imu").len(), 3);
    let stamps = read_path(&database.path(), &ReadOptions::new().clock(BagClock::Stamp));
    assert_eq!(stamps.topic("/imu").windows(), 7);
    let published = read_path(&database.path(), &ReadOptions::new().clock(BagClock::Publish));
    assert_eq!(published.topic("/imu").without_time(), 200);
}

#[test]
fn rows_that_are_no_messages_are_told() {
    let database = Database::new(&messages(), true);
    Connection::open(database.path())
        .unwrap()
        .execute_batch(
            "INSERT INTO messages VALUES (1001, 0, -5, x'00010000'), (1002, 0, 7, 'text'), (1003, 99, 7, x'00010000');",
        )
        .unwrap();
    let bag = read_path(&database.path(), &ReadOptions::new());
    assert_eq!(bag.notes(), [NoteKind::InvalidTime { messages: 1 }, NoteKind::InvalidData { messages: 2 }]);
    assert_eq!(bag.statistics.messages, 600);
}

#[test]
fn databases_that_are_no_bags_are_refused() {
    let refused = |sql: &str| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db3");
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        Bag::open([path]).unwrap().read(&ReadOptions::new(), &mut ()).unwrap_err()
    };
    let error = refused("CREATE TABLE a(b)");
    assert!(matches!(error, BagError::MissingTable { table: "topics", .. }), "{error}");
    // A view could be any program, such as one without an end.
    let endless = "CREATE TABLE topics(id, name, type, serialization_format); CREATE VIEW messages AS
        WITH RECURSIVE n(timestamp) AS (SELECT 1 UNION ALL SELECT timestamp FROM n)
        SELECT timestamp, timestamp AS topic_id, x'00' AS data FROM n;";
    let error = refused(endless);
    assert!(matches!(error, BagError::MissingTable { table: "messages", .. }), "{error}");
    let error = refused("CREATE TABLE topics(id); CREATE TABLE messages(id)");
    assert!(matches!(error, BagError::Sqlite { .. }), "{error}");
}

#[test]
fn messages_in_an_unknown_compression_are_refused_by_the_metadata_of_the_database() {
    let database = Database::new(&messages(), true);
    let metadata =
        "version: 9\nrelative_file_paths: []\ncompression_mode: MESSAGE\ncompression_format: own\n";
    Connection::open(database.path())
        .unwrap()
        .execute("INSERT INTO metadata VALUES (1, 9, ?1)", [metadata])
        .unwrap();
    let error = Bag::open([database.path()]).unwrap().read(&ReadOptions::new(), &mut ()).unwrap_err();
    assert!(matches!(error, BagError::CompressedMessages { .. }), "{error}");
}

#[test]
fn a_database_that_is_cut_off_is_read_up_to_there_and_told() {
    let database = Database::new(&messages(), true);
    let file = fs::read(database.path()).unwrap();
    let mut read_some = 0;
    for length in (100..file.len()).step_by(4096 * 3 + 1000) {
        let cut = TestFile::new(&file[..length]);
        let mut windows = Windows::default();
        match Bag::open([cut.path()]).unwrap().read(&ReadOptions::new(), &mut windows) {
            Ok(statistics) => {
                read_some += u64::from(statistics.messages > 0);
                assert!(statistics.messages <= 600 && !statistics.notes.is_empty(), "at {length}");
            }
            Err(error) => {
                assert!(matches!(error, BagError::Sqlite { .. } | BagError::MissingTable { .. }), "{error}")
            }
        }
    }
    assert!(read_some > 0);
}

/// The names of the files beside a bag.
fn names(database: &Database) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        fs::read_dir(database.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_recorder_goes_on_while_its_bag_is_read() {
    // rosbag2's pragmas: by default, and of the preset `resilient`.
    for pragmas in ["journal_mode = MEMORY; PRAGMA synchronous = OFF", "journal_mode = WAL"] {
        let database = Database::new(&messages(), true);
        let recorder = Connection::open(database.path()).unwrap();
        recorder
            .execute_batch(&format!("PRAGMA {pragmas}; UPDATE messages SET topic_id = 0 WHERE id = 1"))
            .unwrap();
        let before = names(&database);
        // While the topics are read, the recorder writes.
        let options = ReadOptions::new().topics(move |_| {
            recorder.execute_batch("INSERT INTO metadata VALUES (NULL, 9, zeroblob(9000))").unwrap();
            true
        });
        let read = Bag::open([database.path()]).unwrap().read(&options, &mut ()).unwrap();
        assert_eq!(read.messages, 600, "{pragmas}");
        assert!(read.notes.iter().any(|note| note.kind == NoteKind::Changed), "{:?}", read.notes);
        assert_eq!(names(&database), before, "nothing is written beside the bag");
        drop(options);
    }
}

#[test]
fn a_database_in_wal_mode_is_read_whole_and_nothing_is_written_beside_it() {
    let database = Database::new(&messages(), true);
    let connection = Connection::open(database.path()).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    drop(connection);
    let before = names(&database);
    assert_eq!(read_path(&database.path(), &ReadOptions::new()).statistics.messages, 600);
    assert_eq!(names(&database), before);
    // A recorder that was killed leaves the log.
    let recorder = Connection::open(database.path()).unwrap();
    recorder.execute_batch("PRAGMA wal_autocheckpoint = 0; DELETE FROM messages WHERE id > 500").unwrap();
    let killed = tempfile::tempdir().unwrap();
    let path = killed.path().join("a b?%.db3");
    fs::copy(database.path(), &path).unwrap();
    fs::copy(database.path().with_extension("db3-wal"), path.with_extension("db3-wal")).unwrap();
    let bag = read_path(&path, &ReadOptions::new());
    assert_eq!((bag.statistics.messages, bag.notes()), (500, vec![]));
    assert_eq!(fs::read_dir(killed.path()).unwrap().count(), 2);
    fs::remove_file(path.with_extension("db3-wal")).unwrap();
    assert_eq!(read_path(&path, &ReadOptions::new()).statistics.messages, 600, "any name is read");
}

#[test]
fn qos_and_schemas_of_a_database_are_in_its_info() {
    let database = Database::new(&messages(), true);
    Connection::open(database.path())
        .unwrap()
        .execute_batch("UPDATE topics SET offered_qos_profiles = '- depth: 7' WHERE name = '/own'")
        .unwrap();
    let recording = read_path(&database.path(), &ReadOptions::new()).statistics.recording;
    assert_eq!(recording.topics["/own"].offered_qos, ["- depth: 7"]);
    assert_eq!(recording.topics["/own"].encoding, "ros2msg");
    assert!(recording.topics["/imu"].offered_qos.is_empty());
}

#[test]
fn compressed_data_without_an_end_are_complete_if_their_content_is() {
    let database = Database::new(&messages(), true);
    let (channels, some) = two_topics(20);
    let bags = [fs::read(database.path()).unwrap(), mcap(Default::default(), &channels, &some)];
    for content in bags {
        let mut encoder = zstd::stream::write::Encoder::new(vec![], 1).unwrap();
        std::io::Write::write_all(&mut encoder, &content).unwrap();
        std::io::Write::flush(&mut encoder).unwrap();
        let unended = encoder.get_ref().clone();
        let bag = read(&unended);
        assert_eq!(bag.notes(), [], "all is there");
        assert!(bag.statistics.messages >= 600);
        let cut = read(&unended[..unended.len() - 200]);
        assert!(matches!(cut.notes()[0], NoteKind::Decompression { .. }), "{:?}", cut.notes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_damaged_database_is_read_or_refused(
        places in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..20)
    ) {
        thread_local! {
            static FILE: Vec<u8> = fs::read(Database::new(&messages()[..100], true).path()).unwrap();
        }
        FILE.with(|file| {
            let mut damaged = file.clone();
            for (place, bits) in &places {
                damaged[place.index(file.len())] ^= bits;
            }
            let damaged = TestFile::new(&damaged);
            if let Ok(bag) = Bag::open([damaged.path()]) {
                let _refused = bag.read(&ReadOptions::new(), &mut ());
            }
        });
    }
}
