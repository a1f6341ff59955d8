// SPDX-License-Identifier: Apache-2.0

//! The code that runs for each message, without a node. The benchmarks and the cost tests call it.

mod driver;

pub use driver::{clock, counter, message, messages, stopwatch, InstrumentedCallback, JudgedSubscriptions};
pub use topic_statistics_core::{collector, record::recorder::RecorderOptions, Metric, WindowStatistics};

/// Returns the bytes of this process's heap that are in use.
pub fn heap() -> usize {
    // SAFETY: mallinfo2 has no arguments and returns a struct of numbers.
    let heap = unsafe { libc::mallinfo2() };
    heap.uordblks + heap.hblkhd
}
