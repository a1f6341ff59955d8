// SPDX-License-Identifier: Apache-2.0

//! The values that the views show of a topic or of a source of statistics.
//!
//! Ages and durations are on the monotonic clock (`Instant`), so that a step of the system clock makes no topic stale
//! and none fresh. Times of the system clock are kept for the JSON output only.

mod last_minute;
mod row_window;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use topic_statistics_core::{
    collector::Distribution,
    health::{Health, Level},
    Metric, Summary, Window as Times,
};

pub use last_minute::LastMinute;
pub use row_window::row_window;

use crate::format::{count, milliseconds, seconds};

/// What a row is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A topic.
    #[default]
    Topic,
    /// A source of statistics.
    Source,
    /// A service, seen from outside.
    Service,
    /// An action, seen from outside.
    Action,
}

impl Kind {
    /// Returns the noun.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Source => "source",
            Self::Service => "service",
            Self::Action => "action",
        }
    }

    /// Returns the two metrics that a table shows first, in milliseconds.
    pub const fn metrics(self) -> [Metric; 2] {
        match self {
            Self::Topic | Self::Source => [Metric::MessagePeriod, Metric::MessageAge],
            Self::Service => [Metric::RoundTrip, Metric::ResponseDuration],
            Self::Action => [Metric::GoalSucceeded, Metric::FeedbackPeriod],
        }
    }

    /// Returns the titles of these metrics, the second one short.
    pub const fn titles(self) -> [&'static str; 2] {
        match self {
            Self::Topic | Self::Source => ["period ms", "age ms"],
            Self::Service => ["round trip ms", "serve ms"],
            Self::Action => ["succeeded ms", "fdbk ms"],
        }
    }
}

/// A topic, a source of statistics, a service or an action.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// What it is.
    pub kind: Kind,
    /// The topic, or the `measurement_source_name`.
    pub name: String,
    /// The type as `package/msg/Name`. `None` before it is known.
    pub message_type: Option<String>,
    /// The number of publishers in the graph. `None` for a source of statistics, which does not report it.
    pub publisher_count: Option<usize>,
    /// The node of each publisher in the graph, with its namespace.
    pub nodes: Vec<String>,
    /// The QoS that the monitor subscribes with. Empty before it has subscribed.
    pub qos: String,
    /// How many subscriptions of the topic ended because they did not serve all its publishers.
    pub earlier_subscriptions: u64,
    /// Whether the topic is latched: all publishers are transient local, and keep their last messages for later
    /// subscriptions. Then silence is no fault.
    pub is_latched: bool,
    /// Why messages are not received, or not all of them.
    pub problem: Option<Problem>,
    /// Whether it is as `--expect` expects. `None` without expectations.
    pub health: Option<Health>,
    /// The last whole window.
    pub window: Option<Window>,
    /// Messages received since the topic is watched.
    pub received: u64,
    /// Messages lost since then. `None` if unknown.
    pub lost: Option<u64>,
    /// Messages received out of order since then. `None` if unknown.
    pub out_of_order: Option<u64>,
    /// When the last message was received.
    pub last_message: Option<Instant>,
    /// The mean period over all messages, in ms. NaN before the second message.
    pub mean_period: f64,
    /// The publishers that messages were received from.
    pub publishers: Vec<Publisher>,
    /// The windows of the last minute.
    pub history: VecDeque<HistoryEntry>,
    /// The distributions of the windows of the last minute.
    pub last_minute: LastMinute,
    /// What an executor ran, in words: the share of each thread, the longest callback, and the waits. Empty for others.
    pub callbacks: Vec<String>,
}

/// Where rows come from.
pub trait Rows {
    /// Returns all rows.
    fn rows(&self) -> Vec<&Row>;

    /// Returns the row of that name.
    fn row_mut(&mut self, name: &str) -> Option<&mut Row>;
}

/// Why messages of a topic are not received, or not all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The topic or its publisher is not there yet.
    Waiting(String),
    /// It stays so until the user changes something.
    Error(String),
}

impl Problem {
    /// Describes the problem.
    pub fn text(&self) -> &str {
        match self {
            Self::Waiting(text) | Self::Error(text) => text,
        }
    }
}

