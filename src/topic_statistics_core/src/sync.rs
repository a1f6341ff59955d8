// SPDX-License-Identifier: Apache-2.0

//! Primitives for the synchronization of threads.
//!
//! In loom models, `sync_loom.rs` replaces this file: the model checker loom decides which thread runs.

use std::time::{Duration, Instant};

pub(crate) use crossbeam_queue::ArrayQueue;
pub(crate) use std::{
    panic::catch_unwind,
    sync::{atomic, Condvar, Mutex, MutexGuard, OnceLock},
    thread::{self, sleep},
};
pub(crate) use tokio::sync::watch;

/// A mutex that is unlocked by a plain store. So a lock and an unlock together need one locked CPU instruction; std's
/// mutex needs two.
pub(crate) type SpinMutex<T> = spin::mutex::Mutex<T, Sleep>;
pub(crate) type SpinMutexGuard<'a, T> = spin::mutex::MutexGuard<'a, T, Sleep>;

/// Waits for a lock by sleeping. During the sleep, the thread that holds the lock can run, even if it runs on the same
/// core with a lower priority.
pub(crate) struct Sleep;

impl spin::RelaxStrategy for Sleep {
    fn relax() {
        sleep(Duration::from_micros(20));
    }
}

pub(crate) fn now() -> Instant {
    Instant::now()
}
