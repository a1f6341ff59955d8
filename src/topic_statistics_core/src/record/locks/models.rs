// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use super::{counting::enqueue_or_count, Accept, CountingLock, Numbers, WaitingLock};
use crate::{
    model::{check, Reached},
    sync::thread,
};

/// Records a number by the same calls that a subscription's callback makes to record a message.
fn record(numbers: &CountingLock<Numbers>, number: u32) {
    match numbers.try_lock() {
        Some(mut numbers) => numbers.accept(&number),
        None => enqueue_or_count(numbers, number, true),
    }
}

/// Two threads record while a third thread takes the lock. After both threads have recorded, the next holder of the
/// lock must get both samples, even if the holder took the lock with `try_lock`.
#[test]
fn a_queued_sample_is_accepted_by_the_next_holder_of_the_lock() {
    let queued = Reached::default();
    let has_queued = queued.clone();
    check(3, move || {
        let numbers = Arc::new(CountingLock::new(Numbers::default()));
        let guard = numbers.lock();
        let threads = [1, 2].map(|number| {
            let numbers = Arc::clone(&numbers);
            thread::spawn(move || record(&numbers, number))
        });
        drop(guard);
        let at_first = numbers.try_lock().map(|numbers| numbers.accepted.len());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut numbers = numbers.try_lock().unwrap();
        numbers.accepted.sort_unstable();
        assert_eq!(numbers.accepted, [1, 2]);
        has_queued.set_if(at_first == Some(1));
    });
    queued.assert();
}

/// One thread records more samples than fit into the queue, while another thread takes and releases the lock. Each
/// sample has to be accepted once or counted once, and samples have to be accepted in order.
#[test]
fn every_sample_is_accepted_or_counted_once() {
    const SAMPLES: u32 = 4;
    let (counted, accepted_after) = (Reached::default(), Reached::default());
    let reached = (counted.clone(), accepted_after.clone());
    check(3, move || {
        let numbers = Arc::new(CountingLock::new(Numbers::default()));
        let recording = {
            let numbers = Arc::clone(&numbers);
            thread::spawn(move || (0..SAMPLES).for_each(|number| record(&numbers, number)))
        };
        drop(numbers.lock());
        drop(numbers.lock());
        recording.join().unwrap();
        let Numbers { accepted, unrecorded } = &*numbers.lock();
        assert!(accepted.is_sorted_by(|one, next| one < next), "{accepted:?}");
        assert_eq!(accepted.len() as u64 + unrecorded, u64::from(SAMPLES), "{accepted:?} {unrecorded}");
        reached.0.set_if(*unrecorded > 0);
        reached.1.set_if(*unrecorded > 0 && accepted.last() == Some(&(SAMPLES - 1)));
    });
    counted.assert();
    accepted_after.assert();
}

/// Three threads record with a `WaitingLock`. Every sample has to be accepted exactly once, although the queue has room
/// for only two samples.
#[test]
fn a_recording_that_may_wait_loses_nothing() {
    let waited = Reached::default();
    let has_waited = waited.clone();
    check(2, move || {
        let numbers = Arc::new(WaitingLock::new(Numbers::default()));
        let guard = numbers.lock();
        let threads = [1, 2, 3].map(|number| {
            let numbers = Arc::clone(&numbers);
            let has_waited = has_waited.clone();
            thread::spawn(move || {
                numbers.record(|| number);
                has_waited.set_if(number == 3);
            })
        });
        drop(guard);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut numbers = numbers.lock();
        numbers.accepted.sort_unstable();
        assert_eq!((&numbers.accepted[..], numbers.unrecorded), (&[1, 2, 3][..], 0));
    });
    waited.assert();
}
