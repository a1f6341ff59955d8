// SPDX-License-Identifier: Apache-2.0

//! How a bag is read.

use std::{fmt, str::FromStr, time::Duration};

use topic_statistics_core::Timestamp;

/// The clock of windows and periods.
///
/// Ages and delays do not depend on it: an age is from the header stamp to the log time on every clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BagClock {
    /// The log time: when the recorder received a message. The default, because every message of every bag has it, and
    /// because it is on one clock for all topics: the recorder's. It is what a subscription sees.
    #[default]
    Log,
    /// The publish time: the source timestamp, on the clocks of the publishers' hosts. A message whose publish time is
    /// not known has no time on this clock.
    Publish,
    /// The header stamp: the time of the measurement, on the clocks of whatever stamps. A message without one has no
    /// time on this clock.
    Stamp,
}

impl BagClock {
    const ALL: [Self; 3] = [Self::Log, Self::Publish, Self::Stamp];

    /// Returns its name: `log`, `publish` or `stamp`.
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

/// There is no such clock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no clock {0:?}: the clocks are log, publish and stamp")]
pub struct UnknownClock(pub String);

impl FromStr for BagClock {
    type Err = UnknownClock;

    fn from_str(name: &str) -> Result<Self, UnknownClock> {
        Self::ALL.into_iter().find(|clock| clock.name() == name).ok_or_else(|| UnknownClock(name.to_owned()))
    }
}

/// A time in a bag, on the log times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagTime {
    /// A time since the epoch.
    At(Timestamp),
    /// That long after the first message of the bag.
    After(Duration),
}

impl BagTime {
    /// Returns it in nanoseconds since the epoch, in a bag that starts at `start`.
    pub(crate) fn resolve(self, start: i64) -> i64 {
        match self {
            Self::At(time) => time.as_nanoseconds(),
            Self::After(time) => start.saturating_add(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)),
        }
    }
}

/// Whether a topic is read.
type TopicFilter = Box<dyn Fn(&str) -> bool>;

/// How a bag is read. The default reads all of it, in windows of a second on the log times.
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
    /// The shortest window.
    pub const MIN_PERIOD: Duration = Duration::from_millis(1);

    /// The longest window.
    pub const MAX_PERIOD: Duration = Duration::from_secs(86_400);

    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the clock of windows and periods. Default: [`BagClock::Log`].
    pub fn clock(self, clock: BagClock) -> Self {
        Self { clock, ..self }
    }

    /// Sets the length of a window. Default: 1 s. [`Bag::read`](crate::Bag::read) refuses one that is not from
    /// [`MIN_PERIOD`](Self::MIN_PERIOD) to [`MAX_PERIOD`](Self::MAX_PERIOD).
    pub fn period(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    /// Sets a time at which a window starts; the others follow before and after it. Default: the epoch, so windows of a
    /// second start at whole seconds, whatever part of a bag is read.
    pub fn origin(self, origin: Timestamp) -> Self {
        Self { origin, ..self }
    }

    /// Reads messages from that log time on.
    pub fn from(self, from: BagTime) -> Self {
        Self { from: Some(from), ..self }
    }

    /// Reads messages before that log time.
    pub fn to(self, to: BagTime) -> Self {
        Self { to: Some(to), ..self }
    }

    /// Reads the topics for whose names `is_wanted` returns true. Default: all.
    pub fn topics(self, is_wanted: impl Fn(&str) -> bool + 'static) -> Self {
        Self { topics: Some(Box::new(is_wanted)), ..self }
    }

    /// Reads every byte and checks every checksum. Default: false. Then payloads of uncompressed chunks of a complete
    /// file are skipped, and the checksums of these chunks are not checked.
    pub fn verify(self, verify: bool) -> Self {
        Self { verify, ..self }
    }

    /// Reads files that are compressed as a whole, whatever the size of their content. Default: false. Then at most
    /// 256 MiB or 100 times the file are read, so that a small file cannot fill the disk.
    pub fn unpack_all(self, unpack_all: bool) -> Self {
        Self { unpack_all, ..self }
    }
}
