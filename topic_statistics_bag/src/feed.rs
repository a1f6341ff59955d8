// SPDX-License-Identifier: Apache-2.0

//! Passes messages from the reader of a file to the [`Session`](crate::session::Session), which runs on another thread.
//!
//! The feed determines the time of each message on the clock of the windows, and sorts the messages by this time. It
//! stores the topics and channels of the bag, so the reader never waits for an answer of the session.

use std::{collections::HashMap, ops::ControlFlow, path::PathBuf, sync::mpsc::SyncSender, time::Duration};

use topic_statistics_core::record::transport::Gid;

use crate::{
    bytes::Bytes,
    channel_metadata::Publisher,
    data::Data,
    error::{BagError, NoteKind, Notes},
    gaps::{Gap, OpenGap},
    message::{ChannelKey, Message},
    options::{BagClock, ReadOptions},
    order::Order,
    qos,
    recording::RecordingInfo,
    runs::{Place, Runs},
    stamp::{HeaderStamp, Layout},
    topic::{Stamps, TopicDefinition},
};

/// An event for the session.
pub(crate) enum Event {
    /// The earliest log time of the selected part of the bag, of any topic, before the first message.
    Start(i64),
    /// A message, and its time on the clock of the windows, in the order of these times.
    Message(i64, Message),
    /// A message without a time on the clock of the windows.
    WithoutTime(ChannelKey),
    /// The start and the end of a period in which messages may be missing.
    Gap(Gap),
    /// A new topic. Its index is the number of topics before it.
    Topic(Box<TopicDefinition>),
    /// A new channel: the index of its topic, and its publisher if the bag names this publisher. The [`ChannelKey`] of
    /// the channel is the number of channels before it.
    Channel(usize, Option<Box<Publisher>>),
    Progress(Progress),
}

/// The progress of a reading.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The number of bytes that were read or skipped so far, and the size of all files, in bytes.
    pub done: u64,
    pub total: u64,
    /// The number of messages of the selected topics that were read so far.
    pub messages: u64,
}

/// The definition of a channel in a file.
pub(crate) struct ChannelDefinition<'a> {
    pub(crate) topic: &'a str,
    /// The type, and the encoding of its definition. The encoding is empty if there is no definition.
    pub(crate) message_type: Option<&'a str>,
    pub(crate) encoding: &'a str,
    /// The position of the stamp in messages of this type.
    pub(crate) stamp: HeaderStamp,
    pub(crate) is_cdr: bool,
    pub(crate) publisher: Option<Publisher>,
    /// The QoS of the topic's publishers, as rosbag2 writes it. Empty if the QoS is unknown.
    pub(crate) offered_qos: &'a str,
}

/// A channel whose topic is read.
#[derive(Clone)]
pub(crate) struct Channel {
    pub(crate) key: ChannelKey,
    /// The position of the header stamp. `None` if the data are not CDR.
    layout: Option<Option<Layout>>,
}

impl Channel {
    /// Returns whether the messages are CDR. Of other messages, only the length is measured.
    pub(crate) fn is_cdr(&self) -> bool {
        self.layout.is_some()
    }

    /// Reads the beginning of the data of a message. `length` is their length in the file.
    pub(crate) fn data(&self, bytes: &mut impl Bytes, length: u64) -> Data {
        match &self.layout {
            Some(layout) => Data::read(bytes, length, layout),
            None => Data::of_length(length),
        }
    }
}

/// The notes and other information about a bag after all files were read.
pub(crate) struct Found {
    pub(crate) notes: Notes,
    pub(crate) recording: RecordingInfo,
    /// The first and the last log time in the selected part of the bag, of any topic. `None` if the clock of the
    /// windows is not the log time.
    pub(crate) seen: Option<(i64, i64)>,
}

