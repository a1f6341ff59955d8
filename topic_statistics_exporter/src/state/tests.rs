// SPDX-License-Identifier: Apache-2.0

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rclrs_topic_statistics::{Distribution, Metric};
use ros_env::{builtin_interfaces::msg::Time, topic_statistics_interfaces::msg::MessagesLostEventTopicStat};

use topic_statistics_observe::ros::{
    testing::{distribution, message, status as of_values, FIGURES},
    wire::{Diagnostic, Losses, MetricDistribution, MetricWindow},
};

use super::{super::model::MetricName, metric::Total, FirstZero, *};

/// The largest number of time series of a source with one metric.
const SOURCE: usize = Source::SERIES + MetricState::SERIES;

struct Test {
    state: State,
    start: Now,
}

impl Test {
    fn new(limits: Limits) -> Self {
        let start = Now::read();
        Self { state: State::new(limits, start), start }
    }

    fn at(&self, seconds: f64) -> Now {
        let after = Duration::from_secs_f64(seconds);
        Now { monotonic: self.start.monotonic + after, system: self.start.system + after }
    }

    fn accept(&mut self, received: Result<Received, Refused>, seconds: f64) {
        self.state.accept(received, self.at(seconds));
    }

    /// For each source, the state accepts a message with the message ages of a one-second window. `process` is the
    /// number of the sender.
    fn ages(&mut self, process: u8, sources: impl IntoIterator<Item = String>, seconds: f64) {
        for source in sources {
            let window = window(&source, "message_age", 100 + seconds as i32, FIGURES);
            self.state.accept_from(Sender::new(&[process; 16]), window, self.at(seconds));
        }
    }

    fn expire(&mut self, seconds: f64) {
        self.state.expire(self.at(seconds).monotonic);
    }

    fn only(&self) -> &Source {
        assert_eq!(self.state.sources().len(), 1);
        self.state.sources().next().unwrap().1
    }

    fn total(&self) -> Total {
        let ages = self.only().metrics.get(&MetricName::Known(Metric::MessageAge));
        ages.unwrap().window.as_ref().unwrap().total
    }

    fn text(&self) -> String {
        let now = self.start.monotonic;
        String::from_utf8(crate::exposition::Format::Text.encode(&self.state, now, 1e9, vec![])).unwrap()
    }
}

fn window(source: &str, metric: &str, stop: i32, figures: [f64; 5]) -> Result<Received, Refused> {
    let unit = metric.parse().map_or("ms", |metric: Metric| metric.unit());
    MetricWindow::new(&message(source, metric, unit, stop, figures)).map(Received::from)
}

/// Returns a window of message ages with the given start and stop.
fn window_from(source: &str, start: Time, stop: Time) -> Result<Received, Refused> {
    let mut message = message(source, "message_age", "ms", 100, FIGURES);
    (message.window_start, message.window_stop) = (start, stop);
    MetricWindow::new(&message).map(Received::from)
}

fn seconds(seconds: f64) -> Time {
    Time { sec: seconds.floor() as i32, nanosec: (seconds.rem_euclid(1.0) * 1e9) as u32 }
}

fn numbered(prefix: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("{prefix}{number}")).collect()
}

fn losses(node: &str, messages_lost: u64) -> Result<Received, Refused> {
    let loss = MessagesLostEventTopicStat { topic_name: "/b".to_owned(), messages_lost };
    Losses::new(node, &loss).map(Received::from)
}

fn status(name: &str, level: u8, values: &[(&str, &str)]) -> Result<Received, Refused> {
    Diagnostic::new(&of_values(name, level, values)).map(Received::from)
}

/// Returns a status with the health of a source, from the node `judge`.
fn judged(judge: &str, source: &str, level: u8, values: &[(&str, &str)]) -> Result<Received, Refused> {
    let of_source = [("measurement_source_name", source), ("Actual frequency (Hz)", "41.500000")];
    status(&format!("{judge}: {source}"), level, &[&of_source, values].concat())
}

