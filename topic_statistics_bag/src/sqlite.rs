// SPDX-License-Identifier: Apache-2.0

//! Reads the SQLite files of rosbag2.
//!
//! In these files, a message has only one time, which is the time of its reception. The files contain neither sequence
//! numbers nor publishers. Since ROS 2 Iron, the files contain the definitions of the message types.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rusqlite::{blob::Blob, limits::Limit, types::ValueRef, Connection, OpenFlags, OptionalExtension};
use tempfile::TempDir;

use crate::{
    bytes::Bytes,
    data::Data,
    error::{BagError, NoteKind},
    feed::{Channel, ChannelDefinition, Feed},
    message::Message,
    metadata::Metadata,
    stamp::HeaderStamp,
};

/// The largest text or row that SQLite may read at once, in bytes. A larger message is read in parts.
const MAX_ROW: i32 = 16 << 20;
/// The largest message that is read as a whole, in bytes. Only the first bytes of a larger message are read.
const SMALL: i64 = 2048;

struct Database {
    connection: Connection,
    /// The temporary directory with a copy of the database, if the database is read from a copy.
    _copy: Option<TempDir>,
}

/// Returns the paths of the write-ahead log and of the journal. These two files have changes that are not in the
/// database yet.
fn beside(path: &Path) -> [PathBuf; 2] {
    ["-wal", "-journal"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        name.into()
    })
}

/// Returns the sizes and modification times of a database, its log and its journal. If these values differ before and
/// after a reading of the database, the database was changed meanwhile.
fn state(path: &Path) -> [Option<(u64, Option<SystemTime>)>; 3] {
    let [log, journal] = beside(path);
    [path, &log, &journal].map(|path| {
        let metadata = path.metadata().ok()?;
        Some((metadata.len(), metadata.modified().ok()))
    })
}

/// Returns whether the database has a write-ahead log or a journal with content.
fn has_files_beside(path: &Path) -> bool {
    beside(path).iter().any(|file| file.metadata().is_ok_and(|metadata| metadata.len() > 0))
}

/// Opens a database. Returns an error if the database cannot be copied or opened.
///
/// This function takes no lock, because the recorder of rosbag2 ends when it finds a lock. It also writes no file next
/// to the database. But to read a log or a journal, SQLite needs a lock and such a file. So a database with a log or a
/// journal is read from a copy.
fn open(content: &Path, path: &Path) -> Result<Database, BagError> {
    let io = BagError::io(path);
    let sqlite = |source| BagError::Sqlite { path: path.to_owned(), source };
    if !has_files_beside(content) {
        // All bytes that could have a special meaning in a URI are escaped.
        let escaped = content.as_os_str().as_encoded_bytes().iter().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(*byte).to_string(),
            byte => format!("%{byte:02X}"),
        });
        let uri = format!("file:{}?immutable=1", escaped.collect::<String>());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = connect(Path::new(&uri), flags).map_err(sqlite)?;
        return Ok(Database { connection, _copy: None });
    }
    let directory = tempfile::tempdir().map_err(&io)?;
    let copy = directory.path().join("bag");
    // SQLite writes the journal's changes to the copy, so the copy does not get the file's (read-only) permissions.
    let copy_file = |from: &Path, to: &Path| -> io::Result<u64> {
        io::copy(&mut File::open(from)?, &mut File::create(to)?)
    };
    for (from, to) in beside(content).iter().zip(beside(&copy)).filter(|(from, _)| from.is_file()) {
        copy_file(from, &to).map_err(&io)?;
    }
    copy_file(content, &copy).map_err(&io)?;
    let connection = connect(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sqlite)?;
    Ok(Database { connection, _copy: Some(directory) })
}

/// Opens a database with settings that make a malicious database harmless. `writable_schema` is on because, without
/// this setting, SQLite does not read the remaining part of a truncated file.
fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_ROW)?;
    connection.execute_batch(
        "PRAGMA writable_schema = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
         PRAGMA mmap_size = 0;",
    )?;
    Ok(connection)
}

/// Returns whether the database has a table with this name. A view is not accepted, because a view can run any query.
fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let mut find = connection.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1")?;
    find.exists([name])
}

