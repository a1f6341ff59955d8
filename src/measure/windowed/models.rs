// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use super::*;
use crate::{
    measure::timer::Durations,
    model::{check, Reached, Ticks},
    sync::thread,
};

/// Two threads record more durations than the queue has room for, while a window ends: each one is in one of the two windows.
pub fn every_duration_is_in_one_window() {
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

/// A thread records while the statistics are disabled and enabled again: a duration that was recorded before that is not in the
/// window after it.
pub fn a_duration_from_before_a_pause_is_not_in_the_window_after_it() {
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