#[test]
fn a_rate_is_the_number_of_messages_in_the_window() {
    let mut test = Test::new(Limits::default());
    let mut accept = |source, metric, mean, count| {
        test.accept(window(source, metric, 100, [mean, mean, mean, count, 0.0]), 0.0);
    };
    // The topic pauses at the end of the window. The mean period alone would be a rate of 74 Hz.
    accept("/a:/imu", "message_age", 2.0, 56.0);
    accept("/a:/imu", "message_period", 13.5, 55.0);
    accept("/a:/text", "message_age", f64::NAN, 0.0);
    accept("/a:/text", "message_period", 13.5, 55.0);
    accept("/a:/slow", "publish_duration_ms", 0.1, 1.0);
    accept("/a:/slow", "publish_period", f64::NAN, 0.0);
    accept("/a:/none", "message_age", f64::NAN, 0.0);
    accept("/a:/none", "message_period", f64::NAN, 0.0);
    // The metrics of a window arrive separately: the periods of this source are of an earlier window.
    accept("/a:/next", "message_period", 20.0, 49.0);
    test.accept(window("/a:/next", "message_age", 101, [2.0, 2.0, 2.0, 99.0, 0.0]), 0.0);
    let text = test.text();
    let rates = text.lines().filter(|line| line.contains("_rate_hertz{"));
    let rates: Vec<_> = rates.map(|line| line.split_once("topic=").unwrap().1).collect();
    let expected = [
        r#""/imu",kind="subscription"} 56.0"#,
        r#""/next",kind="subscription"} 50.0"#,
        r#""/text",kind="subscription"} 56.0"#,
        r#""/slow",kind="publisher"} 1.0"#,
    ];
    assert_eq!(rates, expected);
}

#[test]
fn each_window_counts_once_over_restarts_and_repetitions() {
    let mut test = Test::new(Limits::default());
    for (seconds, stop) in [(0.0, 100), (1.0, 101), (100.0, 200), (101.0, 201)] {
        test.accept(window("/a:/b", "message_age", stop, FIGURES), seconds);
        test.expire(seconds + 30.0);
    }
    assert_eq!((test.only().received(), test.only().total_windows, test.total().sum), (Some(200), 4, 0.3));
    // A late window (202) is counted. A window that is received again (first 203, then 202) is counted as a duplicate.
    for (stop, duplicates) in
        [(203, 0), (202, 0), (203, 1), (202, 2), (204, 2)].into_iter().chain((205..212).map(|stop| (stop, 2)))
    {
        test.accept(window("/a:/b", "message_age", stop, FIGURES), 102.0);
        assert_eq!(test.state.counts().duplicate, duplicates, "{stop}");
    }
    assert_eq!((test.total().count, test.only().total_windows), (200 + 50 * 10, 14));

    // The messages of a window are counted once, although the sample counts of the window's metrics differ.
    let mut test = Test::new(Limits::default());
    for stop in [100, 101] {
        for (metric, count) in [
            ("message_period", 49.0),
            ("message_age", 0.0),
            ("source_to_callback_ms", 50.0),
            ("publication_seq_gap", 48.0),
            ("callback_duration_ms", 51.0), // includes a callback for a message of the previous window
            ("publish_duration_ms", 7.0),
        ] {
            test.accept(window("/a:/b", metric, stop, [1.5, 4.0, 1.0, count, 0.5]), 0.0);
        }
    }
    let source = test.only();
    assert_eq!((source.received(), source.published, source.total_windows), (Some(100), Some(14), 2));
    assert_eq!(source.lost.map(FirstZero::count), Some(2 * 72), "1.5 before each of 48 messages");

    // Two subscriptions of one rclcpp node have the same source name, but their windows end at different times. Both
    // windows have to be counted.
    let mut test = Test::new(Limits::default());
    for (nanosec, metric) in
        [(0, "message_age"), (0, "message_period"), (9, "message_age"), (9, "message_period")]
    {
        let mut message = message("cpp_listener", metric, "ms", 100, FIGURES);
        (message.window_start.nanosec, message.window_stop.nanosec) = (nanosec, nanosec);
        test.accept(MetricWindow::new(&message).map(Received::from), 0.0);
    }
    assert_eq!((test.only().received(), test.only().total_windows), (Some(100), 2));
}

#[test]
fn a_window_without_samples_changes_no_total() {
    let mut test = Test::new(Limits::default());
    for (stop, figures) in
        [(100, FIGURES), (101, [f64::NAN, f64::NAN, f64::NAN, 0.0, f64::NAN]), (102, FIGURES)]
    {
        test.accept(window("/a:/b", "message_age", stop, figures), 0.0);
    }
    assert_eq!((test.total().count, test.total().sum), (100, 0.15));
}