/// A window that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The start and the stop, on the system clock.
    pub times: Times,
    /// The step of the system clock in the window, in nanoseconds. `None` if there was none, or if unknown.
    pub clock_step: Option<i64>,
    /// When the window ended, on the monotonic clock.
    pub ended: Instant,
    /// The length, on the monotonic clock.
    pub length: Duration,
    /// Messages per second.
    pub rate: f64,
    /// Messages received in the window. `None` if unknown.
    pub received: Option<u64>,
    /// The number of messages of a source of statistics, derived from its metrics because it does not publish the
    /// number. `None` if unknown, and for a topic.
    pub inferred: Option<u64>,
    /// Messages lost in the window. `None` if unknown.
    pub lost: Option<u64>,
    /// Messages lost since the end of the last window that was read. More than `lost` if the program had no CPU time to
    /// read each window. `None` if unknown.
    pub lost_since: Option<u64>,
    /// Messages received out of order in the window. `None` if unknown.
    pub out_of_order: Option<u64>,
    /// The bytes of the messages received in the window. `None` if unknown.
    pub bytes: Option<u64>,
    /// Whether the last message had a header stamp of zero: its publisher does not set it.
    pub unstamped: bool,
    /// Whether this program uses simulated time, and there is no `/clock`.
    pub without_clock: bool,
    /// Whether messages of the window were published before the program matched their publisher, which is transient
    /// local. Then the rate is NaN.
    pub has_history: bool,
    /// The figures of each metric.
    pub metrics: Vec<MetricFigures>,
    /// The distributions of the metrics that have one. Shared with the copies of a row.
    pub distributions: Vec<(Metric, Arc<Distribution>)>,
}

/// The figures of one metric in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFigures {
    /// The `metrics_source`.
    pub name: String,
    /// The unit of the figures.
    pub unit: String,
    /// The figures, in that unit.
    pub figures: Summary,
}

/// A publisher that messages were received from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// In hexadecimal digits.
    pub gid: String,
    /// The publisher's node. `None` if unknown.
    pub node: Option<String>,
    /// Messages received from the publisher.
    pub received: u64,
    /// Messages of the publisher that were lost. `None` if unknown.
    pub lost: Option<u64>,
    /// Messages of the publisher received out of order. `None` if unknown.
    pub out_of_order: Option<u64>,
    /// When its last message was received, on the system clock: nanoseconds since the epoch.
    pub last_message: i64,
    /// When its last message was received, on the monotonic clock.
    pub last_received: Instant,
}

/// One window of the history, or several short ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistoryEntry {
    /// When the first of the windows began.
    pub began: Instant,
    /// When the last of the windows ended.
    pub ended: Instant,
    /// When the first of the windows ended.
    pub first_ended: Instant,
    /// Messages per second.
    pub rate: f64,
    /// Messages lost.
    pub lost: u64,
}

/// The state of a topic, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Messages are not received until the user changes something.
    Error,
    /// A condition for ERROR fails for that long.
    Failed(Duration),
    /// No message was received for that long.
    Stale(Duration),
    /// A condition for WARN fails for that long.
    Warned(Duration),
    /// That many messages were lost in the last minute.
    Loss(u64),
    /// The topic has no publisher.
    Waiting,
    /// It is as expected.
    Ok,
    /// Messages are received, and nothing is expected.
    Good,
}

/// How far back the history goes.
pub const HISTORY: Duration = Duration::from_secs(60);
/// Windows shorter than this share an entry of the history, so that its size has a bound.
const SHORTEST_ENTRY: Duration = Duration::from_millis(100);
/// A topic is stale after this time at the earliest, in ms.
const STALE: f64 = 3000.0;
/// A topic is stale after this many of its mean periods at the earliest.
const STALE_PERIODS: f64 = 5.0;

