// SPDX-License-Identifier: Apache-2.0

//! A bag: one file, or several in their order.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File},
    io::{self, Cursor, Read, Seek, SeekFrom},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use topic_statistics_core::Timestamp;

use crate::{
    decompressed::{self, Decompressed, ZSTD},
    error::{BagError, Note, NoteKind},
    mcap,
    metadata::{self, Metadata},
    options::{BagTime, ReadOptions},
    recording::RecordingInfo,
    session::{Session, Visitor},
    sqlite,
    topic::Topic,
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
    /// The number of the metadata.yaml that names it.
    list: Option<usize>,
    /// Whether a file before it in its directory cannot be read.
    is_behind_missing: bool,
}

/// A bag: its files in their order.
#[derive(Debug)]
pub struct Bag {
    files: Vec<BagFile>,
    /// Files that are not read.
    notes: Vec<Note>,
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
    /// Opens a bag: files, and directories as rosbag2 makes them. Several are one bag, in the order of their first
    /// messages, whatever they are called and in whatever order they are named.
    ///
    /// The files of a directory are those that its metadata.yaml names. Without a metadata.yaml, as after a crash, they
    /// are all files that end in `.mcap` or `.db3` (or, compressed, in `.mcap.zstd` or `.db3.zstd`). Of a file that is
    /// there with and without compression, the complete one is read; a file that is named twice is read once.
    ///
    /// Errors if nothing is named, if a file or directory is no bag or cannot be read, and if its messages are
    /// compressed otherwise than by zstd.
    pub fn open(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self, BagError> {
        let mut bag = Self { files: vec![], notes: vec![] };
        let mut refused = vec![];
        for (number, path) in paths.into_iter().enumerate() {
            match bag.add(path.as_ref(), number) {
                Err(BagError::UnknownFormat { path, what }) => refused.push((path, what)),
                added => added?,
            }
        }
        // A copy that was never written is refused only if nothing else has its messages.
        for (path, what) in refused {
            let place = place_of(&path);
            match bag.files.iter().find(|file| place_of(&file.path) == place) {
                Some(file) => {
                    let kind = NoteKind::Copy { of: file.path.clone() };
                    bag.notes.push(Note { path, kind });
                }
                None => return Err(BagError::UnknownFormat { path, what }),
            }
        }
        if bag.files.is_empty() {
            return Err(BagError::NoPath);
        }
        bag.remove_copies();
        bag.sort();
        Ok(bag)
    }

    /// Returns its files, in the order in which they are read.
    pub fn files(&self) -> &[BagFile] {
        &self.files
    }

    fn add(&mut self, path: &Path, number: usize) -> Result<(), BagError> {
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
            return self.add_directory(path, files, None);
        }
        let metadata = Metadata::read(&metadata)?;
        let files = metadata.files(path)?;
        if metadata.has_unknown_compression() {
            return Err(BagError::compressed_messages(path));
        }
        self.add_directory(path, files, Some(number))
    }

    /// Adds the files of a directory. Errors if none of them can be read.
    fn add_directory(
        &mut self,
        path: &Path,
        files: Vec<PathBuf>,
        list: Option<usize>,
    ) -> Result<(), BagError> {
        let (read, notes) = (self.files.len(), self.notes.len());
        self.add_or_note(files, list);
        if self.files.len() > read {
            return Ok(());
        }
        let path = path.to_owned();
        Err(match self.notes.get(notes) {
            Some(note) => BagError::NoReadableFile { path, file: Box::new(note.clone()) },
            None => BagError::EmptyDirectory { path },
        })
    }

