// SPDX-License-Identifier: Apache-2.0

//! The clocks of the simulated host.

use std::sync::{
    atomic::{AtomicI64, Ordering},
    Arc,
};

use topic_statistics_core::record::{clock::Clock, simulated_time::RosClock};

/// Nanoseconds in a second.
pub const S: i64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MS: i64 = 1_000_000;

/// The clocks of a host. Only the simulated world changes them.
#[derive(Default)]
pub struct HostClocks {
    monotonic: AtomicI64,
    offset: AtomicI64,
    suspended: AtomicI64,
    /// Simulated ROS time; 0 before it starts.
    ros: AtomicI64,
}

impl HostClocks {
    pub fn new() -> Arc<Self> {
        let clocks = Self::default();
        clocks.offset.store(1_790_000_000 * S, Ordering::Relaxed);
        clocks.monotonic.store(1000 * S, Ordering::Relaxed);
        Arc::new(clocks)
    }

    pub fn set_monotonic(&self, now: i64) {
        self.monotonic.store(now, Ordering::Relaxed);
    }

    /// Returns system time minus monotonic time.
    pub fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }

    pub fn step(&self, by: i64) {
        self.offset.fetch_add(by, Ordering::Relaxed);
    }

    /// Suspends the host for `time`. The monotonic clock does not count this time.
    pub fn suspend(&self, time: i64) {
        self.step(time);
        self.suspended.fetch_add(time, Ordering::Relaxed);
    }

    pub fn ros(&self) -> i64 {
        self.ros.load(Ordering::Relaxed)
    }

    pub fn set_ros(&self, time: i64) {
        self.ros.store(time, Ordering::Relaxed);
    }
}

impl Clock for HostClocks {
    fn monotonic(&self) -> i64 {
        self.monotonic.load(Ordering::Relaxed)
    }

    fn system(&self) -> i64 {
        self.monotonic() + self.offset()
    }

    fn suspended(&self) -> i64 {
        self.suspended.load(Ordering::Relaxed)
    }
}

/// The ROS clock of the simulated node.
pub struct NodeClock(pub Arc<HostClocks>);

impl RosClock for NodeClock {
    fn now(&self) -> i64 {
        self.0.ros()
    }
}
