// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    model::{check, Ticks},
    record::{source::WindowedCollector, windowed::Windowed},
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
