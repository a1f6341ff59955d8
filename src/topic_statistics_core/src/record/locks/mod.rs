// SPDX-License-Identifier: Apache-2.0

//! The lock that a message never waits for.
//!
//! Two locks stand on one queue: [`CountingLock`] counts a sample that finds the queue full, [`WaitingLock`] waits.

use crate::sync::{
    atomic::{AtomicBool, AtomicU32, Ordering},
    ArrayQueue, SpinMutex,
};

mod counting;
mod waiting;

pub(crate) use counting::{CountUnrecorded, CountingLock};
pub(crate) use waiting::{ConfirmOrder, WaitingLock};

/// The capacity of a queue. In a model, the fewer samples fill it, the fewer interleavings lead there.
pub(crate) const QUEUE: usize = if cfg!(topic_statistics_loom) { 2 } else { 8 };

/// State that accepts samples.
pub(crate) trait Accept {
    type Sample: Send;

    /// Accepts a sample.
    fn accept(&mut self, sample: &Self::Sample);
}

/// State behind a lock, with a small queue for samples that are recorded while another thread holds it.
///
/// The end of a window holds the lock for some hundred nanoseconds, or longer while its thread is preempted. A callback
/// that records meanwhile puts its sample into the queue and goes on. The next thread that takes the lock accepts the
/// queue first.
struct QueuedLock<S: Accept> {
    state: SpinMutex<S>,
    /// Boxed, so that its padding does not pad the state.
    queue: Box<ArrayQueue<S::Sample>>,
    /// The free places in the queue. A place with a pop under way is not free: a push there would wait for the pop, and
    /// its thread may be preempted.
    room: AtomicU32,
    /// Whether the queue may have samples; quicker to read than the queue.
    ///
    /// This flag is set by a swap, not by a store: the thread that clears it then sees the writes of all threads that
    /// set it, not only of the last one.
    has_queued: AtomicBool,
}

impl<S: Accept> QueuedLock<S> {
    fn new(state: S) -> Self {
        Self {
            state: SpinMutex::new(state),
            queue: Box::new(ArrayQueue::new(QUEUE)),
            room: AtomicU32::new(QUEUE as u32),
            has_queued: AtomicBool::new(false),
        }
    }

    /// Returns whether the queue may have samples, which the holder of the lock has to
    /// [drain](Self::drain_queue) first.
    #[inline(always)]
    fn has_queued(&self) -> bool {
        self.has_queued.load(Ordering::Relaxed)
    }

    /// Has the next holder of the lock look into the queue.
    fn set_queued(&self) {
        self.has_queued.swap(true, Ordering::Release);
    }

    /// Accepts all samples in the queue.
    #[cold]
    #[inline(never)]
    fn drain_queue(&self, state: &mut S) {
        // Before the queue is emptied: a sample that is pushed meanwhile is accepted now or the next time.
        self.has_queued.swap(false, Ordering::Acquire);
        while let Some(sample) = self.dequeue() {
            state.accept(&sample);
        }
    }

    /// Returns a sample that was recorded since the lock was taken.
    fn dequeue(&self) -> Option<S::Sample> {
        let sample = self.queue.pop()?;
        self.return_room();
        Some(sample)
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
        self.set_queued();
        Ok(())
    }
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
}

#[cfg(test)]
impl CountUnrecorded for Numbers {
    fn count_unrecorded(&mut self, count: u64) {
        self.unrecorded += count;
    }
}

#[cfg(test)]
impl ConfirmOrder for Numbers {
    fn confirm_order(&mut self) {}
}

#[cfg(all(test, topic_statistics_loom))]
mod models;
