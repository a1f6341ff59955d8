// SPDX-License-Identifier: Apache-2.0

//! The options for reading a bag.

use std::{fmt, str::FromStr, time::Duration};

use topic_statistics_core::Timestamp;

/// The clock that determines the windows of messages and the periods between messages. An age is always the time from
/// the header stamp to the log time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagClock {
    /// The log time: when the recorder received a message. Every message of every bag has a log time, and a live
    /// subscription measures the same times.
    #[default]
    Log,
    /// The source timestamp, on the clock of the publisher's host.
    Publish,
    /// The header stamp, on the clock of the node or device that stamps the message.
    Stamp,
}

impl fmt::Display for BagClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Log => "log",
            Self::Publish => "publish",
            Self::Stamp => "stamp",
        })
    }
}

impl FromStr for BagClock {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let clock =
            [Self::Log, Self::Publish, Self::Stamp].into_iter().find(|clock| clock.to_string() == name);
        clock.ok_or_else(|| format!("There is no clock {name:?}: the clocks are log, publish and stamp"))
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

impl fmt::Display for BagTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(time) => {
                jiff::Timestamp::from_nanosecond(time.as_nanoseconds().into()).unwrap_or_default().fmt(f)
            }
            Self::After(time) => write!(f, "{} s", time.as_secs_f64()),
        }
    }
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

impl ReadOptions {
    /// The shortest and the longest window.
    pub(crate) const MIN_PERIOD: Duration = Duration::from_millis(1);
    pub(crate) const MAX_PERIOD: Duration = Duration::from_secs(86_400);

    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the clock of windows and periods.
    pub fn clock(self, clock: BagClock) -> Self {
        Self { clock, ..self }
    }

    /// Sets the length of a window, from 1 ms to a day.
    pub fn period(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    /// Sets a time at which a window starts. The other windows follow before and after this window without gaps. By
    /// default, windows of one second start at whole seconds, whatever part of a bag is read.
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

    /// Reads only the topics for whose names `is_wanted` returns true.
    pub fn topics(self, is_wanted: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { topics: Some(Box::new(is_wanted)), ..self }
    }

    /// Sets whether every byte is read and every checksum is verified. By default, in a complete MCAP file, the payloads
    /// of messages in uncompressed chunks are skipped, and the checksums of these chunks are not verified.
    pub fn verify(self, verify: bool) -> Self {
        Self { verify, ..self }
    }

    /// Sets whether files that are compressed as a whole are read without a limit on the size of their content. By
    /// default, at most 256 MiB or 100 times the size of the file (the larger of the two) are read, so that a small file
    /// cannot fill the disk.
    pub fn unpack_all(self, unpack_all: bool) -> Self {
        Self { unpack_all, ..self }
    }
}
