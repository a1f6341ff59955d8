// SPDX-License-Identifier: Apache-2.0

//! The queue that takes messages from the callbacks of subscriptions to the rest of the program. A full queue drops
//! further messages.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender},
        Arc,
    },
    time::Instant,
};

pub struct Queue<M> {
    sender: SyncSender<(Instant, M)>,
    dropped: AtomicU64,
}

impl<M> Queue<M> {
    pub const SIZE: usize = 10_000;

    /// Returns the two ends of the queue. A receiver gets each message with the time at which it entered the queue.
    pub fn new() -> (Arc<Self>, Receiver<(Instant, M)>) {
        let (sender, messages) = mpsc::sync_channel(Self::SIZE);
        (Arc::new(Self { sender, dropped: AtomicU64::new(0) }), messages)
    }

    pub fn put(&self, message: M) {
        if self.sender.try_send((Instant::now(), message)).is_err() {
            self.count_dropped();
        }
    }

    /// Counts a message that was dropped for another reason than a full queue.
    pub fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
