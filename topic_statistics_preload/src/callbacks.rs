// SPDX-License-Identifier: Apache-2.0

//! The callbacks of rclcpp's subscriptions, and the publishers with intra-process communication:
//! [`tracepoints`](crate::tracepoints) reports both.
//!
//! With intra-process communication, a publisher passes its messages directly to the subscriptions in its context. If
//! the topic also has subscriptions in other contexts, the middleware delivers a copy of each message to all
//! subscriptions. The subscriptions in the publisher's context recognise a copy by the publisher's GID and discard the
//! copy. Discarded copies are not counted as messages.
//!
//! Within the process, each subscription has a ring buffer. The publishing thread puts a message into the buffer. A
//! thread of the executor takes the message out and calls the callback. A message that is put into a full buffer
//! overwrites the oldest message.

use std::sync::{
    atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    RwLock, RwLockReadGuard,
};

use topic_statistics_core::record::{recorder::IntraProcessMessage, transport::Gid};

use crate::{
    abi::{Endpoint, MessageInfo},
    table::{Pointers, Table},
};

/// The owner of each measured callback, by the callback's address. The owner is a subscription of rmw or a timer of
/// rcl, and may already be destroyed.
pub static CALLBACKS: Pointers<Endpoint> = Pointers::new();
/// The ring buffers of the measured subscriptions, by the buffers' addresses. A thread uses a buffer only while the
/// thread holds the lock [`ENDING`].
pub static BUFFERS: Table<Buffer> = Table::new();
/// The measured publishers with intra-process communication, by the result of [`key`].
pub static INTRA_PROCESS_PUBLISHERS: Pointers<Endpoint> = Pointers::new();
/// This lock is held for writing while a subscription ends. Callbacks of intra-process messages, and changes of ring
/// buffers, lock `ENDING` for reading, because callbacks and buffers may outlive the subscription.
pub static ENDING: RwLock<()> = RwLock::new(());

/// The addresses of a subscription's callbacks; 0 for no callback. A subscription of rclcpp has one callback. With
/// intra-process communication, it has two callbacks.
#[derive(Default)]
pub struct Callbacks {
    addresses: [AtomicUsize; 2],
    /// The address of the subscription's ring buffer; 0 if unknown.
    pub buffer: AtomicUsize,
    /// The thread that took the subscription's last message; 0 once the callback of this message has started.
    taken_by: AtomicUsize,
    /// Whether the program takes messages itself, without a callback.
    is_polled: AtomicBool,
}

impl Callbacks {
    /// Returns whether rclcpp reports when these callbacks start.
    #[inline]
    pub fn are_reported(&self) -> bool {
        self.addresses[0].load(Ordering::Relaxed) != 0
    }

    /// Returns whether rclcpp discards a taken message because the publisher also passed the message on within the
    /// process.
    #[inline]
    pub fn discard(&self, info: &MessageInfo, context: usize) -> bool {
        let is_intra_process = self.addresses[1].load(Ordering::Relaxed) != 0;
        is_intra_process && INTRA_PROCESS_PUBLISHERS.get(key(&info.gid, context)).is_some()
    }

    pub fn add(&self, number: usize, callback: usize) {
        if let Some(free) = self.addresses.get(number) {
            free.store(callback, Ordering::Relaxed);
        }
    }

