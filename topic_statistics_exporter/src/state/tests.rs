// SPDX-License-Identifier: Apache-2.0

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rclrs_topic_statistics::{Distribution, Metric};
use ros_env::diagnostic_msgs::msg::DiagnosticStatus;

use super::{
    super::model::{
        tests::{distribution, message, FIGURES},
        Diagnostic, Losses, MetricDistribution, MetricName, MetricWindow,
    },
    metric::Total,
    FirstZero, *,
};

/// A time on both clocks, seconds after the start of the test.
fn at(start: Now, seconds: f64) -> Now {
    let after = Duration::from_secs_f64(seconds);
    Now { monotonic: start.monotonic + after, system: start.system + after }
}

fn window(source: &str, metric: &str, stop: i32, figures: [f64; 5]) -> Result<Received, Refused> {
    let unit = metric.parse().map_or("ms", |metric: Metric| metric.unit());
    MetricWindow::new(&message(source, metric, unit, stop, figures)).map(Received::Window)
}

fn ages(source: &str, stop: i32) -> Result<Received, Refused> {
    MetricDistribution::new(&distribution(source, stop)).map(Received::Distribution)
}

fn only(state: &State) -> &Source {
    let mut sources = state.sources();
    assert_eq!(sources.len(), 1);
    sources.next().unwrap().1
}

fn total(source: &Source, metric: Metric) -> Total {
    let metric = source.metric_state(&MetricName::Known(metric)).unwrap();
    metric.window.as_ref().unwrap().total
}

#[test]
fn a_node_that_restarts_goes_on_with_the_same_totals() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    for stop in [100, 101, 200, 201] {
        state.accept(window("/a:/b", "message_age", stop, FIGURES), at(start, f64::from(stop) - 100.0));
        state.expire(at(start, f64::from(stop) - 70.0).monotonic);
    }
    let source = only(&state);
    assert_eq!((source.received(), source.windows()), (Some(200), 4));
    assert_eq!(total(source, Metric::MessageAge).sum, 0.3);
}

#[test]
fn the_messages_of_a_window_are_counted_once_whatever_its_metrics_are() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let with = |count| [1.5, 4.0, 1.0, count, 0.5];
    for stop in [100, 101] {
        for (metric, count) in [
            ("message_period", 49.0),
            ("message_age", 0.0),
            ("source_to_callback_ms", 50.0),
            ("publication_seq_gap", 48.0),
            ("callback_duration_ms", 51.0), // of a message of the window before
            ("publish_duration_ms", 7.0),
        ] {
            state.accept(window("/a:/b", metric, stop, with(count)), start);
        }
    }
    let source = only(&state);
    assert_eq!((source.received(), source.published(), source.windows()), (Some(100), Some(14), 2));
    assert_eq!(source.lost().map(FirstZero::count), Some(2 * 72), "1.5 before each of 48 messages");
}

/// With rclcpp, they have the same name, and their timers expire one after the other.
#[test]
fn the_windows_of_two_subscriptions_of_a_node_add_up() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    for stop in [100, 101] {
        for after in [0, 150_000] {
            for metric in ["message_age", "message_period"] {
                let mut message = message("cpp_listener", metric, "ms", stop, FIGURES);
                (message.window_start.nanosec, message.window_stop.nanosec) = (after, after);
                state.accept(MetricWindow::new(&message).map(Received::Window), start);
            }
        }
    }
    let source = only(&state);
    assert_eq!((source.received(), source.windows()), (Some(200), 4));
}

#[test]
fn a_metric_that_has_ended_is_gone_after_its_windows_and_room_is_used_again() {
    let start = Now::read();
    let max_series = Source::SERIES + 2 * MetricState::SERIES;
    let mut state = State::new(Limits { max_series, keep_windows: 20, ..Limits::default() }, start);
    state.accept(window("/a:/b", "message_age", 100, FIGURES), start);
    state.accept(window("/a:/b", "message_period", 100, FIGURES), start);
    state.accept(window("/a:/b", "duration_ms", 100, FIGURES), start);
    state.accept(window("/c:/d", "message_age", 100, FIGURES), start);
    assert_eq!((state.series(), state.counts().beyond_max_series), (max_series, 2));
    state.accept(window("/a:/b", "message_age", 120, FIGURES), at(start, 15.0));
    state.expire(at(start, 20.5).monotonic);
    assert_eq!(only(&state).metrics().len(), 1, "20 windows of 1 s without the period");
    state.accept(window("/a:/b", "duration_ms", 121, FIGURES), at(start, 20.5));
    assert_eq!(only(&state).metrics().len(), 2);
    state.expire(at(start, 41.0).monotonic);
    assert_eq!((state.sources().len(), state.series()), (0, 0));
}

