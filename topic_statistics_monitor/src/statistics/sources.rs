// SPDX-License-Identifier: Apache-2.0

//! The sources of statistics. Their number has a bound.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use topic_statistics_views::{
    bounds::{Sender, Shares},
    pattern::Pattern,
    row::{Problem, Row},
};

use super::{
    message::{SourceCallbacks, SourceDistribution, SourceMetric},
    source::Source,
};

/// The sources that have published, and the sources given by name, which have room in any case.
#[derive(Debug)]
pub struct Sources {
    patterns: Vec<Pattern>,
    sources: BTreeMap<String, Source>,
    /// Of the sources that were not asked for by their names.
    shares: Shares,
    max: usize,
    /// The names of sources beyond the bound, at most `max` of them.
    left_out: BTreeSet<String>,
}

impl Sources {
    /// Returns the sources of the topic that these patterns select, at most `max`. No pattern selects all.
    pub fn new(patterns: Vec<Pattern>, topic: &str, max: usize) -> Self {
        let waiting = |name: &str| {
            // Whether its name begins with a slash is unknown before it publishes. rclcpp's bare node names do not.
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

    /// Returns how many sources are left out because there is no room for them.
    pub fn left_out(&self) -> usize {
        self.left_out.len()
    }

    /// Adds a metric. Returns the name of its source if that completes the source's window before.
    pub fn accept(&mut self, message: SourceMetric) -> Option<String> {
        let name = message.source.clone();
        if !self.patterns.is_empty() && !self.patterns.iter().any(|pattern| pattern.is_match(&name)) {
            return None;
        }
        if !self.sources.contains_key(&name) {
            self.remove_waiting(name.trim_start_matches('/'));
            let mut source = Source::new(&name);
            if !is_asked_for(&self.patterns, &name) {
                self.make_room(message.sender, message.received_at);
                if !self.shares.reserve(message.sender, 1) {
                    if self.left_out.len() < self.max {
                        self.left_out.insert(name);
                    }
                    return None;
                }
                source.sender = Some(message.sender);
            }
            self.sources.insert(name.clone(), source);
        }
        let source = self.sources.get_mut(&name)?;
        source.row.problem = None;
        source.accept(message).then_some(name)
    }

    /// Adds a distribution to the last minute of its source. One of a source without metrics is ignored: its metrics
    /// are about to be received, or there is no room for it.
    pub fn accept_distribution(&mut self, message: &SourceDistribution) {
        if let Some(source) = self.sources.get_mut(&message.source) {
            source.accept_distribution(message);
        }
    }

    /// Sets what an executor ran, if it has metrics.
    pub fn accept_callbacks(&mut self, message: SourceCallbacks) {
        if let Some(row) = self.row_mut(&message.source) {
            row.callbacks = message.lines;
        }
    }

    /// Makes room for a source of a sender, if there is none: sources that have ended go first, and then one of the
    /// sender that has most of them, if it has more: one that was seen once, or else the youngest.
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

    /// Removes the sources that have stopped publishing. `is_full`: there is no room.
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
            self.left_out.clear(); // There is room now; sources that still publish are counted again.
        }
    }

    /// Removes a source that was waited for under this name and has not published under it.
    fn remove_waiting(&mut self, name: &str) {
        if self.sources.get(name).is_some_and(|source| source.last_received.is_none()) {
            self.sources.remove(name);
        }
    }

