// SPDX-License-Identifier: Apache-2.0

//! Any events of a service and statuses of goals into `topic_monitor --services` and `--actions`.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rclrs_topic_statistics::Metric;
use topic_statistics_monitor::testing::{Calls, Event, Goals, Span};
use topic_statistics_views::row::{Figures, Kind, Row, Window};

use super::from_statistics::is_json;
use crate::{check::is_no_infinity, input::Input};

/// What a model that keeps every event knows of a call: stamp and reception of each of its events.
type Call = [Option<(Option<i64>, Instant)>; 4];

/// Counts and times equal those of a model that keeps everything. Figures are finite or NaN. JSON can be read.
pub fn service_event(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.bool() {
        true => calls(&mut input),
        false => goals(&mut input),
    }
}

fn calls(input: &mut Input) {
    let mut calls = Calls::default();
    let mut model: BTreeMap<([u8; 16], i64), Call> = BTreeMap::new();
    let (mut expected, mut seen) = (BTreeMap::new(), BTreeMap::new());
    let started = Instant::now();
    let mut now = started;
    // The system clock at the start.
    const SYSTEM: i64 = 1_000_000_000_000_000;
    for number in 0..200 {
        if input.is_empty() {
            break;
        }
        // All within 4 s: a call that was answered is followed for 5 s.
        now += Duration::from_millis(u64::from(input.u8() % 20));
        let call =
            ([input.u8() % 3; 16], [i64::from(input.u8() % 8), input.i64()][usize::from(number % 16 == 15)]);
        let event_type = input.u8() % 5;
        let stamp = match input.below(4) {
            0 => (input.i32(), input.u32()),
            _ => (1_000_000 + i32::from(input.u8() % 2), u32::from(input.u16()) * 10_000),
        };
        let system = SYSTEM + i64::try_from((now - started).as_nanos()).expect("some seconds");
        let Some(event) = Event::new(event_type, call, stamp, now, system) else {
            assert_eq!(event_type, 4);
            continue;
        };
        let stamped = i128::from(stamp.0) * 1_000_000_000 + i128::from(stamp.1);
        assert_eq!(
            event.stamp.map(i128::from),
            ((stamped - i128::from(system)).abs() <= 10_000_000_000).then_some(stamped)
        );
        assert!(calls.accept(event), "there is room");
        accept(model.entry(event.call).or_default(), &event, &mut expected);
        if input.below(8) == 0 {
            end(&calls.end_window(&span(now, input)), Kind::Service, &mut seen);
        }
    }
    let window = calls.end_window(&span(now, input));
    end(&window, Kind::Service, &mut seen);
    let is_answered = |call: &&Call| call[3].is_some() || (call[0].is_none() && call[2].is_some());
    let waiting = model.values().filter(|call| !is_answered(call)).count() as f64;
    if !model.is_empty() {
        let active = window.metrics.iter().find(|metric| metric.name == Metric::ActiveRequests.name());
        assert_eq!(active.expect("a metric").figures.mean, waiting);
    }
    for metric in [Metric::RequestDelay, Metric::ResponseDuration, Metric::ResponseDelay, Metric::RoundTrip] {
        let samples = |tallies: &BTreeMap<&str, Tally>| {
            let Tally { count, min, max, .. } = tallies.get(metric.name()).copied().unwrap_or_default();
            (count, min, max)
        };
        assert_eq!(samples(&seen), samples(&expected), "{metric}");
    }
    for (metric, step) in [(Metric::Calls, 0), (Metric::Requests, 1), (Metric::Responses, 3)] {
        let all = model.values().filter(|call| call[step].is_some()).count() as f64;
        assert_eq!(seen.get(metric.name()).map_or(0.0, |tally| tally.sum), all, "{metric}");
    }
}

/// The number of samples, the smallest and the largest one, and the sum of what is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tally {
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0 }
    }
}

