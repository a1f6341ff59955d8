// SPDX-License-Identifier: Apache-2.0

use std::sync::Weak;

use super::*;
use crate::{
    measure::{source::Source, windowed::Windowed},
    model::{check, Ticks},
    schedule::scheduler::Scheduler,
    sync::thread,
};

/// Two threads count while a window ends: each count is in one of the two windows.
pub fn every_count_is_in_one_window() {
    check(3, || {
        let clock = Ticks::new();
        let count = Arc::new(AtomicU64::new(0));
        let windows = Arc::new(Windowed::new(Count(Arc::clone(&count))));
        let source = Arc::new(Source::new("frames".to_owned(), windows, None));
        let frequency = Arc::clone(&source.collector);
        frequency.enable(&clock);
        let counter = StatsCounter::new(SourceHandle::new(source, Weak::<Scheduler>::new()), count);
        let threads = [(); 2].map(|()| {
            let counter = counter.clone();
            thread::spawn(move || counter.increment())
        });
        let first = frequency.end_window(&clock).unwrap().statistics.count;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(first + frequency.end_window(&clock).unwrap().statistics.count, 2);
    });
}
