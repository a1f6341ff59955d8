// SPDX-License-Identifier: Apache-2.0

//! A lock that a message never waits for.

use crate::sync::{
    atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering},
    ArrayQueue, SpinMutex, SpinMutexGuard,
};

/// State behind a lock, with a small queue for samples that are recorded while another thread holds it.
///
/// The end of a window holds the lock for some hundred nanoseconds, or longer while its thread is preempted. A callback
/// that records meanwhile puts its sample into the queue and goes on. The next thread that takes the lock accepts the
/// queue first.
pub(crate) struct SampleLock<S: Accept> {
    state: SpinMutex<S>,
    /// Boxed, so that its padding does not pad the state.
    queue: Box<ArrayQueue<S::Sample>>,
    /// The free places in the queue. A place with a pop under way is not free: a push there would wait for the pop, and
    /// its thread may be preempted.
    room: AtomicU32,
    /// The samples that are being made while the lock is held, and are not in the queue yet.
    being_made: AtomicU32,
    /// Whether the queue may have samples; quicker to read than the queue.
    ///
    /// This flag and the next are set by a swap, not by a store: the thread that clears one then sees the writes of all
    /// threads that set it, not only of the last one.
    has_queued: AtomicBool,
    /// Whether the queue was full for a sample, and the number of such samples to count.
    is_incomplete: AtomicBool,
    unrecorded: AtomicU64,
}

/// State that accepts samples.
pub(crate) trait Accept {
    type Sample: Send;

    /// Accepts a sample.
    fn accept(&mut self, sample: &Self::Sample);

    /// Accepts the loss of samples because the queue was full; `count` of them count as messages.
    /// [`SampleLock::record`] never loses a sample.
    fn accept_unrecorded(&mut self, _count: u64) {}

    /// Accepts that no sample follows that was made before the last one.
    fn confirm_order(&mut self) {}
}

impl<S: Accept> SampleLock<S> {
    /// The capacity of the queue. In a model, the fewer samples fill it, the fewer interleavings lead there.
    pub(crate) const QUEUE: usize = if cfg!(topic_statistics_loom) { 2 } else { 8 };

    /// How often samples that are being made are looked for: some microseconds. A model needs no more than that both
    /// happen.
    const WAITS: u32 = if cfg!(topic_statistics_loom) { 2 } else { 100 };

    pub(crate) fn new(state: S) -> Self {
        Self {
            state: SpinMutex::new(state),
            queue: Box::new(ArrayQueue::new(Self::QUEUE)),
            room: AtomicU32::new(Self::QUEUE as u32),
            being_made: AtomicU32::new(0),
            has_queued: AtomicBool::new(false),
            is_incomplete: AtomicBool::new(false),
            unrecorded: AtomicU64::new(0),
        }
    }

