// SPDX-License-Identifier: Apache-2.0

//! The callbacks of rclcpp's subscriptions, and the publishers with intra-process communication, which
//! [`tracepoints`](crate::tracepoints) reports.
//!
//! With intra-process communication, a publisher passes its messages directly to the subscriptions in its context. If
//! the topic also has subscriptions in other contexts, the middleware delivers a copy of each message to all
//! subscriptions. The subscriptions in the publisher's context recognise a copy by the publisher's GID and discard the
//! copy. Discarded copies are not counted as messages.

use std::sync::{
    atomic::{AtomicUsize, Ordering},
    RwLock, RwLockWriteGuard,
};

use topic_statistics_core::record::transport::Gid;

use crate::{
    abi::{Endpoint, MessageInfo},
    table::Pointers,
};

/// The measured subscriptions, by the addresses of their callbacks. A subscription in this table may already be
/// destroyed.
pub static CALLBACKS: Pointers<Endpoint> = Pointers::new();
/// The measured publishers with intra-process communication, by the result of [`key`].
pub static INTRA_PROCESS_PUBLISHERS: Pointers<Endpoint> = Pointers::new();
/// Locked for writing while a subscription ends. A callback of an intra-process message locks `ENDING` for reading,
/// because the callback may outlive its subscription.
pub static ENDING: RwLock<()> = RwLock::new(());

/// The addresses of a subscription's callbacks; 0 for no callback. A subscription of rclcpp has one callback, or two
/// callbacks with intra-process communication.
#[derive(Default)]
pub struct Callbacks(pub [AtomicUsize; 2]);

impl Callbacks {
    /// Returns whether rclcpp reports the start of these callbacks.
    #[inline]
    pub fn are_reported(&self) -> bool {
        self.0[0].load(Ordering::Relaxed) != 0
    }

    /// Returns whether rclcpp discards a taken message because the publisher also passed the message on within the
    /// process.
    #[inline]
    pub fn discard(&self, info: &MessageInfo, context: usize) -> bool {
        let is_intra_process = self.0[1].load(Ordering::Relaxed) != 0;
        is_intra_process && INTRA_PROCESS_PUBLISHERS.get(key(&info.gid, context)).is_some()
    }

    /// Removes the callbacks when their subscription ends.
    pub fn end(&self) {
        for callback in self.0.iter().map(|callback| callback.load(Ordering::Relaxed)) {
            if callback != 0 {
                CALLBACKS.remove(callback);
            }
        }
    }
}

/// Locks [`ENDING`]. While the lock is held, no callback of an intra-process message uses its subscription.
pub fn lock_ending() -> RwLockWriteGuard<'static, ()> {
    ENDING.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The key of a publisher in [`INTRA_PROCESS_PUBLISHERS`]; 0 if the publisher has no intra-process communication.
#[derive(Default)]
pub struct IntraProcessKey(pub AtomicUsize);

impl IntraProcessKey {
    /// Removes the key when the publisher ends.
    pub fn end(&self) {
        let key = self.0.load(Ordering::Relaxed);
        if key != 0 {
            INTRA_PROCESS_PUBLISHERS.remove(key);
        }
    }
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
