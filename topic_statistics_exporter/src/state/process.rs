// SPDX-License-Identifier: Apache-2.0

//! The resources that the exporter's process uses.

use std::time::{Duration, SystemTime};

use procfs::{process::LimitValue, ProcResult};

/// The resources that a process uses: the same figures that Prometheus's client libraries report.
#[derive(Clone, Copy, Debug)]
pub struct ProcessFigures {
    /// The processor time used since the process started, in seconds.
    pub cpu: f64,
    pub open_fds: u64,
    /// The largest number of open file descriptors. `None` if the process has no limit.
    pub max_fds: Option<u64>,
    /// The size of the virtual memory, in bytes.
    pub virtual_memory: u64,
    /// The size of the resident memory, in bytes.
    pub resident_memory: u64,
    pub started: SystemTime,
}

impl ProcessFigures {
    /// Returns the figures of this process. `None` if the figures cannot be read from `/proc`.
    pub fn read() -> Option<Self> {
        Self::try_read().ok()
    }

    fn try_read() -> ProcResult<Self> {
        let process = procfs::process::Process::myself()?;
        let stat = process.stat()?;
        let ticks = procfs::ticks_per_second() as f64;
        let max_fds = match process.limits()?.max_open_files.soft_limit {
            LimitValue::Value(limit) => Some(limit),
            LimitValue::Unlimited => None,
        };
        let booted = procfs::boot_time_secs()?;
        let started = Duration::from_secs(booted) + Duration::from_secs_f64(stat.starttime as f64 / ticks);
        Ok(Self {
            cpu: (stat.utime + stat.stime) as f64 / ticks,
            open_fds: process.fd_count()? as u64,
            max_fds,
            virtual_memory: stat.vsize,
            resident_memory: stat.rss * procfs::page_size(),
            started: SystemTime::UNIX_EPOCH + started,
        })
    }
}
