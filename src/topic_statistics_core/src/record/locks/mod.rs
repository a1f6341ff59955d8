// SPDX-License-Identifier: Apache-2.0

//! Locks for state that accepts samples. A thread that records a message never waits for a lock.
//!
//! Two locks use the same queue. If the queue is full, [`CountingLock`] counts the sample as lost, and [`WaitingLock`]
//! waits.

use crate::sync::{
    atomic::{AtomicBool, AtomicU32, Ordering},
    ArrayQueue, SpinMutex,
};

mod counting;
mod waiting;

pub(crate) use counting::{CountUnrecorded, CountingLock};
pub(crate) use waiting::{ConfirmOrder, WaitingLock};

/// The capacity of a queue. In a loom model the queue is smaller, because then fewer samples fill the queue, and fewer
/// interleavings have to run.
pub(crate) const QUEUE: usize = if cfg!(topic_statistics_loom) { 2 } else { 8 };

/// State that is protected by a lock and accepts samples.
pub(crate) trait Accept {
    type Sample: Send;

    fn accept(&mut self, sample: &Self::Sample);
}

/// State behind a lock, with a small queue for samples that are recorded while another thread holds the lock.
///
/// The thread that ends a window holds the lock for a few hundred nanoseconds, or longer if it is preempted. A callback
/// that records a sample during this time puts the sample into the queue and continues. The next thread that takes the
/// lock accepts the queued samples first.
struct QueuedLock<S: Accept> {
    state: SpinMutex<S>,
    /// The queue is boxed so that its padding does not enlarge the state.
    queue: Box<ArrayQueue<S::Sample>>,
    /// The number of free places in the queue. A place is not free while another thread is still removing a sample from
    /// the place: a push to this place would wait for that thread, which may be preempted.
    room: AtomicU32,
    /// Whether the queue may have samples. Reading this flag is faster than checking the queue.
    ///
    /// The flag is set by a swap, not by a store. So the thread that clears the flag sees the writes of all threads
    /// that set the flag, and not only the writes of the last of these threads.
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

    /// Returns whether the holder of the lock has to [drain](Self::drain_queue) the queue first.
    #[inline(always)]
    fn has_queued(&self) -> bool {
        self.has_queued.load(Ordering::Relaxed)
    }

    fn set_queued(&self) {
        self.has_queued.swap(true, Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn drain_queue(&self, state: &mut S) {
        // The flag is cleared before the queue is emptied. So a sample that is pushed between these two steps is
        // accepted now, or by the next holder of the lock.
        self.has_queued.swap(false, Ordering::Acquire);
        while let Some(sample) = self.dequeue() {
            state.accept(&sample);
        }
    }

    /// Returns a sample that was queued after the lock was taken; `None` if the queue is empty.
    fn dequeue(&self) -> Option<S::Sample> {
        let sample = self.queue.pop()?;
        self.return_room();
        Some(sample)
    }

    /// Takes a place in the queue for a sample. Returns whether there was a free place.
    fn take_room(&self) -> bool {
        self.room.fetch_update(Ordering::Acquire, Ordering::Relaxed, |room| room.checked_sub(1)).is_ok()
    }

    fn return_room(&self) {
        self.room.fetch_add(1, Ordering::Release);
    }

    /// Puts a sample into the queue, after a place was taken for the sample. As long as this thread does not see that
    /// another thread has removed a sample, the queue still looks full. Then the sample is returned as an error.
    fn push(&self, sample: S::Sample) -> Result<(), S::Sample> {
        self.queue.push(sample)?;
        self.set_queued();
        Ok(())
    }
}

/// The state behind the locks of the tests and models. Its samples are numbers.
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