    /// Completes windows with all metrics received, and returns the names of their sources. Drops ended sources.
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

/// Returns whether a source was asked for by its name.
fn is_asked_for(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.name().is_some() && pattern.is_match(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::message::tests::{distribution, message};
    use rclrs_topic_statistics::Metric;
    use std::time::Duration;
    use topic_statistics_views::{
        row::Status,
        testing::{at, S},
    };

    fn sources(patterns: &[&str], max: usize) -> Sources {
        let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        Sources::new(patterns, "/statistics", max)
    }

    fn names(sources: &Sources) -> Vec<&str> {
        sources.rows().map(|row| &*row.name).collect()
    }

    #[test]
    fn two_nodes_that_subscribe_to_the_same_topic_are_two_rows() {
        let mut sources = sources(&[], 10);
        for source in ["/r3/listener:/r1/imu", "/r4/listener:/r1/imu", "cpp_listener"] {
            sources.accept(message(source, "message_age", 100, 1.5));
        }
        assert_eq!(names(&sources), ["/r3/listener:/r1/imu", "/r4/listener:/r1/imu", "cpp_listener"]);
    }

    #[test]
    fn a_source_that_was_asked_for_waits_until_it_publishes() {
        let mut sources = sources(&["r1/listener:/imu", "cpp_listener", "/custom", "/r1/*:/scan"], 10);
        assert_eq!(names(&sources), ["/r1/listener:/imu", "cpp_listener", "custom"]);
        for source in ["/r1/listener:/imu", "/r2/listener:/imu", "cpp_listener", "/custom", "/r1/a:/scan"] {
            sources.accept(message(source, "message_age", 100, 1.5));
        }
        assert_eq!(names(&sources), ["/custom", "/r1/a:/scan", "/r1/listener:/imu", "cpp_listener"]);
        assert!(sources.rows().all(|row| row.problem.is_none()));
    }

    #[test]
    fn a_silent_source_is_dropped_after_ten_windows_and_a_minute() {
        let mut sources = sources(&["asked_for", "*"], 10);
        for source in ["asked_for", "node"] {
            sources.accept(message(source, "message_period", 100, 20.0));
            sources.accept(message(source, "message_period", 101, 20.0));
        }
        let mut slow = message("slow", "message_period", 101, 20.0);
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
    fn a_publisher_a_service_and_a_timer_have_the_rate_of_their_own_period() {
        for period in ["publish_period", "request_period", "timer_period"] {
            let mut sources = sources(&[], 10);
            sources.accept(message("/a:/b", period, 100, 20.0));
            sources.accept(message("/a:/b", period, 101, 20.0));
            let row = sources.rows().next().unwrap();
            assert_eq!(row.metrics().map(Metric::name), [period, "message_age"]);
            assert_eq!(
                (row.window.as_ref().unwrap().rate, row.figures(period).mean),
                (50.0, 20.0),
                "{period}"
            );
        }
    }

    #[test]
    fn sources_are_bounded_and_room_is_used_again() {
        let mut sources = sources(&[], 3);
        for node in 0..20 {
            sources.accept(message(&format!("node_{node:02}"), "message_age", 100, 1.5));
        }
        assert_eq!(names(&sources), ["node_00", "node_01", "node_02"]);
        assert_eq!(sources.left_out(), 3, "what is known of them is bounded, too");
        sources.settle(at(161));
        sources.accept(message("node_19", "message_age", 161, 1.5));
        assert_eq!((names(&sources), sources.left_out()), (vec!["node_19"], 0));
    }

    /// A metric of a window of that length (s) that ends at `stop` (s), of the process with that number.
    fn message_of(process: u8, source: &str, stop: i64, length: i64) -> SourceMetric {
        let message = message(source, "message_period", stop, 20.0);
        SourceMetric { sender: Sender::new(&[process; 16]), start: (stop - length) * S, ..message }
    }

    #[test]
    fn one_process_cannot_fill_the_table_for_others() {
        let mut sources = sources(&[], 20);
        // Forged: each is seen once, and claims windows of a day.
        for number in 0..40 {
            sources.accept(message_of(1, &format!("/forged:/{number:02}"), 100, 86_400));
        }
        assert_eq!((names(&sources).len(), sources.left_out()), (20, 20));
        for second in 101..200 {
            // Its sources go on; one of them publishes regularly.
            sources.accept(message_of(1, &format!("/forged:/{:02}", second % 40), second, 86_400));
            sources.accept(message_of(1, "/forged:/00", second, 1));
            for topic in ["/imu", "/odom"] {
                sources.accept(message_of(2, &format!("/robot:{topic}"), second, 1));
            }
            sources.settle(at(second) + Duration::from_millis(300));
            let shown = names(&sources);
            assert!(shown.contains(&"/robot:/imu") && shown.contains(&"/robot:/odom"), "{second}: {shown:?}");
            assert!(
                shown.len() <= 20 && shown.contains(&"/forged:/00"),
                "what is regular goes last: {shown:?}"
            );
        }
        // They share the table equally, whatever either of them publishes.
        (0..40)
            .for_each(|number| drop(sources.accept(message_of(2, &format!("/robot:/{number:02}"), 200, 1))));
        let of_robot = names(&sources).iter().filter(|name| name.starts_with("/robot")).count();
        assert!((10..=20).contains(&of_robot), "{of_robot}");
    }

    #[test]
    fn a_claim_that_was_not_observed_holds_no_place_for_long() {
        let mut sources = sources(&[], 20);
        for number in 0..20 {
            sources.accept(message_of(number, &format!("/forged:/{number:02}"), 100, 86_400));
        }
        sources.settle(at(101));
        sources.accept(message_of(99, "/robot:/imu", 105, 1));
        assert!(!names(&sources).contains(&"/robot:/imu"), "each of 20 processes has one");
        sources.accept(message_of(99, "/robot:/imu", 111, 1));
        assert_eq!(names(&sources), ["/robot:/imu"], "10 s after the last of them");
        // Where there is room, a claim counts for 10 windows of 5 minutes.
        sources.accept(message_of(1, "/forged:/00", 112, 86_400));
        sources.settle(at(113));
        for (second, is_shown) in [(112 + 3000, true), (112 + 3001, false)] {
            sources.settle(at(second));
            assert_eq!(names(&sources).contains(&"/forged:/00"), is_shown, "{second}");
        }
    }

    #[test]
    fn distributions_go_to_the_last_minute_of_their_source() {
        let mut sources = sources(&["/r1/*:/imu"], 10);
        let mut receive = |source: &str, second| {
            let distribution = SourceDistribution::new(distribution(source), at(second)).unwrap();
            sources.accept_distribution(&distribution);
            sources.accept(message(source, "message_age", second, 1.5));
            let count = |row: &Row| {
                row.last_minute.distribution(Metric::MessageAge, at(second)).map_or(0, |ages| ages.count())
            };
            sources.rows().map(count).collect::<Vec<_>>()
        };
        assert_eq!(receive("/r1/a:/imu", 100), [0], "the source is not known yet");
        assert_eq!(receive("/r1/a:/imu", 101), [10]);
        assert_eq!(receive("/r1/b:/imu", 101), [10, 0]);
        assert_eq!(receive("/r1/b:/imu", 102), [10, 10]);
        assert_eq!(receive("/r1/a:/imu", 120), [20, 10]);
        assert_eq!(receive("/r2/a:/imu", 121), [20, 10], "not asked for");
        assert_eq!(receive("/r1/b:/imu", 162), [10, 10], "a minute later");
    }

    #[test]
    fn bytes_are_the_sum_of_the_sizes_that_a_node_knows() {
        let mut sources = sources(&[], 10);
        let mut window = |sizes: &[f64], second| {
            sources.accept(message("/a:/b", "message_period", second, 20.0));
            for average in sizes {
                sources.accept(message("/a:/b", "message_size", second, *average));
            }
            sources.settle(at(second) + Duration::from_secs(1));
            let window = sources.rows().next().unwrap().window.clone().unwrap();
            (window.bytes, window.bandwidth())
        };
        assert_eq!(window(&[320.5], 100), (Some(16_025), 16_025.0), "50 messages in a second");
        for (unknown, second) in [(&[][..], 101), (&[f64::NAN], 102), (&[-1.0], 103)] {
            let (bytes, bandwidth) = window(unknown, second);
            assert!(bytes.is_none() && bandwidth.is_nan(), "{unknown:?}: {bytes:?} {bandwidth}");
        }
        assert_eq!(window(&[1e300], 104).0, Some(u64::MAX));
    }

    /// With rclcpp, they have the same name, and their windows end one after the other.
    #[test]
    fn the_windows_of_two_subscriptions_are_not_mixed() {
        let mut sources = sources(&[], 3);
        sources.accept(message("cpp_listener", "message_age", 100, 1.5));
        let mut of_the_other = message("cpp_listener", "message_period", 100, 20.0);
        (of_the_other.start, of_the_other.stop) = (of_the_other.start + 200_000, of_the_other.stop + 200_000);
        sources.accept(of_the_other);
        let mut metrics = || {
            let row = sources.rows().next().unwrap();
            let names = row.window.as_ref().unwrap().metrics.iter().map(|metric| metric.name.clone());
            let names = names.collect::<Vec<_>>();
            sources.settle(at(101));
            names
        };
        assert_eq!([metrics(), metrics()], [["message_age"], ["message_period"]]);
    }

    #[test]
    fn a_step_of_the_system_clock_spoils_no_length() {
        let mut sources = sources(&[], 3);
        for (stop, start, stamp) in [(100, 99, 100), (101, 100, 3701), (102, 3701, 3702), (103, 3702, 3642)] {
            let mut message = message("node", "message_period", stop, 20.0);
            (message.start, message.stop) = (start * S, stamp * S);
            sources.accept(message);
            sources.settle(at(stop) + Duration::from_millis(300));
            let row = sources.rows().next().unwrap();
            assert_eq!(row.window.as_ref().unwrap().length, Duration::from_secs(1), "{stop}");
            assert_eq!(row.status(at(stop)), Status::Good);
        }
    }
}
