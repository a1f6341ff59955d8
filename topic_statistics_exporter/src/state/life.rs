// SPDX-License-Identifier: Apache-2.0

//! How long something lives that is published once per window.

use std::time::{Duration, Instant, SystemTime};

use topic_statistics_core::Window;
use topic_statistics_observe::bounds::believed;

use super::{budget::NotAdded, now::Now};

/// The windows of one metric: which were received, and when.
#[derive(Clone, Debug)]
pub struct Life {
    /// The last window.
    pub last: Window,
    /// When it was received.
    pub last_received: Instant,
    /// When the first window was received.
    first_received: Instant,
    /// When the first window began. The totals began then.
    pub created: SystemTime,
    /// The length of the last window.
    length: Duration,
    /// The last windows, in a ring.
    seen: [Option<Window>; Self::SEEN],
    next: usize,
}

/// For how many windows without one something is kept, and whether room is needed: then claims of long windows that
/// were not observed here count for nothing.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    pub windows: u32,
    pub is_full: bool,
}

impl Life {
    /// The number of windows remembered. A repeated message, from a relay, arrives before this number of others.
    const SEEN: usize = 8;
    /// The longest window that nodes may have.
    const MAX_LENGTH: Duration = Duration::from_secs(86_400);
    /// How late a window may be received.
    const MAX_DELAY: Duration = Duration::from_secs(5);
    /// A window is no longer the current one when this number of others is missing.
    pub(super) const CURRENT_WINDOWS: u32 = 3;
    /// Nothing expires before this time.
    pub(super) const MIN_KEPT: Duration = Duration::from_secs(10);

    pub(super) fn new(first: Window, now: Now) -> Self {
        let mut life = Self {
            last: first,
            last_received: now.monotonic,
            first_received: now.monotonic,
            created: Self::begin(first, now),
            length: length(first),
            seen: [None; Self::SEEN],
            next: 0,
        };
        life.remember(first);
        life
    }

    /// Returns when a window began that is received now, by this host's clock: its stamp, unless the clock of the
    /// node's host differs.
    pub(super) fn begin(window: Window, now: Now) -> SystemTime {
        let latest = now.system.checked_sub(length(window)).unwrap_or(SystemTime::UNIX_EPOCH);
        let stamped = SystemTime::UNIX_EPOCH
            + Duration::from_nanos(window.start.as_nanoseconds().try_into().unwrap_or_default());
        match latest.duration_since(stamped) {
            Ok(delay) if delay <= Self::MAX_DELAY => stamped,
            _ => latest,
        }
    }

    /// Adds a window.
    pub(super) fn accept(&mut self, window: Window, now: Now) -> Result<(), NotAdded> {
        if self.seen.contains(&Some(window)) {
            return Err(NotAdded::Duplicate);
        }
        self.remember(window);
        let since = now.monotonic.saturating_duration_since(self.last_received);
        // The stamps are of a system clock, which may have been stepped in the window.
        let stamped = length(window);
        let is_stepped = stamped.is_zero() || stamped > 2 * since + Self::MAX_DELAY;
        self.length = if is_stepped { since.min(Self::MAX_LENGTH) } else { stamped };
        self.last = window;
        self.last_received = now.monotonic;
        Ok(())
    }

    /// Returns whether the last window is current. If not, the node has ended, or no longer measures this.
    pub fn is_current(&self, now: Instant) -> bool {
        !self.is_over(Kept { windows: Self::CURRENT_WINDOWS, is_full: false }, now)
    }

    /// Returns whether there was no window for too long.
    pub(super) fn is_over(&self, kept: Kept, now: Instant) -> bool {
        let observed = self.last_received.saturating_duration_since(self.first_received);
        let length = believed(self.length, observed, kept.is_full);
        let kept = length.saturating_mul(kept.windows).max(Self::MIN_KEPT);
        now.saturating_duration_since(self.last_received) > kept
    }

    fn remember(&mut self, window: Window) {
        self.seen[self.next % Self::SEEN] = Some(window);
        self.next = (self.next + 1) % Self::SEEN;
    }
}

/// Returns the length of a window by its stamps.
fn length(window: Window) -> Duration {
    let (start, stop) = (window.start.as_nanoseconds(), window.stop.as_nanoseconds());
    Duration::from_nanos(stop.saturating_sub(start).try_into().unwrap_or_default()).min(Life::MAX_LENGTH)
}