#[test]
fn a_metric_that_has_ended_is_gone_and_leaves_its_room() {
    let max_series = Source::SERIES + 2 * MetricState::SERIES;
    let mut test = Test::new(Limits { max_series, keep_windows: 20, ..Limits::default() });
    for (source, metric, stop, at, metrics) in [
        ("/a:/b", "message_age", 100, 0.0, 1),
        ("/a:/b", "message_period", 100, 0.0, 2),
        ("/a:/b", "duration_ms", 100, 0.0, 2), // there is no room for the metric
        ("/c:/d", "message_age", 100, 0.0, 2),
        ("/a:/b", "message_age", 120, 15.0, 2),
        ("/a:/b", "duration_ms", 121, 20.5, 2), // `message_period` has ended: 20 windows of 1 s are missing
    ] {
        test.expire(at);
        test.accept(window(source, metric, stop, FIGURES), at);
        assert_eq!(test.only().metrics.len(), metrics, "{metric} at {at} s");
    }
    assert_eq!((test.state.series(), test.state.counts().beyond_max_series), (max_series, 2));
    test.expire(41.0);
    assert_eq!((test.state.sources().len(), test.state.series()), (0, 0));
}

#[test]
fn lifetimes_follow_the_observed_windows_not_system_clocks() {
    // Each row has the start and stop of each window, the seconds between two receptions (`pause`), `keep_windows`, the
    // number of samples, and two times after the last window: at the first time, the source still exists; at the second
    // time, it is removed.
    let steps: &[(i32, i32)] = &[(100, 101), (101, 3702), (3702, 3703), (3703, 104), (104, 105)];
    let day = 86_400;
    for (windows, pause, keep_windows, count, is_there, is_gone) in [
        (steps, 1, 20, 250, 19.9, 21.0), // the clock is stepped forward by 1 h, and back later
        (&[(99, 100), (100, 3702)], 1, 20, 100, 19.9, 21.0), // the clock is stepped in the last window
        (&[(0, day)], 1, 3, 50, 899.0, 960.0), // a single window counts as at most 5 min long
        (&[(0, 300), (300, 600)], 300, 3, 100, 899.0, 960.0),
        (&[(0, 3600), (3600, 7200)], 3600, 3, 100, 10_799.0, 10_860.0), // windows were received for an hour
    ] {
        let mut test = Test::new(Limits { keep_windows, ..Limits::default() });
        for (number, (start, stop)) in (0..).zip(windows) {
            let [start, stop] = [start, stop].map(|sec| Time { sec: *sec, nanosec: 0 });
            test.accept(window_from("/a:/b", start, stop), f64::from(number * pause));
        }
        assert_eq!(test.total().count, count, "{windows:?}");
        let last = (windows.len() as i32 - 1) * pause;
        for (after, sources) in [(is_there, 1), (is_gone, 0)] {
            test.expire(f64::from(last) + after);
            assert_eq!(test.state.sources().len(), sources, "{after} s after {windows:?}");
        }
    }
}

/// Fails if the losses in a loss event are added to the source with the name of this topic: this source may be a
/// publisher of the node.
#[test]
fn reported_losses_are_of_the_topic_for_a_quarter_of_an_hour() {
    let mut test = Test::new(Limits { keep_windows: 20, ..Limits::default() });
    test.accept(window("/a:/b", "publish_period", 100, FIGURES), 0.0);
    test.accept(losses("/a", 3), 0.0);
    test.accept(losses("/a", 4), 890.0);
    assert_eq!(test.only().lost.map(FirstZero::count), None);
    test.expire(1780.0);
    let lost =
        test.state.reported_losses.iter().map(|(name, losses)| (name.to_string(), losses.lost.scraped()));
    assert_eq!((lost.collect(), test.state.series()), (vec![("/a:/b".to_owned(), 7)], 1));
    test.expire(1791.0);
    assert_eq!((test.state.reported_losses.len(), test.state.series()), (0, 0));
}

