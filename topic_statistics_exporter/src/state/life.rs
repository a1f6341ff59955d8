// SPDX-License-Identifier: Apache-2.0

//! Times, and the lifetime of figures that a node publishes once per window.

use std::time::{Duration, Instant, SystemTime};

use topic_statistics_core::Window;
use topic_statistics_observe::bounds::believed;

use super::budget::NotAdded;

#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The time on the monotonic clock, which measures all lifetimes.
    pub monotonic: Instant,
    /// The time on the system clock, for times that are exported.
    pub system: SystemTime,
}

impl Now {
    pub fn read() -> Self {
        Self { monotonic: Instant::now(), system: SystemTime::now() }
    }
}

/// The last received windows of one metric, and when windows were received.
#[derive(Clone, Debug)]
pub struct Life {
    pub last: Window,
    pub last_received: Instant,
    first_received: Instant,
    /// The time when the first window began. The totals of the metric began at this time.
    pub created: SystemTime,
    pub(super) length: Duration,
    /// The windows received last, the latest first.
    seen: [Option<Window>; Self::SEEN],
}

/// How long figures are kept without a new window.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// How long figures are kept, as a number of window lengths.
    pub windows: u32,
    /// Whether the state is full, so that room is needed. If so, the assumed length of a window is at most the time for
    /// which the metric has been observed.
    pub is_full: bool,
}

impl Life {
    /// The number of windows that are remembered to recognise a repeated message. If a relay repeats a message, fewer
    /// other windows than this number arrive between the two copies.
    const SEEN: usize = 8;
    /// The largest possible length of a window.
    const MAX_LENGTH: Duration = Duration::from_secs(86_400);
    /// The longest possible time between the end of a window and its reception.
    const MAX_DELAY: Duration = Duration::from_secs(5);
    /// After this number of missing windows, the last window is no longer current, so its gauges are not exported.
    pub(super) const CURRENT_WINDOWS: u32 = 3;
    /// Figures are kept for at least this time after their last window was received.
    pub(super) const MIN_KEPT: Duration = Duration::from_secs(10);

    pub(super) fn new(first: Window, now: Now) -> Self {
        Self {
            last: first,
            last_received: now.monotonic,
            first_received: now.monotonic,
            created: Self::begin(first, now),
            length: length(first),
            seen: std::array::from_fn(|index| (index == 0).then_some(first)),
        }
    }

    /// Returns when a window began, on the clock of this host. The window was received at `now`. The result is the
    /// start stamp of the window, unless the clock of the node's host differs from the clock of this host.
    pub(super) fn begin(window: Window, now: Now) -> SystemTime {
        let latest = now.system.checked_sub(length(window)).unwrap_or(SystemTime::UNIX_EPOCH);
        let stamped = SystemTime::UNIX_EPOCH
            + Duration::from_nanos(window.start.as_nanoseconds().try_into().unwrap_or_default());
        match latest.duration_since(stamped) {
            Ok(delay) if delay <= Self::MAX_DELAY => stamped,
            _ => latest,
        }
    }

    pub(super) fn accept(&mut self, window: Window, now: Now) -> Result<(), NotAdded> {
        if self.seen.contains(&Some(window)) {
            return Err(NotAdded::Duplicate);
        }
        self.seen.rotate_right(1);
        self.seen[0] = Some(window);
        let since = now.monotonic.saturating_duration_since(self.last_received);
        // The stamps come from a system clock. If this clock is stepped during the window, the length between its
        // stamps is wrong.
        let stamped = length(window);
        let is_stepped = stamped.is_zero() || stamped > 2 * since + Self::MAX_DELAY;
        self.length = if is_stepped { since.min(Self::MAX_LENGTH) } else { stamped };
        self.last = window;
        self.last_received = now.monotonic;
        Ok(())
    }

    /// Returns whether the last window is current. If not, the node has ended or no longer measures this metric.
    pub fn is_current(&self, now: Instant) -> bool {
        !self.is_over(Kept { windows: Self::CURRENT_WINDOWS, is_full: false }, now)
    }

    /// Returns whether the figures have ended: no window was received for the time in `kept`.
    pub(super) fn is_over(&self, kept: Kept, now: Instant) -> bool {
        let observed = self.last_received.saturating_duration_since(self.first_received);
        let length = believed(self.length, observed, kept.is_full);
        let kept = length.saturating_mul(kept.windows).max(Self::MIN_KEPT);
        now.saturating_duration_since(self.last_received) > kept
    }
}

/// Returns the length of a window, according to its start and stop stamps.
fn length(window: Window) -> Duration {
    let (start, stop) = (window.start.as_nanoseconds(), window.stop.as_nanoseconds());
    Duration::from_nanos(stop.saturating_sub(start).try_into().unwrap_or_default()).min(Life::MAX_LENGTH)
}
