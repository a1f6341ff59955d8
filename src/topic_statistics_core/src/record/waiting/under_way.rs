// SPDX-License-Identifier: Apache-2.0

//! The requests, calls or goals in progress: how many there are, and which one is the oldest.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    collector::milliseconds_between,
    mutex::lock,
    sync::{
        atomic::{AtomicU64, Ordering},
        Mutex,
    },
};

/// The number of requests or goals in progress now, and the largest number that were in progress at the same time since
/// the window's start. All clones share both numbers.
///
/// Both numbers are in one atomic, so that they change together. The high 32 bits are the largest number, and the low
/// 32 bits are the number in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Active(Arc<AtomicU64>);

impl Active {
    /// Changes the number in progress and the largest number. Returns both numbers from before the change.
    fn change(&self, change: impl Fn(u32, u32) -> (u32, u32)) -> (u32, u32) {
        let split = |counts: u64| (counts as u32, (counts >> 32) as u32);
        let changed = |counts: u64| {
            let (active, most) = split(counts);
            let (active, most) = change(active, most);
            Some(u64::from(most) << 32 | u64::from(active))
        };
        let (Ok(before) | Err(before)) = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
        split(before)
    }

    pub(super) fn begin(&self) {
        self.change(|active, most| (active.saturating_add(1), most.max(active.saturating_add(1))));
    }

    pub(super) fn end(&self) {
        self.change(|active, most| (active.saturating_sub(1), most));
    }

    /// Ends a window. Returns both numbers.
    pub(super) fn take(&self) -> (u32, u32) {
        self.change(|active, _| (active, active))
    }
}

/// The calls or goals in progress, ordered by their start. (The list stays small, because rclrs also keeps an entry for
/// each call or goal.) All clones share the list.
#[derive(Clone, Debug, Default)]
pub(super) struct Oldest(Arc<Mutex<Pending>>);

#[derive(Debug, Default)]
struct Pending {
    since: BTreeSet<Since>,
    next: u64,
}

/// The start of a call or goal, in nanoseconds on the monotonic clock, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since(pub(super) i64, u64);

impl Oldest {
    pub(super) fn begin(&self, began: i64) -> Since {
        let mut pending = lock(&self.0);
        pending.next += 1;
        let since = Since(began, pending.next);
        pending.since.insert(since);
        since
    }

    pub(super) fn end(&self, since: Since) {
        lock(&self.0).since.remove(&since);
    }

    /// Returns the age of the oldest call or goal at the time `now`, in milliseconds; 0 if none is in progress.
    pub(super) fn age(&self, now: i64) -> f64 {
        let oldest = lock(&self.0).since.first().copied();
        oldest.map_or(0.0, |since| milliseconds_between(since.0, now).max(0.0))
    }
}
