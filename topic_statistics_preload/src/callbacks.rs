// SPDX-License-Identifier: Apache-2.0

//! The callbacks of rclcpp's subscriptions, and the publishers with intra-process communication, as
//! [`tracepoints`](crate::tracepoints) reports them.
//!
//! With intra-process communication, a publisher hands its messages to the subscriptions of its context. If anybody
//! else is subscribed, it publishes them by the middleware, too. The subscriptions of its context take these copies,
//! and discard them by the publisher's GID. No callback gets them: they are no messages.

use std::sync::{
    atomic::{AtomicUsize, Ordering},
    RwLock, RwLockWriteGuard,
};

use topic_statistics_core::record::transport::Gid;

use crate::{
    abi::{Endpoint, MessageInfo},
    table::Pointers,
};

/// The subscriptions that are measured, by the addresses of their callbacks. They may be destroyed meanwhile.
pub static CALLBACKS: Pointers<Endpoint> = Pointers::new();
/// The publishers that are measured and have intra-process communication, by [`key`].
pub static INTRA_PROCESS_PUBLISHERS: Pointers<Endpoint> = Pointers::new();
/// Written while a subscription ends. The callback of an intra-process message may outlive it: it reads.
pub static ENDING: RwLock<()> = RwLock::new(());

/// The callbacks of a subscription: their addresses, 0 if there is none. One of rclcpp has one; with intra-process
/// communication it has two.
#[derive(Default)]
pub struct Callbacks(pub [AtomicUsize; 2]);

impl Callbacks {
    /// Returns whether it is reported when they start.
    #[inline]
    pub fn are_reported(&self) -> bool {
        self.0[0].load(Ordering::Relaxed) != 0
    }

    /// Returns whether rclcpp discards a message that was taken: its publisher has handed it over in the process.
    #[inline]
    pub fn discard(&self, info: &MessageInfo, context: usize) -> bool {
        let is_intra_process = self.0[1].load(Ordering::Relaxed) != 0;
        is_intra_process && INTRA_PROCESS_PUBLISHERS.get(key(&info.gid, context)).is_some()
    }

    /// Forgets them. Their subscription ends.
    pub fn end(&self) {
        for callback in self.0.iter().map(|callback| callback.load(Ordering::Relaxed)) {
            if callback != 0 {
                CALLBACKS.remove(callback);
            }
        }
    }
}

/// While it is held, no callback of an intra-process message uses its subscription.
pub fn ending() -> RwLockWriteGuard<'static, ()> {
    ENDING.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The key of a publisher with intra-process communication in [`INTRA_PROCESS_PUBLISHERS`], 0 without.
#[derive(Default)]
pub struct IntraProcessKey(pub AtomicUsize);

impl IntraProcessKey {
    /// Forgets it. The publisher ends.
    pub fn end(&self) {
        let key = self.0.load(Ordering::Relaxed);
        if key != 0 {
            INTRA_PROCESS_PUBLISHERS.remove(key);
        }
    }
}

/// Returns the key of a publisher of a context: one for all its bits, of which the low ones are not used.
#[inline]
pub fn key(gid: &Gid, context: usize) -> usize {
    let number = u128::from_le_bytes(*gid);
    let mixed = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32)
        ^ ((number >> 64) as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
        ^ context as u64;
    mixed as usize | 2 // no key that the table uses itself
}
