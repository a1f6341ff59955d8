// SPDX-License-Identifier: Apache-2.0

//! Why a bag cannot be read, and what of a bag could not be read.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::options::ReadOptions;

/// Why a bag cannot be read at all.
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
    /// No file was named.
    #[error("No bag is named: name at least one file or directory")]
    NoPath,
    /// A file is neither MCAP nor SQLite.
    #[error(
        "{} is {what}: a bag is a file of MCAP or of rosbag2's SQLite, or a directory with such files",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Messages are compressed by rosbag2's `--compression-mode message`, and not by zstd.
    #[error("{} has messages that are not compressed by zstd: convert it by `ros2 bag convert`", path.display())]
    CompressedMessages {
        /// The file or the directory.
        path: PathBuf,
    },
    /// A directory has no bag.
    #[error("{} has neither metadata.yaml nor a file that ends in .mcap or .db3", path.display())]
    EmptyDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// None of the files of a directory can be read.
    #[error("{} has no file that can be read: {file}", path.display())]
    NoReadableFile {
        /// The directory.
        path: PathBuf,
        /// The first of the files, and why it cannot be read.
        file: Box<Note>,
    },
    /// metadata.yaml is not as rosbag2 writes it.
    #[error("{} cannot be used: {reason}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A database is not rosbag2's.
    #[error("{} is no bag of rosbag2: it has no table {table}", path.display())]
    MissingTable {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
    },
    /// A database is damaged before its first message, or not rosbag2's.
    #[error("Cannot read {}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: rusqlite::Error,
    },
    /// The length of a window is out of range.
    #[error(
        "A window of {period:?} is not possible: it has to be from {min:?} to {max:?}",
        min = ReadOptions::MIN_PERIOD,
        max = ReadOptions::MAX_PERIOD
    )]
    InvalidPeriod {
        /// The length.
        period: Duration,
    },
    /// There is no time between `from` and `to`.
    #[error(
        "There is nothing to read from {from} to {to} (nanoseconds since the epoch): from has to be earlier"
    )]
    EmptyRange {
        /// The start.
        from: i64,
        /// The end.
        to: i64,
    },
}

impl BagError {
    pub(crate) fn compressed_messages(path: &Path) -> Self {
        Self::CompressedMessages { path: path.to_owned() }
    }
}

/// What of a bag could not be read, or is not as it should be. The figures are of the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The file.
    pub path: PathBuf,
    /// What could not be read.
    pub kind: NoteKind,
}

/// What of a file could not be read. Offsets are in bytes from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteKind {
    /// The file has no end: its recorder was killed, or it was copied while it was written. All of it was read.
    Unfinished,
    /// The file ends within a record.
    CutOff {
        /// Where the record starts.
        at: u64,
        /// How many bytes are missing.
        missing: u64,
    },
    /// Bytes that are no records were skipped.
    Skipped {
        /// Where they start.
        from: u64,
        /// Where the next record was found, or the end of the file.
        to: u64,
    },
    /// A chunk was not used.
    Chunk {
        /// Where it starts.
        at: u64,
        /// Its length, in bytes.
        length: u64,
        /// Why.
        fault: ChunkFault,
    },
    /// A record was not used, because it is not as the format defines it.
    Record {
        /// Where it starts.
        at: u64,
    },
    /// A record was not used, because it is larger than such a record can be here.
    TooLarge {
        /// Where it starts.
        at: u64,
        /// Its size, in bytes.
        size: u64,
        /// The largest size, in bytes.
        limit: u64,
    },
    /// The summary at the end of the file does not match its checksum, or is no summary. The file was read without it.
    Summary,
    /// The summary of the file counts another number of messages than were found. Chunks that were not used are among
    /// those that are missing; without such a note, records are damaged.
    Count {
        /// The number in the summary.
        summary: u64,
        /// The number of messages that were found.
        found: u64,
    },
    /// Messages were not used, because their channel or topic is not defined.
    UnknownChannel {
        /// How many.
        messages: u64,
    },
    /// Messages were not used, because their log times are before 1970 or after 2262.
    InvalidTime {
        /// How many.
        messages: u64,
    },
    /// Messages were not used, because the type of their data is none of a message.
    InvalidData {
        /// How many.
        messages: u64,
    },
    /// The database could not be read further.
    Database {
        /// After that many messages.
        messages: u64,
        /// Why, as SQLite says.
        reason: String,
    },
    /// The database was changed while it was read: its recorder runs. Messages can be missing.
    Changed,
    /// The file is compressed as a whole, and could not be decompressed to its end.
    Decompression {
        /// How many bytes of its content were read.
        bytes: u64,
        /// Why not more.
        reason: String,
    },
    /// A file of a directory is missing or no bag.
    MissingFile {
        /// Why it cannot be read.
        reason: String,
    },
    /// A file was not read, because another one has the same messages: it is named twice, or is there with and without
    /// compression.
    Copy {
        /// The file that was read.
        of: PathBuf,
    },
    /// The log times go back: a simulation was started again, or the clock was set. The messages from there on are behind
    /// those before, at times of their own that follow the last one.
    NewRun {
        /// How far they go back.
        back: Duration,
    },
    /// Publish times or header stamps are of another clock than the log times, as with simulated time: delays and ages
    /// between the two are not known.
    OtherClock {
        /// How many messages have such a time.
        messages: u64,
    },
    /// Topics or publishers are left out, because there are more than are read.
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// There are more notes than are kept.
    MoreNotes {
        /// How many.
        notes: u64,
    },
}

/// Why a chunk was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkFault {
    /// Its content does not match its checksum.
    Checksum,
    /// It cannot be decompressed, or its content is larger than it says.
    Compression,
    /// The algorithm of its compression is not known.
    UnknownCompression(String),
    /// Its content is no sequence of records, or a message lies outside of its times.
    Content,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

impl NoteKind {
    /// Returns whether messages may be missing: nothing of a file that is another one's copy, or that was only not
    /// closed.
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

/// The notes of a bag. Their number has a bound.
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
