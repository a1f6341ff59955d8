// SPDX-License-Identifier: Apache-2.0

//! The kernel's report of a process.

use std::fs;

use anyhow::{Context, Result};

/// A process's use of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Anonymous resident memory, in kB.
    pub memory: u64,
    pub threads: u64,
    pub descriptors: u64,
}

pub fn usage(process: u32) -> Result<Usage> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let value_of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.with_context(|| format!("/proc/{process}/status has no {name}"))
    };
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64;
    Ok(Usage { memory: value_of("RssAnon:")?, threads: value_of("Threads:")?, descriptors })
}

/// Returns the processor time of a process so far, in seconds; 0 if it has ended.
pub fn cpu(process: u32) -> f64 {
    /// USER_HZ, which is 100 on every architecture that ROS 2 supports.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may have spaces and parentheses.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |field: usize| after_name.split_whitespace().nth(field)?.parse::<f64>().ok();
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / TICKS
}

/// Returns the bytes of this process's heap that are in use.
pub fn heap() -> u64 {
    // SAFETY: mallinfo2 has no arguments and returns a struct of numbers.
    let heap = unsafe { libc::mallinfo2() };
    (heap.uordblks + heap.hblkhd) as u64
}