#[test]
fn a_step_of_the_system_clock_changes_no_lifetime() {
    let start = Now::read();
    let mut state = State::new(Limits { keep_windows: 20, ..Limits::default() }, start);
    // One hour forward in a window, and back in another one.
    for (second, begin, stop) in
        [(0, 100, 101), (1, 101, 3702), (2, 3702, 3703), (3, 3703, 104), (4, 104, 105)]
    {
        let mut message = message("/a:/b", "message_age", "ms", stop, FIGURES);
        message.window_start.sec = begin;
        state.accept(MetricWindow::new(&message).map(Received::Window), at(start, f64::from(second)));
    }
    assert_eq!(total(only(&state), Metric::MessageAge).count, 250);
    state.expire(at(start, 23.9).monotonic);
    assert_eq!(state.sources().len(), 1);
    state.expire(at(start, 24.1).monotonic);
    assert_eq!(state.sources().len(), 0);
    // A step in the last window.
    let mut last = message("/a:/b", "message_age", "ms", 3_702, FIGURES);
    last.window_start.sec = 100;
    state.accept(window("/a:/b", "message_age", 100, FIGURES), at(start, 30.0));
    state.accept(MetricWindow::new(&last).map(Received::Window), at(start, 31.0));
    state.expire(at(start, 52.0).monotonic);
    assert_eq!(state.sources().len(), 0, "not an hour later");
}

#[test]
fn losses_of_a_node_without_statistics_are_kept_for_a_quarter_of_an_hour() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    state.accept(losses("/a", 3), start);
    state.accept(losses("/a", 4), at(start, 890.0));
    state.expire(at(start, 1780.0).monotonic);
    let lost: Vec<_> =
        state.reported_losses().map(|(name, losses)| (name.to_string(), losses.lost.scraped())).collect();
    assert_eq!(lost, [("/a:/b".to_owned(), 7)]);
    state.expire(at(start, 1791.0).monotonic);
    assert_eq!((state.reported_losses().len(), state.series()), (0, 0));
}

/// Events name the topic only, and a node may publish what it subscribes to: the source with the topic's name may be a
/// publisher.
#[test]
fn reported_losses_are_of_the_topic_and_not_of_a_source() {
    let start = Now::read();
    let mut state = State::new(Limits { keep_windows: 20, ..Limits::default() }, start);
    state.accept(window("/a:/b", "publish_period", 100, FIGURES), start);
    let loss = ros_env::topic_statistics_interfaces::msg::MessagesLostEventTopicStat {
        topic_name: "/b".to_owned(),
        messages_lost: 3,
    };
    state.accept(Losses::new("/a", &loss).map(Received::Losses), start);
    let text =
        String::from_utf8(crate::exposition::Format::Text.encode(&state, start.monotonic, 1e9, vec![]))
            .unwrap();
    for line in [
        "topic_statistics_messages_reported_lost_total{node=\"/a\",topic=\"/b\"} 3.0",
        "topic_statistics_windows_total{node=\"/a\",topic=\"/b\"} 1.0",
    ] {
        assert!(text.lines().any(|written| written == line), "no {line} in {text}");
    }
    state.expire(at(start, 15.0).monotonic);
    assert_eq!(state.series(), Source::SERIES + MetricState::SERIES + 1);
    state.expire(at(start, 901.0).monotonic);
    assert_eq!(state.series(), 0);
}

fn losses(node: &str, messages_lost: u64) -> Result<Received, Refused> {
    let loss = ros_env::topic_statistics_interfaces::msg::MessagesLostEventTopicStat {
        topic_name: "/b".to_owned(),
        messages_lost,
    };
    Losses::new(node, &loss).map(Received::Losses)
}

#[test]
fn a_scraper_sees_a_counter_of_losses_at_0_before_its_first_value() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let mut scrape = |received: Vec<Result<Received, Refused>>| {
        received.into_iter().for_each(|received| state.accept(received, start));
        state.begin_scrape();
        let negative =
            only(&state).metrics().next().unwrap().1.window.as_ref().unwrap().total.negative_windows;
        let reported = state.reported_losses().next().map(|(_, losses)| losses.lost.scraped());
        [only(&state).lost().map(FirstZero::scraped), reported, Some(negative.scraped())]
    };
    let gaps = |stop, mean: f64| window("/a:/b", "publication_seq_gap", stop, [mean, 9.0, 0.0, 10.0, 0.5]);
    let early = |stop| window("/a:/b", "message_age", stop, [-1.0, 1.0, -2.0, 10.0, 0.5]);
    assert_eq!(scrape(vec![gaps(100, 0.7), early(100), losses("/a", 500)]), [Some(0), Some(0), Some(0)]);
    assert_eq!(scrape(vec![losses("/a", 300)]), [Some(7), Some(800), Some(1)]);
    assert_eq!(scrape(vec![gaps(101, 0.2), early(101), losses("/a", 1)]), [Some(9), Some(801), Some(2)]);
}

