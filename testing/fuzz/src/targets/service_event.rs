// SPDX-License-Identifier: Apache-2.0

//! Passes events of a service and statuses of goals to `topic_monitor --services` and `--actions`.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rclrs_topic_statistics::{Metric, Summary};
use topic_statistics_core::Window as Times;
use topic_statistics_monitor::testing::{Calls, Event, Goals};
use topic_statistics_observe::row::{Kind, Row, Window};

use super::from_statistics::is_json;
use crate::{check::has_no_infinity, input::Input};

/// Counts must equal the counts of a model that keeps every event. Figures must be finite or NaN. JSON must be valid.
pub fn service_event(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.bool() {
        true => calls(&mut input),
        false => goals(&mut input),
    }
}

fn calls(input: &mut Input) {
    let mut calls = Calls::default();
    // For each call, by client and sequence number: which of the four events of the call have arrived.
    let mut model: BTreeMap<([u8; 16], i64), [bool; 4]> = BTreeMap::new();
    let mut seen = BTreeMap::new();
    let started = Instant::now();
    let mut now = started;
    // The time of the system clock at the start, in nanoseconds.
    const SYSTEM: i64 = 1_000_000_000_000_000;
    for number in 0..200 {
        if input.is_empty() {
            break;
        }
        // All events are within 4 s, because topic_monitor forgets an answered call after 5 s.
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
        assert!(calls.add_event(event), "there is room");
        model.entry(event.call).or_default()[event.step as usize] = true;
        if input.below(8) == 0 {
            end(&calls.end_window(empty(now, input)), Kind::Service, &mut seen);
        }
    }
    let window = calls.end_window(empty(now, input));
    end(&window, Kind::Service, &mut seen);
    let is_answered = |call: &&[bool; 4]| call[3] || (!call[0] && call[2]);
    let waiting = model.values().filter(|call| !is_answered(call)).count() as f64;
    if !model.is_empty() {
        let active = window.metrics.iter().find(|metric| metric.name == Metric::ActiveRequests.name());
        assert_eq!(active.expect("a metric").figures.average, waiting);
    }
    for (metric, step) in [(Metric::Calls, 0), (Metric::Requests, 1), (Metric::Responses, 3)] {
        let all = model.values().filter(|call| call[step]).count() as f64;
        assert_eq!(seen.get(metric.name()).map_or(0.0, |(_, sum)| *sum), all, "{metric}");
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
            1 => end(&goals.end_window(empty(now, input)), Kind::Action, &mut seen),
            _ => {
                let number = input.below(6);
                let statuses: Vec<_> =
                    (0..number).map(|_| ([input.u8() % 4; 16], (input.u8() % 8) as i8)).collect();
                assert!(goals.add_statuses(&statuses, input.below(8) == 0, now), "there is room");
            }
        }
    }
    let received = goals.received as f64;
    end(&goals.end_window(empty(now, input)), Kind::Action, &mut seen);
    let sum = |metric: Metric| seen.get(metric.name()).map_or(0.0, |(_, sum)| *sum);
    assert_eq!(sum(Metric::Goals), received);
    for (duration, count) in [
        (Metric::GoalSucceeded, Metric::SucceededGoals),
        (Metric::GoalCanceled, Metric::CanceledGoals),
        (Metric::GoalAborted, Metric::AbortedGoals),
    ] {
        let measured = seen.get(duration.name()).map_or(0, |(count, _)| *count) as f64;
        assert!(measured <= sum(count), "{measured} durations of {} goals", sum(count));
    }
}

fn empty(ended: Instant, input: &mut Input) -> Window {
    let times = Times::from_nanoseconds(input.i64(), input.i64());
    Window::new(times, ended, Duration::from_millis(1 + u64::from(input.u8())))
}

/// Adds a window to `seen`: for each metric, the number of samples and the sum of the averages.
fn end(window: &Window, kind: Kind, seen: &mut BTreeMap<&'static str, (u64, f64)>) {
    for metric in &window.metrics {
        let Summary { average: mean, sample_count: count, .. } = metric.figures;
        has_no_infinity(&metric.figures, &metric.name);
        if count > 0 {
            let metric: Metric = metric.name.parse().expect("a metric");
            let (samples, sum) = seen.entry(metric.name()).or_default();
            (*samples, *sum) = (*samples + count, *sum + mean);
        }
    }
    let mut row = Row { kind, ..Row::new("/serve") };
    row.add_window(window.clone());
    is_json(&row, window.ended);
}
