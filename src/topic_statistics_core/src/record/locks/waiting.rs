// SPDX-License-Identifier: Apache-2.0

//! A lock that loses no sample: if the queue is full, the recording thread waits.

use super::{Accept, QueuedLock, QUEUE};
use crate::sync::{
    atomic::{fence, Ordering},
    SpinMutexGuard,
};

/// A lock for publications and timed scopes. A thread that records a sample waits only if another thread holds the lock
/// and the queue is full. Because it waits, no sample is lost.
pub(crate) struct WaitingLock<S: ConfirmOrder>(QueuedLock<S>);

/// State that accepts samples. The samples may be recorded in a different order than they were made.
pub(crate) trait ConfirmOrder: Accept {
    /// Confirms the order: all samples that were made before the last accepted sample have been accepted, too.
    fn confirm_order(&mut self);
}

impl<S: ConfirmOrder> WaitingLock<S> {
    pub(crate) fn new(state: S) -> Self {
        Self(QueuedLock::new(state))
    }

    /// Returns the state if no other thread holds the lock. The state first accepts all samples that were recorded
    /// before.
    #[inline(always)]
    fn try_lock(&self) -> Option<SpinMutexGuard<'_, S>> {
        let mut state = self.0.state.try_lock()?;
        if self.0.has_queued() {
            self.0.drain_queue(&mut state);
        }
        Some(state)
    }

    /// Waits for the lock. Returns the state after the state has accepted all samples that were recorded before.
    pub(crate) fn lock(&self) -> SpinMutexGuard<'_, S> {
        let mut state = self.0.state.lock();
        self.0.drain_queue(&mut state);
        state
    }

    /// Makes and records a sample. Waits for the lock only if the queue is full. The queue can become full if a thread
    /// is preempted while it records, and other threads record at a high rate.
    #[inline]
    pub(crate) fn record(&self, sample: impl FnOnce() -> S::Sample) {
        match self.try_lock() {
            Some(state) => self.accept(state, sample),
            None => self.enqueue(sample),
        }
    }

    /// Makes a sample while the lock is held, and accepts the sample.
    #[inline]
    fn accept(&self, mut state: SpinMutexGuard<'_, S>, sample: impl FnOnce() -> S::Sample) {
        state.accept(&sample());
        fence(Ordering::Acquire);
        if !self.awaits_samples() {
            state.confirm_order();
        }
    }

    /// Returns whether there are samples that were made, or are being made, but are not accepted yet.
    #[inline]
    pub(crate) fn awaits_samples(&self) -> bool {
        self.0.room.load(Ordering::Relaxed) < QUEUE as u32
    }

    /// Makes a sample and puts it into the queue. If the queue is full, waits for the lock instead.
    #[cold]
    #[inline(never)]
    fn enqueue(&self, sample: impl FnOnce() -> S::Sample) {
        if !self.0.take_room() {
            return self.accept(self.lock(), sample);
        }
        // This fence makes sure that a thread that makes a later sample sees that a place in the queue was taken for
        // this sample.
        fence(Ordering::Release);
        let sample = sample();
        fence(Ordering::Acquire);
        if let Err(sample) = self.0.push(sample) {
            self.lock().accept(&sample);
            self.0.return_room();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Numbers, *};

    #[test]
    fn no_sample_is_lost_or_recorded_twice() {
        const EACH: u32 = if cfg!(miri) { 50 } else { 20_000 };
        let numbers = WaitingLock::new(Numbers::default());
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
        assert!(numbers.accepted.iter().copied().eq(0..2 * EACH));
    }
}