/// Returns the first and the last time of a file. `content` is the path of the decompressed content; for an
/// uncompressed file, it equals `path`.
pub(crate) fn times(content: &Path, path: &Path) -> Result<Option<(i64, i64)>, BagError> {
    // Two subqueries are fast, because each subquery reads only one end of the index of times.
    let select = "SELECT (SELECT min(timestamp) FROM messages), (SELECT max(timestamp) FROM messages)";
    let database = open(content, path)?;
    let times = database.connection.query_row(select, [], |row| <(Option<i64>, Option<i64>)>::try_from(row));
    let times = times.map_err(|source| BagError::Sqlite { path: path.to_owned(), source })?;
    Ok(times.0.zip(times.1))
}

/// Returns whether the metadata in the database say that messages are compressed with an algorithm other than zstd.
fn has_unknown_compression(connection: &Connection) -> rusqlite::Result<bool> {
    if !has_table(connection, "metadata")? {
        return Ok(false);
    }
    let select = "SELECT metadata FROM metadata ORDER BY id DESC LIMIT 1";
    let text: Option<String> = connection.query_row(select, [], |row| row.get(0)).optional()?;
    let metadata = text.and_then(|text| Metadata::of_text(&text));
    Ok(metadata.is_some_and(|metadata| metadata.has_unknown_compression()))
}

/// Returns how many bytes are missing at the end of a file of `bytes` bytes, according to the size in the file's
/// header. `None` if no bytes are missing, or if the header does not say the size.
pub(crate) fn missing(path: &Path, bytes: u64) -> io::Result<Option<u64>> {
    let mut head = [0; 100];
    File::open(path)?.read_exact(&mut head)?;
    let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| head[at + byte]));
    let page = match u16::from_be_bytes([head[16], head[17]]) {
        1 => 1 << 16,
        size => u64::from(size),
    };
    // The number of pages is valid only if the SQLite version that last changed the file writes this number.
    let is_valid = number(24) == number(92);
    Ok((u64::from(number(28)) * page).checked_sub(bytes).filter(|missing| is_valid && *missing > 0))
}

/// Returns whether a file of `bytes` bytes is complete according to the size in the file's header.
pub(crate) fn is_whole(path: &Path, bytes: u64) -> io::Result<bool> {
    Ok(bytes >= 100 && missing(path, bytes)?.is_none())
}

/// Reads the messages of a file into the feed, until an error or the end of the file. `content` is the path of the
/// decompressed content (`bytes` bytes); for an uncompressed file, it equals `path`.
pub(crate) fn read(
    content: &Path,
    path: &Path,
    bytes: u64,
    feed: &mut Feed<'_>,
) -> Result<ControlFlow<()>, BagError> {
    let fault = |source| BagError::Sqlite { path: path.to_owned(), source };
    let before = state(content);
    let database = open(content, path)?;
    let connection = &database.connection;
    for table in ["topics", "messages"] {
        if !has_table(connection, table).map_err(fault)? {
            return Err(BagError::MissingTable { path: path.to_owned(), table });
        }
    }
    if has_unknown_compression(connection).map_err(fault)? {
        return Err(BagError::compressed_messages(path));
    }
    let missing = if has_files_beside(content) { Ok(None) } else { missing(content, bytes) };
    if let Some(missing) = missing.map_err(BagError::io(path))? {
        feed.note(NoteKind::CutOff { at: bytes, missing });
    }
    let topics = topics(connection, feed).map_err(fault)?;
    let mut reader = Reader { connection, topics, feed, read: 0, invalid_time: 0, invalid_data: 0 };
    let flow = match reader.messages(bytes) {
        Ok(flow) => flow,
        Err(error) => {
            let (messages, reason) = (reader.read, error.to_string());
            reader.feed.miss(None);
            reader.feed.note(NoteKind::Database { messages, reason });
            ControlFlow::Continue(())
        }
    };
    if state(content) != before {
        reader.feed.miss(None);
        reader.feed.note(NoteKind::Changed);
    }
    let Reader { invalid_time, invalid_data, .. } = reader;
    if invalid_time > 0 {
        feed.note(NoteKind::InvalidTime { messages: invalid_time });
    }
    if invalid_data > 0 {
        feed.note(NoteKind::InvalidData { messages: invalid_data });
    }
    Ok(flow)
}

