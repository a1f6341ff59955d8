// SPDX-License-Identifier: Apache-2.0

//! A session computes the statistics of a bag: the input is messages in time order, the output is windows in time order.

use std::ops::ControlFlow;

use topic_statistics_core::{Timestamp, Window, WindowStatistics};

use crate::{
    channel_metadata::Publisher,
    error::BagError,
    feed::{Event, Progress},
    gaps::Gaps,
    message::Message,
    options::ReadOptions,
    topic::{ReadClock, Topic},
};

pub struct TopicWindow<'a> {
    /// The topic, with its totals up to the end of this window.
    pub topic: &'a Topic,
    /// The figures of the window, on the clock of the windows ([`ReadOptions::clock()`]). If messages of the window can
    /// be in a part of a file that could not be read, the count is not exact, and the rate and all metrics are NaN.
    pub statistics: WindowStatistics,
    /// Whether the window has the full length. The first window of a topic and the last window of the bag are shorter:
    /// their counts are right, but their rates are not.
    pub is_whole: bool,
}

/// The methods are called while a bag is read. After `Break`, the reading ends as if the bag ended there.
pub trait Visitor {
    /// Called before the first window with the log time of the first message of the selected part of the bag, of any
    /// topic. Not called if the clock of the windows is not the log time.
    fn start(&mut self, _start: Timestamp) {}