    /// Adds the files of a directory. Each can be read without the others.
    fn add_or_note(&mut self, paths: Vec<PathBuf>, list: Option<usize>) {
        let mut is_behind_missing = false;
        for path in &paths {
            match BagFile::open(path) {
                Ok(file) => {
                    let is_behind_missing = std::mem::take(&mut is_behind_missing);
                    self.files.push(BagFile { list, is_behind_missing, ..file });
                }
                Err(error) => {
                    let has_name = |other: &&PathBuf| *other != path && plain_name(other) == plain_name(path);
                    let path = path.clone();
                    if let Some(other) =
                        paths.iter().find(has_name).filter(|other| BagFile::open(other).is_ok())
                    {
                        self.notes.push(Note { path, kind: NoteKind::Copy { of: other.clone() } });
                        continue;
                    }
                    let reason = match error {
                        BagError::Io { source, .. } => source.to_string(),
                        BagError::UnknownFormat { what, .. } => format!("it is {what}"),
                        other => other.to_string(),
                    };
                    self.notes.push(Note { path, kind: NoteKind::MissingFile { reason } });
                    is_behind_missing = true;
                }
            }
        }
    }

    /// Removes all but one of the files that have the same messages.
    fn remove_copies(&mut self) {
        let mut kept: Vec<BagFile> = vec![];
        let mut places = HashMap::new();
        for file in std::mem::take(&mut self.files) {
            let place = *places.entry(place_of(&file.path)).or_insert(kept.len());
            let Some(other) = kept.get_mut(place) else {
                kept.push(file);
                continue;
            };
            let copy = match file.is_compressed != other.is_compressed && file.is_better_than(other) {
                true => std::mem::replace(other, file),
                false => file,
            };
            self.notes.push(Note { path: copy.path, kind: NoteKind::Copy { of: other.path.clone() } });
        }
        self.files = kept;
    }