/// Connects the reader to the session. The reader adds messages to the feed, and the feed sends events to the session.
pub(crate) struct Feed<'a> {
    pub(crate) options: &'a ReadOptions,
    /// The earliest log time that is read.
    from: i64,
    /// The end (exclusive) of the log times that are read.
    to: i64,
    topics: HashMap<String, usize>,
    /// The channels by topic and publisher.
    channels: HashMap<(usize, Option<(Gid, bool)>), ChannelKey>,
    has_too_many: bool,
    runs: Runs,
    /// The nanoseconds that are added to the times of the current run, so that the run follows the previous run. A new
    /// run begins where the log times of the bag go back.
    shift: i64,
    /// Whether an unreadable part of the file follows the messages that wait in `runs`. If so, a gap begins after these
    /// messages.
    is_missing_behind_pending: bool,
    gap: OpenGap,
    order: Order,
    /// The earliest and the latest log time in the bag, of any topic.
    seen: Option<(i64, i64)>,
    /// Whether a message was passed to the session.
    has_started: bool,
    pub(crate) notes: Notes,
    pub(crate) recording: RecordingInfo,
    /// The number of messages of the selected topics in the selected part of the bag, so far.
    messages: u64,
    /// The current file.
    pub(crate) path: PathBuf,
    /// The first file in which a publish time or a stamp comes from a clock other than that of the log time, and the
    /// number of messages with such a time in all files.
    other_clock: Option<(PathBuf, u64)>,
    /// The total size of the files before the current file, in bytes. `total` is the size of all files.
    done: u64,
    total: u64,
    batch: Vec<Event>,
    sender: SyncSender<Vec<Event>>,
}

impl<'a> Feed<'a> {
    /// The largest number of topics that are read.
    pub(crate) const MAX_TOPICS: usize = 2048;
    /// The largest number of channels that are read, for all topics together.
    const MAX_CHANNELS: usize = 1 << 16;
    /// The largest number of batches that wait for the session.
    pub(crate) const WAITING: usize = 4;
    /// The number of events in a full batch.
    const BATCH: usize = 4096;

    /// Creates a feed. `start` is the first log time of the bag, and `total` is the size of all files in bytes.
    pub(crate) fn new(
        options: &'a ReadOptions,
        start: i64,
        total: u64,
        sender: SyncSender<Vec<Event>>,
    ) -> Result<Self, BagError> {
        let from = options.from.map_or(i64::MIN, |time| time.resolve(start));
        let to = options.to.map_or(i64::MAX, |time| time.resolve(start));
        if let (Some(start), Some(stop)) = (options.from, options.to) {
            if from >= to {
                return Err(BagError::EmptyRange { from: start, to: stop });
            }
        }
        Ok(Self {
            options,
            from,
            to,
            topics: HashMap::new(),
            channels: HashMap::new(),
            has_too_many: false,
            runs: Runs::default(),
            shift: 0,
            is_missing_behind_pending: false,
            gap: OpenGap::default(),
            order: Order::default(),
            seen: None,
            has_started: false,
            notes: Notes::default(),
            recording: RecordingInfo::default(),
            messages: 0,
            path: PathBuf::new(),
            other_clock: None,
            done: 0,
            total,
            batch: vec![],
            sender,
        })
    }

    /// Returns whether log times from `first` to `last`, both inclusive, overlap the selected part of the bag.
    pub(crate) fn wants_times(&self, first: i64, last: i64) -> bool {
        last >= self.from && first < self.to
    }

    /// Returns the selected range of log times: start (inclusive) and end (exclusive).
    pub(crate) fn range(&self) -> (i64, i64) {
        (self.from, self.to)
    }

    /// Adds a channel. Returns `None` if the topic of the channel is not read.
    pub(crate) fn add_channel(&mut self, definition: ChannelDefinition<'_>) -> Option<Channel> {
        let ChannelDefinition { topic, message_type, encoding, is_cdr, publisher, offered_qos, .. } =
            definition;
        let (stamps, layout) = match definition.stamp {
            HeaderStamp::At(layout) if is_cdr => (Stamps::Read, Some(layout)),
            HeaderStamp::NoHeader if is_cdr => (Stamps::NoHeader, None),
            _ => (Stamps::Unknown, None),
        };
        let topic_definition = || TopicDefinition {
            name: topic.to_owned(),
            message_type: message_type.map(str::to_owned),
            stamps,
            is_latched: qos::is_transient_local(offered_qos),
        };
        let key = self.channel_key(topic, publisher, topic_definition)?;
        self.recording.add_channel(topic, encoding, offered_qos);
        Some(Channel { key, layout: is_cdr.then_some(layout) })
    }

