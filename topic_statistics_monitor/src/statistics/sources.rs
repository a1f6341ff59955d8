// SPDX-License-Identifier: Apache-2.0

//! The table of the sources of statistics. The number of sources is limited.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use topic_statistics_observe::{
    bounds::{Sender, Shares},
    pattern::Pattern,
    ros::wire::{ExecutorCallbacks, MetricDistribution, MetricWindow},
    row::{Problem, Row},
};

use super::source::Source;

/// The sources that have published, and the sources that were selected by full names; the latter do not count for the
/// limit.
#[derive(Debug)]
pub struct Sources {
    patterns: Vec<Pattern>,
    sources: BTreeMap<String, Source>,
    /// The shares of the senders in the table, without the sources that the user selected by name.
    shares: Shares,
    max: usize,
    /// The names of sources that had no room in the table, at most `max` names.
    left_out: BTreeSet<String>,
}

impl Sources {
    /// Creates the table for at most `max` sources on `topic`. The patterns select sources; without a pattern, all
    /// sources are selected.
    pub fn new(patterns: Vec<Pattern>, topic: &str, max: usize) -> Self {
        let waiting = |name: &str| {
            // rclcpp publishes node names without a leading slash, and other nodes with one. So the name that the
            // source will have is not known yet.
            let name = if name.contains(':') { name } else { name.trim_start_matches('/') };
            let mut source = Source::new(name);
            source.row.problem =
                Some(Problem::Waiting(format!("nothing of {name} on {topic} yet; waiting for it")));
            (name.to_owned(), source)
        };
        let sources = patterns.iter().filter_map(Pattern::name).map(waiting).collect();
        Self { patterns, sources, shares: Shares::new(max), max, left_out: BTreeSet::new() }
    }

    /// Returns the row of each source.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sources.values().map(|source| &source.row)
    }

    /// Returns the row of a source.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.sources.get(name).map(|source| &source.row)
    }

    /// Returns the row of a source.
    pub fn row_mut(&mut self, name: &str) -> Option<&mut Row> {
        self.sources.get_mut(name).map(|source| &mut source.row)
    }

    /// Returns the number of sources that have no row because the table is full.
    pub fn left_out(&self) -> usize {
        self.left_out.len()
    }

    /// Adds a metric that a process published, received at the time `at`. Returns the name of the source if this metric
    /// is the first of a new window, so that the previous window of the source is complete.
    pub fn add_metric(&mut self, message: MetricWindow, sender: Sender, at: Instant) -> Option<String> {
        let name = message.source.clone();
        if !self.patterns.is_empty() && !self.patterns.iter().any(|pattern| pattern.is_match(&name)) {
            return None;
        }
        if !self.sources.contains_key(&name) {
            self.remove_waiting(name.trim_start_matches('/'));
            let mut source = Source::new(&name);
            if !is_asked_for(&self.patterns, &name) {
                self.make_room(sender, at);
                if !self.shares.reserve(sender, 1) {
                    if self.left_out.len() < self.max {
                        self.left_out.insert(name);
                    }
                    return None;
                }
                source.sender = Some(sender);
            }
            self.sources.insert(name.clone(), source);
        }
        let source = self.sources.get_mut(&name)?;
        source.row.problem = None;
        source.add_metric(message, at).then_some(name)
    }

    /// Adds a distribution to the last minute of its source. A distribution of a source without a row is ignored,
    /// because only metrics add rows.
    pub fn accept_distribution(&mut self, message: &MetricDistribution, at: Instant) {
        if let Some(source) = self.sources.get_mut(&message.source) {
            source.accept_distribution(message, at);
        }
    }

    /// Sets the description of the callbacks that an executor ran, if the executor is a known source.
    pub fn accept_callbacks(&mut self, message: ExecutorCallbacks) {
        if let Some(row) = self.row_mut(&message.source) {
            row.callbacks = message.lines;
        }
    }

    /// Makes room in a full table for a source of `newcomer`: removes sources that have ended. If no source has ended,
    /// removes a source of a sender that holds more sources than `newcomer`: a source that was seen only once or, if
    /// there is none, the youngest source.
    fn make_room(&mut self, newcomer: Sender, now: Instant) {
        if !self.shares.has_room(1) {
            self.remove_gone(now, true);
        }
        let Some((most, _)) = self.shares.giving_way(newcomer, 1) else { return };
        let of_most = self.sources.iter().filter(|(_, source)| source.sender == Some(most));
        let first = of_most.max_by_key(|(_, source)| (source.observed().is_zero(), source.first_window));
        if let Some(name) = first.map(|(name, _)| name.clone()) {
            self.sources.remove(&name);
            self.shares.release(most, 1);
        }
    }

    /// Removes the sources that have stopped publishing. If the table `is_full`, a shorter silence is enough.
    fn remove_gone(&mut self, now: Instant, is_full: bool) {
        let (patterns, shares, before) = (&self.patterns, &mut self.shares, self.sources.len());
        self.sources.retain(|name, source| {
            let stays = !source.is_gone(now, is_full) || is_asked_for(patterns, name);
            if let (false, Some(sender)) = (stays, source.sender) {
                shares.release(sender, 1);
            }
            stays
        });
        if self.sources.len() < before {
            self.left_out.clear(); // The table has room now. Sources that still publish are counted again.
        }
    }

    fn remove_waiting(&mut self, name: &str) {
        if self.sources.get(name).is_some_and(|source| source.last_received.is_none()) {
            self.sources.remove(name);
        }
    }

    /// Completes the windows that have all metrics. Returns the names of their sources. Removes sources that ended.
    pub fn settle(&mut self, now: Instant) -> Vec<String> {
        let mut complete = vec![];
        for (name, source) in &mut self.sources {
            if source.settle(now) {
                complete.push(name.clone());
            }
        }
        self.remove_gone(now, false);
        complete
    }
}

