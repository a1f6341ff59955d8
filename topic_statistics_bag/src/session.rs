// SPDX-License-Identifier: Apache-2.0

//! A session reads a bag once: the input is messages in the order of the files, the output is windows in time order.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use topic_statistics_core::{record::transport::Gid, Timestamp, Window, WindowStatistics};

use crate::{
    error::{BagError, NoteKind, Notes},
    gaps::Gaps,
    message::{ChannelKey, Message},
    options::{BagClock, ReadOptions},
    order::{Order, Timed},
    proof::Publisher,
    qos,
    recording::RecordingInfo,
    runs::{Place, Runs},
    topic::{ReadClock, Stamps, Topic},
};

/// A finished window of a topic.
#[derive(Debug)]
#[non_exhaustive]
pub struct TopicWindow<'a> {
    /// The topic, with its totals up to the end of this window.
    pub topic: &'a Topic,
    /// The figures of the window. All times in the figures are on the clock of the windows, which never steps.
    ///
    /// If a part of a file could not be read, the figures of the windows in this period are unknown: the count is not
    /// exact, and the rate and all metrics are NaN. The totals do not count the unread messages as lost.
    pub statistics: WindowStatistics,
    /// Whether the window has the full length. The first window of a topic starts with the first message of the topic,
    /// and the last window of all topics ends with the bag. The counts of these shorter windows are right, but not
    /// their rates.
    pub is_whole: bool,
}

/// The progress of a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of bytes that were read or skipped so far, in all files.
    pub done: u64,
    /// The total size of all files, in bytes.
    pub total: u64,
    /// The number of messages of the selected topics that were read so far.
    pub messages: u64,
}

/// A visitor, whose methods are called while a bag is read. Each method returns whether to continue. After `Break`, the
/// reading ends as if the bag ended there.
pub trait Visitor {
    /// Called when a window of a topic has ended. Windows are passed in the order of their ends.
    fn window(&mut self, _window: &TopicWindow<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Called when the progress has changed, at most a few times per megabyte.
    fn progress(&mut self, _progress: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A visitor that ignores the windows. The figures over all windows are in [`BagStatistics`](crate::BagStatistics).
impl Visitor for () {}

/// A channel of the bag: a topic, or one publisher of a topic.
#[derive(Debug)]
struct Channel {
    topic: usize,
    publisher: Option<Publisher>,
    /// The complete sequence number of the last message. The file has only the lower 32 bits of this number.
    number: Option<u64>,
}

/// The definition of a channel in a file.
#[derive(Clone, Debug)]
pub(crate) struct ChannelDefinition<'a> {
    pub(crate) topic: &'a str,
    pub(crate) message_type: Option<&'a str>,
    pub(crate) stamps: Stamps,
    pub(crate) publisher: Option<Publisher>,
    /// The QoS of the topic's publishers, as rosbag2 writes it. Empty if the QoS is unknown.
    pub(crate) offered_qos: &'a str,
}

/// A session, which reads a bag once.
pub(crate) struct Session<'a> {
    options: &'a ReadOptions,
    visitor: &'a mut dyn Visitor,
    period: i64,
    /// The earliest log time that is read.
    from: i64,
    /// The end (exclusive) of the log times that are read.
    to: i64,
    clock: ReadClock,
    order: Order,
    gaps: Gaps,
    runs: Runs,
    /// How much is added to the times of the current run of the bag, so that they follow the previous run.
    shift: i64,
    /// Whether messages may be missing after the messages that wait in `runs`.
    is_missing_behind_held: bool,
    pub(crate) topics: Vec<Topic>,
    channels: Vec<Channel>,
    by_name: HashMap<String, usize>,
    by_publisher: HashMap<(usize, Option<(Gid, bool)>), ChannelKey>,
    /// The start and end of the current window. `None` before the first message.
    window: Option<(i64, i64)>,
    /// The earliest log time in the bag, of any topic. `last` is the latest log time.
    start: Option<i64>,
    last: Option<i64>,
    first: Option<i64>,
    latest: i64,
    pub(crate) notes: Notes,
    pub(crate) recording: RecordingInfo,
    has_too_many: bool,
    pub(crate) messages: u64,
    /// The path of the current file.
    path: PathBuf,
    /// The first file with times of another clock, and the number of messages with such a time.
    other_clock: Option<(PathBuf, u64)>,
    /// The total size of the files before the current file, in bytes. `total` is the size of all files.
    done: u64,
    total: u64,
}

impl<'a> Session<'a> {
    /// The largest number of topics that are read.
    pub(crate) const MAX_TOPICS: usize = 2048;
    /// The largest number of channels that are read, for the publishers of all topics.
    const MAX_CHANNELS: usize = 1 << 16;
    /// A silence of more windows becomes one long window, because a file can claim a silence of centuries.
    const MAX_SILENT: i64 = 600;

