// SPDX-License-Identifier: Apache-2.0

//! A reading of a bag: messages go in in the order of the files, windows come out in the order of time.

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

/// A window of a topic that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct TopicWindow<'a> {
    /// The topic, with its totals up to now.
    pub topic: &'a Topic,
    /// The figures. The times are on the clock of the windows, on which no step happens.
    ///
    /// If a part of a file could not be read, nothing is known of the windows of that time: the count is not exact, the
    /// rate and all metrics are NaN. What is missing there is not lost in the totals.
    pub statistics: WindowStatistics,
    /// Whether it has the whole length. The first window of a topic starts with its first message, and the last one of
    /// all topics ends with the bag. What they count is right; they are no measure of a rate.
    pub is_whole: bool,
}

/// How far a reading is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The bytes of all files that are done: read or skipped.
    pub done: u64,
    /// The bytes of all files.
    pub total: u64,
    /// Messages read, of the selected topics.
    pub messages: u64,
}

/// What a reading of a bag calls. Each method returns whether to go on; after `Break` the reading ends, as if the bag
/// ended there.
pub trait Visitor {
    /// A window of a topic has ended. Windows come in the order of their ends.
    fn window(&mut self, _window: &TopicWindow<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Some more was read: a few times per megabyte at most.
    fn progress(&mut self, _progress: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Ignores the windows: what is over all of them is in [`BagStatistics`](crate::BagStatistics).
impl Visitor for () {}

/// A channel of the bag: a topic, or one of its publishers.
#[derive(Debug)]
struct Channel {
    topic: usize,
    publisher: Option<Publisher>,
    /// The sequence number of its last message, with the bits that the file has no room for.
    number: Option<u64>,
}

/// What a file says of a channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelDefinition<'a> {
    pub(crate) topic: &'a str,
    pub(crate) message_type: Option<&'a str>,
    pub(crate) stamps: Stamps,
    pub(crate) publisher: Option<Publisher>,
    /// The QoS of the topic's publishers, as rosbag2 writes it. Empty if unknown.
    pub(crate) offered_qos: &'a str,
}

/// A reading of a bag.
pub(crate) struct Session<'a> {
    options: &'a ReadOptions,
    visitor: &'a mut dyn Visitor,
    period: i64,
    /// The log times that are read: from, and before.
    from: i64,
    to: i64,
    clock: ReadClock,
    order: Order,
    gaps: Gaps,
    runs: Runs,
    /// By how much the times of this run of the bag are later here.
    shift: i64,
    /// Whether messages may be missing behind those that are held.
    is_missing_behind_held: bool,
    pub(crate) topics: Vec<Topic>,
    channels: Vec<Channel>,
    by_name: HashMap<String, usize>,
    by_publisher: HashMap<(usize, Option<(Gid, bool)>), ChannelKey>,
    /// The window under way. None before the first message.
    window: Option<(i64, i64)>,
    /// The earliest and the latest log time of the bag, of any topic.
    start: Option<i64>,
    last: Option<i64>,
    first: Option<i64>,
    latest: i64,
    pub(crate) notes: Notes,
    pub(crate) recording: RecordingInfo,
    has_too_many: bool,
    pub(crate) messages: u64,
    /// The file that is read.
    path: PathBuf,
    /// The first file with times of another clock, and how many messages have one.
    other_clock: Option<(PathBuf, u64)>,
    /// Bytes of the files before this one, and of all.
    done: u64,
    total: u64,
}

impl<'a> Session<'a> {
    /// How many topics are read.
    pub(crate) const MAX_TOPICS: usize = 2048;
    /// How many channels are read: publishers of all topics.
    const MAX_CHANNELS: usize = 1 << 16;
    /// After that many windows without any message, the rest of the silence is one window. A file can claim centuries.
    const MAX_SILENT: i64 = 600;

    /// Starts a reading. `start`: the first log time of the bag.
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

    /// Returns whether every byte is to be read.
    pub(crate) fn verifies(&self) -> bool {
        self.options.verify
    }

    /// Returns whether compressed files are read whatever their size.
    pub(crate) fn unpacks_all(&self) -> bool {
        self.options.unpack_all
    }