#[test]
fn a_counter_of_losses_is_0_before_its_first_value() {
    let mut test = Test::new(Limits::default());
    let gaps = |stop, mean: f64| window("/a:/b", "publication_seq_gap", stop, [mean, 9.0, 0.0, 10.0, 0.5]);
    let early = |stop| window("/a:/b", "message_age", stop, [-1.0, 1.0, -2.0, 10.0, 0.5]);
    for (received, lost, reported, negative) in [
        (vec![gaps(100, 0.7), early(100), losses("/a", 500)], 0, 0, 0),
        (vec![losses("/a", 300)], 7, 800, 1),
        (vec![gaps(101, 0.2), early(101), losses("/a", 1)], 9, 801, 2),
    ] {
        received.into_iter().for_each(|received| test.accept(received, 0.0));
        test.state.begin_scrape();
        let of_topic = test.state.reported_losses.iter().next().map(|(_, losses)| losses.lost.scraped());
        assert_eq!((test.only().lost.map(FirstZero::scraped), of_topic), (Some(lost), Some(reported)));
        assert_eq!(test.total().negative_windows.scraped(), negative);
    }
}

#[test]
fn no_total_begins_after_its_samples() {
    for (begun_before, length, expected) in [
        (1.2, 1.0, 1.2),
        (301.0, 300.0, 301.0),
        // If the clock of the node's host is an hour behind or ahead, the stamps are not used.
        (3601.0, 1.0, 1.0),
        (-3600.0, 1.0, 1.0),
    ] {
        let mut test = Test::new(Limits::default());
        let epoch = test.start.system.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let begin = epoch - begun_before;
        test.accept(window_from("/a:/b", seconds(begin), seconds(begin + length)), 0.0);
        let (_, metric) = test.only().metrics.iter().next().unwrap();
        let created = metric.window.as_ref().unwrap().life.created;
        assert_eq!(created, test.only().created);
        let before = test.start.system.duration_since(created).unwrap_or_default().as_secs_f64();
        assert!((before - expected).abs() < 1e-3, "{before}, not {expected}");
    }
}

#[test]
fn nodes_that_have_ended_leave_their_room_to_new_ones() {
    let mut test = Test::new(Limits { max_series: 400 * SOURCE, ..Limits::default() });
    test.ages(0, numbered("/anonymous:/", 0..400), 0.0);
    let arrives = |test: &mut Test, seconds| {
        test.ages(0, ["/safety_critical:/scan".to_owned()], seconds);
        test.state.sources().any(|(name, _)| &*name.node == "/safety_critical")
    };
    assert!(!arrives(&mut test, 5.0), "no node has ended yet");
    assert_eq!(test.state.counts().beyond_max_series, 1);
    test.ages(0, numbered("/anonymous:/", 0..10), 11.0);
    // The ended source is removed to make room. If there were room, it would be kept for 60 windows.
    assert!(arrives(&mut test, 12.0));
    assert_eq!(test.state.sources().len(), 11, "the 10 sources with a recent window, and the new source");
}

#[test]
fn a_flood_takes_no_room_that_a_smaller_sender_needs() {
    type Flood<'a> = &'a dyn Fn(&mut Test);
    let (process, forged) = (2, |number: usize| format!("/forged_{number}:/imu"));
    let windows = |test: &mut Test, length: f64| {
        for number in 0..6000 {
            let window = window_from(&forged(number), seconds(100.0 - length), seconds(100.0));
            test.state.accept_from(Sender::new(&[process; 16]), window, test.start);
        }
    };
    let floods: [Flood<'_>; 3] = [
        &|test| (0..2).for_each(|second| test.ages(process, (0..6000).map(forged), second.into())),
        &|test| {
            let sender = Sender::new(&[process; 16]);
            (0..6000).for_each(|n| test.state.accept_from(sender, losses(&forged(n), 1), test.start));
            windows(test, 86_400.0);
        },
        &|test| {
            for number in 0..20_000 {
                let status = judged("x", &forged(number), 0, &[("error_unless", "rate>=1")]);
                test.state.accept_from(Sender::new(&[process; 16]), status, test.at(0.5));
            }
        },
    ];
    // The robot publishes more topics after the flood of forged topics, once shortly after the flood and once later.
    for (flood, seconds) in floods.iter().flat_map(|flood| [(flood, 1.5), (flood, 15.0)]) {
        let (max_series, max_series_per_node) = (400 * SOURCE, 200 * SOURCE);
        let mut test = Test::new(Limits { max_series, max_series_per_node, ..Limits::default() });
        let publish = |test: &mut Test, topics, seconds| {
            test.ages(1, numbered("/robot:/", 0..topics), seconds);
            test.state.sources().filter(|(name, _)| &*name.node == "/robot").count()
        };
        publish(&mut test, 50, 0.0);
        flood(&mut test);
        assert!(test.state.series() + SOURCE > max_series, "there is room: {}", test.state.series());
        publish(&mut test, 50, 1.0);
        assert_eq!([50, 100].map(|topics| publish(&mut test, topics, seconds)), [50, 100]);
    }
}

