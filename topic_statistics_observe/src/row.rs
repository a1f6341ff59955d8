// SPDX-License-Identifier: Apache-2.0

//! The values that the views show for a topic, a service, an action, or a source of statistics (for example, a
//! subscription whose node publishes statistics).
//!
//! Times are on the monotonic clock (`Instant`), so that a step of the system clock does not change whether a topic is
//! stale. Times of the system clock are kept only for output.

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

/// The kind of thing that a row describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Topic,
    Source,
    /// A service, measured by a process that is neither its client nor its server.
    Service,
    /// An action, measured by a process that is neither its client nor its server.
    Action,
}

impl Kind {
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

    /// Returns the column titles of the two metrics that a table shows first. The second title is short.
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
    pub kind: Kind,
    /// The name of the topic, service or action, or the `measurement_source_name` of the source.
    pub name: String,
    /// The message type as `package/msg/Name`. `None` if the type is unknown.
    pub message_type: Option<String>,
    /// The number of publishers in the ROS graph. `None` for a source of statistics.
    pub publisher_count: Option<usize>,
    /// The fully qualified node name of each publisher in the ROS graph.
    pub nodes: Vec<String>,
    /// The QoS of the monitor's subscription. Empty before the monitor has subscribed.
    pub qos: String,
    /// The number of earlier subscriptions to the topic. Each was replaced because its message type or QoS did not fit
    /// all publishers.
    pub earlier_subscriptions: u64,
    /// Whether all publishers are transient local. Such a topic is latched, so its silence is no fault.
    pub is_latched: bool,
    /// Why no messages, or not all messages, of the topic are received, or why a figure is unknown.
    pub problem: Option<Problem>,
    /// Whether the topic meets the expectations of `--expect`. `None` without expectations.
    pub health: Option<Health>,
    pub window: Option<Window>,
    /// The number of messages received since the program began to watch the topic.
    pub received: u64,
    /// The number of messages lost since the program began to watch the topic. `None` if unknown.
    pub lost: Option<u64>,
    /// The number of messages received out of order since the program began to watch the topic. `None` if unknown.
    pub out_of_order: Option<u64>,
    pub last_message: Option<Instant>,
    /// The mean time between two messages, over all messages, in ms. NaN before the second message.
    pub mean_period: f64,
    pub publishers: Vec<Publisher>,
    /// The windows of the last minute.
    pub history: VecDeque<HistoryEntry>,
    /// The distributions of the windows of the last minute.
    pub last_minute: LastMinute,
    /// Lines about the callbacks of an executor: see `ExecutorCallbacks`. Empty for other rows.
    pub callbacks: Vec<String>,
}

pub trait Rows {
    fn rows(&self) -> Vec<&Row>;

    fn row_mut(&mut self, name: &str) -> Option<&mut Row>;
}

/// Why no messages, or not all messages, of a topic are received, or why a figure is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The topic or its publisher does not exist yet.
    Waiting(String),
    /// The problem stays until the user changes something.
    Error(String),
    /// All messages are received, but a figure is unknown until the user changes something.
    Note(String),
}

impl Problem {
    pub fn text(&self) -> &str {
        match self {
            Self::Waiting(text) | Self::Error(text) | Self::Note(text) => text,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The start and the stop of the window, on the system clock.
    pub times: Times,
    /// The step of the system clock in the window, in ns. `None` if there was none or if it is unknown.
    pub clock_step: Option<i64>,
    pub ended: Instant,
    pub length: Duration,
    pub rate: f64,
    /// The number of messages received in the window. `None` if unknown.
    pub received: Option<u64>,
    /// For a source of statistics: the number of messages, derived from the source's metrics. `None` if unknown.
    pub inferred: Option<u64>,
    /// The number of messages lost in the window. `None` if unknown.
    pub lost: Option<u64>,
    /// The number of messages lost since the end of the previous window that the program read. More than `lost` if the
    /// program had no CPU time to read each window. `None` if unknown.
    pub lost_since: Option<u64>,
    /// The number of messages received out of order in the window. `None` if unknown.
    pub out_of_order: Option<u64>,
    /// The size of all messages received in the window, in bytes. `None` if unknown.
    pub bytes: Option<u64>,
    /// Whether the header stamp of the last message was zero, because its publisher does not set the stamp.
    pub unstamped: bool,
    /// Whether this program uses simulated time, but receives no time on `/clock`.
    pub without_clock: bool,
    /// Whether the header stamp of the last message was on another clock than this program, because only one of them is
    /// on simulated time.
    pub other_clock: bool,
    /// Whether the window has messages that a transient local publisher sent before the program discovered this
    /// publisher. The rate of such a window is NaN.
    pub has_history: bool,
    /// Whether only `lost` and `out_of_order` are known, because the window does not have the full length.
    pub has_only_losses: bool,
    /// The statistics of each metric in the window.
    pub metrics: Vec<MetricFigures>,
    /// The distribution of each metric that has a distribution. The copies of a row share the distributions.
    pub distributions: Vec<(Metric, Arc<Distribution>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetricFigures {
    pub name: String,
    pub unit: String,
    /// The statistics, in `unit`.
    pub figures: Summary,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Publisher {
    /// The GID of the publisher, in hexadecimal digits.
    pub gid: String,
    pub node: Option<String>,
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    /// When the last message of the publisher was received, on the system clock, in nanoseconds since the Unix epoch.
    pub last_message: i64,
    /// When the last message of the publisher was received, on the monotonic clock.
    #[serde(skip)]
    pub last_received: Instant,
}

/// An entry of a row's history of the last minute: one window, or several short windows together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistoryEntry {
    pub began: Instant,
    pub ended: Instant,
    pub first_ended: Instant,
    pub rate: f64,
    pub lost: u64,
}

/// The state of a topic, in the order from the worst state to the best state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Messages are not received until the user changes something.
    Error,
    /// A condition for ERROR has failed for this duration.
    Failed(Duration),
    /// No message was received for this duration.
    Stale(Duration),
    /// A condition for WARN has failed for this duration.
    Warned(Duration),
    /// This number of messages was lost in the last minute.
    Loss(u64),
    /// The topic has no publisher.
    Waiting,
    /// The topic meets its expectations.
    Ok,
    /// Messages are received, and the topic has no expectations.
    Good,
}

/// The length of time that the history of a row covers.
pub const HISTORY: Duration = Duration::from_secs(60);
/// Windows shorter than this share an entry of the history, so that the size of the history is limited.
const SHORTEST_ENTRY: Duration = Duration::from_millis(100);
/// The shortest silence that makes a topic stale, in ms.
const STALE: f64 = 3000.0;
/// The shortest silence that makes a topic stale, as a multiple of the topic's mean time between messages.
const STALE_PERIODS: f64 = 5.0;

impl Row {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), mean_period: f64::NAN, ..Self::default() }
    }

