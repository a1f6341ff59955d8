// SPDX-License-Identifier: Apache-2.0

//! What is known of a topic: plain values.
//!
//! Ages, and what is judged by them, are of the monotonic clock (`Instant`): a step of the system clock makes no topic stale, and none
//! fresh. Times of the system clock are for the reader of the JSON only.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

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
    /// Why nothing is received.
    pub problem: Option<Problem>,
    /// The last whole window.
    pub reading: Option<Reading>,
    /// Since the topic is watched.
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    /// When the last message came.
    pub last_message: Option<Instant>,
    /// From message to message, from the first to the last, in ms; NaN before there are two.
    pub mean_period: f64,
    pub senders: Vec<Sender>,
    /// The windows of the last minute.
    pub history: VecDeque<Past>,
}

/// Why nothing is received of a topic.
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
    /// On the system clock, as the statistics have it: nanoseconds since the epoch.
    pub start: i64,
    pub stop: i64,
    /// By how many nanoseconds the system clock was set in it; None if it was not, or if that is not known.
    pub clock_step: Option<i64>,
    /// When it ended, and how long it was.
    pub ended: Instant,
    pub length: Duration,
    /// Messages a second.
    pub rate: f64,
    /// Messages in the window; None where that is not known.
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

/// A publisher of which something was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// In hexadecimal digits.
    pub gid: String,
    /// Its node; None if that is not known.
    pub node: Option<String>,
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    /// On the system clock: nanoseconds since the epoch.
    pub last_message: i64,
    /// When its last message came.
    pub last_heard: Instant,
}

/// Windows that are past: one, or several that are short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    pub began: Instant,
    pub ended: Instant,
    /// When the first of them ended.
    pub first_ended: Instant,
    pub rate: f64,
    pub lost: u64,
}

/// How a topic is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nothing can be received before somebody does something.
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

/// What the history holds.
pub const HISTORY: Duration = Duration::from_secs(60);
/// Shorter windows share a place in it.
const SHORTEST: Duration = Duration::from_millis(100);
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
        let Reading { ended, length, rate, lost, .. } = reading;
        let lost = lost.unwrap_or_default();
        self.history.retain(|past| ended.saturating_duration_since(past.ended) < HISTORY);
        match self.history.back_mut() {
            Some(last) if ended.saturating_duration_since(last.first_ended) < SHORTEST => {
                last.take(ended, length, rate, lost);
            }
            _ => {
                let began = ended.checked_sub(length).unwrap_or(ended);
                self.history.push_back(Past { began, ended, first_ended: ended, rate, lost });
            }
        }
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
    pub fn fresh_reading(&self, now: Instant) -> Option<&Reading> {
        let is_fresh = |reading: &&Reading| {
            now.saturating_duration_since(reading.ended)
                < reading.length.saturating_mul(3).saturating_add(Duration::from_secs(1))
        };
        self.reading.as_ref().filter(is_fresh)
    }

    /// Returns the milliseconds since the last message; NaN before there is one.
    pub fn silence(&self, now: Instant) -> f64 {
        self.last_message.map_or(f64::NAN, |last| milliseconds(now.saturating_duration_since(last)))
    }

    pub fn status(&self, now: Instant) -> Status {
        let silence = self.silence(now);
        // A topic of which one message came, as of a map, has no period that it could miss.
        let is_stale = silence > (STALE_PERIODS * self.mean_period).max(STALE) && !self.mean_period.is_nan();
        let recent = self.history.iter().filter(|past| now.saturating_duration_since(past.ended) < HISTORY);
        let lost = recent.map(|past| past.lost).fold(0, u64::saturating_add);
        match &self.problem {
            Some(Problem::Error(_)) => Status::Error,
            _ if is_stale => Status::Stale(Duration::from_secs_f64(silence / 1000.0)),
            Some(Problem::Waiting(_)) => Status::Waiting,
            None if lost > 0 => Status::Loss(lost),
            None => Status::Good,
        }
    }
}

impl Past {
    /// Adds a window that followed.
    fn take(&mut self, ended: Instant, length: Duration, rate: f64, lost: u64) {
        let (before, length) = ((self.ended - self.began).as_secs_f64(), length.as_secs_f64());
        if before + length > 0.0 {
            self.rate = (self.rate * before + rate * length) / (before + length);
        }
        (self.ended, self.lost) = (ended, self.lost.saturating_add(lost));
    }
}

