// SPDX-License-Identifier: Apache-2.0

//! A file of a recording, in the MCAP format.
//!
//! The disk space for the end of the file is reserved before each message, so that the file can be completed even if
//! the disk becomes full. Each chunk is written as a whole. So after a crash, a reader can read the file up to the last
//! chunk.

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
    fs::{fallocate, flock, FallocateFlags, FlockOperation},
    io::Errno,
};
use topic_statistics_core::record::transport::Gid;
use topic_statistics_observe::recorded::{Scope, TOTALS};

use super::{
    metadata::{self, FileInfo},
    options::Options,
    topic::{QueuedMessage, RecordedTopic},
    totals::{Losses, Written},
    RecordError,
};

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk is full, but the end of the file can still be written, in the space reserved for it.
    #[error("the disk is full")]
    Full,
    /// The end of the file cannot be written.
    #[error("{0}")]
    Failed(String),
}

impl From<McapError> for WriteError {
    fn from(error: McapError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A buffered file that counts the bytes written to it.
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

pub struct TopicInFile {
    pub topic: Arc<RecordedTopic>,
    pub written: Written,
    /// The losses of the topic up to the start of this file.
    before: Losses,
    /// The losses of the topic up to the last message of this file.
    pub losses: Losses,
    reported: Losses,
    /// The properties of the topic's channels. `None` if the file has only losses of the topic, and no message.
    channels: Option<Channels>,
}

/// The properties that all channels of a topic have in a file. The QoS is that of the publishers when the topic is
/// added to the file. It is the same in rosbag2's metadata, because the library rosbags ignores a channel whose QoS
/// differs from this metadata.
#[derive(Clone)]
struct Channels {
    schema: u16,
    /// The result of [`RecordedTopic::offered_qos`] when the topic was added to the file.
    qos: String,
}

/// A function that returns the counts of a topic in the whole recording.
type Whole = fn(&TopicInFile) -> (Written, Losses);

impl TopicInFile {
    pub fn lost(&self) -> Losses {
        self.losses.since(self.before)
    }
}

pub struct BagFile {
    path: PathBuf,
    /// The time at which the file was started: its duration is counted from this time.
    pub started: Instant,
    file: File,
    writer: Writer<NoSeek<Sink>>,
    position: Arc<AtomicU64>,
    /// The position in the file up to which disk space is reserved. `u64::MAX` if the file system cannot reserve space.
    reserved: u64,
    /// The size of the chunk that is not written yet, in bytes.
    pending: u64,
    /// The maximum size of the end of the file, in bytes.
    end: u64,
    pub topics: BTreeMap<usize, TopicInFile>,
    channels: HashMap<(usize, Gid), u16>,
    times: Option<(u64, u64)>,
    pub messages: u64,
}

impl BagFile {
    /// The uncompressed size at which a chunk is written, in bytes.
    const CHUNK: u64 = 1 << 20;
    /// The disk space that is reserved in one call, in bytes.
    const RESERVE: u64 = 16 << 20;
    /// The bytes that a message needs in addition to its data: its header, and its entry in the index.
    const MESSAGE: u64 = 64;
    /// The maximum number of channels in a file: one channel for each publisher of each topic.
    const MAX_CHANNELS: usize = 1 << 15;

    pub fn create(path: &Path, options: &Options) -> Result<Self, RecordError> {
        let create = |source| RecordError::Create { path: path.to_owned(), source };
        let file = File::options().write(true).create_new(true).open(path).map_err(create)?;
        let position = Arc::<AtomicU64>::default();
        let copy = file.try_clone().map_err(create)?;
        let sink = Sink { file: BufWriter::new(copy), written: Arc::clone(&position) };
        // The lock shows other processes that the file is being written. An error is ignored: not all file systems
        // support locks.
        let _locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let writer = Self::options(options)
            // Without seeking, a chunk is written only when it is complete.
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

    pub fn options(options: &Options) -> WriteOptions {
        WriteOptions::new()
            .profile("ros2")
            .library(concat!("topic_monitor ", env!("CARGO_PKG_VERSION")))
            .compression(options.compression.of_mcap())
            .compression_threads(0)
            .chunk_size(Some(Self::CHUNK))
    }

    pub fn is_at_limit(&self, options: &Options) -> bool {
        let size = self.position.load(Ordering::Relaxed) + self.pending; // the present chunk is not compressed yet
        options.max_size.is_some_and(|max| self.messages > 0 && size >= max)
            || options.max_duration.is_some_and(|max| self.started.elapsed() >= max)
    }

    /// Returns the time until the file reaches the limit of duration. `None` without such a limit.
    pub fn time_left(&self, options: &Options) -> Option<Duration> {
        Some(options.max_duration?.saturating_sub(self.started.elapsed()))
    }

    /// Writes a message. `before` has the losses of the topic at the end of the previous file.
    pub fn write(&mut self, message: &QueuedMessage, before: Losses) -> Result<(), WriteError> {
        let size = message.data.len() as u64 + Self::MESSAGE;
        self.reserve(size)?;
        let channel_id = self.channel(message, before)?;
        let position = self.position.load(Ordering::Relaxed);
        let header = MessageHeader {
            channel_id,
            sequence: message.number.unwrap_or(0) as u32, // the lower 32 bits of the sequence number
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
        message.topic.add_written(message.log_time, message.data.len());
        Ok(())
    }

    /// Counts the bytes that the index of a chunk needs at the end of the file.
    fn count_chunk(&mut self) {
        self.end += 128 + 10 * self.channels.len() as u64;
    }

    /// Reserves disk space for `more` bytes, and for the end of the file after these bytes.
    fn reserve(&mut self, more: u64) -> Result<(), WriteError> {
        // Compression can make data larger, but by less than an eighth.
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
            Err(_) => self.reserved = u64::MAX, // the file system cannot reserve space
        }
        Ok(())
    }

    /// Returns the channel of a message's publisher. Adds the channel if it is new.
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
        // The channel is written three times: in the chunk and, at the end of the file, in the summary and in rosbag2's
        // metadata.
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
        self.end += bytes + 2048; // 2048: two records of totals, and their index
        let channels = Channels { schema, qos: topic.offered_qos(false).to_string() };
        self.insert(topic, before, Some(channels.clone()));
        Ok(channels)
    }

    fn insert(&mut self, topic: &Arc<RecordedTopic>, before: Losses, channels: Option<Channels>) {
        let (topic, written) = (Arc::clone(topic), Written::default());
        let new = TopicInFile { topic, written, before, losses: before, reported: before, channels };
        self.topics.insert(new.topic.index, new);
    }

    /// Sets the losses of a topic at the end of the recording, including losses after the topic's last message.
    pub fn set_losses(&mut self, topic: &Arc<RecordedTopic>, before: Losses) {
        let losses = topic.losses();
        if losses != before && !self.topics.contains_key(&topic.index) {
            self.insert(topic, before, None);
        }
        if let Some(known) = self.topics.get_mut(&topic.index) {
            known.losses = losses;
        }
    }

    /// Writes the present chunk, and the totals of topics that have lost messages since the last call. If the program
    /// then crashes, a reader of the file finds these totals.
    pub fn flush(&mut self, whole: Whole) -> Result<(), WriteError> {
        let lossy = |in_file: &&TopicInFile| in_file.losses != in_file.reported;
        let totals: Vec<_> =
            self.topics.values().filter(lossy).flat_map(|in_file| totals(in_file, whole)).collect();
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

    pub fn add_metadata(&mut self, name: &str, metadata: BTreeMap<String, String>) -> Result<(), WriteError> {
        let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len() + 8).sum();
        self.reserve(bytes as u64 + 128)?;
        self.writer.write_metadata(&Metadata { name: name.to_owned(), metadata })?;
        // The writer wrote the present chunk before this metadata record.
        self.pending = 0;
        self.count_chunk();
        Ok(())
    }

    /// Writes the totals of all topics and the end of the file. `more` is another metadata record, of at most 1 kB.
    pub fn finish(mut self, more: Option<Metadata>, whole: Whole) -> Result<(), WriteError> {
        if let Some(more) = more {
            self.writer.write_metadata(&more)?;
        }
        for record in self.topics.values().flat_map(|in_file| totals(in_file, whole)) {
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
        // Frees the disk space reserved after the end. If this fails, the space is reserved until the file is removed.
        let _kept = self.file.set_len(position);
        self.file.sync_all().map_err(failed)
    }

    pub fn info(&self) -> FileInfo {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        FileInfo { name, times: self.times, messages: self.messages }
    }

    /// Returns the metadata that rosbag2 writes into each file. It has version 8: all versions of rosbag2 can read the
    /// QoS in this version.
    fn rosbag2_metadata(&self) -> String {
        let topics = self.topics.values().filter_map(|TopicInFile { topic, written, channels, .. }| {
            let qos = channels.as_ref()?.qos.as_str().into();
            Some(topic.info(qos, written.messages))
        });
        metadata::encode(8, &[self.info()], topics).to_string()
    }
}

/// Returns the two metadata records with a topic's totals: for this file, and for the whole recording.
fn totals(in_file: &TopicInFile, whole: Whole) -> [Metadata; 2] {
    let name = &in_file.topic.name;
    let file = in_file.written.totals(name, Scope::File, in_file.lost());
    let (written, losses) = whole(in_file);
    let recording = written.totals(name, Scope::Recording, losses);
    [file, recording].map(|totals| Metadata { name: TOTALS.to_owned(), metadata: totals.to_metadata() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{options::tests::options, queue::Queue, topic::tests};

    #[test]
    fn publishers_are_bounded_and_known_ones_go_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.mcap");
        let mut file = BagFile::create(&path, &options(&path)).unwrap();
        let topic = Arc::new(tests::topic(0, &Arc::new(Queue::new(0))));
        let gid = |publisher: u32| u128::from(publisher).to_be_bytes();
        let write = |file: &mut BagFile, publisher| {
            let message = QueuedMessage { publisher: gid(publisher), ..tests::message(&topic, 0, 1, 0) };
            file.write(&message, Losses::NONE).map_err(|error| error.to_string())
        };
        assert_eq!(write(&mut file, 0), Ok(()));
        let channel = file.channels[&(0, gid(0))];
        file.channels.extend((1..32_767).map(|publisher| ((0, gid(publisher)), channel)));
        assert_eq!(write(&mut file, 32_767), Ok(()));
        assert_eq!(write(&mut file, 32_768), Err("more than 32768 publishers".to_owned()));
        assert_eq!(write(&mut file, 7), Ok(()));
    }
}
