// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use super::*;
use crate::{model::check, sync::thread};

/// A source of `/clock`. Each reading returns a later time than the previous reading.
struct Simulation {
    time: AtomicU32,
    start: i64,
}

impl RosClock for Simulation {
    fn now(&self) -> i64 {
        self.start + i64::from(self.time.fetch_add(1, Ordering::Relaxed))
    }
}

/// Two threads read simulated time that does not jump. Neither thread may detect a jump.
#[test]
fn readings_of_two_threads_are_no_jump() {
    check(5, || {
        let simulation = Simulation { time: AtomicU32::new(0), start: 1_000_000_000_000 };
        let time = Arc::new(SimulatedTime::new(simulation));
        let threads = [1, 2].map(|seen| {
            let time = Arc::clone(&time);
            thread::spawn(move || {
                let jumps = time.jumps();
                assert_ne!(time.now(1_000_000_000_000, jumps, seen), 0);
                assert_ne!(time.now(1_000_000_000_000, jumps, seen + 1), 0);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(time.jumps(), 0);
    });
}
