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
fn totals_go_on_over_restarts_and_count_each_message_once() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    for stop in [100, 101, 200, 201] {
        state.accept(window("/a:/b", "message_age", stop, FIGURES), at(start, f64::from(stop) - 100.0));
        state.expire(at(start, f64::from(stop) - 70.0).monotonic);
    }
    assert_eq!((only(&state).received(), only(&state).windows()), (Some(200), 4));
    assert_eq!(total(only(&state), Metric::MessageAge).sum, 0.3);

    // Whatever the metrics of a window are.
    let mut state = State::new(Limits::default(), start);
    for (stop, metric, count) in [100, 101].into_iter().flat_map(|stop| {
        [
            (stop, "message_period", 49.0),
            (stop, "message_age", 0.0),
            (stop, "source_to_callback_ms", 50.0),
            (stop, "publication_seq_gap", 48.0),
            (stop, "callback_duration_ms", 51.0), // of a message of the window before
            (stop, "publish_duration_ms", 7.0),
        ]
    }) {
        state.accept(window("/a:/b", metric, stop, [1.5, 4.0, 1.0, count, 0.5]), start);
    }
    let source = only(&state);
    assert_eq!((source.received(), source.published(), source.windows()), (Some(100), Some(14), 2));
    assert_eq!(source.lost().map(FirstZero::count), Some(2 * 72), "1.5 before each of 48 messages");

    // Two subscriptions of rclcpp have the same name, and their timers expire one after the other.
    let mut state = State::new(Limits::default(), start);
    for (after, metric) in
        [(0, "message_age"), (0, "message_period"), (9, "message_age"), (9, "message_period")]
    {
        let mut message = message("cpp_listener", metric, "ms", 100, FIGURES);
        (message.window_start.nanosec, message.window_stop.nanosec) = (after, after);
        state.accept(MetricWindow::new(&message).map(Received::Window), start);
    }
    assert_eq!((only(&state).received(), only(&state).windows()), (Some(100), 2));
}

#[test]
fn a_metric_that_has_ended_is_gone_and_leaves_its_room() {
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
    // One hour forward in a window, and back in another one; a step in the last window.
    for (windows, count) in [
        (&[(100, 101), (101, 3702), (3702, 3703), (3703, 104), (104, 105)][..], 250),
        (&[(99, 100), (100, 3702)], 100),
    ] {
        let mut state = State::new(Limits { keep_windows: 20, ..Limits::default() }, start);
        for (second, (begin, stop)) in windows.iter().enumerate() {
            let mut message = message("/a:/b", "message_age", "ms", *stop, FIGURES);
            message.window_start.sec = *begin;
            state.accept(MetricWindow::new(&message).map(Received::Window), at(start, second as f64));
        }
        assert_eq!(total(only(&state), Metric::MessageAge).count, count);
        let last = windows.len() as f64 - 1.0;
        state.expire(at(start, last + 19.9).monotonic);
        assert_eq!(state.sources().len(), 1);
        state.expire(at(start, last + 21.0).monotonic);
        assert_eq!(state.sources().len(), 0);
    }
}

/// Events name the topic only: the source with the topic's name may be a publisher.
#[test]
fn reported_losses_are_of_the_topic_for_a_quarter_of_an_hour() {
    let start = Now::read();
    let mut state = State::new(Limits { keep_windows: 20, ..Limits::default() }, start);
    state.accept(window("/a:/b", "publish_period", 100, FIGURES), start);
    state.accept(losses("/a", 3), start);
    state.accept(losses("/a", 4), at(start, 890.0));
    assert_eq!(only(&state).lost().map(FirstZero::count), None);
    state.expire(at(start, 1780.0).monotonic);
    let lost: Vec<_> =
        state.reported_losses().map(|(name, losses)| (name.to_string(), losses.lost.scraped())).collect();
    assert_eq!((lost, state.series()), (vec![("/a:/b".to_owned(), 7)], 1));
    state.expire(at(start, 1791.0).monotonic);
    assert_eq!((state.reported_losses().len(), state.series()), (0, 0));
}

fn losses(node: &str, messages_lost: u64) -> Result<Received, Refused> {
    let loss = ros_env::topic_statistics_interfaces::msg::MessagesLostEventTopicStat {
        topic_name: "/b".to_owned(),
        messages_lost,
    };
    Losses::new(node, &loss).map(Received::Losses)
}

