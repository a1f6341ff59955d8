// SPDX-License-Identifier: Apache-2.0

//! What nodes publish of themselves on /statistics.
//!
//! Anybody can publish there, and anything. Names and figures are checked as they come, whatever is kept has a bound, and what is over
//! it is counted and reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender},
        Arc,
    },
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::Summary;
use ros_env::{builtin_interfaces::msg::Time, statistics_msgs::msg::MetricsMessage};

use crate::{
    graph::{Graph, Qos},
    pattern::Pattern,
    row::{Measured, Problem, Reading, Row, NOTHING},
};

/// The sources of statistics.
pub struct FromStatistics {
    worker: Worker<()>,
    graph: Graph,
    topic: String,
    subscribed: Option<(WorkerSubscription<MetricsMessage, ()>, Qos)>,
    sender: SyncSender<Figures>,
    figures: Receiver<Figures>,
    /// Messages that were not taken: there was no room, or their names are too long.
    dropped: Arc<AtomicU64>,
    sources: Sources,
}

impl FromStatistics {
    /// How many sources there are at most without an option.
    pub const MAX_SOURCES: usize = 1000;
    const DEPTH: u32 = 2000;
    /// How many messages wait to be read.
    const WAITING: usize = 10_000;

    pub fn new(node: &Node, topic: &str, patterns: Vec<Pattern>, max_sources: usize) -> Self {
        let (sender, figures) = mpsc::sync_channel(Self::WAITING);
        Self {
            worker: node.create_worker(()),
            graph: Graph::new(node),
            topic: topic.to_owned(),
            subscribed: None,
            sender,
            figures,
            dropped: Arc::default(),
            sources: Sources::new(patterns, topic, max_sources),
        }
    }

    /// Reads what came, and returns the names of the sources of which a window is complete.
    pub fn poll(&mut self) -> Result<Vec<String>, RclrsError> {
        if self.graph.is_due() {
            self.subscribe()?;
        }
        let mut complete = vec![];
        // As many as fit, so that a flood of them does not hold up the rest.
        for figures in self.figures.try_iter().take(Self::WAITING) {
            complete.extend(self.sources.accept(figures));
        }
        complete.extend(self.sources.settle(Instant::now()));
        Ok(complete)
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sources.rows()
    }

    /// Returns how many sources are left out because there is no room for them.
    pub fn left_out(&self) -> usize {
        self.sources.left_out.len()
    }

