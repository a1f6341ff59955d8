// SPDX-License-Identifier: Apache-2.0

//! The hops of a publisher. A hop is the path from a message that a process takes to the publication in the message's
//! callback. A publisher has one hop for each topic whose messages cause its publications.
//!
//! A hop becomes known when a message of a topic causes a publication for the first time. The publishing thread then
//! leaves a mark, and the thread of the statistics creates the hop. Publications before the creation are not measured.

use std::sync::Arc;

use super::{
    cause::Cause,
    hops::{Hop, Output},
};
use crate::{
    record::sources::windowed::Windowed,
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering},
        OnceLock,
    },
};

/// A mark that publishers set: at least one publisher needs a hop that does not exist yet.
#[derive(Debug, Default)]
pub struct Marks(AtomicBool);

impl Marks {
    fn leave(&self) {
        // The mark is set by a swap. A store would end the release sequence of another thread's mark, and the reader of
        // the mark might not see that thread's new hop.
        self.0.swap(true, Ordering::Release);
    }

    /// Returns whether a publisher left a mark since the last call. If so, call [`PublisherHops::create`] for each
    /// publisher.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Acquire)
    }
}

/// The hops of a publisher.
pub struct PublisherHops {
    marks: Arc<Marks>,
    hops: [Slot; PublisherHops::BOUND],
    is_full: AtomicBool,
}

struct Slot {
    /// The number of the input topic; 0 if the slot is free.
    input: AtomicU32,
    /// The hop; `None` until the hop is created.
    hop: OnceLock<Arc<Windowed<Hop>>>,
}

impl PublisherHops {
    /// The largest number of hops of a publisher. (In a loom model the number is small.)
    pub const BOUND: usize = if cfg!(all(test, topic_statistics_loom)) { 2 } else { 8 };

    /// Creates a publisher's set of hops, which is empty at first. When the publisher needs a new hop, it sets a mark
    /// in `marks`, and another thread creates the hop.
    pub fn new(marks: Arc<Marks>) -> Self {
        let slot = |_| Slot { input: AtomicU32::new(0), hop: OnceLock::new() };
        Self { marks, hops: std::array::from_fn(slot), is_full: AtomicBool::new(false) }
    }

    /// Records a publication that began at the time `published` of the monotonic clock.
    #[inline]
    pub fn record(&self, cause: Cause, published: i64) {
        match cause {
            Cause::Message(message) if message.topic != 0 => {
                if let Some(hop) = self.hop_from(message.topic) {
                    let (source, taken) = (message.source, message.taken);
                    hop.record(|| Output::Caused { source, taken, published });
                }
            }
            Cause::Message(_) | Cause::Other => {}
            Cause::Ambiguous => {
                for hop in self.hops.iter().filter_map(|slot| slot.hop.get()) {
                    hop.record(|| Output::Ambiguous);
                }
            }
        }
    }

    /// Returns the hop from a topic. If the hop does not exist, marks it to be created and returns `None`.
    #[inline]
    fn hop_from(&self, topic: u32) -> Option<&Arc<Windowed<Hop>>> {
        for slot in &self.hops {
            let present = slot.input.compare_exchange(0, topic, Ordering::Relaxed, Ordering::Relaxed);
            match present {
                Ok(_) => {
                    self.marks.leave();
                    return None;
                }
                Err(present) if present == topic => return slot.hop.get(),
                Err(_) => {}
            }
        }
        if !self.is_full.swap(true, Ordering::Relaxed) {
            self.marks.leave();
        }
        None
    }

    /// Creates the marked hops with the function `create`, whose argument is the number of the input topic. Only one
    /// thread at a time may call this function.
    pub fn create(&self, mut create: impl FnMut(u32) -> Option<Arc<Windowed<Hop>>>) {
        for slot in self.hops.iter().filter(|slot| slot.hop.get().is_none()) {
            let input = slot.input.load(Ordering::Relaxed);
            if let Some(hop) = (input != 0).then(|| create(input)).flatten() {
                slot.hop.get_or_init(|| hop);
            }
        }
    }

    /// Returns whether a publication was caused by a topic for which there was no free slot.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

opaque_debug!(PublisherHops);

#[cfg(all(test, topic_statistics_loom))]
mod models;