    fn channel_key(
        &mut self,
        name: &str,
        publisher: Option<Publisher>,
        definition: impl FnOnce() -> TopicDefinition,
    ) -> Option<ChannelKey> {
        if self.options.topics.as_ref().is_some_and(|is_wanted| !is_wanted(name)) {
            return None;
        }
        let topic = match self.topics.get(name) {
            Some(topic) => *topic,
            None if self.topics.len() >= Self::MAX_TOPICS => {
                self.too_many();
                return None;
            }
            None => {
                let topic = self.topics.len();
                self.topics.insert(name.to_owned(), topic);
                let _flow = self.push(Event::Topic(Box::new(definition())));
                topic
            }
        };
        let gid = publisher.as_ref().map(|publisher| (publisher.gid, publisher.is_numbered));
        if let Some(key) = self.channels.get(&(topic, gid)) {
            return Some(*key);
        }
        if self.channels.len() >= Self::MAX_CHANNELS {
            self.too_many();
            return None;
        }
        let key = ChannelKey(self.channels.len() as u32);
        let _flow = self.push(Event::Channel(topic, publisher.map(Box::new)));
        self.channels.insert((topic, gid), key);
        Some(key)
    }

    fn too_many(&mut self) {
        if !std::mem::replace(&mut self.has_too_many, true) {
            self.note(NoteKind::TooMany { limit: Self::MAX_TOPICS });
        }
    }

    /// Adds a note about the current file.
    pub(crate) fn note(&mut self, kind: NoteKind) {
        self.notes.add(&self.path, kind);
    }

    /// Accepts a log time of the bag, also of a topic that is not read.
    pub(crate) fn see(&mut self, log: i64) {
        let log = log.saturating_add(self.shift);
        let (first, last) = self.seen.unwrap_or((log, log));
        self.seen = Some((first.min(log), last.max(log)));
        if self.options.clock == BagClock::Log {
            self.close_gap(log);
        }
    }

    /// Begins a gap, because a part of a file could not be read. `times` are the first and the last possible log time
    /// of the missing messages, if these times are known.
    pub(crate) fn miss(&mut self, times: Option<(i64, i64)>) {
        let shifted = |time: i64| time.saturating_add(self.shift);
        let times = times.map(|(start, end)| (shifted(start), shifted(end)));
        self.gap.begin(times.filter(|_| self.options.clock == BagClock::Log));
        self.is_missing_behind_pending |= self.runs.has_pending();
    }

    fn close_gap(&mut self, time: i64) {
        if let Some(gap) = self.gap.end_at(time) {
            let _flow = self.push(Event::Gap(gap));
        }
    }

    /// Accepts the next message in the order of the file.
    pub(crate) fn add_message(&mut self, message: Message) -> ControlFlow<()> {
        match self.runs.place(&message) {
            Place::Next => self.place(message),
            Place::Held => ControlFlow::Continue(()),
            Place::Late(pending) => self.place_all(pending),
            Place::NewRun(pending) => {
                self.start_run(&pending);
                self.place_all(pending)
            }
        }
    }

    /// Starts a new run after the log times have gone back. Marks a gap between the previous run and the new run.
    fn start_run(&mut self, messages: &[Message]) {
        let first = messages.iter().map(|message| message.log.saturating_add(self.shift)).min();
        let (Some(first), Some((_, last))) = (first, self.seen) else { return };
        let back = last.saturating_sub(first).max(0);
        self.note(NoteKind::NewRun { back: Duration::from_nanos(back.unsigned_abs()) });
        self.miss(None);
        self.shift = self.shift.saturating_add(back).saturating_add(1);
    }

    fn place_all(&mut self, messages: Vec<Message>) -> ControlFlow<()> {
        messages.into_iter().try_for_each(|message| self.place(message))?;
        if std::mem::take(&mut self.is_missing_behind_pending) {
            self.miss(None);
        }
        ControlFlow::Continue(())
    }

