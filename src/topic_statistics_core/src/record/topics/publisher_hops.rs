// SPDX-License-Identifier: Apache-2.0

//! The hops of a publisher: one for each topic whose messages cause its publications.
//!
//! Which hops there are, only the first publication of each shows. The thread that publishes leaves a mark, and the
//! thread of the statistics creates the hop. Publications until then are not measured.

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

/// Whether a publisher has a hop that is to be created.
pub struct Marks(AtomicBool);

impl Default for Marks {
    fn default() -> Self {
        Self(AtomicBool::new(false))
    }
}

impl Marks {
    fn leave(&self) {
        // No store: it would end the release sequence of another thread's mark, whose hop could stay unseen.
        self.0.swap(true, Ordering::Release);
    }

    /// Returns whether a mark was left since the last time: then [`PublisherHops::create`] is to be called, of each
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
    /// The number of the topic; 0 if the slot is free.
    input: AtomicU32,
    /// None until it is created.
    hop: OnceLock<Arc<Windowed<Hop>>>,
}

impl PublisherHops {
    /// The largest number of hops of a publisher. (That of a model is small.)
    pub const BOUND: usize = if cfg!(all(test, topic_statistics_loom)) { 2 } else { 8 };

    /// Creates it without hops. It leaves its marks there.
    pub fn new(marks: Arc<Marks>) -> Self {
        let slot = |_| Slot { input: AtomicU32::new(0), hop: OnceLock::new() };
        Self { marks, hops: std::array::from_fn(slot), is_full: AtomicBool::new(false) }
    }

    /// Records a publication that began at that time, on the monotonic clock.
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

    /// Returns the hop from a topic. Marks it to be created if there is none.
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

    /// Creates the hops that are marked, each from the topic of that number. One thread at a time may call it.
    pub fn create(&self, mut create: impl FnMut(u32) -> Option<Arc<Windowed<Hop>>>) {
        for slot in self.hops.iter().filter(|slot| slot.hop.get().is_none()) {
            let input = slot.input.load(Ordering::Relaxed);
            if let Some(hop) = (input != 0).then(|| create(input)).flatten() {
                slot.hop.get_or_init(|| hop);
            }
        }
    }

    /// Returns whether there was a publication by a topic that has no room among them.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

opaque_debug!(Marks, PublisherHops);

#[cfg(all(test, topic_statistics_loom))]
mod models;