impl Row {
    /// Returns a row without messages.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), mean_period: f64::NAN, ..Self::default() }
    }

    /// Makes a window the last one, and adds it to the history.
    pub fn add_window(&mut self, window: Window) {
        let Window { ended, length, rate, .. } = window;
        let lost = window.lost_since.or(window.lost).unwrap_or_default();
        self.history.retain(|entry| ended.saturating_duration_since(entry.ended) < HISTORY);
        match self.history.back_mut() {
            Some(last) if ended.saturating_duration_since(last.first_ended) < SHORTEST_ENTRY => {
                last.add_window(ended, length, rate, lost);
            }
            _ => {
                let began = ended.checked_sub(length).unwrap_or(ended);
                self.history.push_back(HistoryEntry { began, ended, first_ended: ended, rate, lost });
            }
        }
        self.window = Some(window);
    }

    /// Returns the figures of a metric in the last window.
    pub fn figures(&self, metric: &str) -> Summary {
        let mut metrics = self.window.iter().flat_map(|window| &window.metrics);
        metrics.find(|measured| measured.name == metric).map(|measured| measured.figures).unwrap_or_default()
    }

    /// Returns the two metrics that a table shows first. The statistics of a publisher, a service or a timer have
    /// another period than messages.
    pub fn metrics(&self) -> [Metric; 2] {
        let [first, second] = self.kind.metrics();
        let measured = self.window.iter().flat_map(|window| &window.metrics);
        let mut periods = measured
            .filter_map(|measured| measured.name.parse().ok())
            .filter(|metric: &Metric| metric.is_period());
        [periods.next().filter(|_| first.is_period()).unwrap_or(first), second]
    }

    /// Returns a quantile of a metric's samples in the last minute. NaN if there are too few.
    pub fn quantile(&self, metric: Metric, quantile: f64, now: Instant) -> f64 {
        let distribution = self.last_minute.distribution(metric, now);
        distribution.map_or(f64::NAN, |distribution| distribution.quantile(quantile))
    }

    /// Returns the last whole window. `None` if it ended long ago, as for a source whose node has ended.
    pub fn recent_window(&self, now: Instant) -> Option<&Window> {
        let is_recent = |window: &&Window| {
            now.saturating_duration_since(window.ended)
                < window.length.saturating_mul(3).saturating_add(Duration::from_secs(1))
        };
        self.window.as_ref().filter(is_recent)
    }

    /// Returns the milliseconds since the last message. NaN before the first one.
    pub fn silence(&self, now: Instant) -> f64 {
        self.last_message.map_or(f64::NAN, |last| milliseconds(now.saturating_duration_since(last)))
    }

    /// Returns the status at a time.
    pub fn status(&self, now: Instant) -> Status {
        match (&self.problem, &self.health) {
            (Some(Problem::Error(_)), _) => return Status::Error,
            (_, Some(Health { level, lasting, .. })) => {
                return match level {
                    Level::Error => Status::Failed(*lasting),
                    Level::Stale => Status::Stale(*lasting),
                    Level::Warn => Status::Warned(*lasting),
                    Level::Ok => Status::Ok,
                }
            }
            _ => {}
        }
        let silence = self.silence(now);
        // A topic with a single message, such as a map, has no period, and is never stale.
        let is_stale = silence > (STALE_PERIODS * self.mean_period).max(STALE)
            && !self.mean_period.is_nan()
            && !self.is_latched;
        let recent = self.history.iter().filter(|entry| now.saturating_duration_since(entry.ended) < HISTORY);
        let lost = recent.map(|entry| entry.lost).fold(0, u64::saturating_add);
        match &self.problem {
            _ if is_stale => Status::Stale(Duration::from_secs_f64(silence / 1000.0)),
            Some(_) => Status::Waiting,
            None if lost > 0 => Status::Loss(lost),
            None => Status::Good,
        }
    }
}

impl Window {
    /// Creates a window of which nothing else is known yet.
    pub fn new(times: Times, ended: Instant, length: Duration) -> Self {
        Self {
            times,
            clock_step: None,
            ended,
            length,
            rate: f64::NAN,
            received: None,
            inferred: None,
            lost: None,
            lost_since: None,
            out_of_order: None,
            bytes: None,
            unstamped: false,
            without_clock: false,
            has_history: false,
            metrics: vec![],
            distributions: vec![],
        }
    }

    /// Returns the bytes received per second. NaN if unknown.
    pub fn bandwidth(&self) -> f64 {
        match self.bytes {
            Some(bytes) if !self.length.is_zero() => bytes as f64 / self.length.as_secs_f64(),
            _ => f64::NAN,
        }
    }
}

impl HistoryEntry {
    /// Adds the next window.
    fn add_window(&mut self, ended: Instant, length: Duration, rate: f64, lost: u64) {
        let (before, length) = ((self.ended - self.began).as_secs_f64(), length.as_secs_f64());
        if before + length > 0.0 {
            self.rate = (self.rate * before + rate * length) / (before + length);
        }
        (self.ended, self.lost) = (ended, self.lost.saturating_add(lost));
    }
}