    /// Starts a session. `start` is the first log time of the bag, and `total` is the size of all files in bytes.
    pub(crate) fn new(
        options: &'a ReadOptions,
        visitor: &'a mut dyn Visitor,
        start: i64,
        total: u64,
    ) -> Result<Self, BagError> {
        let is_possible = (ReadOptions::MIN_PERIOD..=ReadOptions::MAX_PERIOD).contains(&options.period);
        let period = i64::try_from(options.period.as_nanos()).ok().filter(|_| is_possible);
        let period = period.ok_or(BagError::InvalidPeriod { period: options.period })?;
        let from = options.from.map_or(i64::MIN, |time| time.resolve(start));
        let to = options.to.map_or(i64::MAX, |time| time.resolve(start));
        if from >= to {
            return Err(BagError::EmptyRange { from, to });
        }
        Ok(Self {
            options,
            visitor,
            period,
            from,
            to,
            clock: ReadClock::default(),
            order: Order::default(),
            gaps: Gaps::default(),
            runs: Runs::default(),
            shift: 0,
            is_missing_behind_held: false,
            topics: vec![],
            channels: vec![],
            by_name: HashMap::new(),
            by_publisher: HashMap::new(),
            window: None,
            start: None,
            last: None,
            first: None,
            latest: 0,
            notes: Notes::default(),
            recording: RecordingInfo::default(),
            has_too_many: false,
            messages: 0,
            path: PathBuf::new(),
            other_clock: None,
            done: 0,
            total,
        })
    }

    /// Returns whether every byte has to be read and every checksum verified.
    pub(crate) fn verifies(&self) -> bool {
        self.options.verify
    }

    /// Returns whether compressed files are read without a limit on the size of their content.
    pub(crate) fn unpacks_all(&self) -> bool {
        self.options.unpack_all
    }

    /// Returns whether log times from `first` to `last`, both inclusive, overlap the selected part of the bag.
    pub(crate) fn wants_times(&self, first: i64, last: i64) -> bool {
        last >= self.from && first < self.to
    }

    /// Returns the selected range of log times: start (inclusive) and end (exclusive). `None` if the whole bag is read.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        (self.from > i64::MIN || self.to < i64::MAX).then_some((self.from, self.to))
    }

    /// Adds a channel. Returns `None` if the topic of the channel is not read.
    pub(crate) fn add_channel(
        &mut self,
        path: &Path,
        definition: &ChannelDefinition<'_>,
    ) -> Option<ChannelKey> {
        if self.options.topics.as_ref().is_some_and(|is_wanted| !is_wanted(definition.topic)) {
            return None;
        }
        let topic = match self.by_name.get(definition.topic) {
            Some(topic) => *topic,
            None if self.topics.len() >= Self::MAX_TOPICS => {
                self.too_many(path);
                return None;
            }
            None => {
                let ChannelDefinition { topic, message_type, stamps, offered_qos, .. } = *definition;
                let is_latched = qos::is_transient_local(offered_qos);
                self.topics.push(Topic::new(topic, message_type, stamps, is_latched, &self.clock));
                self.by_name.insert(topic.to_owned(), self.topics.len() - 1);
                self.topics.len() - 1
            }
        };
        let gid = definition.publisher.as_ref().map(|publisher| (publisher.gid, publisher.is_numbered));
        if let Some(key) = self.by_publisher.get(&(topic, gid)) {
            return Some(*key);
        }
        if self.channels.len() >= Self::MAX_CHANNELS {
            self.too_many(path);
            return None;
        }
        if let Some(publisher) = &definition.publisher {
            self.topics[topic].add_publisher(publisher);
        }
        let key = ChannelKey(self.channels.len() as u32);
        self.channels.push(Channel { topic, publisher: definition.publisher.clone(), number: None });
        self.by_publisher.insert((topic, gid), key);
        Some(key)
    }