/// Reads the topics of the file. A topic that is not selected for reading has the value `None`.
fn topics(connection: &Connection, feed: &mut Feed<'_>) -> rusqlite::Result<HashMap<i64, Option<Channel>>> {
    let mut definitions: HashMap<String, (String, HeaderStamp)> = HashMap::new();
    if has_table(connection, "message_definitions")? {
        let select = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions";
        let mut select = connection.prepare(select)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (message_type, encoding, text): (String, String, String) = row.try_into()?;
            if definitions.len() < Feed::MAX_TOPICS && !definitions.contains_key(&message_type) {
                let stamp = HeaderStamp::find(&message_type, &encoding, &text);
                definitions.insert(message_type, (encoding, stamp));
            }
        }
    }
    let mut topics = HashMap::new();
    let mut select = connection.prepare("SELECT id, name, type, serialization_format, * FROM topics")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (id, name, message_type, format): (i64, String, String, String) =
            (row.get("id")?, row.get("name")?, row.get("type")?, row.get("serialization_format")?);
        // The first versions of rosbag2 do not write the column of the QoS.
        let offered_qos: String = row.get("offered_qos_profiles").unwrap_or_default();
        let definition = definitions.get(&message_type);
        let (encoding, stamp) =
            definition.cloned().unwrap_or_else(|| (String::new(), HeaderStamp::find(&message_type, "", "")));
        let definition = ChannelDefinition {
            topic: &name,
            message_type: Some(&message_type),
            encoding: &encoding,
            stamp,
            is_cdr: format == "cdr",
            publisher: None,
            offered_qos: &offered_qos,
        };
        if topics.len() < 2 * Feed::MAX_TOPICS {
            topics.insert(id, feed.add_channel(definition));
        }
    }
    Ok(topics)
}

struct Reader<'a, 's> {
    connection: &'a Connection,
    /// The topics by their identifiers. `None` if a topic is not selected for reading.
    topics: HashMap<i64, Option<Channel>>,
    feed: &'a mut Feed<'s>,
    /// The number of rows read.
    read: u64,
    invalid_time: u64,
    invalid_data: u64,
}

impl Reader<'_, '_> {
    /// The number of messages between two reports of the progress.
    const PROGRESS: u64 = 4096;

    fn messages(&mut self, bytes: u64) -> rusqlite::Result<ControlFlow<()>> {
        let last: Option<i64> =
            self.connection.query_row("SELECT max(rowid) FROM messages", [], |row| row.get(0))?;
        // The order of `rowid` is the order in which the rows were recorded. If only a part of the bag is read, SQLite
        // has to find the rows with the index of times. Without the `+`, SQLite would scan all rows in the order of
        // `rowid` instead.
        let (from, to) = self.feed.range();
        let (range, order) = if (from, to) == (i64::MIN, i64::MAX) {
            ("?1 <= ?2", "rowid")
        } else {
            let end: Option<i64> =
                self.connection.query_row("SELECT max(timestamp) FROM messages", [], |row| row.get(0))?;
            end.into_iter().for_each(|end| self.feed.see(end));
            ("timestamp >= ?1 AND timestamp < ?2", "+rowid")
        };
        let mut select = self.connection.prepare(&format!(
            "SELECT rowid, topic_id, timestamp, CASE WHEN typeof(data) = 'blob' THEN length(data) END, \
             CASE WHEN typeof(data) = 'blob' AND length(data) <= {SMALL} THEN data END \
             FROM messages WHERE {range} ORDER BY {order}"
        ))?;
        let mut rows = select.query([from, to])?;
        while let Some(row) = rows.next()? {
            self.read += 1;
            let (rowid, topic, time): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if self.read % Self::PROGRESS == 0 {
                let share = rowid.max(0) as f64 / last.unwrap_or(1).max(1) as f64;
                let flow = self.feed.progress((share * bytes as f64) as u64);
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            let size: Option<u64> = row.get(3)?;
            let Some(length) = size else {
                self.invalid_data += 1;
                continue;
            };
            if time < 0 {
                self.invalid_time += 1;
                continue;
            }
            let Some(topic) = self.topics.get(&topic) else {
                self.invalid_data += 1;
                continue;
            };
            let Some(topic) = topic else {
                self.feed.see(time);
                continue;
            };
            let Data { size, header } = match row.get_ref(4)? {
                ValueRef::Blob(mut data) => topic.data(&mut data, length),
                _ if !topic.is_cdr() => Data::of_length(length),
                _ => topic
                    .data(&mut self.connection.blob_open("main", "messages", "data", rowid, true)?, length),
            };
            let message = Message { channel: topic.key, sequence: 0, size, log: time, publish: 0, header };
            if self.feed.add_message(message).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The data of a large message. Only the first bytes of the data are read.
impl Bytes for Blob<'_> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        let count = i64::try_from(count).map_err(io::Error::other)?;
        self.seek(SeekFrom::Current(count)).map(drop)
    }
}