    /// Puts the files in the order of their first messages. A file without a message stays behind the one before it.
    fn sort(&mut self) {
        /// How much later recorders write a message at most, in nanoseconds.
        const LATE: i64 = 1_000_000_000;
        if self.files.len() < 2 {
            return;
        }
        let times: Vec<_> = self.files.iter().map(|file| file.times(false).ok().flatten()).collect();
        let mut start = i64::MIN;
        let mut starts: Vec<_> = times
            .iter()
            .map(|times| {
                start = times.map_or(start, |(first, _)| first);
                start
            })
            .collect();
        // A recorder whose clock went back has written files of the same times, and its metadata.yaml knows their order.
        for list in self.files.iter().filter_map(|file| file.list).collect::<BTreeSet<_>>() {
            let is_listed = |place: &usize| self.files[*place].list == Some(list);
            let places: Vec<_> = (0..self.files.len()).filter(is_listed).collect();
            let mut listed: Vec<_> = places.iter().filter_map(|place| times[*place]).collect();
            listed.sort_unstable();
            if listed.windows(2).any(|pair| pair[1].0 < pair[0].1.saturating_sub(LATE)) {
                places.iter().for_each(|place| starts[*place] = listed[0].0);
            }
        }
        let mut files: Vec<_> = starts.into_iter().zip(std::mem::take(&mut self.files)).collect();
        files.sort_by_key(|(start, _)| *start);
        self.files = files.into_iter().map(|(_, file)| file).collect();
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
        let start = if is_relative { self.start(options.unpack_all)?.unwrap_or(0) } else { 0 };
        let total = self.files.iter().map(|file| file.size).sum();
        let mut session = Session::new(options, visitor, start, total)?;
        self.notes.iter().for_each(|note| session.notes.add(&note.path, note.kind.clone()));
        let mut is_interrupted = false;
        for file in &self.files {
            if file.is_behind_missing {
                session.miss(None);
            }
            session.start_file(&file.path);
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
    fn start(&self, is_unlimited: bool) -> Result<Option<i64>, BagError> {
        let mut start: Option<i64> = None;
        for file in &self.files {
            start = start.into_iter().chain(file.times(is_unlimited)?.map(|(first, _)| first)).min();
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

/// Returns what files with the same messages have in common: the whole path without the extension of a compressed one.
fn place_of(path: &Path) -> PathBuf {
    plain_name(&path.canonicalize().unwrap_or_else(|_| path.to_owned()))
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

/// Returns whether a file ends with these bytes.
fn ends_with(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let Some(start) = file.metadata()?.len().checked_sub(bytes.len() as u64) else { return Ok(false) };
    let mut end = vec![];
    file.seek(SeekFrom::Start(start))?;
    file.read_to_end(&mut end)?;
    Ok(end == bytes)
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
            first = decompressed::first_bytes(File::open(path).map_err(io)?, 16);
        }
        let unknown = |what| BagError::UnknownFormat { path: path.to_owned(), what };
        let format = if first.starts_with(::mcap::MAGIC) {
            Format::Mcap
        } else if first == b"SQLite format 3\0" {
            Format::Sqlite
        } else if first.starts_with(b"#ROSBAG V2") {
            return Err(unknown("a bag of ROS 1"));
        } else if first.is_empty() {
            return Err(unknown("empty (a recorder that is killed before its first chunk leaves it so)"));
        } else {
            return Err(unknown("of another format"));
        };
        let path = path.to_owned();
        Ok(Self { path, format, size, is_compressed, list: None, is_behind_missing: false })
    }

    /// Returns the content, if the file is compressed.
    ///
    /// `is_unlimited`: whatever its size.
    fn unpacked(&self, is_unlimited: bool) -> Result<Option<Decompressed>, BagError> {
        if !self.is_compressed {
            return Ok(None);
        }
        let mut unpacked = Decompressed::open(&self.path, is_unlimited).map_err(|source| self.io(source))?;
        if unpacked.is_cut
            && self.is_whole(&unpacked.path, unpacked.size).map_err(|source| self.io(source))?
        {
            unpacked.fault = None;
        }
        Ok(Some(unpacked))
    }

    /// Returns whether the content has its end. rosbag2 does not end the compressed data of some files.
    fn is_whole(&self, content: &Path, size: u64) -> io::Result<bool> {
        match self.format {
            Format::Mcap => ends_with(content, ::mcap::MAGIC),
            Format::Sqlite => sqlite::is_whole(content, size),
        }
    }

    fn read(&self, session: &mut Session<'_>) -> Result<ControlFlow<()>, BagError> {
        let unpacked = self.unpacked(session.unpacks_all())?;
        if let Some(Decompressed { size, fault: Some(reason), .. }) = &unpacked {
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

    /// Returns the first and the last log time; the first one for the last one if that costs a reading of the file.
    ///
    /// `is_unlimited`: whatever the size of a compressed file's content.
    fn times(&self, is_unlimited: bool) -> Result<Option<(i64, i64)>, BagError> {
        /// More than the first chunk's head and what is before it usually have, in bytes.
        const BEGINNING: u64 = 1 << 20;
        if self.is_compressed && self.format == Format::Mcap {
            let file = File::open(&self.path).map_err(|source| self.io(source))?;
            let times = mcap::times(Cursor::new(decompressed::first_bytes(file, BEGINNING)));
            if let Some(times) = times.map_err(|source| self.io(source))? {
                return Ok(Some(times));
            }
        }
        let unpacked = self.unpacked(is_unlimited)?;
        let content = unpacked.as_ref().map_or(&*self.path, |unpacked| &*unpacked.path);
        match self.format {
            Format::Mcap => File::open(content).and_then(mcap::times).map_err(|source| self.io(source)),
            Format::Sqlite => sqlite::times(content, &self.path),
        }
    }

    /// Returns whether this is complete and the other one, with the same messages, is not; or, if neither is, whether it
    /// has more. If both are, what is not compressed is read faster.
    fn is_better_than(&self, other: &Self) -> bool {
        if !self.is_compressed && self.content_size().0 {
            return true;
        }
        if !other.is_compressed && other.content_size().0 {
            return false;
        }
        self.content_size() > other.content_size()
    }

    /// Returns whether the content is complete, and how many bytes of it there are.
    fn content_size(&self) -> (bool, u64) {
        let Ok(unpacked) = self.unpacked(false) else { return (false, 0) };
        let (content, size) = match &unpacked {
            Some(unpacked) => (&*unpacked.path, unpacked.size),
            None => (&*self.path, self.size),
        };
        let has_end = self.is_whole(content, size).unwrap_or(false);
        (has_end && unpacked.is_none_or(|unpacked| unpacked.fault.is_none()), size)
    }

    fn io(&self, source: io::Error) -> BagError {
        BagError::Io { path: self.path.clone(), source }
    }
}