    /// Returns the state, with all samples recorded before, if no other thread holds it. Otherwise the sample goes to
    /// the [queue](Self::enqueue).
    ///
    /// Read the clock while holding the lock: then the sample belongs to one side of a window's end, which reads it
    /// under the lock too.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<SpinMutexGuard<'_, S>> {
        let mut state = self.state.try_lock()?;
        if self.has_queued.load(Ordering::Relaxed) {
            self.accept_queued(&mut state);
        }
        Some(state)
    }

    /// Takes room in the queue for a sample. Returns whether there is any.
    fn take_room(&self) -> bool {
        let take = |room: u32| room.checked_sub(1);
        self.room.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_ok()
    }

    /// Gives room in the queue back.
    fn return_room(&self) {
        self.room.fetch_add(1, Ordering::Release);
    }

    /// Puts a sample into the queue, after room was taken for it. Returns it as an error if this thread does not see
    /// yet that other samples were removed meanwhile.
    fn push(&self, sample: S::Sample) -> Result<(), S::Sample> {
        self.queue.push(sample)?;
        self.has_queued.swap(true, Ordering::Release);
        Ok(())
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
        let has_room = self.take_room();
        if !has_room || self.push(sample).is_err() {
            if has_room {
                self.return_room();
            }
            self.unrecorded.fetch_add(u64::from(counts), Ordering::Relaxed);
            self.is_incomplete.swap(true, Ordering::Release);
            // The samples that filled the queue may have been accepted meanwhile.
            self.has_queued.swap(true, Ordering::Release);
        }
    }

    /// Ends a sample that was begun: it is in the queue, or counted.
    pub(crate) fn end_sample(&self) {
        self.being_made.fetch_sub(1, Ordering::Release);
    }

    /// Makes and records a sample. Waits for the lock only if the queue is full: where many threads record at any rate,
    /// one thread that is preempted while it records would soon fill it.
    #[inline]
    pub(crate) fn record(&self, sample: impl FnOnce() -> S::Sample) {
        match self.try_lock() {
            Some(state) => self.accept(state, sample),
            None => self.enqueue(sample),
        }
    }

    /// Makes a sample while the lock is held, and accepts it.
    #[inline]
    fn accept(&self, mut state: SpinMutexGuard<'_, S>, sample: impl FnOnce() -> S::Sample) {
        state.accept(&sample());
        fence(Ordering::Acquire);
        if !self.awaits_samples() {
            state.confirm_order();
        }
    }

    /// Returns whether samples were made, or are being made, that are not accepted yet.
    #[inline]
    pub(crate) fn awaits_samples(&self) -> bool {
        self.room.load(Ordering::Relaxed) < Self::QUEUE as u32
    }

    /// Makes a sample and puts it into the queue, or waits for the lock if there is no room.
    #[cold]
    #[inline(never)]
    fn enqueue(&self, sample: impl FnOnce() -> S::Sample) {
        if !self.take_room() {
            return self.accept(self.lock(), sample);
        }
        // Whoever makes a later sample sees that room was taken for this one.
        fence(Ordering::Release);
        let sample = sample();
        fence(Ordering::Acquire);
        if let Err(sample) = self.push(sample) {
            self.lock().accept(&sample);
            self.return_room();
        }
    }

    #[cold]
    #[inline(never)]
    fn accept_queued(&self, state: &mut S) {
        // Before the queue is emptied: a sample that is pushed meanwhile is accepted now or the next time.
        self.has_queued.swap(false, Ordering::Acquire);
        while let Some(sample) = self.dequeue() {
            state.accept(&sample);
        }
        // Now, because samples that are recorded from now on are later.
        if let Some(count) = self.take_unrecorded() {
            state.accept_unrecorded(count);
        }
    }

    /// Waits for the lock. Returns the state with all samples recorded before.
    pub(crate) fn lock(&self) -> SpinMutexGuard<'_, S> {
        let mut state = self.state.lock();
        self.accept_queued(&mut state);
        state
    }

    /// Returns how many lost samples are to be counted; None if none was lost since the last call.
    pub(crate) fn take_unrecorded(&self) -> Option<u64> {
        self.is_incomplete.swap(false, Ordering::Acquire).then(|| self.unrecorded.swap(0, Ordering::Relaxed))
    }

    /// Returns a sample that was recorded since the lock was taken.
    pub(crate) fn dequeue(&self) -> Option<S::Sample> {
        let sample = self.queue.pop()?;
        self.return_room();
        Some(sample)
    }
}

/// Records a sample while the lock is held.
#[cfg(test)]
fn enqueue_or_count(numbers: &SampleLock<Numbers>, number: u32, counts: bool) {
    numbers.begin_sample();
    numbers.enqueue_or_count(number, counts);
    numbers.end_sample();
}

/// The samples of the tests and models.
#[cfg(test)]
#[derive(Default)]
struct Numbers {
    accepted: Vec<u32>,
    unrecorded: u64,
}

#[cfg(test)]
impl Accept for Numbers {
    type Sample = u32;

    fn accept(&mut self, sample: &u32) {
        self.accepted.push(*sample);
    }

    fn accept_unrecorded(&mut self, count: u64) {
        self.unrecorded += count;
    }
}

#[cfg(all(test, topic_statistics_loom))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_queued_while_the_lock_is_held_and_comes_before_the_next() {
        let numbers = SampleLock::new(Numbers::default());
        let held = numbers.lock();
        std::thread::scope(|scope| {
            scope
                .spawn(|| (1..=3).for_each(|number| enqueue_or_count(&numbers, number, true)))
                .join()
                .unwrap()
        });
        drop(held);
        numbers.record(|| 4);
        assert_eq!(numbers.lock().accepted, [1, 2, 3, 4]);
    }

    #[test]
    fn samples_beyond_the_queue_are_counted() {
        let numbers = SampleLock::new(Numbers::default());
        let held = numbers.lock();
        let room = SampleLock::<Numbers>::QUEUE as u32;
        (0..room + 5).for_each(|number| enqueue_or_count(&numbers, number, true));
        enqueue_or_count(&numbers, 0, false);
        drop(held);
        let numbers = numbers.lock();
        assert_eq!((numbers.accepted.len() as u32, numbers.unrecorded), (room, 5));
    }

    #[test]
    fn a_sample_that_is_being_made_is_waited_for_as_long_as_that_takes() {
        let numbers = SampleLock::new(Numbers::default());
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

    #[test]
    fn the_queue_has_its_room_again_after_it_was_emptied() {
        let numbers = SampleLock::new(Numbers::default());
        let room = SampleLock::<Numbers>::QUEUE as u32;
        for _ in 0..3 {
            let held = numbers.lock();
            (0..room).for_each(|number| enqueue_or_count(&numbers, number, true));
            drop(held);
        }
        let numbers = numbers.lock();
        assert_eq!((numbers.accepted.len() as u32, numbers.unrecorded), (3 * room, 0));
    }

    #[test]
    fn no_sample_is_lost_or_recorded_twice_while_another_thread_takes_the_lock() {
        const EACH: u32 = if cfg!(miri) { 50 } else { 20_000 };
        let numbers = SampleLock::new(Numbers::default());
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