    /// Adds a message at its time on the clock of the windows, if the message is in the selected part of the bag.
    fn place(&mut self, message: Message) -> ControlFlow<()> {
        self.see(message.log);
        if !self.wants_times(message.log, message.log) {
            return ControlFlow::Continue(());
        }
        self.messages += 1;
        let [has_other_publish, has_other_header] =
            [message.publish, message.header].map(|time| message.is_of_other_clock(time));
        if has_other_publish || has_other_header {
            self.other_clock.get_or_insert_with(|| (self.path.clone(), 0)).1 += 1;
        }
        // A time of another clock is not shifted, because the other clock does not go back when the log times go back.
        let shifted = |time: i64, is_other: bool| match time {
            time if time == 0 || is_other => time,
            time => time.saturating_add(self.shift),
        };
        let time = match self.options.clock {
            BagClock::Log => message.log.saturating_add(self.shift),
            BagClock::Publish => shifted(message.publish, has_other_publish),
            BagClock::Stamp => shifted(message.header, has_other_header),
        };
        // The publish time and the stamp are not shifted here: `Topic::record` moves all times of a message together.
        let message = Message {
            publish: if has_other_publish { 0 } else { message.publish },
            header: if has_other_header { 0 } else { message.header },
            ..message
        };
        // A time before 1970 is not valid on any clock, and 0 means that the time is unknown.
        if time < 0 || time == 0 && self.options.clock != BagClock::Log {
            return self.push(Event::WithoutTime(message.channel));
        }
        self.close_gap(time);
        match self.order.push(time, message) {
            Some(earliest) => self.push_message(earliest.time, earliest.message),
            None => ControlFlow::Continue(()),
        }
    }

    /// Reports the progress. `read` is the number of bytes that were read of the current file.
    pub(crate) fn progress(&mut self, read: u64) -> ControlFlow<()> {
        let done = self.done.saturating_add(read).min(self.total);
        self.push(Event::Progress(Progress { done, total: self.total, messages: self.messages }))?;
        self.flush()
    }

    /// Ends a file of `bytes` bytes.
    pub(crate) fn end_file(&mut self, bytes: u64) -> ControlFlow<()> {
        self.done = self.done.saturating_add(bytes);
        self.progress(0)
    }

    /// Passes all waiting messages to the session.
    pub(crate) fn finish(mut self) -> Found {
        let _flow = self.flush_waiting();
        if let Some((path, messages)) = &self.other_clock {
            self.notes.add(path, NoteKind::OtherClock { messages: *messages });
        }
        let seen = self.seen.filter(|_| self.options.clock == BagClock::Log);
        let seen =
            seen.map(|(first, last)| (first.max(self.from), last.min(self.to.saturating_add(self.shift))));
        Found { notes: self.notes, recording: self.recording, seen }
    }

    fn flush_waiting(&mut self) -> ControlFlow<()> {
        let pending = self.runs.take();
        self.place_all(pending)?;
        if let Some(gap) = self.gap.finish() {
            self.push(Event::Gap(gap))?;
        }
        while let Some(earliest) = self.order.pop() {
            self.push_message(earliest.time, earliest.message)?;
        }
        self.flush()
    }

    fn push_message(&mut self, time: i64, message: Message) -> ControlFlow<()> {
        if !std::mem::replace(&mut self.has_started, true) && self.options.clock == BagClock::Log {
            let start = self.seen.map_or(time, |(first, _)| first.max(self.from));
            self.push(Event::Start(start))?;
        }
        self.push(Event::Message(time, message))
    }

    /// Adds an event. Returns `Break` if the session has ended.
    fn push(&mut self, event: Event) -> ControlFlow<()> {
        self.batch.push(event);
        match self.batch.len() < Self::BATCH {
            true => ControlFlow::Continue(()),
            false => self.flush(),
        }
    }

    /// Passes the batch to the session. Waits if [`WAITING`](Self::WAITING) batches already wait for the session.
    /// Returns `Break` if the session has ended.
    pub(crate) fn flush(&mut self) -> ControlFlow<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(Self::BATCH));
        match self.sender.send(batch) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}