impl Status {
    /// Returns the state as a word, with its figure. Empty for a healthy topic.
    pub fn text(self) -> String {
        match self {
            Self::Error => "ERROR".to_owned(),
            Self::Failed(since) => format!("ERROR {}", seconds(milliseconds(since))),
            Self::Warned(since) => format!("WARN {}", seconds(milliseconds(since))),
            Self::Ok => "OK".to_owned(),
            Self::Stale(since) => format!("STALE {}", seconds(milliseconds(since))),
            Self::Loss(lost) => format!("LOSS {}", count(lost)),
            Self::Waiting => "WAITING".to_owned(),
            Self::Good => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, row, window, S};

    #[test]
    fn a_status_is_that_of_the_time() {
        let imu = || row("/imu", 100.0, 0);
        // Three publishers of /tf_static, each of which published once.
        let tf_static = || Row { mean_period: 2500.0, ..row("/tf_static", 1.0, 0) };
        let problem = |problem: Problem| Row { problem: Some(problem), ..row("/imu", 100.0, 3) };
        let waiting = || problem(Problem::Waiting("gone".to_owned()));
        let mut unread = row("/imu", 10.0, 0);
        unread.add_window(Window { lost: None, lost_since: Some(15), ..window(105, 10.0, 0) });
        let stale = |seconds| Status::Stale(Duration::from_secs(seconds));
        for (row, seconds, expected) in [
            (imu(), 103, Status::Good),
            (imu(), 104, stale(4)),
            (row("/slow", 0.5, 0), 109, Status::Good),
            (row("/slow", 0.5, 0), 111, stale(11)),
            (Row { mean_period: f64::NAN, ..row("/map", 1.0, 0) }, 1000, Status::Good), // one message
            (tf_static(), 1000, stale(900)),
            (Row { is_latched: true, ..tf_static() }, 1000, Status::Good),
            (row("/imu", 0.02, 3), 101, Status::Loss(3)),
            (row("/imu", 0.02, 3), 161, Status::Good), // a minute later
            (Row { last_message: Some(at(105)), ..unread }, 105, Status::Loss(15)),
            (waiting(), 101, Status::Waiting),
            (waiting(), 105, stale(5)),
            (problem(Problem::Error("no such type".to_owned())), 105, Status::Error),
        ] {
            assert_eq!(row.status(at(seconds)), expected, "{} at {seconds}", row.name);
        }
        assert_eq!(stale(75).text(), "STALE 75s");
    }

    #[test]
    fn a_step_of_the_system_clock_makes_no_topic_stale_or_fresh() {
        for step in [-60, 3600] {
            let mut row = row("/imu", 100.0, 0);
            let times = Times::from_nanoseconds(100 * S, (101 + step) * S);
            row.add_window(Window { times, ..window(101, 100.0, 0) });
            row.last_message = Some(at(101));
            assert_eq!((row.status(at(102)), row.history.len()), (Status::Good, 2));
            assert!(matches!(row.status(at(105)), Status::Stale(_)));
            assert!(row.recent_window(at(102)).is_some() && row.recent_window(at(106)).is_none());
        }
    }

    #[test]
    fn the_history_holds_a_minute_and_is_bounded() {
        let mut imu = Row::new("/imu");
        (0..100).for_each(|stop| imu.add_window(window(stop, 1.0, 0)));
        assert_eq!((imu.history.len(), imu.history[0].ended), (60, at(40)));
        let mut row = Row::new("/imu");
        for number in 0..120_000 {
            let ended = at(0) + Duration::from_millis(number);
            // One in two claims to be a day long.
            let length = if number % 2 == 0 { Duration::from_millis(1) } else { Duration::from_secs(86_400) };
            row.add_window(Window { ended, length, ..window(0, 10.0, 1) });
        }
        assert!((590..=601).contains(&row.history.len()), "{}", row.history.len());
        assert!(matches!(row.status(at(120)), Status::Loss(59_900..=60_100)), "{:?}", row.status(at(120)));
        assert!(row.history.iter().all(|past| (past.rate - 10.0).abs() < 1e-9));
    }
}
