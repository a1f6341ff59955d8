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
    *,
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
    assert_eq!(source.lost(), Some(2 * 72), "1.5 before each of 48 messages");
}

/// With rclcpp, they have the same name, and their timers expire one after the other.
#[test]
fn the_windows_of_two_subscriptions_of_a_node_add_up() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    for stop in [100, 101] {
        for after in [0, 150_000] {
            for metric in ["message_age", "message_period"] {
                let mut of = message("cpp_listener", metric, "ms", stop, FIGURES);
                (of.window_start.nanosec, of.window_stop.nanosec) = (after, after);
                state.accept(MetricWindow::new(&of).map(Received::Window), start);
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
        let mut of = message("/a:/b", "message_age", "ms", stop, FIGURES);
        of.window_start.sec = begin;
        state.accept(MetricWindow::new(&of).map(Received::Window), at(start, f64::from(second)));
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
fn losses_of_a_node_without_statistics_are_kept_for_a_day() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let lost = |topic: &str, messages_lost| {
        let topic_name = topic.to_owned();
        let loss = ros_env::topic_statistics_interfaces::msg::MessagesLostEventTopicStat {
            topic_name,
            messages_lost,
        };
        Losses::new("/a", &loss).map(Received::Losses)
    };
    state.accept(lost("/b", 3), start);
    state.accept(lost("/b", 4), at(start, 80_000.0));
    state.expire(at(start, 160_000.0).monotonic);
    let lost: Vec<_> =
        state.reported_losses().map(|(name, losses)| (name.to_string(), losses.lost)).collect();
    assert_eq!(lost, [("/a:/b".to_owned(), 7)]);
    state.expire(at(start, 170_000.0).monotonic);
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
        assert!(text.lines().any(|of| of == line), "no {line} in {text}");
    }
    state.expire(at(start, 15.0).monotonic);
    assert_eq!(state.series(), Source::SERIES + MetricState::SERIES + 1);
    state.expire(at(start, 86_401.0).monotonic);
    assert_eq!(state.series(), 0);
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
            let (_, state) = state.sources().find(|(of, _)| **of == name).unwrap();
            prop_assert_eq!(state.received(), Some(count));
            let total = total(state, Metric::MessageAge);
            prop_assert_eq!(total.count, count);
            prop_assert!((total.sum - count as f64 * 0.0015).abs() < 1e-9);
        }
        prop_assert_eq!(state.counts().windows as usize, known.len());
    }
}