    fn too_many(&mut self, path: &Path) {
        if !std::mem::replace(&mut self.has_too_many, true) {
            self.notes.add(path, NoteKind::TooMany { limit: Self::MAX_TOPICS });
        }
    }

    /// Accepts a log time of the bag. The message with this time may be of a topic that is not read.
    pub(crate) fn see(&mut self, log: i64) {
        let log = log.saturating_add(self.shift);
        self.start = Some(self.start.map_or(log, |start| start.min(log)));
        self.last = self.last.max(Some(log));
        if self.options.clock == BagClock::Log {
            self.gaps.accept(log);
        }
    }

    /// Tells the session that a part of a file could not be read, so messages may be missing. `start` is the earliest
    /// possible log time of these messages, if it is known.
    pub(crate) fn miss(&mut self, start: Option<i64>) {
        let start = start.map(|start| start.saturating_add(self.shift));
        self.gaps.begin(start.filter(|_| self.options.clock == BagClock::Log));
        self.is_missing_behind_held |= self.runs.is_holding();
    }

    /// Accepts a message in the order of the file.
    pub(crate) fn accept(&mut self, message: Message) -> ControlFlow<()> {
        match self.runs.accept(&message) {
            Place::Next => self.place(message),
            Place::Held => ControlFlow::Continue(()),
            Place::Late(held) => self.place_all(held),
            Place::NewRun(held) => {
                self.start_run(&held);
                self.place_all(held)
            }
        }
    }

    /// Starts a new run. The times of its messages are moved so that they follow the last message of the previous run.
    /// There is a gap between the two runs.
    fn start_run(&mut self, messages: &[Message]) {
        let first = messages.iter().map(|message| message.log.saturating_add(self.shift)).min();
        let (Some(first), Some(last)) = (first, self.last) else { return };
        let back = last.saturating_sub(first).max(0);
        self.notes.add(&self.path, NoteKind::NewRun { back: Duration::from_nanos(back.unsigned_abs()) });
        self.miss(None);
        self.shift = self.shift.saturating_add(back).saturating_add(1);
    }

    fn place_all(&mut self, messages: Vec<Message>) -> ControlFlow<()> {
        messages.into_iter().try_for_each(|message| self.place(message))?;
        if std::mem::take(&mut self.is_missing_behind_held) {
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
        let Some(channel) = self.channels.get(message.channel.0 as usize) else {
            return ControlFlow::Continue(());
        };
        let topic = &mut self.topics[channel.topic];
        topic.messages += 1;
        self.messages += 1;
        let [has_other_publish, has_other_header] =
            [message.publish, message.header].map(|time| message.is_of_other_clock(time));
        if has_other_publish || has_other_header {
            self.other_clock.get_or_insert_with(|| (self.path.clone(), 0)).1 += 1;
        }
        // A time of another clock is not shifted, because this clock does not go back when the log times go back.
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
            topic.without_time += 1;
            return ControlFlow::Continue(());
        }
        self.gaps.accept(time);
        match self.order.push(time, message) {
            Some(earliest) => self.record(&earliest),
            None => ControlFlow::Continue(()),
        }
    }

    /// Records a message. Messages have to be recorded in the order of their times on the clock of the windows.
    fn record(&mut self, timed: &Timed) -> ControlFlow<()> {
        let Timed { time, message, .. } = timed;
        if self.window.is_none_or(|(_, stop)| *time >= stop) {
            self.advance(*time)?;
        }
        let channel = &mut self.channels[message.channel.0 as usize];
        let topic = &mut self.topics[channel.topic];
        if self.window.is_some_and(|(start, _)| *time < start) {
            topic.misplaced += 1;
            return ControlFlow::Continue(());
        }
        self.first.get_or_insert(*time);
        self.latest = self.latest.max(*time);
        if self.window.is_some_and(|(start, _)| self.gaps.overlaps(start, time.saturating_add(1))) {
            self.clock.set(*time);
            topic.forget_last(&self.clock);
        }
        let publisher = channel.publisher.as_ref().map(|publisher| {
            let number = publisher.is_numbered.then(|| next_number(channel.number, message.sequence));
            (publisher.gid, number)
        });
        channel.number = publisher.and_then(|(_, number)| number).or(channel.number);
        topic.record(message, *time, publisher, &self.clock);
        ControlFlow::Continue(())
    }

