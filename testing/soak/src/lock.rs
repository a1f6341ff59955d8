// SPDX-License-Identifier: Apache-2.0

//! A lock whose value is used even after a thread that held it panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
