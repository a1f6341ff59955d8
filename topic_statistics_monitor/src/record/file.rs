// SPDX-License-Identifier: Apache-2.0

//! A file of a recording.
//!
//! The room for its end is reserved before each message, so that it is complete also if the disk becomes full. Chunks
//! are written as a whole, so that what a crash leaves is read up to the last one.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use mcap::{
    records::MessageHeader,
    write::{Metadata, NoSeek},
    McapError, WriteOptions, Writer,
};
use rustix::{
    fs::{fallocate, FallocateFlags},
    io::Errno,
};
use topic_statistics_core::record::transport::Gid;
use topic_statistics_observe::recorded::{Scope, TOTALS};

use super::{
    error::RecordError,
    metadata::{self, FileInfo, TopicInfo},
    options::Options,
    topic::{QueuedMessage, RecordedTopic},
    totals::{Losses, Written},
};

/// Why a file cannot be written.
#[derive(Debug)]
pub enum WriteError {
    /// The disk has no room. The file can be finished.
    Full,
    /// Something else. The file cannot be finished.
    Failed(String),
}

impl From<McapError> for WriteError {
    fn from(error: McapError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A file, with the number of bytes written to it.
struct Sink {
    file: BufWriter<File>,
    written: Arc<AtomicU64>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A topic in a file.
pub struct TopicInFile {
    pub topic: Arc<RecordedTopic>,
    pub written: Written,
    /// The losses up to the first message of this file, and up to the last one.
    before: Losses,
    pub losses: Losses,
    /// The losses that the file has told.
    reported: Losses,
    /// `None` if the file has no message of it, only losses.
    channels: Option<Channels>,
}

/// What all channels of a topic have in a file. The library rosbags leaves out the messages of a channel that differs
/// from the topic in rosbag2's metadata, and rosbag2 writes the QoS of the publishers that it knew at the beginning.
#[derive(Clone)]
struct Channels {
    schema: u16,
    /// See [`RecordedTopic::offered_qos`].
    qos: String,
}

impl TopicInFile {
    /// Returns the losses in this file.
    pub fn lost(&self) -> Losses {
        self.losses.since(self.before)
    }
}

/// A file of a recording.
pub struct BagFile {
    path: PathBuf,
    started: Instant,
    file: File,
    writer: Writer<NoSeek<Sink>>,
    position: Arc<AtomicU64>,
    /// Up to where the disk has room for it. `u64::MAX` where the file system cannot reserve.
    reserved: u64,
    /// The bytes of the chunk that is not written yet.
    pending: u64,
    /// What the end of the file needs at most.
    end: u64,
    /// By the number of the topic.
    pub topics: BTreeMap<usize, TopicInFile>,
    channels: HashMap<(usize, Gid), u16>,
    times: Option<(u64, u64)>,
    messages: u64,
}

impl BagFile {
    /// The uncompressed bytes of a chunk, from which on it is written.
    const CHUNK: u64 = 1 << 20;
    /// What is reserved at once.
    const RESERVE: u64 = 16 << 20;
    /// What a message needs besides its data: its head, and its place in the index.
    const MESSAGE: u64 = 64;
    /// How many publishers of all topics a file has at most.
    const MAX_CHANNELS: usize = 1 << 15;

    /// Creates the file. Errors if it exists.
    pub fn create(path: &Path, options: &Options) -> Result<Self, RecordError> {
        let create = |source| RecordError::Create { path: path.to_owned(), source };
        let file = File::options().write(true).create_new(true).open(path).map_err(create)?;
        let position = Arc::<AtomicU64>::default();
        let copy = file.try_clone().map_err(create)?;
        let sink = Sink { file: BufWriter::new(copy), written: Arc::clone(&position) };
        let writer = WriteOptions::new()
            .profile("ros2")
            .library(concat!("topic_monitor ", env!("CARGO_PKG_VERSION")))
            .compression(options.compression.of_mcap())
            .compression_threads(0)
            .chunk_size(Some(Self::CHUNK))
            // A chunk is written when it is whole.
            .disable_seeking(true)
            .create(NoSeek::new(sink))
            .map_err(|error| create(io::Error::other(error)))?;
        Ok(Self {
            path: path.to_owned(),
            started: Instant::now(),
            file,
            writer,
            position,
            reserved: 0,
            pending: 0,
            end: 1 << 16,
            topics: BTreeMap::new(),
            channels: HashMap::new(),
            times: None,
            messages: 0,
        })
    }

    /// Returns whether it has a message.
    pub fn has_messages(&self) -> bool {
        self.messages > 0
    }

    /// Returns its size when the present chunk is written without compression.
    fn size(&self) -> u64 {
        self.position.load(Ordering::Relaxed) + self.pending
    }

    /// Returns whether it has reached a limit.
    pub fn is_at_limit(&self, options: &Options) -> bool {
        options.max_size.is_some_and(|max| self.messages > 0 && self.size() >= max)
            || options.max_duration.is_some_and(|max| self.started.elapsed() >= max)
    }

    /// Returns how long until its time is over.
    pub fn time_left(&self, options: &Options) -> Option<Duration> {
        Some(options.max_duration?.saturating_sub(self.started.elapsed()))
    }

    /// Writes a message. `before`: the losses of its topic at the end of the file before this one.
    pub fn write(&mut self, message: &QueuedMessage, before: Losses) -> Result<(), WriteError> {
        let size = message.data.len() as u64 + Self::MESSAGE;
        self.reserve(size)?;
        let channel_id = self.channel(message, before)?;
        let position = self.position.load(Ordering::Relaxed);
        let header = MessageHeader {
            channel_id,
            sequence: message.number.unwrap_or(0) as u32, // the lower 32 bits
            log_time: message.log_time,
            publish_time: message.publish_time,
        };
        self.writer.write_to_known_channel(&header, &message.data)?;
        if self.position.load(Ordering::Relaxed) != position {
            self.pending = 0;
            self.count_chunk();
        }
        self.pending += size;
        self.messages += 1;
        let (first, last) = self.times.unwrap_or((message.log_time, message.log_time));
        self.times = Some((first.min(message.log_time), last.max(message.log_time)));
        if let Some(topic) = self.topics.get_mut(&message.topic.index) {
            topic.written.add(message.log_time, message.data.len());
            topic.losses = message.losses;
        }
        Ok(())
    }

    /// Counts what the index of a chunk needs at the end of the file.
    fn count_chunk(&mut self) {
        self.end += 128 + 10 * self.channels.len() as u64;
    }

    /// Reserves the room of what is to come, and of the end behind it.
    fn reserve(&mut self, more: u64) -> Result<(), WriteError> {
        // No compression makes anything larger by that much.
        let content = (self.pending + more) * 9 / 8;
        let needed = self.position.load(Ordering::Relaxed) + content + self.end + Self::CHUNK;
        if needed <= self.reserved {
            return Ok(());
        }
        let up_to = |to: u64| {
            let (from, flags) = (self.reserved, FallocateFlags::KEEP_SIZE);
            fallocate(&self.file, flags, from, to - from).map(|()| to)
        };
        match up_to(needed + Self::RESERVE).or_else(|_| up_to(needed)) {
            Ok(reserved) => self.reserved = reserved,
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => return Err(WriteError::Full),
            Err(_) => self.reserved = u64::MAX, // this file system cannot
        }
        Ok(())
    }

    /// Returns the channel of a message's publisher.
    fn channel(&mut self, message: &QueuedMessage, before: Losses) -> Result<u16, WriteError> {
        let (topic, publisher) = (&message.topic, message.publisher);
        if let Some(channel) = self.channels.get(&(topic.index, publisher)) {
            return Ok(*channel);
        }
        if self.channels.len() >= Self::MAX_CHANNELS {
            return Err(WriteError::Failed(format!("more than {} publishers", Self::MAX_CHANNELS)));
        }
        let known = self.topics.get(&topic.index).and_then(|known| known.channels.clone());
        let Channels { schema, qos } = match known {
            Some(channels) => channels,
            None => self.add_topic(topic, before)?,
        };
        let metadata = topic.channel_metadata(&publisher, message.number.is_some(), &qos);
        let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len() + 8).sum();
        let channel = self.writer.add_channel(schema, &topic.name, "cdr", &metadata)?;
        // It is in the chunk, in the summary, and in rosbag2's metadata.
        let bytes = (bytes + topic.name.len() + topic.message_type.len()) as u64;
        self.pending += bytes;
        self.end += 3 * bytes + 512;
        self.channels.insert((topic.index, publisher), channel);
        Ok(channel)
    }

    fn add_topic(&mut self, topic: &Arc<RecordedTopic>, before: Losses) -> Result<Channels, WriteError> {
        let definition = &topic.definition;
        let bytes = definition.text.len() as u64 + 128;
        self.reserve(3 * bytes)?;
        let schema =
            self.writer.add_schema(&topic.message_type, definition.encoding, definition.text.as_bytes())?;
        self.pending += bytes;
        self.end += bytes + 2048; // with two records of totals, and their index
        let channels = Channels { schema, qos: topic.offered_qos() };
        self.insert(topic, before, Some(channels.clone()));
        Ok(channels)
    }

    fn insert(&mut self, topic: &Arc<RecordedTopic>, before: Losses, channels: Option<Channels>) {
        let (topic, written) = (Arc::clone(topic), Written::default());
        let new = TopicInFile { topic, written, before, losses: before, reported: before, channels };
        self.topics.insert(new.topic.index, new);
    }

    /// Takes in all losses of a topic up to the end of the recording, also behind its last message.
    pub fn set_losses(&mut self, topic: &Arc<RecordedTopic>, before: Losses) {
        let losses = topic.losses();
        if losses != before && !self.topics.contains_key(&topic.index) {
            self.insert(topic, before, None);
        }
        if let Some(known) = self.topics.get_mut(&topic.index) {
            known.losses = losses;
        }
    }

    /// Begins its time anew.
    pub fn restart(&mut self) {
        self.started = Instant::now();
    }

    /// Writes the chunk that is under way to the disk, with the totals of topics that have lost something since the
    /// last call. After a crash, these are the last ones.
    pub fn flush(&mut self, whole: impl Fn(&TopicInFile) -> Written) -> Result<(), WriteError> {
        let lossy = |in_file: &&TopicInFile| in_file.losses != in_file.reported;
        let totals: Vec<_> =
            self.topics.values().filter(lossy).flat_map(|in_file| totals(in_file, &whole)).collect();
        self.reserve(1024 * totals.len() as u64)?;
        for record in &totals {
            self.writer.write_metadata(record)?;
            self.end += 128;
        }
        self.topics.values_mut().for_each(|in_file| in_file.reported = in_file.losses);
        self.writer.flush()?;
        self.pending = 0;
        self.count_chunk();
        self.file.sync_data().map_err(|error| WriteError::Failed(error.to_string()))
    }

    /// Writes the totals and the end of the file.
    pub fn finish(mut self, whole: impl Fn(&TopicInFile) -> Written) -> Result<(), WriteError> {
        for record in self.topics.values().flat_map(|in_file| totals(in_file, &whole)) {
            self.writer.write_metadata(&record)?;
        }
        let metadata =
            [("serialized_metadata", self.rosbag2_metadata()), ("ROS_DISTRO", metadata::distribution())];
        let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        self.writer.write_metadata(&Metadata { name: "rosbag2".to_owned(), metadata })?;
        self.writer.finish()?;
        let failed = |error: io::Error| WriteError::Failed(error.to_string());
        let mut sink = self.writer.into_inner().into_inner();
        sink.flush().map_err(failed)?;
        let position = self.position.load(Ordering::Relaxed);
        if (position..u64::MAX).contains(&self.reserved) && self.reserved > position {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Where it fails, the room stays reserved until the file is removed.
            let _kept = fallocate(&self.file, flags, position, self.reserved - position);
        }
        self.file.sync_all().map_err(failed)
    }

    /// Returns what the metadata of the bag says of it.
    pub fn info(&self) -> FileInfo {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        FileInfo { name, times: self.times, messages: self.messages }
    }

    /// Returns what rosbag2 writes into a file. Version 8 has the policies of a QoS as numbers, which all versions read.
    fn rosbag2_metadata(&self) -> String {
        let topics = self.topics.values().filter_map(|TopicInFile { topic, written, channels, .. }| {
            let qos = channels.as_ref()?.qos.as_str().into();
            Some(TopicInfo { topic, qos, messages: written.messages })
        });
        metadata::encode(8, &[self.info()], topics).to_string()
    }
}

/// Returns the records of a topic's totals: of this file, and of the recording.
fn totals(in_file: &TopicInFile, whole: impl Fn(&TopicInFile) -> Written) -> [Metadata; 2] {
    let name = &in_file.topic.name;
    let file = in_file.written.totals(name, Scope::File, in_file.lost());
    let recording = whole(in_file).totals(name, Scope::Recording, in_file.losses);
    [file, recording].map(|totals| Metadata { name: TOTALS.to_owned(), metadata: totals.to_metadata() })
}
