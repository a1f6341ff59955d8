// SPDX-License-Identifier: Apache-2.0

//! Errors that prevent the reading of a bag, and notes about parts of a bag that could not be read.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::options::ReadOptions;

/// The reason why a bag cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BagError {
    /// A file cannot be read.
    #[error("Cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The operating system allows no further thread.
    #[error("Cannot start a thread that reads the bag: {source}")]
    Thread {
        /// The reason.
        source: io::Error,
    },
    /// No file was named.
    #[error("No bag is named: name at least one file or directory")]
    NoPath,
    /// A file is neither an MCAP file nor a SQLite database.
    #[error(
        "{} is {what}: a bag is a file of MCAP or of rosbag2's SQLite, or a directory with such files",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What the file is instead.
        what: &'static str,
    },
    /// Each message is compressed (rosbag2's `--compression-mode message`) with an algorithm other than zstd.
    #[error("{} has messages that are not compressed by zstd: convert it by `ros2 bag convert`", path.display())]
    CompressedMessages {
        /// The path of the file or of the directory.
        path: PathBuf,
    },
    /// A directory contains no bag.
    #[error("{} has neither metadata.yaml nor a file that ends in .mcap or .db3", path.display())]
    EmptyDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// No file of a directory can be read.
    #[error("{} has no file that can be read: {file}", path.display())]
    NoReadableFile {
        /// The directory.
        path: PathBuf,
        /// The first file of the directory, and the reason why this file cannot be read.
        file: Box<Note>,
    },
    /// A metadata.yaml does not have the format of rosbag2.
    #[error("{} cannot be used: {reason}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A SQLite database was not written by rosbag2.
    #[error("{} is no bag of rosbag2: it has no table {table}", path.display())]
    MissingTable {
        /// The file.
        path: PathBuf,
        /// The name of the missing table.
        table: &'static str,
    },
    /// A SQLite database is damaged before its first message, or was not written by rosbag2.
    #[error("Cannot read {}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: rusqlite::Error,
    },
    /// The requested length of a window is out of range.
    #[error(
        "A window of {period:?} is not possible: it has to be from {min:?} to {max:?}",
        min = ReadOptions::MIN_PERIOD,
        max = ReadOptions::MAX_PERIOD
    )]
    InvalidPeriod {
        /// The requested length of a window.
        period: Duration,
    },
    /// The end of the requested range of times is not after the start.
    #[error(
        "There is nothing to read from {from} to {to} (nanoseconds since the epoch): from has to be earlier"
    )]
    EmptyRange {
        /// The start of the range.
        from: i64,
        /// The end of the range.
        to: i64,
    },
}

impl BagError {
    pub(crate) fn compressed_messages(path: &Path) -> Self {
        Self::CompressedMessages { path: path.to_owned() }
    }
}

/// A note about a part of a bag that could not be read or is unusual. The statistics include only the readable parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The file.
    pub path: PathBuf,
    /// The problem that was found.
    pub kind: NoteKind,
}

/// The problem that a note is about. Offsets are in bytes from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteKind {
    /// The recorder did not close the file, because it was killed or is still writing. All records in the file were
    /// read.
    Unfinished,
    /// The file ends within a record.
    CutOff {
        /// The offset where the incomplete record starts. For a SQLite database, this is the size of the file.
        at: u64,
        /// How many bytes of this record are missing.
        missing: u64,
    },
    /// Bytes that are no records were skipped.
    Skipped {
        /// The offset of the first skipped byte.
        from: u64,
        /// The offset where the next record was found, or the end of the file.
        to: u64,
    },
    /// A chunk (a group of records in an MCAP file) was not used.
    Chunk {
        /// The offset where the chunk starts.
        at: u64,
        /// The length of the chunk, in bytes.
        length: u64,
        /// The reason why the chunk was not used.
        fault: ChunkFault,
    },
    /// A record was not used, because its content does not have the format that MCAP defines.
    Record {
        /// The offset where the record starts.
        at: u64,
    },
    /// A record was not used, because it is larger than this crate accepts.
    TooLarge {
        /// The offset where the record starts.
        at: u64,
        /// The size of the record, in bytes.
        size: u64,
        /// The largest accepted size, in bytes.
        limit: u64,
    },
    /// The summary at the end of the file does not match its checksum, or does not have the format of a summary. The
    /// file was read without its summary.
    Summary,
    /// The number of messages in the summary of the file differs from the number of messages that were found. One
    /// possible reason is that chunks were not used; then there are notes about these chunks. The other reason is that
    /// records are damaged.
    Count {
        /// The number in the summary.
        summary: u64,
        /// The number of messages that were found.
        found: u64,
    },
    /// Messages were not used, because the file does not define their channel or topic.
    UnknownChannel {
        /// The number of these messages.
        messages: u64,
    },
    /// Messages were not used, because their log times are before 1970 or after 2262.
    InvalidTime {
        /// The number of these messages.
        messages: u64,
    },
    /// Messages in a database were not used, because their data are not a blob, or because their topic is not defined.
    InvalidData {
        /// The number of these messages.
        messages: u64,
    },
    /// An error stopped the reading of the database.
    Database {
        /// The number of messages that were read before the error.
        messages: u64,
        /// The error text of SQLite.
        reason: String,
    },
    /// The database was changed while it was read, because its recorder is still running. Messages can be missing.
    Changed,
    /// The file is compressed as a whole, and only a part of the content could be decompressed.
    Decompression {
        /// The number of bytes of the content that were decompressed.
        bytes: u64,
        /// The reason why the rest could not be decompressed.
        reason: String,
    },
    /// A file of a directory is missing or is not a bag.
    MissingFile {
        /// The reason why the file cannot be read.
        reason: String,
    },
    /// A file was not read, because another file has the same messages: the file was named twice, or it exists with and
    /// without compression.
    Copy {
        /// The other file, which was read.
        of: PathBuf,
    },
    /// The log times go back, because a simulation was restarted or a clock was set back. The messages after this point
    /// are treated as a new run: their times are moved so that they follow the last message of the previous run.
    NewRun {
        /// How far the log times go back.
        back: Duration,
    },
    /// Publish times or header stamps come from another clock than the log times, for example with simulated time.
    /// Delays and ages between times of different clocks are unknown.
    OtherClock {
        /// The number of messages with such a time.
        messages: u64,
    },
    /// Topics or publishers are left out, because their number exceeds a limit.
    TooMany {
        /// The largest number of topics that are read.
        limit: usize,
    },
    /// There are more notes than the limit, so the further notes were not stored.
    MoreNotes {
        /// The number of notes that were not stored.
        notes: u64,
    },
}

