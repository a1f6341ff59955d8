// SPDX-License-Identifier: Apache-2.0

//! A topic of a bag: the core's recorder, driven with the times of the messages.

use std::sync::atomic::{AtomicI64, Ordering};

use topic_statistics_core::{
    collector::FirstPeriod,
    distributions::Distributions,
    record::{
        clock::Clock,
        recorder::{Recorder, RecorderOptions},
        source::WindowedCollector,
        transport::{Delivery, Gid, ReceivedTimestamp, Transport},
    },
    Metric, PublisherTotals, Summary, Timestamp, Totals, Window, WindowStatistics,
};
use topic_statistics_observe::recording::Merged;

use crate::{message::Message, proof::Publisher};

/// The metrics that a bag can have. What a callback does is in no bag.
pub const METRICS: [Metric; 7] = [
    Metric::MessageAge,
    Metric::MessagePeriod,
    Metric::HeaderToSource,
    Metric::SourceToReceive,
    Metric::PublicationSeqGap,
    Metric::TimeSinceLastMessage,
    Metric::MessageSize,
];

/// What a bag reports with each message: the times are there or 0, the number is there or `u64::MAX`.
static TRANSPORT: Transport =
    Transport { name: "the bag", received: ReceivedTimestamp::Reception, has_sequence_numbers: true };

/// The clock of the windows: it stands at the time of the message that is read, or of the window that ends. System time
/// is the same time, so the core sees no step.
#[derive(Debug, Default)]
pub(crate) struct ReadClock(AtomicI64);

impl ReadClock {
    pub(crate) fn set(&self, time: i64) {
        self.0.store(time, Ordering::Relaxed);
    }
}

impl Clock for ReadClock {
    fn monotonic(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn system(&self) -> i64 {
        self.monotonic()
    }

    fn suspended(&self) -> i64 {
        0
    }
}

/// What is known of the header stamps of a topic's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stamps {
    /// They are read.
    Read,
    /// The type has no header.
    NoHeader,
    /// It is not known where they are: the file has no definition of the type, and it is none of the common types; or
    /// the definition cannot be read, or is of another encoding than ROS 2's.
    Unknown,
}

/// A publisher that messages of a topic were received from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BagPublisher {
    /// The fully qualified name of its node. None if the bag does not tell it.
    pub node: Option<String>,
    /// Its messages. `last_message` is on the clock of the windows.
    pub totals: PublisherTotals,
}

/// A topic of a bag.
#[derive(Debug)]
pub struct Topic {
    name: String,
    message_type: Option<String>,
    stamps: Stamps,
    is_latched: bool,
    recorder: Recorder,
    /// The time of its first message.
    started: Option<i64>,
    pub(crate) messages: u64,
    pub(crate) without_time: u64,
    pub(crate) misplaced: u64,
    /// Whether the publisher of a message is not known.
    lacks_publisher: bool,
    nodes: Vec<(Gid, String)>,
    windows: u64,
    /// Messages received in all windows.
    received: u64,
    summaries: Vec<(Metric, Merged)>,
    distributions: Distributions,
}

impl Topic {
    /// How many nodes of publishers are known at most: as many publishers as are followed.
    const MAX_NODES: usize = 256;

    pub(crate) fn new(
        name: &str,
        message_type: Option<&str>,
        stamps: Stamps,
        is_latched: bool,
        clock: &ReadClock,
    ) -> Self {
        let options = RecorderOptions::new().metrics(METRICS).first_period(FirstPeriod::CarriedOver);
        let options = options.transient_local(is_latched);
        let recorder = Recorder::new(name, options, None, clock);
        recorder.set_distributions(true);
        match stamps {
            Stamps::Read => {}
            Stamps::NoHeader => recorder.accept_no_header(),
            Stamps::Unknown => recorder.accept_no_stamps(),
        }
        Self {
            name: name.to_owned(),
            message_type: message_type.map(str::to_owned),
            stamps,
            is_latched,
            recorder,
            started: None,
            messages: 0,
            without_time: 0,
            misplaced: 0,
            lacks_publisher: false,
            nodes: vec![],
            windows: 0,
            received: 0,
            summaries: METRICS.map(|metric| (metric, Merged::NONE)).to_vec(),
            distributions: Distributions::default(),
        }
    }

    /// Adds a publisher that the bag names.
    pub(crate) fn add_publisher(&mut self, publisher: &Publisher) {
        let Some(node) = &publisher.node else { return };
        if self.nodes.len() < Self::MAX_NODES && !self.nodes.iter().any(|(gid, _)| *gid == publisher.gid) {
            self.nodes.push((publisher.gid, node.clone()));
        }
    }

