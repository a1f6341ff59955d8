//! What is known of a topic: plain values.

use std::{collections::VecDeque, time::Duration};

use rclrs_topic_statistics::Summary;

/// A topic, or a source of statistics.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub name: String,
    /// As `package/msg/Name`; None before it is known.
    pub message_type: Option<String>,
    /// The publishers in the graph at present; None where statistics are shown, which do not tell.
    pub publishers: Option<usize>,
    /// The publishers' nodes, with their namespaces.
    pub nodes: Vec<String>,
    /// What the monitor's subscription asks for.
    pub qos: String,
    /// Why nothing is heard.
    pub problem: Option<Problem>,
    /// The last whole window.
    pub reading: Option<Reading>,
    /// Since the topic is watched.
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    /// When the last message came, in nanoseconds since the epoch.
    pub last_message: Option<i64>,
    /// From message to message, from the first to the last, in ms; NaN before there are two.
    pub mean_period: f64,
    pub senders: Vec<Sender>,
    /// The windows of the last minute.
    pub history: VecDeque<Past>,
}

/// Why nothing is heard of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It has to appear first.
    Waiting(String),
    /// Somebody has to do something.
    Error(String),
}

impl Problem {
    pub fn text(&self) -> &str {
        match self {
            Self::Waiting(text) | Self::Error(text) => text,
        }
    }
}

/// What a window came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Nanoseconds since the epoch.
    pub start: i64,
    pub stop: i64,
    /// Messages a second.
    pub rate: f64,
    /// Messages in the window; None where that is not told.
    pub received: Option<u64>,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    pub metrics: Vec<Measured>,
}

/// What a metric came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The `metrics_source`.
    pub name: String,
    pub unit: String,
    pub summary: Summary,
}

/// A publisher that was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// In hexadecimal digits.
    pub gid: String,
    /// Its node; None if that is not known.
    pub node: Option<String>,
    pub received: u64,
    pub lost: u64,
    pub out_of_order: u64,
    /// Nanoseconds since the epoch.
    pub last_message: i64,
}

/// A window that is past.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    pub start: i64,
    pub stop: i64,
    pub rate: f64,
    pub lost: u64,
}

/// How a topic is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nothing can be heard before somebody does something.
    Error,
    /// Nothing came for that long.
    Stale(Duration),
    /// So many messages were lost in the last minute.
    Loss(u64),
    /// Nobody publishes on it.
    Waiting,
    Good,
}

/// What a reading has no figures of.
pub const NOTHING: Summary = Summary {
    average: f64::NAN,
    minimum: f64::NAN,
    maximum: f64::NAN,
    standard_deviation: f64::NAN,
    sample_count: 0,
};

/// What the history holds, in nanoseconds.
pub const HISTORY: i64 = 60_000_000_000;
/// A topic is never stale before that, in ms.
const STALE: f64 = 3000.0;
/// Nor before that many of its periods.
const STALE_PERIODS: f64 = 5.0;

impl Row {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), mean_period: f64::NAN, ..Self::default() }
    }

    /// Takes a window that ended.
    pub fn take(&mut self, reading: Reading) {
        let Reading { start, stop, rate, lost, .. } = reading;
        self.history.retain(|past| past.stop > stop - HISTORY);
        self.history.push_back(Past { start, stop, rate, lost: lost.unwrap_or_default() });
        self.reading = Some(reading);
    }

    /// Returns what a metric came to in the last window.
    pub fn summary(&self, metric: &str) -> Summary {
        let metrics = self.reading.iter().flat_map(|reading| &reading.metrics);
        metrics
            .filter(|measured| measured.name == metric)
            .map(|measured| measured.summary)
            .next()
            .unwrap_or(NOTHING)
    }

    /// Returns the last whole window, unless none has ended for long, as of a node that has left.
    pub fn fresh_reading(&self, now: i64) -> Option<&Reading> {
        self.reading
            .as_ref()
            .filter(|reading| now - reading.stop < 3 * (reading.stop - reading.start) + 1_000_000_000)
    }

    /// Returns the milliseconds since the last message; NaN before there is one.
    pub fn silence(&self, now: i64) -> f64 {
        self.last_message.map_or(f64::NAN, |last| (now - last).max(0) as f64 / 1e6)
    }

    pub fn status(&self, now: i64) -> Status {
        let silence = self.silence(now);
        // A topic of which one message came, as of a map, has no period that it could miss.
        let is_stale = silence > (STALE_PERIODS * self.mean_period).max(STALE) && !self.mean_period.is_nan();
        let lost = self.history.iter().filter(|past| past.stop > now - HISTORY).map(|past| past.lost).sum();
        match &self.problem {
            Some(Problem::Error(_)) => Status::Error,
            _ if is_stale => Status::Stale(Duration::from_secs_f64(silence / 1000.0)),
            Some(Problem::Waiting(_)) => Status::Waiting,
            None if lost > 0 => Status::Loss(lost),
            None => Status::Good,
        }
    }
}

