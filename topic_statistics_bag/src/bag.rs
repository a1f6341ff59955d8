// SPDX-License-Identifier: Apache-2.0

//! A bag: one file, or several files that are read in the order of their messages.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File},
    io::{self, Cursor, Read, Seek, SeekFrom},
    ops::ControlFlow,
    panic,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use topic_statistics_core::Timestamp;

use crate::{
    decompressed::{self, Decompressed, ZSTD},
    error::{BagError, Note, NoteKind},
    feed::Feed,
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
pub enum Format {
    Mcap,
    /// rosbag2's SQLite.
    Sqlite,
}

/// A file of a bag.
#[derive(Debug)]
pub struct BagFile {
    pub path: PathBuf,
    pub format: Format,
    /// The size of the file when the bag was opened, in bytes.
    pub size: u64,
    /// Whether the file is compressed as a whole (rosbag2's `--compression-mode file`).
    is_compressed: bool,
    /// The directory whose metadata.yaml names this file, as an index into the paths of [`Bag::open`]. `None` if no
    /// metadata.yaml was used.
    list: Option<usize>,
    /// Whether the file just before this file in the same directory cannot be read.
    is_behind_missing: bool,
}

/// A bag: the files in the order in which they are read.
#[derive(Debug, Default)]
pub struct Bag {
    files: Vec<BagFile>,
    /// Notes about files that are not read.
    notes: Vec<Note>,
}

/// The result of reading a bag.
#[derive(Debug)]
pub struct BagStatistics {
    /// The topics that were read, including topics without a message, in the order in which the bag names them.
    pub topics: Vec<Topic>,
    /// The times of the first and the last message on the clock of the windows ([`ReadOptions::clock()`]). `None` if no
    /// message was read. If this clock is the log time, these messages can belong to topics that were not read.
    pub times: Option<(Timestamp, Timestamp)>,
    /// The number of messages that were read.
    pub messages: u64,
    pub notes: Vec<Note>,
    pub recording: RecordingInfo,
    /// Whether the visitor stopped the reading.
    pub is_interrupted: bool,
}

impl BagStatistics {
    /// Returns whether all messages were read. Other parts of a file, such as its summary, may be missing.
    pub fn is_complete(&self) -> bool {
        !self.notes.iter().any(|note| note.kind.is_of_missing_messages())
    }
}

impl Bag {
    /// Opens a bag from paths of files, and of directories as rosbag2 creates them. All paths together are one bag. The
    /// files are read in the order of their first messages. The names of the files and the order of `paths` have no
    /// effect on the order of reading.
    ///
    /// In a directory, the files that its metadata.yaml names are read. If there is no metadata.yaml, for example after
    /// a crash, all files are read whose names end in `.mcap` or `.db3` (or, compressed, in `.mcap.zstd` or
    /// `.db3.zstd`). If a file exists with and without compression, only one of the two files is read, if possible a
    /// complete file. A file that is named twice is read once.
    pub fn open(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self, BagError> {
        let mut bag = Self::default();
        let mut refused = vec![];
        for (number, path) in paths.into_iter().enumerate() {
            match bag.add(path.as_ref(), number) {
                Err(BagError::UnknownFormat { path, what }) => refused.push((path, what)),
                added => added?,
            }
        }
        // A file that is empty or has an unknown format is an error only if no other file is a copy of the same
        // recording.
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

    /// Returns the files of the bag, in the order in which they are read.
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
        let (files, list) = if metadata.is_file() {
            let metadata = Metadata::read(&metadata)?;
            let files = metadata.files(path)?;
            if metadata.has_unknown_compression() {
                return Err(BagError::compressed_messages(path));
            }
            (files, Some(number))
        } else {
            (files_of(path)?, None)
        };
        let (read, notes) = (self.files.len(), self.notes.len());
        self.add_or_note(&files, list);
        if self.files.len() > read {
            return Ok(());
        }
        let path = path.to_owned();
        Err(match self.notes.get(notes) {
            Some(note) => BagError::NoReadableFile { path, file: Box::new(note.clone()) },
            None => BagError::EmptyDirectory { path },
        })
    }

    /// Adds the files that can be read, and a note for each of the other files.
    fn add_or_note(&mut self, paths: &[PathBuf], list: Option<usize>) {
        let mut is_behind_missing = false;
        for path in paths {
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

    /// Keeps one of several files with the same messages.
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

    /// Sorts the files by the times of their first messages. A file without a message stays directly after the file
    /// that was before it. Adds a note for each file that seems to be of another recording than the files before it.
    fn sort(&mut self) {
        /// The longest delay with which a recorder writes a message, in nanoseconds.
        const LATE: i64 = 1_000_000_000;
        /// The longest time between two files of a recording without a note, in nanoseconds.
        const PAUSE: i64 = 60_000_000_000;
        if self.files.len() < 2 {
            return;
        }
        let times: Vec<_> = self.files.iter().map(|file| file.times(false).ok().flatten()).collect();
        let start_of = |start: &mut i64, times: &Option<(i64, i64)>| {
            *start = times.map_or(*start, |(first, _)| first);
            Some(*start)
        };
        let mut starts: Vec<_> = times.iter().scan(i64::MIN, start_of).collect();
        // If the times of the files in a metadata.yaml overlap, the clock of the recorder was set back. If so, these
        // files keep the order of the metadata.yaml.
        for list in self.files.iter().filter_map(|file| file.list).collect::<BTreeSet<_>>() {
            let is_listed = |place: &usize| self.files[*place].list == Some(list);
            let places: Vec<_> = (0..self.files.len()).filter(is_listed).collect();
            let mut listed: Vec<_> = places.iter().filter_map(|place| times[*place]).collect();
            listed.sort_unstable();
            if listed.windows(2).any(|pair| pair[1].0 < pair[0].1.saturating_sub(LATE)) {
                places.iter().for_each(|place| starts[*place] = listed[0].0);
            }
        }
        let files = times.into_iter().zip(std::mem::take(&mut self.files));
        let mut files: Vec<_> = starts.into_iter().zip(files).collect();
        files.sort_by_key(|(start, _)| *start);
        let mut end = None;
        for (_, (times, file)) in files {
            if let Some((first, last)) = times {
                let pause = first.saturating_sub(end.unwrap_or(first));
                if pause > PAUSE && file.list.is_none() {
                    let kind = NoteKind::Pause { length: Duration::from_nanos(pause.unsigned_abs()) };
                    self.notes.push(Note { path: file.path.clone(), kind });
                }
                // If the last time is the first time, it can be unknown.
                end = end.max(Some(if last > first { last } else { i64::MAX }));
            }
            self.files.push(file);
        }
    }

    /// Returns an error if the metadata.yaml in the directory of a file says that the messages of the file are
    /// compressed with an algorithm other than zstd.
    fn check_compression(&self, path: &Path) -> Result<(), BagError> {
        let beside = path.with_file_name(metadata::FILE_NAME);
        // The check is skipped if there is no valid metadata.yaml, or if metadata.yaml does not name this file.
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
    /// It is not an error if only a part of a file can be read: the [notes](BagStatistics::notes) say which part.
    pub fn read(&self, options: &ReadOptions, visitor: &mut dyn Visitor) -> Result<BagStatistics, BagError> {
        let is_relative =
            [options.from, options.to].iter().any(|time| matches!(time, Some(BagTime::After(_))));
        let start =
            if is_relative { self.times(options.unpack_all)?.map_or(0, |(start, _)| start) } else { 0 };
        let total = self.files.iter().map(|file| file.size).sum();
        let mut session = Session::new(options, visitor)?;
        let (sender, events) = mpsc::sync_channel(Feed::WAITING);
        let mut feed = Feed::new(options, start, total, sender)?;
        let (flow, found) = thread::scope(|scope| {
            let reader = thread::Builder::new().name("reader".to_owned()).spawn_scoped(scope, move || {
                self.notes.iter().for_each(|note| feed.notes.add(&note.path, note.kind.clone()));
                let read = self.read_files(&mut feed);
                let _flow = feed.flush();
                read.map(|()| feed.finish())
            });
            let reader = reader.map_err(|source| BagError::Thread { source })?;
            // If the session stops, this iterator is dropped. Without it, the reader cannot send events, and stops,
            // too.
            let flow = events.into_iter().flatten().try_for_each(|event| session.handle(event));
            let found = reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic))?;
            Ok::<_, BagError>((flow, found))
        })?;
        let is_interrupted = flow.is_break();
        let times = session.finish(found.seen.filter(|_| !is_interrupted));
        let topics = session.topics;
        let messages = topics.iter().map(Topic::messages).sum();
        let (notes, recording) = (found.notes.finish(), found.recording);
        Ok(BagStatistics { topics, times, messages, notes, recording, is_interrupted })
    }

    /// Reads the files into the feed. Stops if the session has ended.
    fn read_files(&self, feed: &mut Feed<'_>) -> Result<(), BagError> {
        for file in &self.files {
            if file.is_behind_missing {
                feed.miss(None);
            }
            feed.path = file.path.clone();
            if file.read(feed)?.is_break() || feed.end_file(file.size).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the first and the last log time of the bag, in nanoseconds. `None` if the bag has no message. If finding
    /// the last time of a file would need a reading of the whole file, its first time is used instead.
    pub fn times(&self, is_unlimited: bool) -> Result<Option<(i64, i64)>, BagError> {
        let times: Result<Vec<_>, _> = self.files.iter().map(|file| file.times(is_unlimited)).collect();
        let all = |(first, last): (i64, i64), other: (i64, i64)| (first.min(other.0), last.max(other.1));
        Ok(times?.into_iter().flatten().reduce(all))
    }
}

/// Returns the files of a directory whose extensions are those of bags, sorted by the numbers in their names.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, BagError> {
    let mut files = vec![];
    for entry in fs::read_dir(directory).map_err(BagError::io(directory))? {
        let path = entry.map_err(BagError::io(directory))?.path();
        if plain_name(&path).extension().is_some_and(|extension| extension == "mcap" || extension == "db3") {
            files.push(path);
        }
    }
    files.sort_by_cached_key(|path| numbered_name(path));
    Ok(files)
}

/// Returns a key that is equal for files with the same messages: the canonical path without the extension `.zstd`.
fn place_of(path: &Path) -> PathBuf {
    plain_name(&path.canonicalize().unwrap_or_else(|_| path.to_owned()))
}

/// Returns the path of a file without the extension `.zstd`.
fn plain_name(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) if extension == "zstd" => path.with_extension(""),
        _ => path.to_owned(),
    }
}

/// Returns a sort key with the name of a file and the number at its end: `bag_10.mcap` comes after `bag_9.mcap`.
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
    /// Opens a file, and detects its format from its first bytes.
    fn open(path: &Path) -> Result<Self, BagError> {
        let io = BagError::io(path);
        let mut first = vec![];
        let file = File::open(path).map_err(&io)?;
        let size = file.metadata().map_err(&io)?.len();
        file.take(16).read_to_end(&mut first).map_err(&io)?;
        let is_compressed = first.starts_with(&ZSTD);
        if is_compressed {
            first = decompressed::first_bytes(File::open(path).map_err(&io)?, 16);
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

    /// Decompresses the file if the file is compressed as a whole. Otherwise returns `None`.
    fn decompressed(&self, is_unlimited: bool) -> Result<Option<Decompressed>, BagError> {
        if !self.is_compressed {
            return Ok(None);
        }
        let io = BagError::io(&self.path);
        let mut decompressed = Decompressed::open(&self.path, is_unlimited).map_err(&io)?;
        if decompressed.is_cut && self.is_whole(&decompressed.path, decompressed.size).map_err(&io)? {
            decompressed.fault = None;
        }
        Ok(Some(decompressed))
    }

    /// Returns whether the content is complete, even if the zstd frame has no end, as in some complete files of
    /// rosbag2.
    fn is_whole(&self, content: &Path, size: u64) -> io::Result<bool> {
        match self.format {
            Format::Mcap => ends_with(content, ::mcap::MAGIC),
            Format::Sqlite => sqlite::is_whole(content, size),
        }
    }

    fn read(&self, feed: &mut Feed<'_>) -> Result<ControlFlow<()>, BagError> {
        let decompressed = self.decompressed(feed.options.unpack_all)?;
        if let Some(Decompressed { size, fault: Some(reason), .. }) = &decompressed {
            feed.note(NoteKind::Decompression { bytes: *size, reason: reason.clone() });
        }
        let (content, size) = match &decompressed {
            Some(decompressed) => (&*decompressed.path, decompressed.size),
            None => (&*self.path, self.size),
        };
        let flow = match self.format {
            Format::Mcap => File::open(content)
                .and_then(|file| mcap::read(file, feed))
                .map_err(BagError::io(&self.path))?,
            Format::Sqlite => sqlite::read(content, &self.path, size, feed)?,
        };
        if decompressed.is_some_and(|decompressed| decompressed.fault.is_some()) {
            feed.miss(None);
        }
        Ok(flow)
    }

    /// Returns the first and the last log time of the file. If finding the last time would need a reading of the whole
    /// file, the first time is returned instead of the last time.
    fn times(&self, is_unlimited: bool) -> Result<Option<(i64, i64)>, BagError> {
        /// The number of bytes that usually include the header of the first chunk.
        const BEGINNING: u64 = 1 << 20;
        let io = BagError::io(&self.path);
        if self.is_compressed && self.format == Format::Mcap {
            let file = File::open(&self.path).map_err(&io)?;
            let times = mcap::times(Cursor::new(decompressed::first_bytes(file, BEGINNING)));
            if let Some(times) = times.map_err(&io)? {
                return Ok(Some(times));
            }
        }
        let decompressed = self.decompressed(is_unlimited)?;
        let content = decompressed.as_ref().map_or(&*self.path, |decompressed| &*decompressed.path);
        match self.format {
            Format::Mcap => File::open(content).and_then(mcap::times).map_err(io),
            Format::Sqlite => sqlite::times(content, &self.path),
        }
    }

    /// Returns whether this file is better than another file with the same messages. A complete file is better than an
    /// incomplete file, and of two incomplete files, the file with more content is better. Of two complete files, an
    /// uncompressed file is better, because it is read faster.
    fn is_better_than(&self, other: &Self) -> bool {
        if !self.is_compressed && self.content_size().0 {
            return true;
        }
        if !other.is_compressed && other.content_size().0 {
            return false;
        }
        self.content_size() > other.content_size()
    }

    /// Returns whether the content is complete, and its size in bytes.
    fn content_size(&self) -> (bool, u64) {
        let Ok(decompressed) = self.decompressed(false) else { return (false, 0) };
        let (content, size) = match &decompressed {
            Some(decompressed) => (&*decompressed.path, decompressed.size),
            None => (&*self.path, self.size),
        };
        let has_end = self.is_whole(content, size).unwrap_or(false);
        (has_end && decompressed.is_none_or(|decompressed| decompressed.fault.is_none()), size)
    }
}
