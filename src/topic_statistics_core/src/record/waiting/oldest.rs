// SPDX-License-Identifier: Apache-2.0

//! The oldest of the calls or goals that wait.

use std::{collections::BTreeSet, sync::Arc};

use crate::{collector::milliseconds_between, mutex::lock, sync::Mutex};

/// The calls or goals that wait: when each began, and its number. rclrs keeps each of them, too. All clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Oldest(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    since: BTreeSet<Since>,
    next: u64,
}

/// When one of them began, in nanoseconds on the monotonic clock, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since(i64, u64);

impl Since {
    pub(super) fn began(self) -> i64 {
        self.0
    }
}

impl Oldest {
    /// One begins at that time.
    pub(super) fn begin(&self, began: i64) -> Since {
        let mut waiting = lock(&self.0);
        waiting.next += 1;
        let since = Since(began, waiting.next);
        waiting.since.insert(since);
        since
    }

    /// One ends.
    pub(super) fn end(&self, since: Since) {
        lock(&self.0).since.remove(&since);
    }

    /// Returns the age of the oldest at that time, in milliseconds; 0 if there is none.
    pub(super) fn age(&self, now: i64) -> f64 {
        let oldest = lock(&self.0).since.first().copied();
        oldest.map_or(0.0, |since| milliseconds_between(since.began(), now).max(0.0))
    }
}
