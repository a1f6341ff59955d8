// SPDX-License-Identifier: Apache-2.0

//! A lock that never makes a sample wait. If the queue is full, the sample is not recorded, but it is still counted.

use super::{Accept, QueuedLock};
use crate::sync::{
    atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering},
    SpinMutexGuard,
};

/// A lock for the messages of a subscription. A thread that records a message never waits: if another thread holds the
/// lock, the message goes to the queue. If the queue is full, the message is not recorded, but it is still counted.
pub(crate) struct CountingLock<S: CountUnrecorded> {
    lock: QueuedLock<S>,
    /// The number of samples that are being made while another thread holds the lock, and are not in the queue yet.
    being_made: AtomicU32,
    /// Whether samples were lost because the queue was full. `unrecorded` counts only those of the lost samples that
    /// are messages. This flag is set by a swap for the same reason as the flag `has_queued` of the queue.
    is_incomplete: AtomicBool,
    unrecorded: AtomicU64,
}

/// State that can also count the messages among lost samples.
pub(crate) trait CountUnrecorded: Accept {
    /// Records that samples were lost because the queue was full. `count` is how many of the lost samples are messages.
    fn count_unrecorded(&mut self, count: u64);
}

impl<S: CountUnrecorded> CountingLock<S> {
    /// How many times [`await_begun_samples`](Self::await_begun_samples) checks whether samples are still being made.
    /// All checks together take some microseconds. In a loom model, two checks are enough to reach both results, true
    /// and false.
    const WAITS: u32 = if cfg!(topic_statistics_loom) { 2 } else { 100 };

    pub(crate) fn new(state: S) -> Self {
        Self {
            lock: QueuedLock::new(state),
            being_made: AtomicU32::new(0),
            is_incomplete: AtomicBool::new(false),
            unrecorded: AtomicU64::new(0),
        }
    }

    /// Returns the state if no other thread holds the lock. The state first accepts all samples that were recorded
    /// before. If another thread holds the lock, the caller puts its sample into the [queue](Self::enqueue_or_count).
    ///
    /// Read the clock while holding the lock. The end of a window also reads the clock under the lock, so the sample is
    /// clearly before or after the end of the window.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<SpinMutexGuard<'_, S>> {
        let mut state = self.lock.state.try_lock()?;
        if self.lock.has_queued() {
            self.drain_queue(&mut state);
        }
        Some(state)
    }

    /// Waits for the lock. Returns the state after the state has accepted all samples that were recorded before.
    pub(crate) fn lock(&self) -> SpinMutexGuard<'_, S> {
        let mut state = self.lock.state.lock();
        self.drain_queue(&mut state);
        state
    }

    #[cold]
    #[inline(never)]
    fn drain_queue(&self, state: &mut S) {
        self.lock.drain_queue(state);
        // Count the lost samples now: samples that are recorded from now on are later than the lost samples.
        if let Some(count) = self.take_unrecorded() {
            state.count_unrecorded(count);
        }
    }

    /// Begins a sample whose order matters. This is necessary if another thread holds the lock. Call this before the
    /// clock is read for the sample. Then call [`enqueue_or_count`](Self::enqueue_or_count) and
    /// [`end_sample`](Self::end_sample).
    pub(crate) fn begin_sample(&self) {
        self.being_made.fetch_add(1, Ordering::Relaxed);
        // This fence makes sure that a thread that reads a later time sees that this sample is being made.
        fence(Ordering::Release);
    }

    /// Returns whether a sample may still be missing in the queue although it was begun before the caller read the
    /// clock. If the result is false, all these samples are visible in the queue.
    pub(crate) fn has_begun_samples(&self) -> bool {
        fence(Ordering::Acquire);
        self.being_made.load(Ordering::Acquire) > 0
    }

    /// Waits until all samples that were [begun](Self::has_begun_samples) before the caller read the clock are in the
    /// queue, but at most about as long as it takes to make a sample. Returns false if a sample is still missing: then
    /// its thread was preempted while it made the sample.
    pub(crate) fn await_begun_samples(&self) -> bool {
        (0..Self::WAITS).any(|_| {
            let is_over = !self.has_begun_samples();
            if !is_over {
                std::hint::spin_loop();
            }
            is_over
        })
    }

    /// Puts a sample into the queue. If the queue is full, the sample is lost. The lost sample is counted if `counts`
    /// is true.
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
            // Another thread may have emptied the queue and cleared this flag. Because the flag is set again, the next
            // holder of the lock counts the lost sample.
            self.lock.set_queued();
        }
    }

    /// Ends a sample that was begun. The sample is now in the queue, or counted as lost.
    pub(crate) fn end_sample(&self) {
        self.being_made.fetch_sub(1, Ordering::Release);
    }

    /// Returns how many messages were lost since the last call; `None` if no sample was lost.
    pub(crate) fn take_unrecorded(&self) -> Option<u64> {
        self.is_incomplete.swap(false, Ordering::Acquire).then(|| self.unrecorded.swap(0, Ordering::Relaxed))
    }

    /// Returns a sample that was queued after the lock was taken; `None` if the queue is empty.
    pub(crate) fn dequeue(&self) -> Option<S::Sample> {
        self.lock.dequeue()
    }

    #[cfg(all(test, topic_statistics_loom))]
    pub(crate) fn times_taken(&self) -> usize {
        self.lock.state.times_taken()
    }
}

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
    fn samples_beyond_the_queue_are_counted() {
        let numbers = CountingLock::new(Numbers::default());
        let room = QUEUE as u32;
        // After the queue was emptied, all its places must be free again.
        for (recorded, accepted, unrecorded) in
            [(room, room, 0), (room, 2 * room, 0), (room + 5, 3 * room, 5)]
        {
            let guard = numbers.lock();
            (0..recorded).for_each(|number| enqueue_or_count(&numbers, number, true));
            if recorded > room {
                enqueue_or_count(&numbers, 0, false);
            }
            drop(guard);
            let numbers = numbers.lock();
            assert_eq!((numbers.accepted.len() as u32, numbers.unrecorded), (accepted, unrecorded));
        }
    }

    #[test]
    fn a_sample_that_is_being_made_is_waited_for() {
        let numbers = CountingLock::new(Numbers::default());
        let _guard = numbers.lock();
        numbers.begin_sample();
        assert!(!numbers.await_begun_samples(), "the thread of the sample is preempted");
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