#[test]
fn forged_topics_of_a_node_leave_it_room_for_its_own() {
    let mut test = Test::new(Limits { max_series_per_node: 10 * SOURCE, ..Limits::default() });
    test.ages(2, numbered("/node:/forged_", 0..20), 0.0);
    test.ages(1, numbered("/node:/own_", 0..20), 0.0);
    let own = |name: &SourceName| name.name.as_deref().is_some_and(|name| name.starts_with("/own"));
    let count = test.state.sources().filter(|(name, _)| own(name)).count();
    assert_eq!(count, 5, "half of the limit of a node");
    test.ages(1, ["/safety_critical:/scan".to_owned()], 0.0);
    assert_eq!(test.state.series(), 11 * SOURCE, "other nodes have room");
    // 10 forged topics and 15 of the node's own topics were not added. 5 forged topics were removed later.
    assert_eq!(test.state.counts().beyond_max_of_node, 10 + 15);
}

#[test]
fn what_was_seen_once_gives_way_first() {
    let mut test = Test::new(Limits { max_series: 20 * SOURCE, ..Limits::default() });
    for (process, node, seconds) in
        [(1, "old", 0.0), (1, "old", 1.0), (1, "old", 2.0), (1, "once", 2.0), (2, "late", 3.0)]
    {
        test.ages(process, numbered(&format!("/{node}:/"), 0..10), seconds);
    }
    let nodes: BTreeSet<_> = test.state.sources().map(|(name, _)| &*name.node).collect();
    assert_eq!((test.state.sources().len(), nodes), (20, BTreeSet::from(["/late", "/old"])));
}

#[test]
fn the_filters_hold_for_everything_that_is_exported() {
    let named = |name: &str| status(&format!("{name}: temperature"), 0, &[]);
    let all = ["/r1/camera", "/r1/debug", "/r2/camera", "robot_2", "motor"];
    for (include, exclude, expected, excluded) in [
        (&[][..], &[][..], [true; 5], 0),
        (&["/r1/**"], &["/r1/debug"], [true, false, false, false, false], 12),
        (&[], &["/r2/**"], [true, true, false, true, true], 5),
        (&["/r1/**", "motor", "robot_2"], &[], [true, true, false, true, true], 5),
    ] {
        let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let mut test = Test::new(Limits::default());
        test.state.filter = NodeFilter { include: patterns(include), exclude: patterns(exclude) };
        for node in &all[..3] {
            let source = format!("{node}:/imu");
            let ages = MetricDistribution::new(&distribution(&source, 100)).map(Received::from);
            let judged = judged("topic_monitor", &source, 0, &[]);
            let window = window(&source, "message_age", 100, FIGURES);
            for received in [window, ages, losses(node, 1), judged, named(node)] {
                test.accept(received, 0.0);
            }
        }
        // The last two names are those of a source that is a host, and of a status from `diagnostic_updater`, whose
        // node name has no namespace.
        test.accept(window("robot_2", "clock_offset_ms", 100, FIGURES), 0.0);
        test.accept(named("motor"), 0.0);
        let text = test.text();
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(all.map(|name| lines().any(|line| line.contains(name))), expected);
        assert_eq!(test.state.counts().excluded, excluded);
    }
}

#[test]
fn the_time_of_a_window_changes_with_a_stepped_clock_only() {
    let mut test = Test::new(Limits::default());
    test.ages(0, ["/a:/b".to_owned()], 0.0);
    let epoch = test.start.system.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    // The system clock and the monotonic clock are read one after the other, so their difference varies slightly.
    for (seconds, jitter, expected) in
        [(1.0, 3e-6, 0.0), (2.0, -4e-6, 0.0), (9.0, 0.05, 0.0), (2.0, 3600.0, 3600.0)]
    {
        let last = test.only().last_window(test.at(seconds).monotonic, epoch + seconds + jitter);
        assert_eq!(last, Some(epoch + expected));
    }
}

