// SPDX-License-Identifier: Apache-2.0

//! State that recording never waits for.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crossbeam_queue::ArrayQueue;
use spin::{mutex::Mutex, RelaxStrategy};

/// State behind a lock, and a small queue for samples that are recorded while somebody else holds it.
///
/// The end of a window holds the lock for some hundred nanoseconds, or for as long as its thread is kept from running. A callback
/// that records meanwhile puts its sample into the queue and goes on; whoever takes the lock next accepts what is in the
/// queue first.
pub(crate) struct Contended<S: Accept> {
    /// Freed by a plain store, it has one locked instruction where std's has two.
    state: Mutex<S, Sleep>,
    /// Boxed, because its padding would be the state's too.
    waiting: Box<ArrayQueue<S::Sample>>,
    /// Whether there may be something in the queue, which is quicker to look at than the queue.
    has_waiting: AtomicBool,
    /// Samples for which the queue had no room and nobody waited; and how many of them are to be counted.
    is_incomplete: AtomicBool,
    unrecorded: AtomicU64,
}

pub(crate) type Guard<'a, S> = spin::mutex::MutexGuard<'a, S, Sleep>;

/// What takes in samples.
pub(crate) trait Accept {
    type Sample: Send;

    /// Takes in a sample.
    fn accept(&mut self, sample: &Self::Sample);

    /// Takes in that there were samples more, which are not known, and so many of them that are to be counted.
    fn accept_unrecorded(&mut self, count: u64);
}

impl<S: Accept> Contended<S> {
    /// How many samples wait while the lock is held.
    pub(crate) const WAITING: usize = 8;

    pub(crate) fn new(state: S) -> Self {
        Self {
            state: Mutex::new(state),
            waiting: Box::new(ArrayQueue::new(Self::WAITING)),
            has_waiting: AtomicBool::new(false),
            is_incomplete: AtomicBool::new(false),
            unrecorded: AtomicU64::new(0),
        }
    }

    /// Returns the state if nobody else holds it; otherwise a sample is to [wait](Self::wait). What was recorded before is in it.
    ///
    /// The clock is to be read under the lock: then a window's end, which reads it under the lock too, comes before or after.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, S>> {
        let mut state = self.state.try_lock()?;
        if self.has_waiting.load(Ordering::Relaxed) {
            self.accept_waiting(&mut state);
        }
        Some(state)
    }

    /// Leaves a sample for whoever takes the lock next; errors with it if there is no room.
    #[cold]
    #[inline(never)]
    fn wait(&self, sample: S::Sample) -> Result<(), S::Sample> {
        self.waiting.push(sample)?;
        self.has_waiting.store(true, Ordering::Release);
        Ok(())
    }

    /// Leaves a sample for whoever takes the lock next. Where there is no room it is not recorded, and `counts` if that is to be
    /// counted.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_or_count(&self, sample: S::Sample, counts: bool) {
        if self.wait(sample).is_err() {
            self.unrecorded.fetch_add(u64::from(counts), Ordering::Relaxed);
            self.is_incomplete.store(true, Ordering::Release);
        }
    }

    /// Records a sample. It waits for the lock only where the queue is full: of what many threads record at any rate, one that is
    /// held up while it records would soon fill it.
    #[inline]
    pub(crate) fn record(&self, sample: impl FnOnce() -> S::Sample) {
        match self.try_lock() {
            Some(mut state) => state.accept(&sample()),
            None => {
                if let Err(sample) = self.wait(sample()) {
                    self.lock().accept(&sample);
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn accept_waiting(&self, state: &mut S) {
        // Before the queue is emptied: what is pushed meanwhile is accepted, or seen the next time.
        self.has_waiting.swap(false, Ordering::AcqRel);
        while let Some(sample) = self.waiting.pop() {
            state.accept(&sample);
        }
    }

    /// Waits for the lock. What was recorded before is in the state.
    pub(crate) fn lock(&self) -> Guard<'_, S> {
        let mut state = self.state.lock();
        self.accept_waiting(&mut state);
        if let Some(count) = self.take_unrecorded() {
            state.accept_unrecorded(count);
        }
        state
    }

    /// Returns how many samples are to be counted only, if there was no room for some since this was asked last.
    pub(crate) fn take_unrecorded(&self) -> Option<u64> {
        self.is_incomplete.swap(false, Ordering::AcqRel).then(|| self.unrecorded.swap(0, Ordering::Relaxed))
    }

    /// Returns a sample that was recorded since the lock was taken.
    pub(crate) fn take_waiting(&self) -> Option<S::Sample> {
        self.waiting.pop()
    }
}

/// Waits for the lock, where somebody does: by a sleep, which lets whoever holds it go on even if that is a thread of lower
/// priority on the same core.
pub(crate) struct Sleep;

impl RelaxStrategy for Sleep {
    fn relax() {
        std::thread::sleep(Duration::from_micros(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Numbers {
        accepted: Vec<u32>,
        unrecorded: u64,
    }

    impl Accept for Numbers {
        type Sample = u32;

        fn accept(&mut self, sample: &u32) {
            self.accepted.push(*sample);
        }

        fn accept_unrecorded(&mut self, count: u64) {
            self.unrecorded += count;
        }
    }

    #[test]
    fn a_sample_waits_where_the_lock_is_held_and_comes_before_the_next() {
        let numbers = Contended::new(Numbers::default());
        let held = numbers.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=3).for_each(|number| numbers.wait_or_count(number, true))).join().unwrap()
        });
        drop(held);
        numbers.record(|| 4);
        assert_eq!(numbers.lock().accepted, [1, 2, 3, 4]);
    }

    #[test]
    fn samples_beyond_the_queue_are_counted() {
        let numbers = Contended::new(Numbers::default());
        let held = numbers.lock();
        let room = Contended::<Numbers>::WAITING as u32;
        (0..room + 5).for_each(|number| numbers.wait_or_count(number, true));
        numbers.wait_or_count(0, false);
        drop(held);
        let numbers = numbers.lock();
        assert_eq!((numbers.accepted.len() as u32, numbers.unrecorded), (room, 5));
    }

    #[test]
    fn no_sample_is_lost_or_recorded_twice_beside_somebody_who_takes_the_lock() {
        const EACH: u32 = 20_000;
        let numbers = Contended::new(Numbers::default());
        std::thread::scope(|scope| {
            let recording: Vec<_> = (0..2)
                .map(|thread| {
                    let numbers = &numbers;
                    scope.spawn(move || (0..EACH).for_each(|number| numbers.record(|| 2 * number + thread)))
                })
                .collect();
            while recording.iter().any(|thread| !thread.is_finished()) {
                drop(numbers.lock());
            }
        });
        let mut numbers = numbers.lock();
        numbers.accepted.sort_unstable();
        let accepted = numbers.accepted.len();
        numbers.accepted.dedup();
        assert_eq!(accepted, numbers.accepted.len(), "none twice");
        assert_eq!(accepted as u64 + numbers.unrecorded, 2 * u64::from(EACH));
    }
}