/// Accepts an event into the model: the samples that it completes are expected.
fn accept(call: &mut Call, event: &Event, expected: &mut BTreeMap<&'static str, Tally>) {
    let step = event.step as usize;
    if call[step].is_some() {
        return;
    }
    call[step] = Some((event.stamp, event.at));
    for (metric, from, to) in [
        (Metric::RequestDelay, 0, 1),
        (Metric::ResponseDuration, 1, 2),
        (Metric::ResponseDelay, 2, 3),
        (Metric::RoundTrip, 0, 3),
    ] {
        let (Some((from_stamp, sent)), Some((to_stamp, received))) = (call[from], call[to]) else { continue };
        if from != step && to != step {
            continue;
        }
        let elapsed = received.saturating_duration_since(sent).as_secs_f64() * 1e3;
        let is_of_one_node = matches!(metric, Metric::ResponseDuration | Metric::RoundTrip);
        let sample = match from_stamp.zip(to_stamp) {
            Some((from, to)) => to.saturating_sub(from) as f64 / 1e6,
            None if is_of_one_node && received >= sent => elapsed,
            None => continue,
        };
        if is_of_one_node && (sample < 0.0 || (sample - elapsed).abs() > 1000.0) {
            continue;
        }
        let tally = expected.entry(metric.name()).or_default();
        (tally.count, tally.min, tally.max) = (tally.count + 1, tally.min.min(sample), tally.max.max(sample));
    }
}

fn goals(input: &mut Input) {
    let mut goals = Goals::default();
    let mut seen = BTreeMap::new();
    let mut now = Instant::now();
    for _ in 0..200 {
        if input.is_empty() {
            break;
        }
        now += Duration::from_millis(input.u8().into());
        match input.below(4) {
            0 => goals.accept_feedback(&[input.u8() % 4; 16], now),
            1 => end(&goals.end_window(&span(now, input)), Kind::Action, &mut seen),
            _ => {
                let number = input.below(6);
                let statuses: Vec<_> =
                    (0..number).map(|_| ([input.u8() % 4; 16], (input.u8() % 8) as i8)).collect();
                assert!(goals.accept(&statuses, input.below(8) == 0, now), "there is room");
            }
        }
    }
    let received = goals.received as f64;
    end(&goals.end_window(&span(now, input)), Kind::Action, &mut seen);
    let sum = |metric: Metric| seen.get(metric.name()).map_or(0.0, |tally| tally.sum);
    assert_eq!(sum(Metric::Goals), received);
    for (duration, count) in [
        (Metric::GoalSucceeded, Metric::SucceededGoals),
        (Metric::GoalCanceled, Metric::CanceledGoals),
        (Metric::GoalAborted, Metric::AbortedGoals),
    ] {
        let measured = seen.get(duration.name()).map_or(0, |tally| tally.count) as f64;
        assert!(measured <= sum(count), "{measured} durations of {} goals", sum(count));
    }
}

fn span(ended: Instant, input: &mut Input) -> Span {
    let (start, stop) = (input.i64(), input.i64());
    Span { start, stop, ended, length: Duration::from_millis(1 + u64::from(input.u8())) }
}

/// Adds a window to what was seen.
fn end(window: &Window, kind: Kind, seen: &mut BTreeMap<&'static str, Tally>) {
    for metric in &window.metrics {
        let Figures { mean, min, max, std_dev, count } = metric.figures;
        [mean, min, max, std_dev].into_iter().for_each(|figure| is_no_infinity(figure, &metric.name));
        if count == 0 {
            continue;
        }
        let metric: Metric = metric.name.parse().expect("a metric");
        let tally = seen.entry(metric.name()).or_default();
        tally.count += count;
        tally.sum += mean;
        // NaN if they are too far apart.
        (tally.min, tally.max) = (tally.min.min(min), tally.max.max(max));
    }
    let mut row = Row { kind, ..Row::new("/serve") };
    row.add_window(window.clone());
    is_json(&row, window.ended);
}
