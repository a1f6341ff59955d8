// SPDX-License-Identifier: Apache-2.0

//! A bag: one file, or several in their order.

use std::{
    fs::{self, File},
    io::{self, Read},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use topic_statistics_core::Timestamp;

use crate::{
    error::{BagError, Note, NoteKind},
    mcap,
    metadata::{self, Metadata},
    options::{BagTime, ReadOptions},
    recording::RecordingInfo,
    session::{Session, Visitor},
    sqlite,
    topic::Topic,
    unpacked::{self, Unpacked, ZSTD},
};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// MCAP.
    Mcap,
    /// rosbag2's SQLite.
    Sqlite,
}

/// A file of a bag.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BagFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// Its size when the bag was opened, in bytes.
    pub size: u64,
    /// Whether it is compressed as a whole, by rosbag2's `--compression-mode file`.
    pub is_compressed: bool,
}

/// A bag: its files in their order.
#[derive(Debug)]
pub struct Bag {
    files: Vec<BagFile>,
    /// Files that are missing, each with the number of files before it.
    missing: Vec<(usize, Note)>,
}

/// What is known of a bag when it has been read.
#[derive(Debug)]
#[non_exhaustive]
pub struct BagStatistics {
    /// The topics that were read, also those without a message, in the order in which the bag names them.
    pub topics: Vec<Topic>,
    /// The times of the first and the last message on the clock of the windows. None without a message. On the log
    /// times, the last one can be of a topic that was not read.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Messages that were read.
    pub messages: u64,
    /// What could not be read. Empty if all of the bag was.
    pub notes: Vec<Note>,
    /// What MCAP files say of their recording.
    pub recording: RecordingInfo,
    /// Whether the visitor has ended the reading.
    pub is_interrupted: bool,
}

impl Bag {
    /// Opens a bag: files, and directories as rosbag2 makes them. Several are one bag, in their order.
    ///
    /// The files of a directory are those that its metadata.yaml names. Without a metadata.yaml, as after a crash, they
    /// are all files that end in `.mcap` or `.db3` (or, compressed, in `.mcap.zstd` or `.db3.zstd`), in the order of
    /// the numbers in their names.
    ///
    /// Errors if nothing is named, if a file or directory is no bag or cannot be read, and if its messages are
    /// compressed otherwise than by zstd.
    pub fn open(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self, BagError> {
        let mut bag = Self { files: vec![], missing: vec![] };
        for path in paths {
            bag.add(path.as_ref())?;
        }
        if bag.files.is_empty() {
            return Err(BagError::NoPath);
        }
        Ok(bag)
    }

    /// Returns its files.
    pub fn files(&self) -> &[BagFile] {
        &self.files
    }

    fn add(&mut self, path: &Path) -> Result<(), BagError> {
        if !path.is_dir() {
            self.check_compression(path)?;
            self.files.push(BagFile::open(path)?);
            return Ok(());
        }
        let metadata = path.join(metadata::FILE_NAME);
        if !metadata.is_file() {
            let files = files_of(path)?;
            if files.is_empty() {
                return Err(BagError::EmptyDirectory { path: path.to_owned() });
            }
            files.into_iter().for_each(|file| self.add_or_note(file));
            return Ok(());
        }
        let metadata = Metadata::read(&metadata)?;
        let files = metadata.files(path)?;
        if metadata.has_unknown_compression() {
            return Err(BagError::compressed_messages(path));
        }
        let before = self.files.len();
        files.into_iter().for_each(|file| self.add_or_note(file));
        match self.files.len() {
            now if now == before => Err(BagError::EmptyDirectory { path: path.to_owned() }),
            _ => Ok(()),
        }
    }

    /// Adds one of several files. The others can be read without it.
    fn add_or_note(&mut self, path: PathBuf) {
        match BagFile::open(&path) {
            Ok(file) => self.files.push(file),
            Err(error) => {
                let reason = match error {
                    BagError::Io { source, .. } => source.to_string(),
                    BagError::UnknownFormat { what, .. } => format!("it is {what}"),
                    other => other.to_string(),
                };
                let note = Note { path, kind: NoteKind::MissingFile { reason } };
                self.missing.push((self.files.len(), note));
            }
        }
    }

    /// Errors if the metadata.yaml beside a file says that its messages are compressed in an unknown way.
    fn check_compression(&self, path: &Path) -> Result<(), BagError> {
        let beside = path.with_file_name(metadata::FILE_NAME);
        // Another bag's file, or none, says nothing.
        let Ok(metadata) = Metadata::read(&beside) else { return Ok(()) };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_named = metadata.relative_file_paths.iter().any(|file| file.ends_with(name));
        match is_named && metadata.has_unknown_compression() {
            true => Err(BagError::compressed_messages(path)),
            false => Ok(()),
        }
    }

    /// Reads the bag, and calls the visitor with each window.
    ///
    /// Errors if the options do not fit, and if a file is no bag. A file that can be read in part is no error: the
    /// [notes](BagStatistics::notes) say what could not be read.
    pub fn read(&self, options: &ReadOptions, visitor: &mut dyn Visitor) -> Result<BagStatistics, BagError> {
        let is_relative =
            [options.from, options.to].iter().any(|time| matches!(time, Some(BagTime::After(_))));
        let start = if is_relative { self.start()?.unwrap_or(0) } else { 0 };
        let total = self.files.iter().map(|file| file.size).sum();
        let mut session = Session::new(options, visitor, start, total)?;
        self.missing.iter().for_each(|(_, note)| session.notes.add(&note.path, note.kind.clone()));
        let mut is_interrupted = false;
        for (number, file) in self.files.iter().enumerate() {
            if self.missing.iter().any(|(before, _)| *before == number) {
                session.miss(None);
            }
            let flow = file.read(&mut session)?;
            is_interrupted = flow.is_break() || session.end_file(file.size).is_break();
            if is_interrupted {
                break;
            }
        }
        let times = session.finish();
        let Session { topics, messages, notes, recording, .. } = session;
        Ok(BagStatistics { topics, times, messages, notes: notes.finish(), recording, is_interrupted })
    }

    /// Returns the first log time of the bag; None without a message.
    fn start(&self) -> Result<Option<i64>, BagError> {
        let mut start: Option<i64> = None;
        for file in &self.files {
            start = start.into_iter().chain(file.start()?).min();
        }
        Ok(start)
    }
}

/// Returns the files of a directory that are named as bags, in the order of the numbers in their names.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, BagError> {
    let io = |source| BagError::Io { path: directory.to_owned(), source };
    let mut files = vec![];
    for entry in fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if plain_name(&path).extension().is_some_and(|extension| extension == "mcap" || extension == "db3") {
            files.push(path);
        }
    }
    files.sort_by_cached_key(|path| numbered_name(path));
    Ok(files)
}

