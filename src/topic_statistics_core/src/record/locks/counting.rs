// SPDX-License-Identifier: Apache-2.0

//! A lock that never waits: a sample that finds the queue full is counted.

use super::{Accept, QueuedLock};
use crate::sync::{
    atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering},
    SpinMutexGuard,
};

/// A lock for the messages of a subscription. Recording never waits: a message that finds the lock held goes to the
/// queue, and one that finds the queue full is only counted.
pub(crate) struct CountingLock<S: CountUnrecorded> {
    lock: QueuedLock<S>,
    /// The samples that are being made while the lock is held, and are not in the queue yet.
    being_made: AtomicU32,
    /// Whether the queue was full for a sample, and the number of such samples to count. The flag is set by a swap, as
    /// the queue's.
    is_incomplete: AtomicBool,
    unrecorded: AtomicU64,
}

/// State that accepts the loss of samples.
pub(crate) trait CountUnrecorded: Accept {
    /// Accepts the loss of samples because the queue was full; `count` of them count as messages.
    fn count_unrecorded(&mut self, count: u64);
}

impl<S: CountUnrecorded> CountingLock<S> {
    /// How often samples that are being made are looked for: some microseconds. A model needs no more than that both
    /// happen.
    const WAITS: u32 = if cfg!(topic_statistics_loom) { 2 } else { 100 };

    pub(crate) fn new(state: S) -> Self {
        Self {
            lock: QueuedLock::new(state),
            being_made: AtomicU32::new(0),
            is_incomplete: AtomicBool::new(false),
            unrecorded: AtomicU64::new(0),
        }
    }

    /// Returns the state, with all samples recorded before, if no other thread holds it. Otherwise the sample goes to
    /// the [queue](Self::enqueue_or_count).
    ///
    /// Read the clock while holding the lock: then the sample belongs to one side of a window's end, which reads it
    /// under the lock too.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<SpinMutexGuard<'_, S>> {
        let mut state = self.lock.state.try_lock()?;
        if self.lock.has_queued() {
            self.drain_queue(&mut state);
        }
        Some(state)
    }

    /// Waits for the lock. Returns the state with all samples recorded before.
    pub(crate) fn lock(&self) -> SpinMutexGuard<'_, S> {
        let mut state = self.lock.state.lock();
        self.drain_queue(&mut state);
        state
    }

    #[cold]
    #[inline(never)]
    fn drain_queue(&self, state: &mut S) {
        self.lock.drain_queue(state);
        // Now, because samples that are recorded from now on are later.
        if let Some(count) = self.take_unrecorded() {
            state.count_unrecorded(count);
        }
    }

    /// Begins to make a sample whose order counts, while the lock is held and before the clock is read: then call
    /// [`enqueue_or_count`](Self::enqueue_or_count) with it, and [`end_sample`](Self::end_sample).
    pub(crate) fn begin_sample(&self) {
        self.being_made.fetch_add(1, Ordering::Relaxed);
        // Whoever reads a later time sees that this one is being made.
        fence(Ordering::Release);
    }

    /// Returns whether samples are being made that are not in the queue yet. It sees samples begun before the caller
    /// read the clock; those that are no longer being made are visible in the queue.
    pub(crate) fn has_begun_samples(&self) -> bool {
        fence(Ordering::Acquire);
        self.being_made.load(Ordering::Acquire) > 0
    }

    /// Waits for the samples [begun](Self::has_begun_samples) before the caller read the clock, about as long as it
    /// takes to make one. Returns whether all of them are in the queue: if not, a thread was preempted.
    pub(crate) fn await_begun_samples(&self) -> bool {
        (0..Self::WAITS).any(|_| {
            let is_over = !self.has_begun_samples();
            if !is_over {
                std::hint::spin_loop();
            }
            is_over
        })
    }

    /// Puts a sample into the queue. If there is no room, it is lost, and counted if `counts`.
    #[cold]
    #[inline(never)]
    pub(crate) fn enqueue_or_count(&self, sample: S::Sample, counts: bool) {
        let has_room = self.lock.take_room();
        if !has_room || self.lock.push(sample).is_err() {
            if has_room {
                self.lock.return_room();
            }
            self.unrecorded.fetch_add(u64::from(counts), Ordering::Relaxed);
            self.is_incomplete.swap(true, Ordering::Release);
            // The samples that filled the queue may have been accepted meanwhile.
            self.lock.set_queued();
        }
    }

    /// Ends a sample that was begun: it is in the queue, or counted.
    pub(crate) fn end_sample(&self) {
        self.being_made.fetch_sub(1, Ordering::Release);
    }

    /// Returns how many lost samples are to be counted; None if none was lost since the last call.
    pub(crate) fn take_unrecorded(&self) -> Option<u64> {
        self.is_incomplete.swap(false, Ordering::Acquire).then(|| self.unrecorded.swap(0, Ordering::Relaxed))
    }

    /// Returns a sample that was recorded since the lock was taken.
    pub(crate) fn dequeue(&self) -> Option<S::Sample> {
        self.lock.dequeue()
    }

    /// Returns how often this thread has taken the lock so far.
    #[cfg(all(test, topic_statistics_loom))]
    pub(crate) fn times_taken(&self) -> usize {
        self.lock.state.times_taken()
    }
}

/// Records a sample while the lock is held.
#[cfg(test)]
pub(super) fn enqueue_or_count(numbers: &CountingLock<super::Numbers>, number: u32, counts: bool) {
    numbers.begin_sample();
    numbers.enqueue_or_count(number, counts);
    numbers.end_sample();
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Numbers, QUEUE},
        *,
    };

    #[test]
    fn a_sample_queued_while_the_lock_is_held_is_before_the_next() {
        let numbers = CountingLock::new(Numbers::default());
        let held = numbers.lock();
        std::thread::scope(|scope| {
            scope
                .spawn(|| (1..=3).for_each(|number| enqueue_or_count(&numbers, number, true)))
                .join()
                .unwrap()
        });
        drop(held);
        numbers.try_lock().unwrap().accept(&4);
        assert_eq!(numbers.lock().accepted, [1, 2, 3, 4]);
    }

    #[test]
    fn samples_beyond_the_queue_are_counted() {
        let numbers = CountingLock::new(Numbers::default());
        let room = QUEUE as u32;
        // It has its room again after it was emptied.
        for (recorded, accepted, unrecorded) in
            [(room, room, 0), (room, 2 * room, 0), (room + 5, 3 * room, 5)]
        {
            let held = numbers.lock();
            (0..recorded).for_each(|number| enqueue_or_count(&numbers, number, true));
            if recorded > room {
                enqueue_or_count(&numbers, 0, false);
            }
            drop(held);
            let numbers = numbers.lock();
            assert_eq!((numbers.accepted.len() as u32, numbers.unrecorded), (accepted, unrecorded));
        }
    }

    #[test]
    fn a_sample_that_is_being_made_is_waited_for() {
        let numbers = CountingLock::new(Numbers::default());
        let _held = numbers.lock();
        numbers.begin_sample();
        assert!(!numbers.await_begun_samples(), "its thread is preempted");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                numbers.enqueue_or_count(7, true);
                numbers.end_sample();
            });
            while !numbers.await_begun_samples() {}
            assert_eq!(numbers.dequeue(), Some(7));
        });
    }
}