#[test]
fn no_total_begins_after_its_samples() {
    let start = Now::read();
    let created = |begin_before: f64, length: f64, received: Now| {
        let epoch = start.system.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let time = |seconds: f64| ros_env::builtin_interfaces::msg::Time {
            sec: seconds.floor() as i32,
            nanosec: (seconds.fract() * 1e9) as u32,
        };
        let mut message = message("/a:/b", "message_age", "ms", 100, FIGURES);
        message.window_start = time(epoch - begin_before);
        message.window_stop = time(epoch - begin_before + length);
        let mut state = State::new(Limits::default(), start);
        state.accept(MetricWindow::new(&message).map(Received::Window), received);
        let source = only(&state);
        let metric = source.metric_state(&MetricName::Known(Metric::MessageAge)).unwrap();
        let created = metric.window.as_ref().unwrap().life.created;
        assert_eq!(created, source.created());
        start.system.duration_since(created).unwrap_or_default().as_secs_f64()
    };
    let is_about = |is: f64, expected: f64| assert!((is - expected).abs() < 1e-3, "{is}, not {expected}");
    is_about(created(1.2, 1.0, start), 1.2);
    is_about(created(301.0, 300.0, start), 301.0);
    // A clock that is an hour behind, or ahead, says nothing of the time here.
    is_about(created(3601.0, 1.0, start), 1.0);
    is_about(created(-3600.0, 1.0, start), 1.0);
}

#[test]
fn nodes_that_have_ended_leave_their_room_to_new_ones() {
    let start = Now::read();
    let node = Source::SERIES + MetricState::SERIES;
    let mut state = State::new(Limits { max_series: 400 * node, ..Limits::default() }, start);
    for number in 0..400 {
        state.accept(window(&format!("/anonymous_{number}:/imu"), "message_age", 100, FIGURES), start);
    }
    let arrives = |state: &mut State, seconds: f64| {
        let stop = 100 + seconds as i32;
        state.accept(window("/safety_critical:/scan", "message_age", stop, FIGURES), at(start, seconds));
        state.sources().any(|(name, _)| &*name.node == "/safety_critical")
    };
    assert!(!arrives(&mut state, 5.0), "all of them may still be there");
    assert_eq!(state.counts().beyond_max_series, 1);
    for number in 0..10 {
        let name = format!("/anonymous_{number}:/imu");
        state.accept(window(&name, "message_age", 111, FIGURES), at(start, 11.0));
    }
    // Long before the 60 windows that an ended source is kept for.
    assert!(arrives(&mut state, 12.0));
    assert_eq!(state.sources().len(), 11, "those that have published a window lately, and the new one");
}

/// A flood of one sender: what a robot does afterwards, and how many of its sources are there.
fn after_a_flood(flood: impl Fn(&mut State, Sender, Now), seconds: f64) -> [usize; 2] {
    let start = Now::read();
    let source = Source::SERIES + MetricState::SERIES;
    let limits = Limits { max_series: 400 * source, max_series_per_node: 200 * source, ..Limits::default() };
    let mut state = State::new(limits, start);
    let [robot, foreign] = [1, 2].map(|process| Sender::new(&[process; 16]));
    let is_the_robots = |name: &SourceName| &*name.node == "/robot";
    let publish = |state: &mut State, topics: std::ops::Range<i32>, second: f64| {
        for topic in topics {
            let window = window(&format!("/robot:/{topic}"), "message_age", 100 + second as i32, FIGURES);
            state.accept_from(robot, window, at(start, second));
        }
        state.sources().filter(|(name, _)| is_the_robots(name)).count()
    };
    publish(&mut state, 0..50, 0.0);
    flood(&mut state, foreign, start);
    assert!(state.series() + source > state.limits().max_series, "it is full: {}", state.series());
    publish(&mut state, 0..50, 1.0);
    [publish(&mut state, 0..50, seconds), publish(&mut state, 0..100, seconds)]
}

