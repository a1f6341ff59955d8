// SPDX-License-Identifier: Apache-2.0

//! How many requests are under way.

use std::sync::Arc;

use crate::sync::atomic::{AtomicU64, Ordering};

/// How many requests are under way, and the most at once since the window's start. All clones share it.
///
/// Both counts are in one atomic, so that they change together: high 32 bits the most, low 32 bits those under way.
#[derive(Clone, Debug, Default)]
pub struct Active(Arc<AtomicU64>);

impl Active {
    fn change(&self, change: impl Fn(u32, u32) -> (u32, u32)) -> (u32, u32) {
        let unpacked = |counts: u64| (counts as u32, (counts >> 32) as u32);
        let changed = |counts: u64| {
            let (active, most) = unpacked(counts);
            let (active, most) = change(active, most);
            Some(u64::from(most) << 32 | u64::from(active))
        };
        let (Ok(before) | Err(before)) = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
        unpacked(before)
    }

    /// A request begins.
    pub fn begin(&self) {
        self.change(|active, most| (active.saturating_add(1), most.max(active.saturating_add(1))));
    }

    /// A request ends.
    pub fn end(&self) {
        self.change(|active, most| (active.saturating_sub(1), most));
    }

    /// Ends a window. Returns how many requests are under way, and the most at once in the window.
    pub fn take(&self) -> (u32, u32) {
        self.change(|active, _| (active, active))
    }
}

#[cfg(all(test, topic_statistics_loom))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_over_the_edge_of_a_window_count_in_both() {
        let active = Active::default();
        (0..3).for_each(|_| active.begin());
        active.end();
        assert_eq!(active.take(), (2, 3));
        active.end();
        assert_eq!(active.take(), (1, 2), "two at its start");
        active.begin();
        active.end();
        active.end();
        assert_eq!(active.take(), (0, 2));
        assert_eq!(active.take(), (0, 0));
    }
}