    /// Stores a window as the last window of the row, and adds the window to the history.
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

    pub fn figures(&self, metric: &str) -> Summary {
        let mut metrics = self.window.iter().flat_map(|window| &window.metrics);
        metrics.find(|measured| measured.name == metric).map(|measured| measured.figures).unwrap_or_default()
    }

    /// Returns the two metrics that a table shows first. The statistics of a publisher, a service or a timer contain
    /// their own period metric instead of `message_period`.
    pub fn metrics(&self) -> [Metric; 2] {
        let [first, second] = self.kind.metrics();
        let measured = self.window.iter().flat_map(|window| &window.metrics);
        let mut periods = measured
            .filter_map(|measured| measured.name.parse().ok())
            .filter(|metric: &Metric| metric.is_period());
        [periods.next().filter(|_| first.is_period()).unwrap_or(first), second]
    }

    /// Returns a quantile of a metric's samples in the last minute. NaN if the last minute has too few samples.
    pub fn quantile(&self, metric: Metric, quantile: f64, now: Instant) -> f64 {
        let distribution = self.last_minute.distribution(metric, now);
        distribution.map_or(f64::NAN, |distribution| distribution.quantile(quantile))
    }

    /// Returns the last whole window. `None` if the window ended long ago, for example because its node has ended.
    pub fn recent_window(&self, now: Instant) -> Option<&Window> {
        let is_recent = |window: &&Window| {
            now.saturating_duration_since(window.ended)
                < window.length.saturating_mul(3).saturating_add(Duration::from_secs(1))
        };
        self.window.as_ref().filter(is_recent)
    }

    /// Returns the time since the last message, in milliseconds. NaN before the first message.
    pub fn silence(&self, now: Instant) -> f64 {
        self.last_message.map_or(f64::NAN, |last| milliseconds(now.saturating_duration_since(last)))
    }

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
        // A topic with a single message, such as a map, has no mean time between messages, and is never stale.
        let is_stale = silence > (STALE_PERIODS * self.mean_period).max(STALE)
            && !self.mean_period.is_nan()
            && !self.is_latched;
        let recent = self.history.iter().filter(|entry| now.saturating_duration_since(entry.ended) < HISTORY);
        let lost = recent.map(|entry| entry.lost).fold(0, u64::saturating_add);
        match &self.problem {
            _ if is_stale => Status::Stale(Duration::from_secs_f64(silence / 1000.0)),
            Some(Problem::Waiting(_)) => Status::Waiting,
            _ if lost > 0 => Status::Loss(lost),
            _ => Status::Good,
        }
    }
}

impl Window {
    /// Creates a window in which all other values are unknown.
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
            other_clock: false,
            has_history: false,
            has_only_losses: false,
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
    /// Merges the next window into the entry.
    fn add_window(&mut self, ended: Instant, length: Duration, rate: f64, lost: u64) {
        let (before, length) = ((self.ended - self.began).as_secs_f64(), length.as_secs_f64());
        if before + length > 0.0 {
            self.rate = (self.rate * before + rate * length) / (before + length);
        }
        (self.ended, self.lost) = (ended, self.lost.saturating_add(lost));
    }
}

impl Status {
    /// Returns the state as a word with its duration or number. Empty for [`Status::Good`].
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
        // Each of three publishers of /tf_static published once. So the topic has a mean period, but no regular rate.
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
            // Every second window claims a length of one day.
            let length = if number % 2 == 0 { Duration::from_millis(1) } else { Duration::from_secs(86_400) };
            row.add_window(Window { ended, length, ..window(0, 10.0, 1) });
        }
        assert!((590..=601).contains(&row.history.len()), "{}", row.history.len());
        assert!(matches!(row.status(at(120)), Status::Loss(59_900..=60_100)), "{:?}", row.status(at(120)));
        assert!(row.history.iter().all(|past| (past.rate - 10.0).abs() < 1e-9));
    }
}