#[test]
fn a_flood_takes_nothing_from_the_robot_that_the_flooding_process_would_then_have_more_of() {
    let windows = |state: &mut State, foreign, start, length: i32, repeated: i32| {
        for window in 0..=repeated {
            for number in 0..6000 {
                let name = format!("/forged_{number}:/imu");
                let mut message = message(&name, "message_age", "ms", 100 + window, FIGURES);
                message.window_start.sec = message.window_stop.sec - length;
                let received = MetricWindow::new(&message).map(Received::Window);
                state.accept_from(foreign, received, at(start, f64::from(window)));
            }
        }
    };
    let events = |state: &mut State, foreign, start| {
        for number in 0..6000 {
            state.accept_from(foreign, losses(&format!("/forged_{number}"), 1), start);
        }
    };
    let statuses = |state: &mut State, foreign, start, judge: bool| {
        for number in 0..20_000 {
            let values = if judge { &[("error_unless", "rate>=1")][..] } else { &[] };
            let source = format!("/forged_{number}:/imu");
            let status = judged("x", &source, 0, values);
            state.accept_from(foreign, status, at(start, 0.5));
        }
    };
    // At once, and while the flood lasts.
    for seconds in [1.5, 15.0] {
        assert_eq!(after_a_flood(|state, from, at| windows(state, from, at, 86_400, 0), seconds), [50, 100]);
        assert_eq!(after_a_flood(|state, from, at| windows(state, from, at, 86_400, 1), seconds), [50, 100]);
        assert_eq!(after_a_flood(|state, from, at| windows(state, from, at, 1, 1), seconds), [50, 100]);
        assert_eq!(after_a_flood(|state, from, at| statuses(state, from, at, true), seconds), [50, 100]);
        let mixed = |state: &mut State, from, at| {
            events(state, from, at);
            windows(state, from, at, 86_400, 0);
        };
        assert_eq!(after_a_flood(mixed, seconds), [50, 100]);
    }
}

#[test]
fn forged_topics_of_a_node_leave_it_room_for_its_own() {
    let start = Now::read();
    let source = Source::SERIES + MetricState::SERIES;
    let limits = Limits { max_series_per_node: 10 * source, ..Limits::default() };
    let mut state = State::new(limits, start);
    let [node, foreign] = [1, 2].map(|process| Sender::new(&[process; 16]));
    for topic in 0..20 {
        let forged = window(&format!("/node:/forged_{topic}"), "message_age", 100, FIGURES);
        state.accept_from(foreign, forged, start);
    }
    for topic in 0..20 {
        state.accept_from(node, window(&format!("/node:/{topic}"), "message_age", 100, FIGURES), start);
    }
    let forged = |name: &SourceName| name.name.as_deref().is_some_and(|name| name.starts_with("/forged"));
    assert_eq!(state.sources().filter(|(name, _)| !forged(name)).count(), 5, "half of what a node may have");
    // 20 of the 20 forged ones and of the node's own are not there: 10 each, and 5 that came and had to go.
    assert_eq!(state.counts().beyond_max_of_node, 10 + 15);
}

#[test]
fn what_was_seen_once_gives_way_before_what_is_published_all_the_time() {
    let start = Now::read();
    let source = Source::SERIES + MetricState::SERIES;
    let mut state = State::new(Limits { max_series: 20 * source, ..Limits::default() }, start);
    let [relay, late] = [1, 2].map(|process| Sender::new(&[process; 16]));
    for second in 0..3 {
        for topic in 0..10 {
            let window = window(&format!("/old:/{topic}"), "message_age", 100 + second, FIGURES);
            state.accept_from(relay, window, at(start, f64::from(second)));
        }
    }
    for topic in 0..10 {
        let window = window(&format!("/once:/{topic}"), "message_age", 102, FIGURES);
        state.accept_from(relay, window, at(start, 2.0));
    }
    for topic in 0..10 {
        let window = window(&format!("/late:/{topic}"), "message_age", 103, FIGURES);
        state.accept_from(late, window, at(start, 3.0));
    }
    let nodes: BTreeSet<_> = state.sources().map(|(name, _)| &*name.node).collect();
    assert_eq!((state.sources().len(), nodes), (20, BTreeSet::from(["/late", "/old"])));
}

#[test]
fn a_claim_of_a_long_window_is_believed_as_far_as_it_was_observed() {
    let start = Now::read();
    let limits = Limits { keep_windows: 3, ..Limits::default() };
    let ended = |length: i32, windows: i32| {
        let mut state = State::new(limits.clone(), start);
        let last = f64::from(length * (windows - 1));
        for number in 0..windows {
            let mut message = message("/a:/b", "message_age", "ms", 200_000 + number * length, FIGURES);
            message.window_start.sec = message.window_stop.sec - length;
            let received = MetricWindow::new(&message).map(Received::Window);
            state.accept(received, at(start, f64::from(number * length)));
        }
        let mut minutes = (0..10_000).map(f64::from);
        minutes.find(|minutes| {
            state.expire(at(start, last + minutes * 60.0).monotonic);
            state.sources().len() == 0
        })
    };
    assert_eq!(ended(86_400, 1), Some(16.0), "three windows of 5 min");
    assert_eq!([ended(300, 1), ended(300, 2)], [Some(16.0); 2]);
    assert_eq!(ended(3600, 2), Some(181.0), "it is true");
}