    /// Records a message at `time` on the clock of the windows. `publisher`: with the sequence number, if it is known.
    ///
    /// All its times are moved together, so that its log time is at `time`: differences stay, and ages are up to the
    /// log time on every clock.
    pub(crate) fn record(
        &mut self,
        message: &Message,
        time: i64,
        publisher: Option<(Gid, Option<u64>)>,
        clock: &ReadClock,
    ) {
        clock.set(time);
        if self.started.is_none() {
            self.started = Some(time);
            self.recorder.enable(clock);
        }
        let Some(epoch) = self.recorder.epoch() else { return };
        let by = time.saturating_sub(message.log);
        let moved = |stamp: i64| if stamp == 0 { 0 } else { stamp.checked_add(by).unwrap_or(0) };
        self.lacks_publisher |= publisher.is_none();
        let (gid, number) = publisher.unwrap_or_default();
        let delivery = Delivery {
            transport: &TRANSPORT,
            source: moved(message.publish),
            received: time,
            publisher: gid,
            number: number.unwrap_or(u64::MAX),
        };
        let received =
            self.recorder.received_message(epoch, moved(message.header), delivery, || message.size);
        self.recorder.record_start(&received, || time);
    }

    /// Accepts that messages may be missing up to now: nothing is compared with an earlier message.
    pub(crate) fn forget_last(&mut self, clock: &ReadClock) {
        if self.started.is_some() {
            self.recorder.disable();
            self.recorder.enable(clock);
        }
    }

    /// Ends the window at the clock's time. None before the first message.
    ///
    /// `gap`: the window, if messages of it may be missing. Then nothing is known of it but what was received.
    pub(crate) fn end_window(&mut self, clock: &ReadClock, gap: Option<Window>) -> Option<WindowStatistics> {
        let started = Timestamp::from_nanoseconds(self.started?);
        let mut window = self.recorder.end_window(clock)?.statistics;
        if let Some(whole) = gap {
            let start = whole.start.max(started);
            window.window = Window::new(start, whole.stop);
            window.length = whole.stop.duration_since(start).unwrap_or_default();
            let received = window.totals.map_or(0, |totals| totals.received);
            window.count = received - self.received;
            window.is_count_known = false;
            window.unstamped = false;
            window.metrics.iter_mut().for_each(|(_, summary)| *summary = Summary::default());
            window.distributions = Distributions::default();
            self.forget_last(clock);
        }
        self.received = window.totals.map_or(0, |totals| totals.received);
        window.totals = window.totals.map(|totals| self.known(totals));
        self.windows += 1;
        for (metric, merged) in &mut self.summaries {
            if let Some(summary) = window.get(*metric) {
                merged.merge(&Merged::from(summary));
            }
        }
        self.distributions.merge(&window.distributions);
        Some(window)
    }

    /// Returns totals without what the bag does not tell.
    fn known(&self, totals: Totals) -> Totals {
        match self.lacks_publisher {
            true => {
                let mut totals = totals;
                totals.publishers = None;
                totals
            }
            false => totals,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type as `package/msg/Name`. None if the bag does not tell it. Of several types, the first one.
    pub fn message_type(&self) -> Option<&str> {
        self.message_type.as_deref()
    }

    /// Returns whether all its publishers are transient local, by the QoS in the first channel.
    pub fn is_latched(&self) -> bool {
        self.is_latched
    }

    /// Returns what is known of the header stamps.
    pub fn stamps(&self) -> Stamps {
        self.stamps
    }

    /// Returns the number of messages read so far, also those without a place on the clock.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns how many messages have no time on the clock of the windows. They are in no window.
    pub fn without_time(&self) -> u64 {
        self.without_time
    }

    /// Returns how many messages have times before the window under way. They are in no window.
    ///
    /// They were written more than 65 536 messages too late; or the header stamps of the topic are of an earlier time
    /// than others, as those of a map.
    pub fn misplaced(&self) -> u64 {
        self.misplaced
    }

    /// Returns the number of windows so far.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Returns the messages received and lost so far.
    ///
    /// Losses are None unless each channel of the topic has the keys of [`crate::proof`]. So is the number of
    /// publishers.
    pub fn totals(&self) -> Totals {
        self.known(self.recorder.totals().unwrap_or_default())
    }

    /// Returns the publishers that the bag names, with their messages so far.
    pub fn publishers(&self) -> Vec<BagPublisher> {
        let node = |gid: Gid| {
            self.nodes.iter().find(|(publisher, _)| *publisher == gid).map(|(_, node)| node.clone())
        };
        let publishers = self.recorder.publishers().into_iter().filter(|totals| totals.gid != Gid::default());
        publishers.map(|totals| BagPublisher { node: node(totals.gid), totals }).collect()
    }

    /// Returns the figures of a metric over all windows so far; NaN with a count of 0 if it was not measured.
    pub fn summary(&self, metric: Metric) -> Summary {
        let merged = self.summaries.iter().find(|(measured, _)| *measured == metric);
        merged.map_or_else(Summary::default, |(_, merged)| merged.summary())
    }

    /// Returns the distributions of the samples of all windows so far.
    pub fn distributions(&self) -> &Distributions {
        &self.distributions
    }
}