fn is_asked_for(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.name().is_some() && pattern.is_match(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs_topic_statistics::Metric;
    use std::time::Duration;
    use topic_statistics_core::{Summary, Window as Times};
    use topic_statistics_observe::{
        row::{Status, Window},
        testing::{at, distribution, S},
    };

    /// Returns a metric with 50 samples, in a window of one second that ends at `stop` (in seconds).
    fn message(source: &str, metric: &str, stop: i64, average: f64) -> MetricWindow {
        MetricWindow {
            source: source.to_owned(),
            metric: metric.to_owned(),
            unit: "ms".to_owned(),
            window: times(stop - 1, stop),
            figures: Summary::new(average, average, average, 0.0, 50),
        }
    }

    fn times(start: i64, stop: i64) -> Times {
        Times::from_nanoseconds(start * S, stop * S)
    }

    impl Sources {
        fn receive(&mut self, message: MetricWindow) {
            self.receive_from(0, message);
        }

        /// A metric of a process is received at the end of its window.
        fn receive_from(&mut self, process: u8, message: MetricWindow) {
            let stop = message.window.stop.as_nanoseconds() / S;
            self.add_metric(message, Sender::new(&[process; 16]), at(stop));
        }
    }

    fn sources(patterns: &[&str], max: usize) -> Sources {
        let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        Sources::new(patterns, "/statistics", max)
    }

    fn names(sources: &Sources) -> Vec<&str> {
        sources.rows().map(|row| &*row.name).collect()
    }

    /// Returns the last window of the only source.
    fn window(sources: &Sources) -> &Window {
        sources.rows().next().unwrap().window.as_ref().unwrap()
    }

    #[test]
    fn a_source_that_was_asked_for_waits_until_it_publishes() {
        let mut sources = sources(&["r1/listener:/imu", "cpp_listener", "/custom", "/r1/*:/scan"], 10);
        assert_eq!(names(&sources), ["/r1/listener:/imu", "cpp_listener", "custom"]);
        for source in ["/r1/listener:/imu", "/r2/listener:/imu", "cpp_listener", "/custom", "/r1/a:/scan"] {
            sources.receive(message(source, "message_age", 100, 1.5));
        }
        assert_eq!(names(&sources), ["/custom", "/r1/a:/scan", "/r1/listener:/imu", "cpp_listener"]);
        assert!(sources.rows().all(|row| row.problem.is_none()));
    }

    #[test]
    fn a_silent_source_is_dropped_after_ten_windows_and_a_minute() {
        let mut sources = sources(&["asked_for", "*"], 10);
        for source in ["asked_for", "node"] {
            sources.receive(message(source, "message_period", 100, 20.0));
            sources.receive(message(source, "message_period", 101, 20.0));
        }
        sources
            .receive(MetricWindow { window: times(91, 101), ..message("slow", "message_period", 101, 20.0) });
        assert_eq!(sources.settle(at(102)), ["asked_for", "node", "slow"]);
        for (second, left) in
            [(161, &["asked_for", "node", "slow"][..]), (163, &["asked_for", "slow"]), (202, &["asked_for"])]
        {
            sources.settle(at(second));
            assert_eq!(names(&sources), left, "{second}");
        }
        assert!(matches!(sources.rows().next().unwrap().status(at(202)), Status::Stale(_)));
    }

    #[test]
    fn windows_of_a_source_have_its_rate_bytes_and_metrics() {
        for period in ["publish_period", "request_period", "timer_period"] {
            let mut sources = sources(&[], 10);
            sources.receive(message("/a:/b", period, 100, 20.0));
            sources.receive(message("/a:/b", period, 101, 20.0));
            let row = sources.rows().next().unwrap();
            assert_eq!(row.metrics().map(Metric::name), [period, "message_age"]);
            assert_eq!((window(&sources).rate, row.figures(period).average), (50.0, 20.0), "{period}");
        }
        let mut sources = sources(&[], 10);
        for (second, sizes, bytes) in [
            (100, &[320.5][..], Some(16_025)), // 50 messages in a second
            (101, &[], None),
            (102, &[f64::NAN], None),
            (103, &[-1.0], None),
            (104, &[1e300], Some(u64::MAX)),
        ] {
            sources.receive(message("/a:/b", "message_period", second, 20.0));
            sizes.iter().for_each(|size| sources.receive(message("/a:/b", "message_size", second, *size)));
            sources.settle(at(second) + Duration::from_secs(1));
            assert_eq!(window(&sources).bytes, bytes, "{second}");
            assert!(second != 100 || window(&sources).bandwidth() == 16_025.0);
        }
        // Two subscriptions of an rclcpp node are sources with the same name. Their windows end one after the other.
        let mut sources = self::sources(&[], 3);
        sources.receive(message("cpp_listener", "message_age", 100, 1.5));
        let mut other = message("cpp_listener", "message_period", 100, 20.0);
        other.window = Times::from_nanoseconds(99_000_200_000, 100_000_200_000);
        sources.receive(other);
        for expected in ["message_age", "message_period"] {
            let metrics = window(&sources).metrics.iter().map(|metric| &*metric.name);
            assert_eq!(metrics.collect::<Vec<_>>(), [expected]);
            sources.settle(at(101));
        }
    }

    /// Returns a metric of a window with the length `length` that ends at `stop` (both in seconds).
    fn of_length(source: &str, stop: i64, length: i64) -> MetricWindow {
        MetricWindow { window: times(stop - length, stop), ..message(source, "message_period", stop, 20.0) }
    }

    #[test]
    fn one_process_cannot_fill_the_table_for_others() {
        let mut sources = sources(&[], 20);
        // A malicious process forges sources. Each forged source is seen once, and its window claims a length of a day.
        for number in 0..60 {
            sources.receive_from(1, of_length(&format!("/forged:/{number:02}"), 100, 86_400));
        }
        assert_eq!((names(&sources).len(), sources.left_out()), (20, 20), "not all 40 names are kept");
        for second in 101..200 {
            // The malicious process continues to forge sources. One of these sources publishes regularly, not only
            // once.
            sources.receive_from(1, of_length(&format!("/forged:/{:02}", second % 40), second, 86_400));
            sources.receive_from(1, of_length("/forged:/00", second, 1));
            sources.receive_from(2, of_length("/robot:/imu", second, 1));
            sources.receive_from(2, of_length("/robot:/odom", second, 1));
            sources.settle(at(second) + Duration::from_millis(300));
            let shown = names(&sources);
            let has_all =
                ["/robot:/imu", "/robot:/odom", "/forged:/00"].iter().all(|name| shown.contains(name));
            assert!(has_all && shown.len() <= 20, "regular sources are removed last: {second}: {shown:?}");
        }
        // The two processes share the table equally, even if both publish more sources than fit the table.
        for number in 0..40 {
            sources.receive_from(2, of_length(&format!("/robot:/{number:02}"), 200, 1));
        }
        let of_robot = names(&sources).iter().filter(|name| name.starts_with("/robot")).count();
        assert!((10..=20).contains(&of_robot), "{of_robot}");
        // New sources use the room of removed sources.
        sources.settle(at(4000));
        sources.receive(message("node", "message_age", 4000, 1.5));
        assert_eq!((names(&sources), sources.left_out()), (vec!["node"], 0));
    }

    #[test]
    fn a_claim_that_was_not_observed_holds_no_place_for_long() {
        let mut sources = sources(&[], 20);
        for number in 0..20 {
            sources.receive_from(number, of_length(&format!("/forged:/{number:02}"), 100, 86_400));
        }
        sources.settle(at(101));
        sources.receive_from(99, of_length("/robot:/imu", 105, 1));
        assert!(!names(&sources).contains(&"/robot:/imu"), "each of 20 processes holds one source");
        sources.receive_from(99, of_length("/robot:/imu", 111, 1));
        assert_eq!(names(&sources), ["/robot:/imu"], "the others ended 10 s ago");
        // If the table has room, a source that claims long windows stays for 10 windows, each of which counts as 5
        // minutes.
        sources.receive_from(1, of_length("/forged:/00", 112, 86_400));
        sources.settle(at(113));
        for (second, is_shown) in [(112 + 3000, true), (112 + 3001, false)] {
            sources.settle(at(second));
            assert_eq!(names(&sources).contains(&"/forged:/00"), is_shown, "{second}");
        }
    }

    #[test]
    fn distributions_go_to_the_last_minute_of_their_source() {
        let mut sources = sources(&["/r1/*:/imu"], 10);
        for (source, second, expected) in [
            ("/r1/a:/imu", 100, &[0][..]), // the source is not known yet
            ("/r1/a:/imu", 101, &[10]),
            ("/r1/b:/imu", 101, &[10, 0]),
            ("/r1/b:/imu", 102, &[10, 10]),
            ("/r1/a:/imu", 120, &[20, 10]),
            ("/r2/a:/imu", 121, &[20, 10]), // not selected
            ("/r1/b:/imu", 162, &[10, 10]), // a minute later
        ] {
            let distribution = MetricDistribution {
                source: source.to_owned(),
                metric: Metric::MessageAge,
                window: times(second - 1, second),
                distribution: Box::new(distribution(&[1.5; 10])),
            };
            sources.accept_distribution(&distribution, at(second));
            sources.receive(message(source, "message_age", second, 1.5));
            let ages = |row: &Row| row.last_minute.distribution(Metric::MessageAge, at(second));
            let counts = sources.rows().map(|row| ages(row).map_or(0, |ages| ages.count()));
            assert_eq!(counts.collect::<Vec<_>>(), expected, "{source} {second}");
        }
    }

    #[test]
    fn a_window_has_a_bound_of_metrics_and_one_distribution_of_each() {
        let mut sources = sources(&[], 1);
        for number in 0..100 {
            sources.receive(message("/a:/b", &format!("metric_{number}"), 100, 1.5));
            let distribution = MetricDistribution {
                source: "/a:/b".to_owned(),
                metric: Metric::MessageAge,
                window: times(99, 100),
                distribution: Box::new(distribution(&[1.5])),
            };
            sources.accept_distribution(&distribution, at(100));
        }
        sources.settle(at(101));
        assert_eq!((window(&sources).metrics.len(), window(&sources).distributions.len()), (64, 1));
    }

    #[test]
    fn a_step_of_the_system_clock_spoils_no_length() {
        let mut sources = sources(&[], 3);
        for (stop, start, stamp) in [(100, 99, 100), (101, 100, 3701), (102, 3701, 3702), (103, 3702, 3642)] {
            let message = message("node", "message_period", stop, 20.0);
            let message = MetricWindow { window: times(start, stamp), ..message };
            sources.add_metric(message, Sender::default(), at(stop));
            sources.settle(at(stop) + Duration::from_millis(300));
            assert_eq!(window(&sources).length, Duration::from_secs(1), "{stop}");
            assert_eq!(sources.rows().next().unwrap().status(at(stop)), Status::Good);
        }
    }
}