    /// Called when a window of a topic has ended, in the order of the ends.
    fn window(&mut self, _window: &TopicWindow<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Called when the progress has changed, at most a few times per megabyte.
    fn progress(&mut self, _progress: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Ignores the windows. The figures over all windows are in [`BagStatistics`](crate::BagStatistics).
impl Visitor for () {}

struct Channel {
    topic: usize,
    publisher: Option<Publisher>,
    /// The complete sequence number of the last message. The file has only the lower 32 bits.
    number: Option<u64>,
}

pub(crate) struct Session<'a> {
    options: &'a ReadOptions,
    visitor: &'a mut dyn Visitor,
    period: i64,
    clock: ReadClock,
    gaps: Gaps,
    pub(crate) topics: Vec<Topic>,
    channels: Vec<Channel>,
    /// The start and end of the current window. `None` before the first message.
    window: Option<(i64, i64)>,
    first: Option<i64>,
    latest: i64,
}

impl<'a> Session<'a> {
    /// The largest number of ordinary windows between two messages. The rest of a longer silence becomes one long window,
    /// because a file can claim a silence of centuries. It is the largest `raise_after` of expectations, so that a
    /// silence can violate a condition in as many windows.
    const MAX_SILENT: u32 = 1000;

    pub(crate) fn new(options: &'a ReadOptions, visitor: &'a mut dyn Visitor) -> Result<Self, BagError> {
        let is_possible = (ReadOptions::MIN_PERIOD..=ReadOptions::MAX_PERIOD).contains(&options.period);
        let period = i64::try_from(options.period.as_nanos()).ok().filter(|_| is_possible);
        let period = period.ok_or(BagError::InvalidPeriod { period: options.period })?;
        Ok(Self {
            options,
            visitor,
            period,
            clock: ReadClock::default(),
            gaps: Gaps::default(),
            topics: vec![],
            channels: vec![],
            window: None,
            first: None,
            latest: 0,
        })
    }

    pub(crate) fn handle(&mut self, event: Event) -> ControlFlow<()> {
        match event {
            Event::Start(start) => self.visitor.start(Timestamp::from_nanoseconds(start)),
            Event::Message(time, message) => return self.record(time, &message),
            Event::Progress(progress) => return self.visitor.progress(progress),
            Event::WithoutTime(channel) => {
                let topic = &mut self.topics[self.channels[channel.0 as usize].topic];
                topic.messages += 1;
                topic.without_time += 1;
            }
            Event::Gap(gap) => self.gaps.add(gap),
            Event::Topic(definition) => self.topics.push(Topic::new(*definition, &self.clock)),
            Event::Channel(topic, publisher) => {
                let publisher = publisher.map(|publisher| *publisher);
                publisher.iter().for_each(|publisher| self.topics[topic].add_publisher(publisher));
                self.channels.push(Channel { topic, publisher, number: None });
            }
        }
        ControlFlow::Continue(())
    }

    /// Records a message. Messages have to be recorded in the order of their times on the clock of the windows.
    fn record(&mut self, time: i64, message: &Message) -> ControlFlow<()> {
        if self.window.is_none_or(|(_, stop)| time >= stop) {
            self.advance(time)?;
        }
        let channel = &mut self.channels[message.channel.0 as usize];
        let topic = &mut self.topics[channel.topic];
        topic.messages += 1;
        if self.window.is_some_and(|(start, _)| time < start) {
            topic.misplaced += 1;
            return ControlFlow::Continue(());
        }
        self.first.get_or_insert(time);
        self.latest = self.latest.max(time);
        if self.gaps.separates(topic.latest, time) {
            self.clock.set(time);
            topic.forget_last(&self.clock);
        }
        let publisher = channel.publisher.as_ref().map(|publisher| {
            let number = publisher.is_numbered.then(|| next_number(channel.number, message.sequence));
            (publisher.gid, number)
        });
        channel.number = publisher.and_then(|(_, number)| number).or(channel.number);
        topic.record(message, time, publisher, &self.clock);
        ControlFlow::Continue(())
    }

    fn start_of(&self, time: i64) -> i64 {
        let origin = self.options.origin.as_nanoseconds();
        let since = i128::from(time) - i128::from(origin);
        let start = i128::from(time) - since.rem_euclid(i128::from(self.period));
        i64::try_from(start).unwrap_or(i64::MIN)
    }

    /// Ends the windows before a time. After that, the current window contains this time.
    fn advance(&mut self, time: i64) -> ControlFlow<()> {
        let Some((_, mut stop)) = self.window else {
            let start = self.start_of(time);
            self.window = Some((start, start.saturating_add(self.period)));
            return ControlFlow::Continue(());
        };
        let mut ended = 0;
        while time >= stop {
            self.end_windows(stop, true)?;
            ended += 1;
            let next = stop.saturating_add(self.period);
            let next = if ended > Self::MAX_SILENT { next.max(self.start_of(time)) } else { next };
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
        // Only the last window includes the messages exactly at its end.
        let end = if is_whole { stop } else { stop.saturating_add(1) };
        let gap = self.gaps.overlaps(start, end).then(|| Window::from_nanoseconds(start, stop));
        let Self { topics, visitor, clock, gaps, .. } = self;
        for topic in topics {
            let is_separated = gaps.separates(topic.latest, end - 1);
            let Some(statistics) = topic.end_window(clock, gap, is_separated) else { continue };
            let is_whole = is_whole && i128::from(length) <= statistics.length.as_nanos() as i128;
            visitor.window(&TopicWindow { topic, statistics, is_whole })?;
        }
        gaps.forget_before(stop);
        ControlFlow::Continue(())
    }

    /// Ends the current windows at the end of the bag. `seen` has the first and the last log time in the selected part
    /// of the bag, including messages of topics that are not read. It is `None` if the clock of the windows is not the
    /// log time.
    ///
    /// Returns the times of the first and the last message on the clock of the windows.
    pub(crate) fn finish(&mut self, seen: Option<(i64, i64)>) -> Option<(Timestamp, Timestamp)> {
        self.latest = seen.map_or(self.latest, |(_, last)| self.latest.max(last));
        if self.window.is_some() && self.advance(self.latest).is_continue() {
            let _flow = self.end_windows(self.latest, false);
        }
        let end = self.window.map_or(self.latest, |(start, _)| start.max(self.latest));
        let first = self.first?;
        let start = seen.map_or(first, |(start, _)| first.min(start));
        Some((Timestamp::from_nanoseconds(start), Timestamp::from_nanoseconds(end)))
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
