// SPDX-License-Identifier: Apache-2.0

//! Locks a mutex, even if a thread panicked while it held the lock.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// Locks a mutex. A poisoned mutex is locked, too, because a panic never leaves the data of the mutex half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
