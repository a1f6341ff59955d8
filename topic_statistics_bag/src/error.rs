// SPDX-License-Identifier: Apache-2.0

//! Errors that prevent the reading of a bag, and notes about parts of a bag that could not be read.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use thiserror::Error;

use crate::options::{BagTime, ReadOptions};

/// The reason why a bag cannot be read at all.
#[derive(Debug, Error)]
pub enum BagError {
    #[error("Cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("Cannot start a thread that reads the bag: {source}")]
    Thread { source: io::Error },
    #[error("No bag is named: name at least one file or directory")]
    NoPath,
    #[error(
        "{} is {what}: a bag is a file of MCAP or of rosbag2's SQLite, or a directory with such files",
        path.display()
    )]
    UnknownFormat { path: PathBuf, what: &'static str },
    /// Each message is compressed (rosbag2's `--compression-mode message`) with an algorithm other than zstd.
    #[error("{} has messages that are not compressed by zstd: convert it by `ros2 bag convert`", path.display())]
    CompressedMessages { path: PathBuf },
    #[error("{} has neither metadata.yaml nor a file that ends in .mcap or .db3", path.display())]
    EmptyDirectory { path: PathBuf },
    /// `file` names the first file of the directory, and contains the reason why this file cannot be read.
    #[error("{} has no file that can be read: {file}", path.display())]
    NoReadableFile { path: PathBuf, file: Box<Note> },
    #[error("{} cannot be used: {reason}", path.display())]
    Metadata { path: PathBuf, reason: String },
    #[error("{} is no bag of rosbag2: it has no table {table}", path.display())]
    MissingTable { path: PathBuf, table: &'static str },
    /// A SQLite database is damaged before its first message, or was not written by rosbag2.
    #[error("Cannot read {}: {source}", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error(
        "A window of {period:?} is not possible: it has to be from {min:?} to {max:?}",
        min = ReadOptions::MIN_PERIOD,
        max = ReadOptions::MAX_PERIOD
    )]
    InvalidPeriod { period: Duration },
    #[error("There is nothing to read from {from} to {to}: from has to be earlier")]
    EmptyRange { from: BagTime, to: BagTime },
}

impl BagError {
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn compressed_messages(path: &Path) -> Self {
        Self::CompressedMessages { path: path.to_owned() }
    }
}

/// A note about a part of a bag that could not be read or is unusual. The statistics include only the readable parts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {kind}", path.display())]
pub struct Note {
    pub path: PathBuf,
    pub kind: NoteKind,
}

/// The problem that a note is about. Offsets and sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoteKind {
    /// All records in the file were read.
    #[error("the file has no end: its recorder did not close it")]
    Unfinished,
    /// `at` is the offset where the incomplete record starts. For a SQLite database, it is the size of the file.
    #[error("the file ends within the record at byte {at}: {missing} bytes are missing")]
    CutOff { at: u64, missing: u64 },
    #[error("bytes {from} to {to} are no records, and were skipped")]
    Skipped { from: u64, to: u64 },
    #[error("the chunk at byte {at} ({length} bytes) was not used: {fault}")]
    Chunk { at: u64, length: u64, fault: ChunkFault },
    /// The content of a record does not have the format that MCAP defines.
    #[error("the record at byte {at} is damaged, and was not used")]
    Record { at: u64 },
    #[error("the record at byte {at} was not used: it has {size} bytes, and {limit} are the most")]
    TooLarge { at: u64, size: u64, limit: u64 },
    /// The summary does not match its checksum, or does not have the format of a summary.
    #[error("the summary at its end is damaged: the file was read without it")]
    Summary,
    /// The number of messages that were found differs from the number in the summary. If the reason is that chunks were
    /// not used, there are also notes about these chunks. Otherwise, records are damaged.
    #[error("its summary counts {summary} messages, and {found} were found")]
    Count { summary: u64, found: u64 },
    #[error("{messages} messages were not used: their channels are not defined")]
    UnknownChannel { messages: u64 },
    #[error("{messages} messages were not used: their times are before 1970 or after 2262")]
    InvalidTime { messages: u64 },
    /// In a database, the data of these messages are not a blob, or their topic is not defined.
    #[error("{messages} messages were not used: their data are no bytes")]
    InvalidData { messages: u64 },
    #[error("the database could not be read after {messages} messages: {reason}")]
    Database { messages: u64, reason: String },
    /// The recorder of the database is still running. Messages can be missing.
    #[error("it was changed while it was read: read it again when its recorder has ended")]
    Changed,
    #[error("it could not be decompressed after {bytes} bytes of its content: {reason}")]
    Decompression { bytes: u64, reason: String },
    /// A file of a directory is missing or is not a bag.
    #[error("it was not read: {reason}")]
    MissingFile { reason: String },
    /// The file was named twice, or it exists with and without compression.
    #[error("it was not read: {} has the same messages", of.display())]
    Copy { of: PathBuf },
    /// The file is named by no metadata.yaml.
    #[error(
        "it begins {:.0} s after the end of the files before it: if it is another recording, read it alone, because \
         rates and silences include this time",
        length.as_secs_f64()
    )]
    Pause { length: Duration },
    /// A simulation was restarted, or a clock was set back.
    #[error(
        "the log times go back by {:.3} s: what follows is measured as a run of its own, behind what was before",
        back.as_secs_f64()
    )]
    NewRun { back: Duration },
    #[error(
        "{messages} messages have a publish time or a header stamp of another clock than the log time, as with \
         simulated time: ages and delays across the two clocks are not known"
    )]
    OtherClock { messages: u64 },
    /// The bag has more topics or publishers than the limit, so some of them are left out.
    #[error("there are more than {limit} topics: the others are left out")]
    TooMany { limit: usize },
    #[error("and {notes} more")]
    MoreNotes { notes: u64 },
}

impl NoteKind {
    /// Returns whether messages may be missing in the statistics.
    pub fn is_of_missing_messages(&self) -> bool {
        !matches!(
            self,
            Self::Copy { .. }
                | Self::Pause { .. }
                | Self::NewRun { .. }
                | Self::OtherClock { .. }
                | Self::Summary
                | Self::Unfinished
        )
    }
}

/// The reason why a chunk was not used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChunkFault {
    #[error("its content does not match its checksum")]
    Checksum,
    /// The chunk cannot be decompressed, or its content is larger than its header says or larger than 1 GiB.
    #[error("it cannot be decompressed")]
    Compression,
    #[error("its compression {0:?} is not known")]
    UnknownCompression(String),
    /// The content of the chunk is not a sequence of records, or a message is outside the times of the chunk.
    #[error("its content is damaged")]
    Content,
}

/// The notes about a bag. `more` counts the notes that are not stored.
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
        if let Some(last) = self.notes.last().filter(|_| self.more > 0) {
            let kind = NoteKind::MoreNotes { notes: self.more };
            self.notes.push(Note { path: last.path.clone(), kind });
        }
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