impl Status {
    /// Returns it in a word, and what is to be said with it.
    pub fn text(self) -> String {
        match self {
            Self::Error => "ERROR".to_owned(),
            Self::Stale(since) => format!("STALE {}", crate::format::seconds(since.as_secs_f64() * 1000.0)),
            Self::Loss(lost) => format!("LOSS {}", crate::format::count(lost)),
            Self::Waiting => "WAITING".to_owned(),
            Self::Good => String::new(),
        }
    }
}

/// Returns the time in nanoseconds since the epoch.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const S: i64 = 1_000_000_000;

    /// A window of one second that ends at `stop` (s).
    pub fn reading(stop: i64, rate: f64, lost: u64) -> Reading {
        let summary = |mean: f64| Summary {
            average: mean,
            minimum: mean - 1.0,
            maximum: mean + 1.0,
            standard_deviation: 0.5,
            sample_count: rate as u64,
        };
        let measured = |name: &str, unit: &str, mean| Measured {
            name: name.to_owned(),
            unit: unit.to_owned(),
            summary: summary(mean),
        };
        Reading {
            start: (stop - 1) * S,
            stop: stop * S,
            rate,
            received: Some(rate as u64),
            lost: Some(lost),
            out_of_order: Some(0),
            metrics: vec![
                measured("message_age", "ms", 2.5),
                measured("message_period", "ms", 1000.0 / rate),
            ],
        }
    }

    /// A row of a topic at that rate, whose last window and message were at 100 s.
    pub fn row(name: &str, rate: f64, lost: u64) -> Row {
        let mut row = Row::new(name);
        row.message_type = Some("sensor_msgs/msg/Imu".to_owned());
        (row.publishers, row.nodes) = (Some(1), vec!["/talker".to_owned()]);
        (row.received, row.lost, row.out_of_order) = (1234, Some(lost), Some(0));
        (row.last_message, row.mean_period) = (Some(100 * S), 1000.0 / rate);
        row.take(reading(100, rate, lost));
        row
    }

    #[test]
    fn a_topic_is_stale_after_three_seconds_or_five_periods() {
        assert_eq!(row("/imu", 100.0, 0).status(103 * S), Status::Good);
        assert!(
            matches!(row("/imu", 100.0, 0).status(104 * S), Status::Stale(since) if since.as_secs() == 4)
        );
        assert_eq!(row("/slow", 0.5, 0).status(109 * S), Status::Good);
        assert!(matches!(row("/slow", 0.5, 0).status(111 * S), Status::Stale(_)));
    }

    #[test]
    fn a_topic_with_one_message_is_never_stale() {
        let mut map = row("/map", 1.0, 0);
        map.mean_period = f64::NAN;
        assert_eq!(map.status(1000 * S), Status::Good);
    }

    #[test]
    fn losses_are_told_for_a_minute() {
        assert_eq!(row("/imu", 0.02, 3).status(101 * S), Status::Loss(3));
        assert_eq!(row("/imu", 0.02, 3).status(161 * S), Status::Good);
    }

    #[test]
    fn the_history_holds_a_minute() {
        let mut row = Row::new("/imu");
        (0..100).for_each(|stop| row.take(reading(stop, 1.0, 0)));
        assert_eq!(row.history.len(), 60);
        assert_eq!(row.history[0].stop, 40 * S);
    }

    #[test]
    fn an_error_goes_before_all_and_waiting_behind_staleness() {
        let mut row = row("/imu", 100.0, 3);
        row.problem = Some(Problem::Waiting("gone".to_owned()));
        assert_eq!(row.status(101 * S), Status::Waiting);
        assert!(matches!(row.status(105 * S), Status::Stale(_)));
        row.problem = Some(Problem::Error("no such type".to_owned()));
        assert_eq!(row.status(105 * S), Status::Error);
        assert_eq!(Status::Stale(Duration::from_secs(75)).text(), "STALE 75s");
    }
}
