// SPDX-License-Identifier: Apache-2.0

//! Locking a mutex, also after a panic.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// Locks a mutex. No panic leaves its data half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
