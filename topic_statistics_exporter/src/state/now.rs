// SPDX-License-Identifier: Apache-2.0

//! A time, on two clocks.

use std::time::{Instant, SystemTime};

/// A time, on two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// On the monotonic clock, which all lifetimes are measured with.
    pub monotonic: Instant,
    /// On the system clock, which readers know.
    pub system: SystemTime,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Self {
        Self { monotonic: Instant::now(), system: SystemTime::now() }
    }
}