    /// Returns the start of the window that contains a time.
    fn start_of(&self, time: i64) -> i64 {
        let origin = self.options.origin.as_nanoseconds();
        let since = i128::from(time) - i128::from(origin);
        let start = i128::from(time) - since.rem_euclid(i128::from(self.period));
        i64::try_from(start).unwrap_or(i64::MIN)
    }

    /// Ends the windows before a time. Then the current window is the window that contains this time.
    fn advance(&mut self, time: i64) -> ControlFlow<()> {
        let Some((_, mut stop)) = self.window else {
            let start = self.start_of(time);
            self.window = Some((start, start.saturating_add(self.period)));
            return ControlFlow::Continue(());
        };
        while time >= stop {
            self.end_windows(stop, true)?;
            let next = match (time - stop) / self.period {
                silent if silent > Self::MAX_SILENT => self.start_of(time),
                _ => stop.saturating_add(self.period),
            };
            self.window = Some((stop, next));
            if next <= stop {
                break; // the largest possible time is reached
            }
            stop = next;
        }
        ControlFlow::Continue(())
    }

    fn end_windows(&mut self, stop: i64, is_whole: bool) -> ControlFlow<()> {
        self.clock.set(stop);
        let start = self.window.map_or(stop, |(start, _)| start);
        let length = stop.saturating_sub(start);
        self.gaps.forget_before(start);
        // Only the last window includes the messages exactly at its end.
        let end = if is_whole { stop } else { stop.saturating_add(1) };
        let gap = self.gaps.overlaps(start, end).then(|| Window::from_nanoseconds(start, stop));
        let Self { topics, visitor, clock, .. } = self;
        for topic in topics {
            let Some(statistics) = topic.end_window(clock, gap) else { continue };
            let is_whole = is_whole && i128::from(length) <= statistics.length.as_nanos() as i128;
            visitor.window(&TopicWindow { topic, statistics, is_whole })?;
        }
        ControlFlow::Continue(())
    }

    /// Reports the progress to the visitor. `read` is the number of bytes that were read of the current file.
    pub(crate) fn progress(&mut self, read: u64) -> ControlFlow<()> {
        let done = self.done.saturating_add(read).min(self.total);
        self.visitor.progress(Progress { done, total: self.total, messages: self.messages })
    }

    /// Tells the session that the reading of a file starts.
    pub(crate) fn start_file(&mut self, path: &Path) {
        self.path = path.to_owned();
    }

    /// Tells the session that a file of `bytes` bytes was read.
    pub(crate) fn end_file(&mut self, bytes: u64) -> ControlFlow<()> {
        self.done = self.done.saturating_add(bytes);
        self.progress(0)
    }

    /// Ends the session and the current windows at the end of the bag. Returns the times of the first and the last
    /// message on the clock of the windows.
    pub(crate) fn finish(&mut self) -> Option<(Timestamp, Timestamp)> {
        let _ended_or_stopped = self.end();
        if let Some((path, messages)) = &self.other_clock {
            self.notes.add(path, NoteKind::OtherClock { messages: *messages });
        }
        let end = self.window.map_or(self.latest, |(start, _)| start.max(self.latest));
        let first = self.first?;
        // Messages of other topics can show that the bag starts before the first message that is read.
        let seen = self.start.filter(|_| self.options.clock == BagClock::Log).unwrap_or(first);
        let start = first.min(seen.max(self.from));
        Some((Timestamp::from_nanoseconds(start), Timestamp::from_nanoseconds(end)))
    }

    fn end(&mut self) -> ControlFlow<()> {
        let held = self.runs.take();
        self.place_all(held)?;
        self.gaps.finish();
        while let Some(timed) = self.order.pop() {
            self.record(&timed)?;
        }
        // Messages of other topics can show that the bag ends after the last message that is read.
        let seen = self.last.filter(|_| self.options.clock == BagClock::Log).unwrap_or(self.latest);
        self.latest = self.latest.max(seen.min(self.to.saturating_add(self.shift)));
        if self.window.is_some() {
            self.advance(self.latest)?;
            self.end_windows(self.latest, false)?;
        }
        ControlFlow::Continue(())
    }
}

/// Completes a sequence number from its lower 32 bits. Returns the number that is nearest to the last number.
fn next_number(last: Option<u64>, low: u32) -> u64 {
    match last {
        // The first number gets a high offset, so that a later message can have a lower number.
        None => u64::from(low) + (1 << 32),
        Some(last) => last.saturating_add_signed(i64::from(low.wrapping_sub(last as u32) as i32)),
    }
}
