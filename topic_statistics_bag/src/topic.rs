// SPDX-License-Identifier: Apache-2.0

//! A topic of a bag, measured by the recorder of `topic_statistics_core` with the times of the messages as the clock.

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

use crate::{channel_metadata::Publisher, message::Message};

/// The metrics that can be measured from a bag, which has no data about callbacks.
pub const METRICS: [Metric; 7] = [
    Metric::MessageAge,
    Metric::MessagePeriod,
    Metric::HeaderToSource,
    Metric::SourceToReceive,
    Metric::PublicationSeqGap,
    Metric::TimeSinceLastMessage,
    Metric::MessageSize,
];

/// Describes the bag as if it were a middleware: which times and numbers the recorder gets with each message. An
/// unknown time is 0, and an unknown sequence number is `u64::MAX`.
static TRANSPORT: Transport =
    Transport { name: "the bag", received: ReceivedTimestamp::Reception, has_sequence_numbers: true };

/// The clock of the windows. It shows the time of the current message, or the time at which the current window ends.
/// System time and monotonic time are equal, so the core never sees a step of the system clock.
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

/// Whether the header stamps of a topic's messages can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    Read,
    NoHeader,
    /// The position of the header stamp is unknown: the file has no definition of the type, or the definition cannot be
    /// read, and the type is not a common type.
    Unknown,
}

/// A publisher of a topic, with messages in the bag.
#[derive(Clone, Debug, PartialEq)]
pub struct BagPublisher {
    /// The fully qualified name of the publisher's node, if the bag contains it.
    pub node: Option<String>,
    /// The totals of the publisher's messages. `last_message` is a time on the clock of the windows.
    pub totals: PublisherTotals,
}

#[derive(Debug)]
pub(crate) struct TopicDefinition {
    pub(crate) name: String,
    pub(crate) message_type: Option<String>,
    pub(crate) stamps: Stamps,
    pub(crate) is_latched: bool,
}

#[derive(Debug)]
pub struct Topic {
    name: String,
    message_type: Option<String>,
    stamps: Stamps,
    is_latched: bool,
    recorder: Recorder,
    /// The time of the first message.
    started: Option<i64>,
    pub(crate) messages: u64,
    pub(crate) without_time: u64,
    pub(crate) misplaced: u64,
    /// The time of the latest message. [`i64::MIN`] before the first message.
    pub(crate) latest: i64,
    /// Whether the publisher of at least one message is unknown.
    lacks_publisher: bool,
    nodes: Vec<(Gid, String)>,
    windows: u64,
    /// The number of messages received in all windows that have ended so far.
    received: u64,
    summaries: Vec<(Metric, Merged)>,
    distributions: Distributions,
}

impl Topic {
    /// The largest number of publishers whose node names are stored. The core measures the same number of publishers.
    const MAX_NODES: usize = 256;

    pub(crate) fn new(definition: TopicDefinition, clock: &ReadClock) -> Self {
        let TopicDefinition { name, message_type, stamps, is_latched } = definition;
        let options = RecorderOptions::new().metrics(METRICS).first_period(FirstPeriod::CarriedOver);
        let options = options.transient_local(is_latched);
        let recorder = Recorder::new(&name, options, None, clock);
        recorder.set_distributions(true);
        match stamps {
            Stamps::Read => {}
            Stamps::NoHeader => recorder.accept_no_header(),
            Stamps::Unknown => recorder.accept_no_stamps(),
        }
        Self {
            name,
            message_type,
            stamps,
            is_latched,
            recorder,
            started: None,
            messages: 0,
            latest: i64::MIN,
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

    pub(crate) fn add_publisher(&mut self, publisher: &Publisher) {
        let Some(node) = &publisher.node else { return };
        if self.nodes.len() < Self::MAX_NODES && !self.nodes.iter().any(|(gid, _)| *gid == publisher.gid) {
            self.nodes.push((publisher.gid, node.clone()));
        }
    }

    /// Records a message at `time` on the clock of the windows, from a publisher with this GID and sequence number.
    ///
    /// All times of the message are moved by the same amount, so that the log time becomes `time`. So an age is always
    /// the time from the header stamp to the log time, whichever clock the windows use.
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
        self.latest = time;
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

    /// Messages after this call are not compared with messages before it, because other messages may be missing in
    /// between.
    pub(crate) fn forget_last(&mut self, clock: &ReadClock) {
        if self.started.is_some() {
            self.recorder.disable();
            self.recorder.enable(clock);
        }
    }

    /// Ends the window at the current time of the clock. Returns `None` before the first message.
    ///
    /// If messages of this window may be missing, `gap` is the window; otherwise, `gap` is `None`. With a gap, all
    /// figures except the number of received messages are unknown. `is_separated` tells whether messages may be missing
    /// since the latest message of the topic.
    pub(crate) fn end_window(
        &mut self,
        clock: &ReadClock,
        gap: Option<Window>,
        is_separated: bool,
    ) -> Option<WindowStatistics> {
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
        }
        if is_separated {
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

    /// Removes the number of publishers from the totals if the publisher of a message is unknown.
    fn known(&self, mut totals: Totals) -> Totals {
        totals.publishers = totals.publishers.filter(|_| !self.lacks_publisher);
        totals
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the first message type as `package/msg/Name`. `None` if the bag does not contain it.
    pub fn message_type(&self) -> Option<&str> {
        self.message_type.as_deref()
    }

    /// Returns whether all publishers are transient local, according to the QoS in the topic's first channel.
    pub fn is_latched(&self) -> bool {
        self.is_latched
    }

    pub fn stamps(&self) -> Stamps {
        self.stamps
    }

    /// Returns the number of messages read so far, including messages without a time on the clock of the windows.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns the number of messages without a time on the clock of the windows. These messages are in no window.
    pub fn without_time(&self) -> u64 {
        self.without_time
    }

    /// Returns the number of messages whose times were before the window that was current when they were read. These
    /// messages are in no window.
    ///
    /// One possible reason is that the recorder wrote more than 65 536 messages with later times before these messages.
    /// Another reason is that the clock of the windows is the header stamp, and the stamps of this topic are much older
    /// than the stamps of other topics.
    pub fn misplaced(&self) -> u64 {
        self.misplaced
    }

    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Returns the totals so far. The losses and the number of publishers are `None` unless each channel of the topic
    /// has the metadata keys in [`crate::channel_metadata`].
    pub fn totals(&self) -> Totals {
        self.known(self.recorder.totals().unwrap_or_default())
    }

    /// Returns the publishers that the bag names, with their totals so far.
    pub fn publishers(&self) -> Vec<BagPublisher> {
        let node = |gid: Gid| {
            self.nodes.iter().find(|(publisher, _)| *publisher == gid).map(|(_, node)| node.clone())
        };
        let publishers = self.recorder.publishers().into_iter().filter(|totals| totals.gid != Gid::default());
        publishers.map(|totals| BagPublisher { node: node(totals.gid), totals }).collect()
    }

    pub fn summary(&self, metric: Metric) -> Summary {
        let merged = self.summaries.iter().find(|(measured, _)| *measured == metric);
        merged.map_or_else(Summary::default, |(_, merged)| merged.summary())
    }

    pub fn distributions(&self) -> &Distributions {
        &self.distributions
    }
}