/// Returns a time in milliseconds.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Status {
    /// Returns it in a word, and what is to be said with it.
    pub fn text(self) -> String {
        match self {
            Self::Error => "ERROR".to_owned(),
            Self::Stale(since) => format!("STALE {}", crate::format::seconds(milliseconds(since))),
            Self::Loss(lost) => format!("LOSS {}", crate::format::count(lost)),
            Self::Waiting => "WAITING".to_owned(),
            Self::Good => String::new(),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::sync::OnceLock;

    pub const S: i64 = 1_000_000_000;

    /// A time of the monotonic clock, in seconds.
    pub fn at(seconds: i64) -> Instant {
        static ZERO: OnceLock<Instant> = OnceLock::new();
        *ZERO.get_or_init(Instant::now) + Duration::from_secs(seconds.try_into().unwrap())
    }

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
            clock_step: None,
            ended: at(stop),
            length: Duration::from_secs(1),
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
        (row.last_message, row.mean_period) = (Some(at(100)), 1000.0 / rate);
        row.take(reading(100, rate, lost));
        row
    }

    #[test]
    fn a_topic_is_stale_after_three_seconds_or_five_periods() {
        assert_eq!(row("/imu", 100.0, 0).status(at(103)), Status::Good);
        assert!(
            matches!(row("/imu", 100.0, 0).status(at(104)), Status::Stale(since) if since.as_secs() == 4)
        );
        assert_eq!(row("/slow", 0.5, 0).status(at(109)), Status::Good);
        assert!(matches!(row("/slow", 0.5, 0).status(at(111)), Status::Stale(_)));
    }

    #[test]
    fn a_topic_with_one_message_is_never_stale() {
        let mut map = row("/map", 1.0, 0);
        map.mean_period = f64::NAN;
        assert_eq!(map.status(at(1000)), Status::Good);
    }

    #[test]
    fn losses_are_told_for_a_minute() {
        assert_eq!(row("/imu", 0.02, 3).status(at(101)), Status::Loss(3));
        assert_eq!(row("/imu", 0.02, 3).status(at(161)), Status::Good);
    }

    #[test]
    fn a_step_of_the_system_clock_makes_no_topic_stale_and_none_fresh() {
        for step in [-60, 3600] {
            let mut row = row("/imu", 100.0, 0);
            let mut stepped = reading(101, 100.0, 0);
            (stepped.start, stepped.stop) = (stepped.start, stepped.stop + step * S);
            row.take(stepped);
            row.last_message = Some(at(101));
            assert_eq!(row.status(at(102)), Status::Good);
            assert!(row.fresh_reading(at(102)).is_some());
            assert_eq!(row.history.len(), 2);
            assert!(matches!(row.status(at(105)), Status::Stale(_)));
            assert!(row.fresh_reading(at(106)).is_none());
        }
    }

    #[test]
    fn the_history_holds_a_minute() {
        let mut row = Row::new("/imu");
        (0..100).for_each(|stop| row.take(reading(stop, 1.0, 0)));
        assert_eq!(row.history.len(), 60);
        assert_eq!(row.history[0].ended, at(40));
    }

    #[test]
    fn the_history_of_short_windows_is_bounded_and_keeps_their_losses() {
        let mut row = Row::new("/imu");
        for window in 0..120_000 {
            let ended = at(0) + Duration::from_millis(window);
            // One in two claims to be a day long.
            let length = if window % 2 == 0 { Duration::from_millis(1) } else { Duration::from_secs(86_400) };
            row.take(Reading { ended, length, ..reading(0, 10.0, 1) });
        }
        assert!((590..=601).contains(&row.history.len()), "{}", row.history.len());
        assert!(matches!(row.status(at(120)), Status::Loss(59_900..=60_100)), "{:?}", row.status(at(120)));
        assert!(row.history.iter().all(|past| (past.rate - 10.0).abs() < 1e-9));
    }

    #[test]
    fn hostile_figures_saturate() {
        let mut row = Row::new("/liar");
        for stop in 0..3 {
            row.take(Reading { length: Duration::MAX, rate: f64::INFINITY, ..reading(stop, 1.0, u64::MAX) });
        }
        row.last_message = Some(at(0));
        for period in [f64::NEG_INFINITY, -1.0, 0.0, 1e300, f64::INFINITY] {
            row.mean_period = period;
            assert!(!row.status(at(4)).text().is_empty());
        }
        assert!(row.fresh_reading(at(1000)).is_some());
    }

    #[test]
    fn an_error_goes_before_all_and_waiting_behind_staleness() {
        let mut row = row("/imu", 100.0, 3);
        row.problem = Some(Problem::Waiting("gone".to_owned()));
        assert_eq!(row.status(at(101)), Status::Waiting);
        assert!(matches!(row.status(at(105)), Status::Stale(_)));
        row.problem = Some(Problem::Error("no such type".to_owned()));
        assert_eq!(row.status(at(105)), Status::Error);
        assert_eq!(Status::Stale(Duration::from_secs(75)).text(), "STALE 75s");
    }
}
