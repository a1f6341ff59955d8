// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{record::clock::Step, window::Window};

const MS: i64 = 1_000_000;

fn timer(clock: TimerClock, period: i64) -> TimerCalls {
    let metrics = MetricSet::of(SourceKind::Timer.metrics());
    TimerCalls::new(metrics, FirstPeriod::NoSample, clock, period)
}

fn accept(timer: &mut TimerCalls, sample: TimerSample) {
    timer.accept(&sample, Present::of_test(), &mut Distributions::default());
}

/// Accepts a call that starts at `milliseconds`. `call` is the lateness of the call in milliseconds, and the number of
/// skipped periods.
fn start(timer: &mut TimerCalls, milliseconds: i64, call: Option<(i64, u64)>) {
    let call = call.map(|(lateness, skipped)| ScheduledCall { lateness: lateness * MS, skipped });
    accept(timer, TimerSample::Start { time: milliseconds * MS, call });
}

/// Ends a window. Returns the averages and the numbers of samples of the metrics.
fn take(timer: &mut TimerCalls, steps: bool) -> (u64, Vec<(f64, u64)>) {
    let step = steps.then_some(Step { by: 3600 * 1000 * MS, suspended: 0 });
    let window = Window::from_nanoseconds(0, 1);
    let (count, metrics) = timer.take(&EndedWindow { step, window, ..EndedWindow::of_test(false) });
    (count, metrics.iter().map(|(_, summary)| (summary.average, summary.sample_count)).collect())
}

// The indices of the metrics in the result of `take`.
const DURATION: usize = 0;
const PERIOD: usize = 1;
const LATENESS: usize = 2;
const SKIPPED: usize = 3;
const SHARE: usize = 4;

#[test]
fn a_late_call_has_a_lateness_and_skipped_periods() {
    let mut timer = timer(TimerClock::Steady, 10 * MS);
    start(&mut timer, 10, Some((0, 0)));
    start(&mut timer, 75, Some((55, 5)));
    accept(&mut timer, TimerSample::End { milliseconds: 4.0 });
    let (count, metrics) = take(&mut timer, false);
    assert_eq!(count, 2);
    assert_eq!(metrics[DURATION], (4.0, 1));
    assert_eq!(metrics[PERIOD], (65.0, 1));
    assert_eq!(metrics[LATENESS], (27.5, 2));
    assert_eq!(metrics[SKIPPED], (5.0, 1));
    assert_eq!(metrics[SHARE], (40.0, 1));
    let (count, metrics) = take(&mut timer, false);
    assert_eq!((count, metrics[SKIPPED]), (0, (0.0, 1)), "it is known that no period is skipped");
}

#[test]
fn what_is_not_known_of_a_call_is_no_figure_of_its_window() {
    let mut timer = timer(TimerClock::Steady, 10 * MS);
    start(&mut timer, 10, Some((1, 3)));
    start(&mut timer, 20, None);
    let (_, metrics) = take(&mut timer, false);
    assert_eq!(metrics[LATENESS], (1.0, 1));
    assert!(metrics[SKIPPED].0.is_nan() && metrics[SKIPPED].1 == 0);
    assert_eq!(take(&mut timer, false).1[SKIPPED], (0.0, 1));
}

#[test]
fn a_step_of_the_system_clock_is_no_lateness() {
    for (clock, is_known) in [(TimerClock::System, false), (TimerClock::Steady, true)] {
        let mut timer = timer(clock, 10 * MS);
        start(&mut timer, 10, Some((3_600_000, 360_000)));
        let (_, metrics) = take(&mut timer, true);
        assert_eq!(metrics[LATENESS].1, u64::from(is_known), "{clock:?}");
        start(&mut timer, 20, Some((3_600_000, 360_000))); // the call was scheduled before the step
        let (_, metrics) = take(&mut timer, false);
        assert_eq!([LATENESS, SKIPPED].map(|index| metrics[index].1), [u64::from(is_known); 2], "{clock:?}");
        start(&mut timer, 30, Some((1, 0)));
        assert_eq!(take(&mut timer, false).1[LATENESS], (1.0, 1), "{clock:?}");
    }
}

#[test]
fn a_share_needs_a_period_in_real_time() {
    for (clock, period) in [(TimerClock::Simulated, 10 * MS), (TimerClock::Steady, 0)] {
        let mut timer = timer(clock, period);
        accept(&mut timer, TimerSample::End { milliseconds: 4.0 });
        let (_, metrics) = take(&mut timer, false);
        assert_eq!((metrics[DURATION], metrics[SHARE].1), ((4.0, 1), 0), "{clock:?}");
    }
}

#[test]
fn nothing_is_left_of_the_time_before_a_pause() {
    let mut timer = timer(TimerClock::System, 10 * MS);
    start(&mut timer, 10, Some((2, 7)));
    accept(&mut timer, TimerSample::End { milliseconds: 4.0 });
    timer.clear(0, true);
    start(&mut timer, 500, Some((490, 49))); // the call was scheduled before the step
    let (count, metrics) = take(&mut timer, false);
    assert_eq!(count, 1);
    let samples: Vec<_> = metrics.iter().map(|(_, count)| *count).collect();
    assert_eq!(samples, [0; 5]);
}