#[test]
fn a_counter_of_losses_is_0_before_its_first_value() {
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
fn after_a_flood(flood: &dyn Fn(&mut State, Sender, Now), seconds: f64) -> [usize; 2] {
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
fn a_flood_takes_no_room_that_a_smaller_sender_needs() {
    let forged = |number: i32| format!("/forged_{number}:/imu");
    let windows = |state: &mut State, foreign, start, length: i32, repeated: i32| {
        for (window, number) in
            (0..=repeated).flat_map(|window| (0..6000).map(move |number| (window, number)))
        {
            let mut message = message(&forged(number), "message_age", "ms", 100 + window, FIGURES);
            message.window_start.sec = message.window_stop.sec - length;
            let received = MetricWindow::new(&message).map(Received::Window);
            state.accept_from(foreign, received, at(start, f64::from(window)));
        }
    };
    type Flood<'a> = &'a dyn Fn(&mut State, Sender, Now);
    let floods: [Flood<'_>; 3] = [
        &|state, from, start| windows(state, from, start, 1, 1),
        &|state, from, start| {
            (0..6000).for_each(|n| state.accept_from(from, losses(&forged(n), 1), start));
            windows(state, from, start, 86_400, 0);
        },
        &|state, from, start| {
            for number in 0..20_000 {
                let status = judged("x", &forged(number), 0, &[("error_unless", "rate>=1")]);
                state.accept_from(from, status, at(start, 0.5));
            }
        },
    ];
    // At once, and while the flood lasts.
    for (flood, seconds) in floods.iter().flat_map(|flood| [(flood, 1.5), (flood, 15.0)]) {
        assert_eq!(after_a_flood(flood, seconds), [50, 100]);
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
    state.accept(window("/safety_critical:/scan", "message_age", 100, FIGURES), start);
    assert_eq!(state.series(), 11 * source, "other nodes have room");
    // 20 of the 20 forged ones and of the node's own are not there: 10 each, and 5 that came and had to go.
    assert_eq!(state.counts().beyond_max_of_node, 10 + 15);
}

#[test]
fn what_was_seen_once_gives_way_first() {
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
fn a_long_window_is_believed_as_far_as_it_was_observed() {
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
fn the_filters_hold_for_everything_that_is_exported() {
    let start = Now::read();
    let named = |name: &str| {
        let status = DiagnosticStatus { name: format!("{name}: temperature"), ..Default::default() };
        Diagnostic::new(&status).map(Received::Diagnostic)
    };
    let all = ["/r1/camera", "/r1/debug", "/r2/camera", "robot_2", "motor"];
    for (include, exclude, expected, excluded) in [
        (&[][..], &[][..], [true; 5], 0),
        (&["/r1/**"], &["/r1/debug"], [true, false, false, false, false], 12),
        (&[], &["/r2/**"], [true, true, false, true, true], 5),
        (&["/r1/**", "motor", "robot_2"], &[], [true, true, false, true, true], 5),
    ] {
        let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let mut state = State::new(Limits::default(), start);
        state.set_filter(NodeFilter::new(patterns(include), patterns(exclude)));
        for node in &all[..3] {
            let source = format!("{node}:/imu");
            let judged = judged("topic_monitor", &source, 0, &[]);
            let window = window(&source, "message_age", 100, FIGURES);
            [window, ages(&source, 100), losses(node, 1), judged, named(node)]
                .into_iter()
                .for_each(|received| state.accept(received, start));
        }
        // A host, and diagnostic_updater, which has names without a namespace.
        state.accept(window("robot_2", "clock_offset_ms", 100, FIGURES), start);
        state.accept(named("motor"), start);
        let text = text(&state, start);
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(all.map(|name| lines().any(|line| line.contains(name))), expected);
        assert_eq!(state.counts().excluded, excluded);
    }
}

fn text(state: &State, now: Now) -> String {
    String::from_utf8(crate::exposition::Format::Text.encode(state, now.monotonic, 1e9, vec![])).unwrap()
}

#[test]
fn the_time_of_a_window_changes_with_a_stepped_clock_only() {
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
fn levels_and_limits_have_the_labels_of_source_and_judge() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let (warn, error) =
        ("rate=100±10% age.p99<50ms age.p99<40ms bandwidth<2MB/s", "rate>=50 lost=0 silent<2s");
    state.accept(health("/r1/listener:/imu", 1, warn, error), start);
    state.accept(judged("topic_monitor", "/r1/listener:/imu", 0, &[]), start);
    state.accept(health("/r1/bridge:get_imu", 0, "duration.max<=20ms", "what is this"), start);
    let text = text(&state, start);
    let is_of = |line: &&str| ["expected_", "health_", "judged_"].iter().any(|start| line.starts_with(start));
    let lines: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("topic_statistics_")).filter(is_of).collect();
    let imu = r#"node="/r1/listener",topic="/imu",judge="listener""#;
    let other = r#"node="/r1/listener",topic="/imu",judge="topic_monitor""#;
    let bridge = r#"node="/r1/bridge",name="get_imu",judge="listener""#;
    let expected = [
        format!("health_level{{{imu}}} 1.0"),
        format!("health_level{{{other}}} 0.0"),
        format!("health_level{{{bridge}}} 0.0"),
        format!("judged_rate_hertz{{{imu}}} 41.5"),
        format!("judged_rate_hertz{{{other}}} 41.5"),
        format!("judged_rate_hertz{{{bridge}}} 41.5"),
        format!(r#"expected_rate_hertz{{{imu},bound="lower",level="warn"}} 90.0"#),
        format!(r#"expected_rate_hertz{{{imu},bound="upper",level="warn"}} 110.0"#),
        format!(r#"expected_rate_hertz{{{imu},bound="lower",level="error"}} 50.0"#),
        format!(r#"expected_bandwidth_bytes_per_second{{{imu},bound="upper",level="warn"}} 2000000.0"#),
        format!(r#"expected_window_messages_lost{{{imu},bound="lower",level="error"}} 0.0"#),
        format!(r#"expected_window_messages_lost{{{imu},bound="upper",level="error"}} 0.0"#),
        format!(r#"expected_message_age_seconds{{{imu},figure="p99",bound="upper",level="warn"}} 0.04"#),
        format!(
            r#"expected_time_since_last_message_seconds{{{imu},figure="mean",bound="upper",level="error"}} 2.0"#
        ),
        format!(r#"expected_duration_seconds{{{bridge},figure="max",bound="upper",level="warn"}} 0.02"#),
    ];
    assert_eq!(lines, expected.iter().map(String::as_str).collect());
    state.expire(at(start, 61.0).monotonic);
    assert_eq!((state.healths().len(), state.series()), (0, 0));
}

#[test]
fn judged_windows_count_from_the_first_status_of_a_judge() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    for (sender, windows, expected) in [
        (1, "5000 0 0 1", [0; 4]), // of an unknown time
        (1, "5003 0 1 1", [3, 0, 1, 0]),
        (1, "5003 0 1 1", [3, 0, 1, 0]), // /diagnostics repeats a status
        (1, "2 0 0 0", [3, 0, 1, 0]),    // the judge begins anew, with the next conditions
        (1, "3 0 0 2", [4, 0, 1, 2]),
        (2, "900 0 0 7", [4, 0, 1, 2]), // the next process
        (2, "", [4, 0, 1, 2]),
        (2, "1 2 3", [4, 0, 1, 2]),
        (2, "1 2 3 -4", [4, 0, 1, 2]),
        (2, "1 2 3 9999999999999", [4, 0, 1, 2]),
        (2, "901 0 0 7", [4, 0, 1, 2]), // nothing is known of the time between
    ] {
        let status = judged("topic_monitor", "/a:/b", 0, &[("windows_judged", windows)]);
        state.accept_from(Sender::new(&[sender; 16]), status, start);
        let (_, health) = state.healths().next().unwrap();
        assert_eq!(HealthState::LEVELS.map(|level| health.windows(level)), expected, "{windows}");
    }
}

#[test]
fn a_status_is_gone_without_room_or_repetition() {
    let start = Now::read();
    let mut state = State::new(Limits { max_series: 10, ..Limits::default() }, start);
    state.accept(health("/a:/b", 0, "rate>=1", ""), start);
    assert_eq!((state.healths().len(), state.series()), (1, 8));
    state.accept(health("/a:/b", 0, "rate=1..2 age<1s lost=0", ""), start);
    assert_eq!((state.healths().len(), state.series(), state.counts().beyond_max_series), (0, 1, 1));
    let mut state = State::new(Limits::default(), start);
    for (name, level, seconds) in [("a", 0, 0.0), ("b", 1, 0.0), ("b", 2, 50.0), ("b", 9, 60.0)] {
        let status = DiagnosticStatus { level, name: name.to_owned(), ..Default::default() };
        state.accept(Diagnostic::new(&status).map(Received::Diagnostic), at(start, seconds));
    }
    state.expire(at(start, 61.0).monotonic);
    let left: Vec<_> = state.diagnostics().map(|(name, status)| (&*name.name, status.level)).collect();
    assert_eq!((left, state.series(), state.counts().invalid), (vec![("b", Level::Error)], 1, 1));
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

/// A sample of any order of magnitude.
fn sample() -> impl Strategy<Value = f64> {
    let magnitude = (-9.0..9.0_f64).prop_map(|exponent| 10_f64.powf(exponent));
    prop_oneof![0.1..40.0_f64, magnitude, -1e3..-1e-3, Just(0.0)]
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
            for (ours, expected) in [
                (histogram.positive(), merged.positive().collect::<Vec<_>>()),
                (histogram.negative(), merged.negative().collect()),
            ] {
                let mut difference = BTreeMap::<i32, i64>::new();
                for (from, buckets, sign) in [(histogram.scale(), ours, 1), (merged.scale(), &expected, -1)] {
                    for (index, count) in buckets {
                        *difference.entry(index >> (from - scale)).or_default() += sign * *count as i64;
                    }
                }
                prop_assert!(difference.values().all(|count| *count == 0), "{:?}", difference);
            }
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