#[test]
fn a_node_has_a_limit_of_its_own() {
    let start = Now::read();
    let source = Source::SERIES + MetricState::SERIES;
    let limits = Limits { max_series_per_node: 3 * source, ..Limits::default() };
    let mut state = State::new(limits, start);
    for topic in 0..10 {
        state.accept(window(&format!("/churn:/topic_{topic}"), "message_age", 100, FIGURES), start);
    }
    state.accept(window("/safety_critical:/scan", "message_age", 100, FIGURES), start);
    assert_eq!((state.sources().len(), state.series()), (4, 4 * source));
    assert_eq!((state.counts().beyond_max_of_node, state.counts().beyond_max_series), (7, 0));
    state.expire(at(start, 100.0).monotonic);
    assert_eq!(state.series(), 0);
    state.accept(window("/churn:/topic_9", "message_age", 200, FIGURES), at(start, 100.0));
    assert_eq!(state.sources().len(), 1, "its room is used again");
}

#[test]
fn the_filters_hold_for_everything_that_is_exported() {
    let start = Now::read();
    let filtered = |include: &[&str], exclude: &[&str]| {
        let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let mut state = State::new(Limits::default(), start);
        state.set_filter(NodeFilter::new(patterns(include), patterns(exclude)));
        for node in ["/r1/camera", "/r1/debug", "/r2/camera"] {
            let source = format!("{node}:/imu");
            state.accept(window(&source, "message_age", 100, FIGURES), start);
            state.accept(ages(&source, 100), start);
            state.accept(losses(node, 1), start);
            state.accept(judged("topic_monitor", &source, 0, &[]), start);
            let name = format!("{node}: temperature");
            let status = DiagnosticStatus { name, ..Default::default() };
            state.accept(Diagnostic::new(&status).map(Received::Diagnostic), start);
        }
        // A host, and diagnostic_updater, which has names without a namespace.
        state.accept(window("robot_2", "clock_offset_ms", 100, FIGURES), start);
        let status = DiagnosticStatus { name: "motor: temperature".to_owned(), ..Default::default() };
        state.accept(Diagnostic::new(&status).map(Received::Diagnostic), start);
        let text = crate::exposition::Format::Text.encode(&state, start.monotonic, 1e9, vec![]);
        let text = String::from_utf8(text).unwrap();
        let has = ["/r1/camera", "/r1/debug", "/r2/camera", "robot_2", "motor: "].map(|name| {
            let of_sources = text.lines().filter(|line| !line.starts_with('#'));
            of_sources.filter(|line| line.contains(name)).count() > 0
        });
        (has, state.counts().excluded)
    };
    assert_eq!(filtered(&[], &[]), ([true; 5], 0));
    assert_eq!(filtered(&["/r1/**"], &["/r1/debug"]), ([true, false, false, false, false], 12));
    assert_eq!(filtered(&[], &["/r2/**"]), ([true, true, false, true, true], 5));
    assert_eq!(filtered(&["/r1/**", "motor", "robot_2"], &[]), ([true, true, false, true, true], 5));
}

#[test]
fn the_time_of_the_last_window_is_the_same_in_each_scrape_until_the_clock_is_stepped() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    state.accept(window("/a:/b", "message_age", 100, FIGURES), start);
    let epoch = start.system.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    // Two clocks are read one after the other.
    let last = |seconds: f64, jitter: f64| {
        only(&state).last_window(at(start, seconds).monotonic, epoch + seconds + jitter).unwrap()
    };
    assert_eq!([last(1.0, 3e-6), last(2.0, -4e-6), last(9.0, 0.05)], [epoch; 3]);
    assert_eq!(last(2.0, 3600.0), epoch + 3600.0);
}

/// A status of the library, with conditions.
fn health(source: &str, level: u8, warn_unless: &str, error_unless: &str) -> Result<Received, Refused> {
    judged("listener", source, level, &[("warn_unless", warn_unless), ("error_unless", error_unless)])
}

