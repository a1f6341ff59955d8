// SPDX-License-Identifier: Apache-2.0

//! A time on the monotonic clock and on the system clock.

use std::time::{Instant, SystemTime};

/// A time on the monotonic clock and on the system clock.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The time on the monotonic clock, which measures all lifetimes.
    pub monotonic: Instant,
    /// The time on the system clock, for times that are exported.
    pub system: SystemTime,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Self {
        Self { monotonic: Instant::now(), system: SystemTime::now() }
    }
}