    /// Returns whether messages of these log times, both inclusive, can be wanted.
    pub(crate) fn wants_times(&self, first: i64, last: i64) -> bool {
        last >= self.from && first < self.to
    }

    /// Returns the range of log times that are read, if it is not all: from, and before.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        (self.from > i64::MIN || self.to < i64::MAX).then_some((self.from, self.to))
    }

    /// Adds a channel. None if its topic is not read.
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

    /// Accepts a log time of the bag, whether its message is read or not.
    pub(crate) fn see(&mut self, log: i64) {
        let log = log.saturating_add(self.shift);
        self.start = Some(self.start.map_or(log, |start| start.min(log)));
        self.last = self.last.max(Some(log));
        if self.options.clock == BagClock::Log {
            self.gaps.accept(log);
        }
    }

    /// Accepts that a part of a file could not be read: messages may be missing. `start`: the earliest log time that
    /// they can have, if it is known.
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

    /// Starts a run: its messages follow the last one of the run before, and nothing is known of the time between.
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

    /// Gives a message its place on the clock of the windows.
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
        // What is of another clock does not go back with the log times.
        let shifted = |time: i64, is_other: bool| match time {
            time if time == 0 || is_other => time,
            time => time.saturating_add(self.shift),
        };
        let time = match self.options.clock {
            BagClock::Log => message.log.saturating_add(self.shift),
            BagClock::Publish => shifted(message.publish, has_other_publish),
            BagClock::Stamp => shifted(message.header, has_other_header),
        };
        // Differences to the log time remain.
        let message = Message {
            publish: if has_other_publish { 0 } else { message.publish },
            header: if has_other_header { 0 } else { message.header },
            ..message
        };
        // A time before 1970 is of no clock; 0 is unknown.
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

    /// Records a message, in the order of the clock.
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

    /// Returns the start of the window that has a time.
    fn start_of(&self, time: i64) -> i64 {
        let origin = self.options.origin.as_nanoseconds();
        let since = i128::from(time) - i128::from(origin);
        let start = i128::from(time) - since.rem_euclid(i128::from(self.period));
        i64::try_from(start).unwrap_or(i64::MIN)
    }

    /// Ends the windows up to a time. The window that has it is under way then.
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
                break; // the end of time
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
        // The last window has the messages at its stop, too.
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

    /// Reports how far the present file is.
    pub(crate) fn progress(&mut self, read: u64) -> ControlFlow<()> {
        let done = self.done.saturating_add(read).min(self.total);
        self.visitor.progress(Progress { done, total: self.total, messages: self.messages })
    }

    /// Starts a file.
    pub(crate) fn start_file(&mut self, path: &Path) {
        self.path = path.to_owned();
    }

    /// Ends a file of that many bytes.
    pub(crate) fn end_file(&mut self, bytes: u64) -> ControlFlow<()> {
        self.done = self.done.saturating_add(bytes);
        self.progress(0)
    }

    /// Ends the reading: the windows that are under way end with the bag. Returns the times of the first and the last
    /// message on the clock of the windows.
    pub(crate) fn finish(&mut self) -> Option<(Timestamp, Timestamp)> {
        let _ended_or_stopped = self.end();
        if let Some((path, messages)) = &self.other_clock {
            self.notes.add(path, NoteKind::OtherClock { messages: *messages });
        }
        let end = self.window.map_or(self.latest, |(start, _)| start.max(self.latest));
        let first = self.first?;
        // Other topics show that the bag starts before the first message that is read.
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
        // Other topics show that the bag is longer than the last message that is read.
        let seen = self.last.filter(|_| self.options.clock == BagClock::Log).unwrap_or(self.latest);
        self.latest = self.latest.max(seen.min(self.to.saturating_add(self.shift)));
        if self.window.is_some() {
            self.advance(self.latest)?;
            self.end_windows(self.latest, false)?;
        }
        ControlFlow::Continue(())
    }
}

/// Completes a sequence number, whose lower 32 bits the file has: returns the number nearest to the last one.
fn next_number(last: Option<u64>, low: u32) -> u64 {
    match last {
        // Room for an earlier one.
        None => u64::from(low) + (1 << 32),
        Some(last) => last.saturating_add_signed(i64::from(low.wrapping_sub(last as u32) as i32)),
    }
}
