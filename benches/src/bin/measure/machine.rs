// SPDX-License-Identifier: Apache-2.0

//! The machine of a run: its properties, and the load by other programs during the run.

use std::{fs, process::Command, thread, time::Instant};

use anyhow::{Context, Result};

use crate::process::{cpu, output};

/// If other programs use at most this share of the processor time during a run, the machine counts as quiet.
const QUIET: f64 = 0.05;

pub struct Start {
    at: Instant,
    commit: String,
    date: String,
    load: String,
    /// The processor time, in seconds, that the machine, and this process with its children, had used at the start of
    /// the run.
    used: [f64; 2],
}

impl Start {
    pub fn now() -> Result<Start> {
        let commit = text("git", &["describe", "--always", "--dirty=, with changes"])?;
        let date = text("date", &["--utc", "+%Y-%m-%d %H:%M UTC"])?;
        Ok(Start { at: Instant::now(), commit, date, load: load()?, used: used()? })
    }

    /// Ends the run. Returns the figures of the run for docs/performance.md.
    pub fn end(self) -> Result<[(String, String); 9]> {
        let information = fs::read_to_string("/proc/cpuinfo")?;
        let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let is_virtual =
            information.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
        let machine = if is_virtual { ", a virtual machine" } else { "" };
        let cores = thread::available_parallelism()?.get();
        let [machine_used, own] = used()?;
        let others = (machine_used - self.used[0] - (own - self.used[1])).max(0.0);
        let others = others / self.at.elapsed().as_secs_f64() / cores as f64;
        let quiet = match others <= QUIET {
            true => "It was quiet",
            false => "**It was not quiet: measure again**",
        };
        let middleware = test_support::middleware::rmw();
        let figures = [
            ("processor", format!("{}{machine}", model.map_or("unknown", |(_, name)| name))),
            ("cores", cores.to_string()),
            ("kernel", text("uname", &["-sr"])?),
            ("rustc", text("rustc", &["--version"])?),
            (
                "middleware",
                format!("{middleware}, ROS 2 {}", std::env::var("ROS_DISTRO").unwrap_or_default()),
            ),
            ("commit", self.commit),
            ("date", self.date),
            ("load", format!("{} at the start, {} at the end", self.load, load()?)),
            ("quiet", format!("{quiet}: other programs used {:.0} % of its processor time", others * 100.0)),
        ];
        Ok(figures.map(|(name, figure)| (name.to_owned(), figure)))
    }
}

fn text(program: &str, arguments: &[&str]) -> Result<String> {
    output(Command::new(program).args(arguments))
}

fn load() -> Result<String> {
    let load = fs::read_to_string("/proc/loadavg")?;
    Ok(load.split(' ').next().unwrap_or_default().to_owned())
}

/// Returns the used processor time in seconds: of the whole machine, and of this process.
fn used() -> Result<[f64; 2]> {
    let stat = fs::read_to_string("/proc/stat")?;
    let times = stat.lines().next().context("/proc/stat is empty")?.split_whitespace().skip(1).take(8);
    let ticks = times.map(str::parse::<f64>).collect::<Result<Vec<_>, _>>()?;
    // The 4th field is idle time, and the 5th field is the time of waiting for disks.
    let idle = ticks.iter().skip(3).take(2).sum::<f64>();
    Ok([(ticks.iter().sum::<f64>() - idle) / 100.0, cpu("/proc/self", true)?])
}