/// Returns the name of a file without the extension of a compressed one.
fn plain_name(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) if extension == "zstd" => path.with_extension(""),
        _ => path.to_owned(),
    }
}

/// Returns the name of a file and the number at its end: `bag_10.mcap` comes behind `bag_9.mcap`.
fn numbered_name(path: &Path) -> (String, u64, PathBuf) {
    let name =
        plain_name(path).file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (text, number) = name.split_at(name.len() - digits);
    (text.to_owned(), number.parse().unwrap_or(0), path.to_owned())
}

impl BagFile {
    /// Opens a file, and finds its format by its first bytes.
    fn open(path: &Path) -> Result<Self, BagError> {
        let io = |source| BagError::Io { path: path.to_owned(), source };
        let mut first = vec![];
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        file.take(16).read_to_end(&mut first).map_err(io)?;
        let is_compressed = first.starts_with(&ZSTD);
        if is_compressed {
            first = unpacked::first_bytes(File::open(path).map_err(io)?);
        }
        let unknown = |what| BagError::UnknownFormat { path: path.to_owned(), what };
        let format = if first.starts_with(::mcap::MAGIC) {
            Format::Mcap
        } else if first == b"SQLite format 3\0" {
            Format::Sqlite
        } else if first.starts_with(b"#ROSBAG V2") {
            return Err(unknown("a bag of ROS 1"));
        } else if first.is_empty() {
            return Err(unknown("empty"));
        } else {
            return Err(unknown("of another format"));
        };
        Ok(Self { path: path.to_owned(), format, size, is_compressed })
    }

    /// Returns the content, if the file is compressed.
    fn unpacked(&self) -> Result<Option<Unpacked>, BagError> {
        self.is_compressed.then(|| Unpacked::of(&self.path)).transpose().map_err(|source| self.io(source))
    }

    fn read(&self, session: &mut Session<'_>) -> Result<ControlFlow<()>, BagError> {
        let unpacked = self.unpacked()?;
        if let Some(Unpacked { size, fault: Some(reason), .. }) = &unpacked {
            let kind = NoteKind::Decompression { bytes: *size, reason: reason.clone() };
            session.notes.add(&self.path, kind);
        }
        let (content, size) = match &unpacked {
            Some(unpacked) => (&*unpacked.path, unpacked.size),
            None => (&*self.path, self.size),
        };
        let flow = match self.format {
            Format::Mcap => {
                let file = File::open(content);
                file.and_then(|file| mcap::read(file, &self.path, session)).map_err(|source| self.io(source))
            }
            Format::Sqlite => sqlite::read(content, &self.path, size, session),
        }?;
        if unpacked.is_some_and(|unpacked| unpacked.fault.is_some()) {
            session.miss(None);
        }
        Ok(flow)
    }

    fn start(&self) -> Result<Option<i64>, BagError> {
        let unpacked = self.unpacked()?;
        let content = unpacked.as_ref().map_or(&*self.path, |unpacked| &*unpacked.path);
        match self.format {
            Format::Mcap => File::open(content).and_then(mcap::start).map_err(|source| self.io(source)),
            Format::Sqlite => sqlite::start(content, &self.path),
        }
    }

    fn io(&self, source: io::Error) -> BagError {
        BagError::Io { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_split_bag_are_in_the_order_of_their_numbers() {
        for end in ["mcap", "db3.zstd"] {
            let paths = |names: [&str; 4]| names.map(|name| PathBuf::from(format!("{name}.{end}")));
            let mut names = paths(["bag_10", "bag_9", "bag_0", "a"]);
            names.sort_by_cached_key(|path| numbered_name(path));
            assert_eq!(names, paths(["a", "bag_0", "bag_9", "bag_10"]));
        }
    }
}