#[test]
fn levels_and_limits_have_the_labels_of_source_and_judge() {
    let mut test = Test::new(Limits::default());
    let (warn, error) =
        ("rate=100±10% age.p99<50ms age.p99<40ms bandwidth<2MB/s", "rate>=50 lost=0 silent<2s");
    for (judge, source, level, warn, error) in [
        ("listener", "/r1/listener:/imu", 1, warn, error),
        ("topic_monitor", "/r1/listener:/imu", 0, "", ""),
        ("listener", "/r1/bridge:get_imu", 0, "duration.max<=20ms", "what is this"),
    ] {
        test.accept(judged(judge, source, level, &[("warn_unless", warn), ("error_unless", error)]), 0.0);
    }
    let text = test.text();
    let is_of = |line: &&str| ["expected_", "health_", "judged_"].iter().any(|start| line.starts_with(start));
    let lines: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("topic_statistics_")).filter(is_of).collect();
    let expected = r#"
        health_level{IMU} 1.0
        health_level{OTHER} 0.0
        health_level{BRIDGE} 0.0
        judged_rate_hertz{IMU} 41.5
        judged_rate_hertz{OTHER} 41.5
        judged_rate_hertz{BRIDGE} 41.5
        expected_rate_hertz{IMU,bound="lower",level="warn"} 90.0
        expected_rate_hertz{IMU,bound="upper",level="warn"} 110.0
        expected_rate_hertz{IMU,bound="lower",level="error"} 50.0
        expected_bandwidth_bytes_per_second{IMU,bound="upper",level="warn"} 2000000.0
        expected_window_messages_lost{IMU,bound="lower",level="error"} 0.0
        expected_window_messages_lost{IMU,bound="upper",level="error"} 0.0
        expected_message_age_seconds{IMU,figure="p99",bound="upper",level="warn"} 0.04
        expected_time_since_last_message_seconds{IMU,figure="mean",bound="upper",level="error"} 2.0
        expected_duration_seconds{BRIDGE,figure="max",bound="upper",level="warn"} 0.02"#
        .replace("IMU", r#"node="/r1/listener",topic="/imu",judge="listener""#)
        .replace("OTHER", r#"node="/r1/listener",topic="/imu",judge="topic_monitor""#)
        .replace("BRIDGE", r#"node="/r1/bridge",name="get_imu",judge="listener""#);
    assert_eq!(lines, expected.trim().lines().map(str::trim).collect());
    test.expire(61.0);
    assert_eq!((test.state.healths.len(), test.state.series()), (0, 0));
}

#[test]
fn judged_windows_count_from_the_first_status_of_a_judge() {
    let mut test = Test::new(Limits::default());
    for (sender, windows, expected) in [
        (1, "5000 0 0 1", [0; 4]), // these windows began at an unknown time
        (1, "5003 0 1 1", [3, 0, 1, 0]),
        (1, "5003 0 1 1", [3, 0, 1, 0]), // /diagnostics repeats a status
        (1, "2 0 0 0", [3, 0, 1, 0]),    // the judge restarts its counts because its conditions have changed
        (1, "3 0 0 2", [4, 0, 1, 2]),
        (2, "900 0 0 7", [4, 0, 1, 2]), // the judge is another process now
        (2, "", [4, 0, 1, 2]),
        (2, "1 2 3", [4, 0, 1, 2]),
        (2, "1 2 3 -4", [4, 0, 1, 2]),
        (2, "1 2 3 9999999999999", [4, 0, 1, 2]),
        (2, "901 0 0 7", [4, 0, 1, 2]), // the previous status had no valid counts
    ] {
        let status = judged("topic_monitor", "/a:/b", 0, &[("windows_judged", windows)]);
        test.state.accept_from(Sender::new(&[sender; 16]), status, test.start);
        let (_, health) = test.state.healths.iter().next().unwrap();
        assert_eq!(Level::ALL.map(|level| health.windows(level)), expected, "{windows}");
    }
}

#[test]
fn a_status_is_gone_without_room_or_repetition() {
    let mut test = Test::new(Limits { max_series: 10, ..Limits::default() });
    for (warn, statuses, series, refused) in [("rate>=1", 1, 8, 0), ("rate=1..2 age<1s lost=0", 0, 1, 1)] {
        test.accept(judged("listener", "/a:/b", 0, &[("warn_unless", warn)]), 0.0);
        assert_eq!((test.state.healths.len(), test.state.series()), (statuses, series));
        assert_eq!(test.state.counts().beyond_max_series, refused);
    }
    let mut test = Test::new(Limits::default());
    for (name, level, seconds) in [("a", 0, 0.0), ("b", 1, 0.0), ("b", 2, 50.0), ("b", 9, 60.0)] {
        test.accept(status(name, level, &[]), seconds);
    }
    test.expire(61.0);
    let left: Vec<_> = test.state.diagnostics().map(|(name, status)| (&*name.name, status.level)).collect();
    assert_eq!((left, test.state.counts().invalid), (vec![("b", Level::Error)], 1));
}

#[test]
fn distributions_are_added_up_and_the_last_one_has_quantiles() {
    let mut test = Test::new(Limits::default());
    for stop in [100, 101, 101, 102] {
        let ages = MetricDistribution::new(&distribution("/a:/b", stop)).map(Received::from);
        test.accept(ages, 0.0);
    }
    assert_eq!((test.state.counts().distributions, test.state.counts().duplicate), (3, 1));
    let (_, metric) = test.only().metrics.iter().next().unwrap();
    let distribution = metric.distribution.as_ref().unwrap();
    assert_eq!(distribution.quantiles, [Some(0.0015), Some(0.0015), None], "10 samples have no p99");
    assert_eq!((distribution.total.count, &*distribution.total.positive), (30, &[(149, 30)][..]));
    assert!((distribution.total.sum() - 0.045).abs() < 1e-15);
    // All samples are 1.5 ms. The boundaries of their bucket in seconds may be wrong by half a bucket.
    let boundary = |index: i32| (f64::from(index) / 256.0).exp2();
    let index = 149 + distribution.total.shift();
    let half = boundary(1).sqrt();
    assert!(boundary(index) / half < 0.0015 && 0.0015 < boundary(index + 1) * half);
}

#[test]
fn a_wrong_stamp_in_a_window_of_its_own_takes_no_resolution() {
    let mut histogram = Histogram::new(1e-3);
    for (samples, added, scale, count) in [
        (&[1.5, 1.6, 0.0][..], Ok(()), 8, 3),
        (&[1.7e12], Ok(()), 8, 4),
        (&[1e-3, 1.7e12], Err(NotAdded::TooWide), 8, 4),
        (&[1.0, 1.7e11], Ok(()), 2, 6),
    ] {
        let mut window = Distribution::default();
        samples.iter().for_each(|sample| assert!(window.accept(*sample)));
        assert_eq!(histogram.add(&window), added);
        assert_eq!((histogram.scale, histogram.count, histogram.zero_count), (scale, count, 1));
    }
}

/// A strategy for samples of any order of magnitude.
fn sample() -> impl Strategy<Value = f64> {
    let magnitude = (-9.0..9.0_f64).prop_map(|exponent| 10_f64.powf(exponent));
    prop_oneof![0.1..40.0_f64, magnitude, -1e3..-1e-3, Just(0.0)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_histogram_has_the_buckets_of_the_merged_distributions(
        windows in prop::collection::vec(prop::collection::vec(sample(), 1..60), 1..20)
    ) {
        let (mut histogram, mut merged, mut sum) = (Histogram::new(1.0), Distribution::default(), 0.0);
        for samples in &windows {
            let mut window = Distribution::default();
            samples.iter().for_each(|sample| assert!(window.accept(*sample)));
            if histogram.add(&window).is_ok() {
                prop_assert!(merged.merge(&window));
                sum += window.sum();
            }
            for side in [&histogram.positive, &histogram.negative] {
                prop_assert!(side.len() <= Histogram::MAX_BUCKETS);
                prop_assert!(side.is_sorted_by(|(index, _), (following, _)| index < following));
            }
        }
        prop_assert_eq!((histogram.count, histogram.sum()), (merged.count(), sum));
        if merged.zero_threshold() > 0.0 {
            return Ok(());
        }
        prop_assert_eq!(histogram.zero_count, merged.zero_count());
        let scale = merged.scale().min(histogram.scale);
        for (ours, expected) in [
            (&*histogram.positive, merged.positive().collect::<Vec<_>>()),
            (&*histogram.negative, merged.negative().collect()),
        ] {
            let rescaled = |from: i32, buckets: &[Bucket]| {
                let mut rescaled = BTreeMap::<i32, u64>::new();
                for (index, count) in buckets {
                    *rescaled.entry(index >> (from - scale)).or_default() += count;
                }
                rescaled
            };
            prop_assert_eq!(rescaled(histogram.scale, ours), rescaled(merged.scale(), &expected));
        }
    }
}