/// A status of a source by the node of that name.
fn judged(judge: &str, source: &str, level: u8, values: &[(&str, &str)]) -> Result<Received, Refused> {
    let of_source = [("measurement_source_name", source), ("Actual frequency (Hz)", "41.500000")];
    let values = of_source.iter().chain(values).copied();
    let values = values.map(|(key, value)| ros_env::diagnostic_msgs::msg::KeyValue {
        key: key.to_owned(),
        value: value.to_owned(),
    });
    let name = format!("{judge}: {source}");
    let status = DiagnosticStatus { level, name, values: values.collect(), ..Default::default() };
    Diagnostic::new(&status).map(Received::Diagnostic)
}

#[test]
fn the_limits_of_authors_are_time_series_with_the_labels_of_their_source() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let (warn, error) =
        ("rate=100±10% age.p99<50ms age.p99<40ms bandwidth<2MB/s", "rate>=50 lost=0 silent<2s");
    state.accept(health("/r1/listener:/imu", 1, warn, error), start);
    state.accept(health("/r1/bridge:get_imu", 0, "duration.max<=20ms", "what is this"), start);
    let text = crate::exposition::Format::Text.encode(&state, start.monotonic, 1e9, vec![]);
    let text = String::from_utf8(text).unwrap();
    let series: BTreeMap<&str, f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("topic_statistics_")?.rsplit_once(' '))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .filter(|(name, _)| ["expected_", "health_", "judged_"].iter().any(|start| name.starts_with(start)))
        .collect();
    let imu = r#"node="/r1/listener",topic="/imu",judge="listener""#;
    let expected = [
        (format!("health_level{{{imu}}}"), 1.0),
        (r#"health_level{node="/r1/bridge",name="get_imu",judge="listener"}"#.to_owned(), 0.0),
        (format!("judged_rate_hertz{{{imu}}}"), 41.5),
        (r#"judged_rate_hertz{node="/r1/bridge",name="get_imu",judge="listener"}"#.to_owned(), 41.5),
        (format!(r#"expected_rate_hertz{{{imu},bound="lower",level="warn"}}"#), 90.0),
        (format!(r#"expected_rate_hertz{{{imu},bound="upper",level="warn"}}"#), 110.0),
        (format!(r#"expected_rate_hertz{{{imu},bound="lower",level="error"}}"#), 50.0),
        (format!(r#"expected_bandwidth_bytes_per_second{{{imu},bound="upper",level="warn"}}"#), 2e6),
        (format!(r#"expected_window_messages_lost{{{imu},bound="lower",level="error"}}"#), 0.0),
        (format!(r#"expected_window_messages_lost{{{imu},bound="upper",level="error"}}"#), 0.0),
        (format!(r#"expected_message_age_seconds{{{imu},figure="p99",bound="upper",level="warn"}}"#), 0.04),
        (
            format!(
                r#"expected_time_since_last_message_seconds{{{imu},figure="mean",bound="upper",level="error"}}"#
            ),
            2.0,
        ),
        (
            r#"expected_duration_seconds{node="/r1/bridge",name="get_imu",judge="listener",figure="max",bound="upper",level="warn"}"#
                .to_owned(),
            0.02,
        ),
    ];
    assert_eq!(series.len(), expected.len(), "{series:#?}");
    for (name, value) in &expected {
        let is = series.get(&**name).copied().unwrap_or_else(|| panic!("no {name} in {series:#?}"));
        assert!((is - value).abs() <= 1e-9, "{name} is {is}");
    }
    let lines = text.lines().filter(|line| line.contains("/r1/") || line.contains("diagnostic_level{"));
    assert!(lines.count() <= state.series());
    state.expire(at(start, 61.0).monotonic);
    assert_eq!((state.healths().len(), state.series()), (0, 0));
}

#[test]
fn judged_windows_are_those_of_the_judge_from_its_first_status_on() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let status = |state: &mut State, sender, windows: &str| {
        let status = judged("topic_monitor", "/a:/b", 0, &[("windows_judged", windows)]);
        state.accept_from(Sender::new(&[sender; 16]), status, start);
        let (_, health) = state.healths().next().unwrap();
        HealthState::LEVELS.map(|level| health.windows(level))
    };
    assert_eq!(status(&mut state, 1, "5000 0 0 1"), [0; 4], "of an unknown time");
    // Without a window on /statistics, and each one once, with one too: /diagnostics repeats a status.
    assert_eq!(status(&mut state, 1, "5003 0 1 1"), [3, 0, 1, 0]);
    assert_eq!(status(&mut state, 1, "5003 0 1 1"), [3, 0, 1, 0]);
    state.accept(window("/a:/b", "message_age", 100, FIGURES), start);
    assert_eq!(status(&mut state, 1, "5004 0 1 1"), [4, 0, 1, 0]);
    // The judge begins anew, with the next conditions, and with the next process.
    assert_eq!(status(&mut state, 1, "2 0 0 0"), [4, 0, 1, 0]);
    assert_eq!(status(&mut state, 1, "3 0 0 2"), [5, 0, 1, 2]);
    assert_eq!(status(&mut state, 2, "900 0 0 7"), [5, 0, 1, 2]);
    // No count, and an impossible one.
    for wrong in ["", "1 2 3", "1 2 3 4 5", "1 2 3 -4", "1 2 3 9999999999999"] {
        assert_eq!(status(&mut state, 2, wrong), [5, 0, 1, 2], "{wrong}");
    }
    assert_eq!(status(&mut state, 2, "901 0 0 7"), [5, 0, 1, 2], "nothing is known of the time between");
}

#[test]
fn two_judges_of_a_source_have_a_level_each() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    for windows in [1, 2] {
        for (judge, level, windows) in
            [("n", 2, format!("0 0 {windows} 0")), ("topic_monitor", 0, format!("{windows} 0 0 0"))]
        {
            let values = [("windows_judged", &*windows), ("error_unless", "rate>=50")];
            state.accept(judged(judge, "/r1/n:/b", level, &values), start);
        }
    }
    let text = crate::exposition::Format::Text.encode(&state, start.monotonic, 1e9, vec![]);
    let text = String::from_utf8(text).unwrap();
    for line in [
        r#"health_level{node="/r1/n",topic="/b",judge="n"} 2.0"#,
        r#"health_level{node="/r1/n",topic="/b",judge="topic_monitor"} 0.0"#,
        r#"windows_judged_total{node="/r1/n",topic="/b",judge="n",level="error"} 1.0"#,
        r#"windows_judged_total{node="/r1/n",topic="/b",judge="topic_monitor",level="ok"} 1.0"#,
        r#"windows_judged_total{node="/r1/n",topic="/b",judge="topic_monitor",level="error"} 0.0"#,
        r#"expected_rate_hertz{node="/r1/n",topic="/b",judge="n",bound="lower",level="error"} 50.0"#,
    ] {
        assert!(text.contains(&format!("\ntopic_statistics_{line}\n")), "no {line} in {text}");
    }
    assert_eq!(state.healths().len(), 2);
}

#[test]
fn a_status_with_more_limits_than_there_is_room_for_is_left_out() {
    let start = Now::read();
    let mut state = State::new(Limits { max_series: 10, ..Limits::default() }, start);
    state.accept(health("/a:/b", 0, "rate>=1", ""), start);
    assert_eq!((state.healths().len(), state.series()), (1, 8));
    state.accept(health("/a:/b", 0, "rate=1..2 age<1s lost=0", ""), start);
    assert_eq!((state.healths().len(), state.series()), (0, 1));
    assert_eq!(state.counts().beyond_max_series, 1);
}

#[test]
fn diagnostics_that_are_not_repeated_are_gone() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let status = |name: &str, level| {
        let status = DiagnosticStatus { level, name: name.to_owned(), ..Default::default() };
        Diagnostic::new(&status).map(Received::Diagnostic)
    };
    state.accept(status("a", 0), start);
    state.accept(status("b", 1), start);
    state.accept(status("b", 2), at(start, 50.0));
    state.accept(status("b", 9), at(start, 60.0));
    state.expire(at(start, 61.0).monotonic);
    let left: Vec<_> = state.diagnostics().map(|(name, status)| (&*name.name, status.level)).collect();
    assert_eq!((left, state.series()), (vec![("b", Level::Error)], 1));
    assert_eq!(state.counts().invalid, 1);
}

#[test]
fn distributions_are_added_up_and_the_last_one_has_quantiles() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    for stop in [100, 101, 101, 102] {
        state.accept(ages("/a:/b", stop), start);
    }
    assert_eq!((state.counts().distributions, state.counts().duplicate), (3, 1));
    let (_, metric) = only(&state).metrics().next().unwrap();
    let distribution = metric.distribution.as_ref().unwrap();
    assert_eq!(distribution.quantiles, [Some(0.0015), Some(0.0015), None], "10 samples have no p99");
    assert_eq!((distribution.total.count(), distribution.total.positive()), (30, &[(149, 30)][..]));
    assert!((distribution.total.sum() - 0.045).abs() < 1e-15);
    // All samples are 1.5 ms: the bucket of 0.0015 s has them, or the next one.
    let boundary = |index: i32| (f64::from(index) / 256.0).exp2();
    let index = 149 + distribution.total.shift();
    let half = boundary(1).sqrt();
    assert!(boundary(index) / half < 0.0015 && 0.0015 < boundary(index + 1) * half);
}

#[test]
fn a_wrong_stamp_in_a_window_of_its_own_takes_no_resolution() {
    let mut histogram = Histogram::new(1e-3);
    let message = |samples: &[f64]| {
        let mut window = Distribution::default();
        samples.iter().for_each(|sample| assert!(window.accept(*sample)));
        window
    };
    histogram.add(&message(&[1.5, 1.6, 0.0])).unwrap();
    histogram.add(&message(&[1.7e12])).unwrap();
    assert_eq!((histogram.scale(), histogram.count(), histogram.zero_count()), (8, 4, 1));
    let before = histogram.clone();
    assert_eq!(histogram.add(&message(&[1e-3, 1.7e12])), Err(NotAdded::TooWide));
    assert_eq!(histogram, before);
    histogram.add(&message(&[1.0, 1.7e11])).unwrap();
    assert_eq!((histogram.scale(), histogram.count()), (2, 6));
}

/// A sample between `low` and `high`, of any order of magnitude.
fn sample() -> impl Strategy<Value = f64> {
    prop_oneof![
        (0.1..40.0_f64),
        (-9.0..9.0_f64).prop_map(|exponent| 10_f64.powf(exponent)),
        (-3.0..3.0_f64).prop_map(|exponent| -10_f64.powf(exponent)),
        Just(0.0),
    ]
}

proptest! {
    #[test]
    fn a_histogram_has_the_buckets_of_the_merged_distributions(
        windows in prop::collection::vec(prop::collection::vec(sample(), 1..60), 1..20)
    ) {
        let (mut histogram, mut merged, mut sum) = (Histogram::new(1.0), Distribution::default(), 0.0);
        for samples in &windows {
            let mut window = Distribution::default();
            for sample in samples {
                prop_assert!(window.accept(*sample));
            }
            if histogram.add(&window).is_ok() {
                prop_assert!(merged.merge(&window));
                sum += window.sum();
            }
            for side in [histogram.positive(), histogram.negative()] {
                prop_assert!(side.len() <= Histogram::MAX_BUCKETS);
                prop_assert!(side.is_sorted_by(|(index, _), (following, _)| index < following));
            }
        }
        prop_assert_eq!(histogram.count(), merged.count());
        prop_assert_eq!(histogram.sum(), sum);
        if merged.zero_threshold() == 0.0 {
            prop_assert_eq!(histogram.zero_count(), merged.zero_count());
            let scale = merged.scale().min(histogram.scale());
            let reduced = |buckets: &mut dyn Iterator<Item = (i32, u64)>, from: i32| {
                let mut reduced = BTreeMap::new();
                buckets.for_each(|(index, count)| *reduced.entry(index >> (from - scale)).or_insert(0) += count);
                reduced
            };
            prop_assert_eq!(
                reduced(&mut histogram.positive().iter().copied(), histogram.scale()),
                reduced(&mut merged.positive(), merged.scale())
            );
            prop_assert_eq!(
                reduced(&mut histogram.negative().iter().copied(), histogram.scale()),
                reduced(&mut merged.negative(), merged.scale())
            );
        }
    }

    #[test]
    fn totals_are_those_of_each_window_once(
        // A source, a window, and its number of messages. Messages come up to 3 windows late, and more than once.
        received in prop::collection::vec((0..3_usize, 0..4_i32), 1..200)
    ) {
        let start = Now::read();
        let mut state = State::new(Limits::default(), start);
        let mut known = BTreeSet::new();
        let mut counts = BTreeMap::<usize, u64>::new();
        for (number, (source, late)) in received.iter().enumerate() {
            let stop = 100 + (number / 8) as i32 - late.min(&((number / 8) as i32));
            let count = 10 + stop as u64 % 5;
            let name = format!("/node_{source}:/imu");
            let message = window(&name, "message_age", stop, [1.5, 4.0, 1.0, count as f64, 0.5]);
            state.accept(message, at(start, number as f64 / 8.0));
            if known.insert((*source, stop)) {
                *counts.entry(*source).or_default() += count;
            }
        }
        for (source, count) in counts {
            let name = SourceName::new(&format!("/node_{source}:/imu"));
            let (_, state) = state.sources().find(|(key, _)| **key == name).unwrap();
            prop_assert_eq!(state.received(), Some(count));
            let total = total(state, Metric::MessageAge);
            prop_assert_eq!(total.count, count);
            prop_assert!((total.sum - count as f64 * 0.0015).abs() < 1e-9);
        }
        prop_assert_eq!(state.counts().windows as usize, known.len());
    }
}