    pub fn addresses(&self) -> impl Iterator<Item = usize> + '_ {
        self.addresses
            .iter()
            .map(|callback| callback.load(Ordering::Relaxed))
            .filter(|callback| *callback != 0)
    }

    /// Records that a thread takes a message of a subscription whose callbacks rclcpp reports. Returns whether the
    /// message waits for its callback. If a thread takes two messages and no callback starts in between, the program
    /// evidently takes messages itself, without callbacks. From then on, messages are measured when they are taken,
    /// until a callback starts.
    #[inline]
    pub fn take(&self, thread: usize) -> bool {
        if self.taken_by.load(Ordering::Relaxed) == thread {
            self.is_polled.store(true, Ordering::Relaxed);
        }
        self.taken_by.store(thread, Ordering::Relaxed);
        !self.is_polled.load(Ordering::Relaxed)
    }

    /// Records that a thread starts the callback for the message that the thread took last.
    #[inline]
    pub fn start(&self, thread: usize) {
        if self.taken_by.load(Ordering::Relaxed) == thread {
            self.taken_by.store(0, Ordering::Relaxed);
        }
        if self.is_polled.load(Ordering::Relaxed) {
            self.is_polled.store(false, Ordering::Relaxed);
        }
    }

    /// Removes the callbacks and the ring buffer when their subscription ends. The caller holds [`ENDING`].
    pub fn end(&self, subscription: *const Endpoint) {
        // A callback of another subscription may have got the same address in the meantime.
        let is_own = |callback: &usize| {
            CALLBACKS.get(*callback).is_some_and(|owner| owner.as_ptr().cast_const() == subscription)
        };
        self.addresses().filter(is_own).for_each(|callback| {
            CALLBACKS.remove(callback);
        });
        let buffer = self.buffer.load(Ordering::Relaxed);
        // SAFETY: The caller holds the lock.
        let found = unsafe { BUFFERS.get(buffer) };
        if found.is_some_and(|found| found.subscription == subscription.addr()) {
            BUFFERS.remove(buffer);
        }
    }
}

pub struct Buffer {
    address: usize,
    pub subscription: usize,
    /// The number of messages that were put into the buffer since its creation. Only one thread at a time changes this
    /// number, because rclcpp changes the buffer under a lock.
    enqueued: AtomicU64,
    /// For each place of the buffer: when the publication of the message in this place started, in nanoseconds on the
    /// monotonic clock; 0 if unknown. The slice is empty if the buffer has more places than [`PLACES`](Self::PLACES).
    published: Box<[AtomicI64]>,
}

impl Buffer {
    /// The largest number of places of a buffer for which the times of publications are stored.
    const PLACES: usize = 4096;

    pub fn new(address: usize, capacity: usize, subscription: usize) -> Self {
        let places = if capacity > Self::PLACES { 0 } else { capacity };
        let published = (0..places).map(|_| AtomicI64::new(0)).collect();
        Self { address, subscription, enqueued: AtomicU64::new(0), published }
    }

    /// Records that a message, whose publication started at `published`, is put into a place.
    pub fn enqueue(&self, place: u64, published: i64) {
        self.enqueued.store(self.enqueued.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if let Some(kept) = self.place(place) {
            kept.store(published, Ordering::Relaxed);
        }
    }

    /// Records that the message in a place is taken out. `left` messages stay in the buffer.
    pub fn dequeue(&self, place: u64, left: u64) -> IntraProcessMessage {
        let mut buffer = Gid::default();
        buffer[..size_of::<usize>()].copy_from_slice(&self.address.to_ne_bytes());
        let number = self.enqueued.load(Ordering::Relaxed).checked_sub(left);
        let published = self.place(place).map_or(0, |kept| kept.load(Ordering::Relaxed));
        IntraProcessMessage { published, buffer, number: number.unwrap_or(u64::MAX) }
    }

    fn place(&self, place: u64) -> Option<&AtomicI64> {
        self.published.get(usize::try_from(place).ok()?)
    }
}

/// Locks [`ENDING`] for reading; `None` while a subscription ends.
#[inline]
pub fn not_ending() -> Option<RwLockReadGuard<'static, ()>> {
    ENDING.try_read().ok()
}

/// Returns the key of a publisher in a context: a hash of all bits of the GID and the context.
#[inline]
pub fn key(gid: &Gid, context: usize) -> usize {
    let number = u128::from_le_bytes(*gid);
    let mixed = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32)
        ^ ((number >> 64) as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
        ^ context as u64;
    mixed as usize | 2 // never 0 or 1, which mark unused slots of the table
}