/// The reason why a chunk was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkFault {
    /// The content of the chunk does not match its checksum.
    Checksum,
    /// The chunk cannot be decompressed, or its content is larger than the chunk says.
    Compression,
    /// The compression algorithm of the chunk is unknown.
    UnknownCompression(String),
    /// The content of the chunk is not a sequence of records, or a message is outside the times of the chunk.
    Content,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

impl NoteKind {
    /// Returns whether this problem means that messages may be missing in the statistics. For example, no messages are
    /// missing if a file is a copy of another file, or if the only problem is that a file was not closed.
    pub fn is_of_missing_messages(&self) -> bool {
        !matches!(
            self,
            Self::Copy { .. }
                | Self::NewRun { .. }
                | Self::OtherClock { .. }
                | Self::Summary
                | Self::Unfinished
        )
    }
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfinished => write!(f, "the file has no end: its recorder did not close it"),
            Self::CutOff { at, missing } => {
                write!(f, "the file ends within the record at byte {at}: {missing} bytes are missing")
            }
            Self::Skipped { from, to } => write!(f, "bytes {from} to {to} are no records, and were skipped"),
            Self::Chunk { at, length, fault } => {
                write!(f, "the chunk at byte {at} ({length} bytes) was not used: {fault}")
            }
            Self::Record { at } => write!(f, "the record at byte {at} is damaged, and was not used"),
            Self::TooLarge { at, size, limit } => {
                write!(
                    f,
                    "the record at byte {at} was not used: it has {size} bytes, and {limit} are the most"
                )
            }
            Self::Summary => write!(f, "the summary at its end is damaged: the file was read without it"),
            Self::Count { summary, found } => {
                write!(f, "its summary counts {summary} messages, and {found} were found")
            }
            Self::UnknownChannel { messages } => {
                write!(f, "{messages} messages were not used: their channels are not defined")
            }
            Self::InvalidTime { messages } => {
                write!(f, "{messages} messages were not used: their times are before 1970 or after 2262")
            }
            Self::InvalidData { messages } => {
                write!(f, "{messages} messages were not used: their data are no bytes")
            }
            Self::Database { messages, reason } => {
                write!(f, "the database could not be read after {messages} messages: {reason}")
            }
            Self::Changed => {
                write!(f, "it was changed while it was read: read it again when its recorder has ended")
            }
            Self::Decompression { bytes, reason } => {
                write!(f, "it could not be decompressed after {bytes} bytes of its content: {reason}")
            }
            Self::MissingFile { reason } => {
                write!(f, "it was not read: {reason}")
            }
            Self::Copy { of } => write!(f, "it was not read: {} has the same messages", of.display()),
            Self::NewRun { back } => write!(
                f,
                "the log times go back by {:.3} s: what follows is measured as a run of its own, behind what was before",
                back.as_secs_f64()
            ),
            Self::OtherClock { messages } => write!(
                f,
                "{messages} messages have a publish time or a header stamp of another clock than the log time, as with \
                 simulated time: ages and delays across the two clocks are not known"
            ),
            Self::TooMany { limit } => {
                write!(f, "there are more than {limit} topics: the others are left out")
            }
            Self::MoreNotes { notes } => write!(f, "and {notes} more"),
        }
    }
}

impl fmt::Display for ChunkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum => write!(f, "its content does not match its checksum"),
            Self::Compression => write!(f, "it cannot be decompressed"),
            Self::UnknownCompression(name) => {
                write!(f, "its compression {:?} is not known", name)
            }
            Self::Content => write!(f, "its content is damaged"),
        }
    }
}

/// The notes about a bag. The number of stored notes is limited; `more` counts the further notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    notes: Vec<Note>,
    more: u64,
}

impl Notes {
    const MAX: usize = 100;

    pub(crate) fn add(&mut self, path: &Path, kind: NoteKind) {
        match self.notes.len() < Self::MAX {
            true => self.notes.push(Note { path: path.to_owned(), kind }),
            false => self.more += 1,
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Note> {
        let last = self.notes.last().filter(|_| self.more > 0).map(|last| last.path.clone());
        let kind = NoteKind::MoreNotes { notes: self.more };
        self.notes.extend(last.map(|path| Note { path, kind }));
        self.notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_notes_has_a_bound_and_none_is_forgotten() {
        let mut notes = Notes::default();
        (0..1000).for_each(|at| notes.add(Path::new("a.mcap"), NoteKind::Record { at }));
        let notes = notes.finish();
        assert_eq!(notes.len(), Notes::MAX + 1);
        assert_eq!(notes.last().unwrap().kind, NoteKind::MoreNotes { notes: 900 });
        assert_eq!(notes[7].to_string(), "a.mcap: the record at byte 7 is damaged, and was not used");
    }
}
