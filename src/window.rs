//! What a finished window says: plain values between the collectors, which make them, and the messages, which are
//! made of them.

/// A metric: its name and unit on `/statistics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The value of `metrics_source`.
    pub name: &'static str,
    /// The value of `unit`.
    pub unit: &'static str,
}

/// The age of messages when their callback starts, by their header stamp.
pub const MESSAGE_AGE: Metric = Metric { name: "message_age", unit: "ms" };

/// The time between the callback starts of a message and the next.
pub const MESSAGE_PERIOD: Metric = Metric { name: "message_period", unit: "ms" };

/// The time that a window spans: nanoseconds since the epoch on the system clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The stop of the window before.
    pub start: i64,
    /// The start of the next window.
    pub stop: i64,
}

/// What a window's samples come to.
///
/// All figures but the count are in the unit of the samples, and NaN where nothing could be measured: without a
/// sample, all of them; with one sample, the standard deviation, as StatisticDataPoint.msg has it ("standard
/// deviation is only available when there are two or more data points").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The arithmetic mean.
    pub average: f64,
    /// The smallest sample.
    pub minimum: f64,
    /// The largest sample; right for negative samples too.
    pub maximum: f64,
    /// The standard deviation of the whole population (divided by the count), as in libstatistics_collector.
    pub standard_deviation: f64,
    /// How many samples were accepted.
    pub sample_count: u64,
}
