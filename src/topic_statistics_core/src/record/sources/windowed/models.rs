// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use super::*;
use crate::{
    collector::FirstPeriod,
    model::{check, Reached, Ticks},
    record::{
        code::{Count, Durations},
        publications::Publications,
        sources::periods::are_of_a_run,
    },
    sync::thread,
};

/// Two threads count while a window ends. Each counted event has to be in exactly one of the two windows.
#[test]
fn every_count_is_in_one_window() {
    check(3, || {
        let clock = Ticks::new();
        let count = Count::default();
        let frequency = Windowed::new(count.clone());
        frequency.enable(&clock);
        let threads = [(); 2].map(|()| {
            let count = count.clone();
            thread::spawn(move || count.add(1))
        });
        let first = frequency.end_window(&clock).unwrap().statistics.count;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(first + frequency.end_window(&clock).unwrap().statistics.count, 2);
    });
}

/// Two threads record more durations than fit into the queue, while a window ends. Each duration has to be in exactly
/// one of the two windows.
#[test]
fn every_duration_is_in_one_window() {
    let split = Reached::default();
    let is_split = split.clone();
    check(3, move || {
        let clock = Ticks::new();
        let durations = Arc::new(Windowed::new(Durations::default()));
        durations.enable(&clock);
        let threads = [1.0, 2.0].map(|milliseconds| {
            let durations = Arc::clone(&durations);
            thread::spawn(move || (0..2).for_each(|_| durations.record(|| milliseconds)))
        });
        let first = durations.end_window(&clock).unwrap().statistics;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let second = durations.end_window(&clock).unwrap().statistics;
        assert_eq!(first.count + second.count, 4);
        let sum: f64 = [&first, &second]
            .iter()
            .flat_map(|window| &window.metrics)
            .filter(|(_, summary)| summary.sample_count > 0)
            .map(|(_, summary)| summary.average * summary.sample_count as f64)
            .sum();
        assert_eq!(sum, 6.0);
        is_split.set_if(first.count == 2);
    });
    split.assert();
}

/// A thread records while the statistics are disabled and enabled again. A duration that was recorded before the pause
/// must not be in the window after the pause.
#[test]
fn a_duration_from_before_a_pause_is_not_in_the_window_after_it() {
    let [before, after] = [(); 2].map(|()| Reached::default());
    let reached = [before.clone(), after.clone()];
    check(3, move || {
        let clock = Arc::new(Ticks::new());
        let durations = Arc::new(Windowed::new(Durations::default()));
        durations.enable(&*clock);
        let recording = {
            let (durations, clock) = (Arc::clone(&durations), Arc::clone(&clock));
            thread::spawn(move || {
                let started = clock.monotonic();
                durations.record(|| 1.0);
                (started, clock.later())
            })
        };
        let disabled = clock.monotonic();
        durations.disable();
        durations.enable(&*clock);
        let enabled = clock.later();
        let (started, returned) = recording.join().unwrap();
        let count = durations.end_window(&*clock).unwrap().statistics.count;
        assert!(count == 0 || returned > disabled);
        assert!(count == 1 || started < enabled);
        reached[0].set_if(returned < disabled);
        reached[1].set_if(started > enabled);
    });
    [before, after].iter().for_each(Reached::assert);
}

/// Two threads share a publisher while windows end. Every publication has to be in exactly one window. A window must
/// have no periods if its publications were recorded out of order, or if an earlier publication is missing.
fn periods(first_period: FirstPeriod) {
    let [has_none, has_all] = [(); 2].map(|()| Reached::default());
    let reached = [has_none.clone(), has_all.clone()];
    check(3, move || {
        let clock = Arc::new(Ticks::new());
        let publications = Arc::new(Windowed::new(Publications::new(first_period, false)));
        publications.enable(&*clock);
        let threads = [1, 2].map(|count| {
            let (clock, publications) = (Arc::clone(&clock), Arc::clone(&publications));
            thread::spawn(move || {
                let last = std::cell::Cell::new(0);
                let time = || {
                    last.set(clock.callback());
                    last.get()
                };
                let publish = |_| {
                    publications.measure(time, || Ok::<_, ()>(()), |()| 0).unwrap();
                    last.get() // the time at which the publication was recorded
                };
                (0..count).map(publish).collect::<Vec<_>>()
            })
        });
        let first = publications.end_window(&*clock).unwrap().statistics;
        let mut ends: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let second = publications.end_window(&*clock).unwrap().statistics;
        ends.sort_unstable();
        let all = || format!("{ends:?} {first:?} {second:?}");
        assert_eq!(first.count + second.count, 3, "{}", all());
        let periods = [&first, &second].map(|window| window.get(Metric::PublishPeriod).unwrap());
        assert!(periods.iter().all(|periods| are_of_a_run(periods, &ends)), "{}", all());
        let has_none = |index: usize, count| count > 1 && periods[index].sample_count == 0;
        reached[0].set_if(has_none(0, first.count) || has_none(1, second.count));
        reached[1].set_if(second.count == 3 && periods[1].sample_count == 2);
    });
    [has_none, has_all].iter().for_each(Reached::assert);
}

/// The first publication of a window has no period.
#[test]
fn a_period_is_between_two_publications_that_follow_each_other() {
    periods(FirstPeriod::NoSample);
}

/// The period of a window's first publication starts at the last publication of the previous window.
#[test]
fn a_carried_period_is_between_publications_in_a_row() {
    periods(FirstPeriod::CarriedOver);
}