    /// Returns how many messages were not taken.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Subscribes so that all publishers can serve.
    fn subscribe(&mut self) -> Result<(), RclrsError> {
        let publishers = self.graph.publishers(&self.topic);
        // Those of a window are no news to a late listener.
        let offered = publishers.iter().map(|of| of.qos_profile.volatile()).collect::<Vec<_>>();
        let qos = Qos::of_all(offered.iter());
        let is_same = self.subscribed.as_ref().is_some_and(|(_, before)| *before == qos);
        if publishers.is_empty() || is_same {
            return Ok(());
        }
        let mut options = SubscriptionOptions::new(&self.topic);
        options.qos = qos.profile(Self::DEPTH);
        let (sender, dropped) = (self.sender.clone(), Arc::clone(&self.dropped));
        let subscription = self.worker.create_subscription(options, move |message: MetricsMessage| {
            let is_taken = Figures::read(message, Instant::now())
                .is_some_and(|figures| sender.try_send(figures).is_ok());
            if !is_taken {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        self.subscribed = Some((subscription, qos));
        Ok(())
    }
}

/// A message that came, checked: one metric of a window of a source.
#[derive(Clone, Debug)]
struct Figures {
    came: Instant,
    source: String,
    /// Nanoseconds since the epoch.
    start: i64,
    stop: i64,
    measured: Measured,
}

impl Figures {
    /// The longest name of a source: of a node and of a topic, in bytes.
    const LONGEST: usize = 511;

    /// Returns what a message says; None if its names are longer than names are.
    fn read(message: MetricsMessage, came: Instant) -> Option<Self> {
        let names = [&message.measurement_source_name, &message.metrics_source, &message.unit];
        if names.iter().any(|name| name.len() > Self::LONGEST) {
            return None;
        }
        let nanoseconds = |time: &Time| i64::from(time.sec) * 1_000_000_000 + i64::from(time.nanosec);
        Some(Self {
            came,
            start: nanoseconds(&message.window_start),
            stop: nanoseconds(&message.window_stop),
            measured: Measured {
                summary: summary(&message),
                name: message.metrics_source,
                unit: message.unit,
            },
            source: message.measurement_source_name,
        })
    }
}

/// The summary that a message is of; what it does not tell is NaN.
fn summary(message: &MetricsMessage) -> Summary {
    let mut summary = NOTHING;
    for point in &message.statistics {
        // Infinities are no figures; a count that is negative, or none, is 0.
        let figure = if point.data.is_finite() { point.data } else { f64::NAN };
        match point.data_type {
            1 => summary.average = figure,
            2 => summary.minimum = figure,
            3 => summary.maximum = figure,
            4 => summary.standard_deviation = figure,
            5 => summary.sample_count = figure as u64,
            _ => {}
        }
    }
    summary
}

/// The sources that were heard, and those that were asked for.
struct Sources {
    patterns: Vec<Pattern>,
    sources: BTreeMap<String, Source>,
    /// How many there are at most.
    max: usize,
    /// Those for which there was no room, as many at most.
    left_out: BTreeSet<String>,
}

struct Source {
    row: Row,
    /// When something of it came last; None before.
    heard: Option<Instant>,
    /// When the first metric of the last window came.
    last_window: Option<Instant>,
    /// The metrics of a window come one by one: those that have come, and when the last did.
    coming: Option<(Reading, Instant)>,
}

impl Sources {
    /// The metrics of a window come in batches; when none came for that long, there are no more.
    const BATCHES: Duration = Duration::from_millis(200);
    /// A source of which nothing came for that long, and for so many of its windows, is gone.
    const GONE: Duration = Duration::from_secs(60);
    const GONE_WINDOWS: u32 = 10;

    fn new(patterns: Vec<Pattern>, topic: &str, max: usize) -> Self {
        let waiting = |name: &str| {
            // Before it comes nobody knows whether it begins with a slash; rclcpp's bare node names do not.
            let name = if name.contains(':') { name } else { name.trim_start_matches('/') };
            let mut source = Source::new(name);
            source.row.problem =
                Some(Problem::Waiting(format!("nothing of {name} came on {topic} yet; waiting for it")));
            (name.to_owned(), source)
        };
        let sources = patterns.iter().filter_map(Pattern::name).map(waiting).collect();
        Self { patterns, sources, max, left_out: BTreeSet::new() }
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sources.values().map(|source| &source.row)
    }

    /// Takes what came; returns its source if the window before is complete with it.
    fn accept(&mut self, figures: Figures) -> Option<String> {
        let name = figures.source.clone();
        if !self.patterns.is_empty() && !self.patterns.iter().any(|pattern| pattern.is_match(&name)) {
            return None;
        }
        if !self.sources.contains_key(&name) {
            self.forget_waiting(name.trim_start_matches('/'));
            if self.sources.len() >= self.max {
                if self.left_out.len() < self.max {
                    self.left_out.insert(name);
                }
                return None;
            }
        }
        let source = self.sources.entry(name.clone()).or_insert_with(|| Source::new(&name));
        source.row.problem = None;
        source.accept(figures).then_some(name)
    }

    /// Drops a source that has not come by that name.
    fn forget_waiting(&mut self, name: &str) {
        if self.sources.get(name).is_some_and(|source| source.heard.is_none()) {
            self.sources.remove(name);
        }
    }

    /// Completes windows of which nothing came for a while, and returns the names of their sources; drops sources that are gone.
    fn settle(&mut self, now: Instant) -> Vec<String> {
        let mut complete = vec![];
        for (name, source) in &mut self.sources {
            let is_over =
                |(_, last): &(Reading, Instant)| now.saturating_duration_since(*last) > Self::BATCHES;
            if source.coming.as_ref().is_some_and(is_over) && source.complete() {
                complete.push(name.clone());
            }
        }
        let before = self.sources.len();
        let patterns = &self.patterns;
        self.sources.retain(|name, source| !source.is_gone(now) || is_asked_for(patterns, name));
        if self.sources.len() < before {
            self.left_out.clear(); // there is room; who is still there comes again
        }
        complete
    }
}

/// Returns whether a source was asked for by its name.
fn is_asked_for(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.name().is_some() && pattern.is_match(name))
}

impl Source {
    /// The metrics of a window are not more than that.
    const METRICS: usize = 64;
    /// The longest window of nodes, in nanoseconds.
    const LONGEST: i64 = 86_400_000_000_000;
    const HELD_UP: Duration = Duration::from_secs(5);

    fn new(name: &str) -> Self {
        Self { row: Row::new(name), heard: None, last_window: None, coming: None }
    }

    /// Takes what came; returns whether the window before is complete with it.
    fn accept(&mut self, figures: Figures) -> bool {
        let Figures { came, start, stop, measured, .. } = figures;
        self.heard = Some(came);
        // The two collectors of rclcpp take their windows' times one after the other.
        let is_same = |reading: &Reading| {
            reading.stop.abs_diff(stop) < 1_000_000
                && !reading.metrics.iter().any(|of| of.name == measured.name)
        };
        let was_complete =
            !self.coming.as_ref().is_some_and(|(reading, _)| is_same(reading)) && self.complete();
        if self.coming.is_none() {
            let length = self.length(start, stop, came);
            self.last_window = Some(came);
            let metrics = vec![];
            let (rate, received, lost, out_of_order) = (f64::NAN, None, None, None);
            let (clock_step, ended) = (None, came);
            let reading = Reading {
                start,
                stop,
                clock_step,
                ended,
                length,
                rate,
                received,
                lost,
                out_of_order,
                metrics,
            };
            self.coming = Some((reading, came));
        }
        if let Some((reading, last)) = &mut self.coming {
            *last = came;
            if reading.metrics.len() < Self::METRICS {
                reading.metrics.push(measured);
            }
        }
        was_complete
    }

    /// Returns how long a window was.
    ///
    /// Its stamps are of the system clock of another host, which may have been set in it: where they do not go with the time since
    /// the window before came, that is it.
    fn length(&self, start: i64, stop: i64, came: Instant) -> Duration {
        let stamped = stop.saturating_sub(start).clamp(0, Self::LONGEST);
        let stamped = Duration::from_nanos(stamped.try_into().unwrap_or_default());
        let since = self.last_window.map(|last| came.saturating_duration_since(last));
        // Windows that were held up on their way come together.
        let is_set = |since: &Duration| stamped.is_zero() || stamped > 2 * *since + Self::HELD_UP;
        since.filter(is_set).unwrap_or(stamped)
    }

    /// Takes what has come as a whole window; returns whether there was something.
    fn complete(&mut self) -> bool {
        let Some((mut reading, _)) = self.coming.take() else { return false };
        let of = |name: &str| {
            let found = reading.metrics.iter().find(|measured| measured.name == name);
            found.map_or(NOTHING, |measured| measured.summary)
        };
        let (period, age) = (of("message_period"), of("message_age"));
        let (gap, silence) = (of("publication_seq_gap"), of("time_since_last_message_ms"));
        let row = &mut self.row;
        reading.rate = rate(period.average);
        // A sample is what is missing before a message.
        if gap.sample_count > 0 && gap.average >= 0.0 {
            let lost = (gap.average * gap.sample_count as f64).round() as u64;
            reading.lost = Some(lost);
            row.lost = Some(row.lost.unwrap_or_default().saturating_add(lost));
        }
        // n periods are of n + 1 messages, or of n where they are carried over the windows' edges.
        let messages = period.sample_count.max(age.sample_count);
        row.received = row.received.saturating_add(messages);
        let silence = Duration::try_from_secs_f64(silence.average / 1e3).ok();
        if let Some(last) = silence.and_then(|silence| reading.ended.checked_sub(silence)) {
            row.last_message = Some(last);
        } else if messages > 0 {
            row.last_message = Some(reading.ended);
        }
        if !reading.rate.is_nan() {
            row.mean_period = period.average;
        }
        row.take(reading);
        true
    }

    fn is_gone(&self, now: Instant) -> bool {
        let window = self.row.reading.as_ref().map_or(Duration::ZERO, |reading| reading.length);
        let limit = Sources::GONE.max(window.saturating_mul(Sources::GONE_WINDOWS));
        self.heard.is_some_and(|heard| now.saturating_duration_since(heard) > limit)
    }
}

/// Returns the rate of a mean period (ms), in Hz; NaN if it is none.
fn rate(period: f64) -> f64 {
    let rate = 1000.0 / period;
    if rate > 0.0 && rate.is_finite() {
        rate
    } else {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        detail,
        report::Report,
        row::{
            tests::{at, S},
            Status,
        },
    };
    use proptest::prelude::*;
    use ros_env::statistics_msgs::msg::StatisticDataPoint;

    fn sources(patterns: &[&str], max: usize) -> Sources {
        let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        Sources::new(patterns, "/statistics", max)
    }

    /// A metric of a window of one second that ends at `stop` (s), as it comes then.
    fn figures(source: &str, metric: &str, stop: i64, average: f64) -> Figures {
        let point = |data_type, data| StatisticDataPoint { data_type, data };
        let message = MetricsMessage {
            measurement_source_name: source.to_owned(),
            metrics_source: metric.to_owned(),
            unit: "ms".to_owned(),
            window_start: Time { sec: stop as i32 - 1, nanosec: 0 },
            window_stop: Time { sec: stop as i32, nanosec: 0 },
            statistics: vec![point(1, average), point(5, 50.0)],
        };
        Figures::read(message, at(stop)).unwrap()
    }

    fn names(sources: &Sources) -> Vec<&str> {
        sources.rows().map(|row| &*row.name).collect()
    }

    #[test]
    fn two_nodes_that_hear_the_same_topic_are_two_rows() {
        let mut sources = sources(&[], 10);
        for source in ["/r3/listener:/r1/imu", "/r4/listener:/r1/imu", "cpp_listener"] {
            sources.accept(figures(source, "message_age", 100, 1.5));
        }
        assert_eq!(names(&sources), ["/r3/listener:/r1/imu", "/r4/listener:/r1/imu", "cpp_listener"]);
    }

    #[test]
    fn a_source_that_was_asked_for_waits_and_is_then_itself() {
        let mut sources = sources(&["r1/listener:/imu", "cpp_listener", "/custom", "/r1/*:/scan"], 10);
        assert_eq!(names(&sources), ["/r1/listener:/imu", "cpp_listener", "custom"]);
        for source in ["/r1/listener:/imu", "/r2/listener:/imu", "cpp_listener", "/custom", "/r1/a:/scan"] {
            sources.accept(figures(source, "message_age", 100, 1.5));
        }
        assert_eq!(names(&sources), ["/custom", "/r1/a:/scan", "/r1/listener:/imu", "cpp_listener"]);
        assert!(sources.rows().all(|row| row.problem.is_none()));
    }

    #[test]
    fn a_source_of_which_nothing_comes_any_more_goes_after_ten_windows_and_a_minute() {
        let mut sources = sources(&["asked_for", "*"], 10);
        for source in ["asked_for", "node"] {
            sources.accept(figures(source, "message_period", 100, 20.0));
            sources.accept(figures(source, "message_period", 101, 20.0));
        }
        let mut slow = figures("slow", "message_period", 101, 20.0);
        slow.start = 91 * S;
        sources.accept(slow);
        assert_eq!(sources.settle(at(102)), ["asked_for", "node", "slow"]);
        sources.settle(at(161));
        assert_eq!(names(&sources), ["asked_for", "node", "slow"]);
        sources.settle(at(163));
        assert_eq!(names(&sources), ["asked_for", "slow"]);
        sources.settle(at(202));
        assert_eq!(names(&sources), ["asked_for"]);
        assert!(matches!(sources.rows().next().unwrap().status(at(202)), Status::Stale(_)));
    }

    #[test]
    fn sources_are_bounded_and_room_is_used_again() {
        let mut sources = sources(&[], 3);
        for node in 0..20 {
            sources.accept(figures(&format!("node_{node:02}"), "message_age", 100, 1.5));
        }
        assert_eq!(names(&sources), ["node_00", "node_01", "node_02"]);
        assert_eq!(sources.left_out.len(), 3, "what is known of them is bounded, too");
        sources.settle(at(161));
        sources.accept(figures("node_19", "message_age", 161, 1.5));
        assert_eq!((names(&sources), sources.left_out.len()), (vec!["node_19"], 0));
    }

    #[test]
    fn a_clock_that_is_set_spoils_no_length() {
        let mut sources = sources(&[], 3);
        for (stop, start, stamp) in [(100, 99, 100), (101, 100, 3701), (102, 3701, 3702), (103, 3702, 3642)] {
            let mut figures = figures("node", "message_period", stop, 20.0);
            (figures.start, figures.stop) = (start * S, stamp * S);
            sources.accept(figures);
            sources.settle(at(stop) + Duration::from_millis(300));
            let row = sources.rows().next().unwrap();
            assert_eq!(row.reading.as_ref().unwrap().length, Duration::from_secs(1), "{stop}");
            assert_eq!(row.status(at(stop)), Status::Good);
        }
    }

    #[test]
    fn names_that_are_longer_than_names_are_are_not_taken() {
        let long = "x".repeat(Figures::LONGEST + 1);
        for message in [
            MetricsMessage { measurement_source_name: long.clone(), ..Default::default() },
            MetricsMessage { metrics_source: long.clone(), ..Default::default() },
            MetricsMessage { unit: long.clone(), ..Default::default() },
        ] {
            assert!(Figures::read(message, at(0)).is_none());
        }
    }

    #[test]
    fn a_rate_is_of_a_period_that_can_be() {
        assert_eq!(rate(20.0), 50.0);
        for period in [0.0, -0.0, -20.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE * 1e-10] {
            assert!(rate(period).is_nan(), "{period}");
        }
    }

    fn any_message() -> impl Strategy<Value = MetricsMessage> {
        let metrics = vec![
            "message_age",
            "message_period",
            "publication_seq_gap",
            "time_since_last_message_ms",
            "other",
        ];
        let extreme = vec![0.0, -1.0, 1e300, -1e300, f64::INFINITY, f64::NAN, u64::MAX as f64, 1e-320];
        let figure = prop_oneof![prop::num::f64::ANY, prop::sample::select(extreme)];
        let time = || (prop_oneof![any::<i32>(), Just(i32::MIN), Just(i32::MAX)], any::<u32>());
        let points = prop::collection::vec((0_u8..7, figure), 0..8);
        ("[ab]", prop::sample::select(metrics), time(), time(), points).prop_map(
            |(source, metric, start, stop, points)| MetricsMessage {
                measurement_source_name: source,
                metrics_source: metric.to_owned(),
                unit: "ms".to_owned(),
                window_start: Time { sec: start.0, nanosec: start.1 },
                window_stop: Time { sec: stop.0, nanosec: stop.1 },
                statistics: points
                    .into_iter()
                    .map(|(data_type, data)| StatisticDataPoint { data_type, data })
                    .collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn no_message_makes_it_panic(
            messages in prop::collection::vec((any_message(), 0_u32..2_000_000), 0..60)
        ) {
            let mut sources = sources(&[], 2);
            let mut now = at(0);
            for (message, later) in messages {
                now += Duration::from_millis(later.into());
                if let Some(figures) = Figures::read(message, now) {
                    sources.accept(figures);
                }
                sources.settle(now + Duration::from_millis(300));
                for row in sources.rows() {
                    prop_assert!(row.status(now).text().chars().count() <= 11, "{}", row.status(now).text());
                    prop_assert!(row.silence(now).is_nan() || row.silence(now).is_finite());
                    let rate = row.reading.as_ref().map_or(f64::NAN, |reading| reading.rate);
                    prop_assert!(rate.is_nan() || (rate > 0.0 && rate.is_finite()));
                    detail::lines(row, now, 80);
                    for is_json in [false, true] {
                        Report::new(std::io::sink(), is_json).write(row, now).unwrap();
                    }
                }
            }
        }
    }
}
