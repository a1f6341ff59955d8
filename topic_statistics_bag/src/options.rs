// SPDX-License-Identifier: Apache-2.0

//! The options for reading a bag.

use std::{fmt, str::FromStr, time::Duration};

use topic_statistics_core::Timestamp;

/// The clock that determines the windows of messages and the periods between messages.
///
/// Ages and delays do not depend on this choice: an age is always the time from the header stamp to the log time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BagClock {
    /// The log time: when the recorder received a message. The log time is the default, because every message of every
    /// bag has a log time, and because the recorder's clock measures the log times of all topics. A live subscription
    /// measures the same times.
    #[default]
    Log,
    /// The publish time, which is the source timestamp on the clock of the publisher's host. A message whose publish
    /// time is unknown has no time on this clock.
    Publish,
    /// The header stamp, which is usually the time of a measurement, on the clock of the node or device that stamps the
    /// message. A message without a header stamp has no time on this clock.
    Stamp,
}

impl BagClock {
    const ALL: [Self; 3] = [Self::Log, Self::Publish, Self::Stamp];

    /// Returns the name of the clock: `log`, `publish` or `stamp`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Publish => "publish",
            Self::Stamp => "stamp",
        }
    }
}

impl fmt::Display for BagClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a text that is not the name of a clock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no clock {0:?}: the clocks are log, publish and stamp")]
pub struct UnknownClock(pub String);

impl FromStr for BagClock {
    type Err = UnknownClock;

    fn from_str(name: &str) -> Result<Self, UnknownClock> {
        Self::ALL.into_iter().find(|clock| clock.name() == name).ok_or_else(|| UnknownClock(name.to_owned()))
    }
}

/// A time in a bag, on the clock of the log times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagTime {
    /// An absolute time.
    At(Timestamp),
    /// A time relative to the first message of the bag.
    After(Duration),
}

impl BagTime {
    /// Returns the time in nanoseconds of Unix time, for a bag that starts at `start`.
    pub(crate) fn resolve(self, start: i64) -> i64 {
        match self {
            Self::At(time) => time.as_nanoseconds(),
            Self::After(time) => start.saturating_add(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)),
        }
    }
}

/// A function that returns whether the topic with the given name is read.
type TopicFilter = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// The options for reading a bag. By default, the whole bag is read, in windows of one second of log time.
#[must_use]
pub struct ReadOptions {
    pub(crate) clock: BagClock,
    pub(crate) period: Duration,
    pub(crate) origin: Timestamp,
    pub(crate) from: Option<BagTime>,
    pub(crate) to: Option<BagTime>,
    pub(crate) topics: Option<TopicFilter>,
    pub(crate) verify: bool,
    pub(crate) unpack_all: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            clock: BagClock::default(),
            period: Duration::from_secs(1),
            origin: Timestamp::from_nanoseconds(0),
            from: None,
            to: None,
            topics: None,
            verify: false,
            unpack_all: false,
        }
    }
}

impl fmt::Debug for ReadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOptions")
            .field("clock", &self.clock)
            .field("period", &self.period)
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

impl ReadOptions {
    /// The shortest allowed window.
    pub const MIN_PERIOD: Duration = Duration::from_millis(1);

    /// The longest allowed window.
    pub const MAX_PERIOD: Duration = Duration::from_secs(86_400);

    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the clock of windows and periods. Default: [`BagClock::Log`].
    pub fn clock(self, clock: BagClock) -> Self {
        Self { clock, ..self }
    }

    /// Sets the length of a window. Default: 1 s. [`Bag::read`](crate::Bag::read) returns an error if the length is not
    /// from [`MIN_PERIOD`](Self::MIN_PERIOD) to [`MAX_PERIOD`](Self::MAX_PERIOD).
    pub fn period(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    /// Sets a time at which a window starts. The other windows follow before and after this window without gaps.
    /// Default: 1970-01-01T00:00:00Z, so windows of one second start at whole seconds, whatever part of a bag is read.
    pub fn origin(self, origin: Timestamp) -> Self {
        Self { origin, ..self }
    }

    /// Reads only messages at or after this log time.
    pub fn from(self, from: BagTime) -> Self {
        Self { from: Some(from), ..self }
    }

    /// Reads only messages before this log time.
    pub fn to(self, to: BagTime) -> Self {
        Self { to: Some(to), ..self }
    }

    /// Reads only the topics for whose names `is_wanted` returns true. Default: all topics.
    pub fn topics(self, is_wanted: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { topics: Some(Box::new(is_wanted)), ..self }
    }

    /// Sets whether every byte is read and every checksum is verified. Default: false, so in a complete MCAP file, the
    /// payloads of messages in uncompressed chunks are skipped, and the checksums of these chunks are not verified.
    pub fn verify(self, verify: bool) -> Self {
        Self { verify, ..self }
    }

    /// Sets whether files that are compressed as a whole are read without a limit on the size of their content.
    /// Default: false. If false, at most 256 MiB or 100 times the size of the file (the larger of the two) are read, so
    /// that a small file cannot fill the disk.
    pub fn unpack_all(self, unpack_all: bool) -> Self {
        Self { unpack_all, ..self }
    }
}
