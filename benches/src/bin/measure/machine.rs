// SPDX-License-Identifier: Apache-2.0

//! The machine of a run: what it is, and what else it did meanwhile.

use std::{fs, process::Command, thread, time::Instant};

use anyhow::{Context, Result};

use crate::process::{cpu, output};

/// Other programs may use this share of the processor time of a quiet machine.
const QUIET: f64 = 0.05;

/// A run on a machine.
#[derive(Default)]
pub struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    rustc: String,
    middleware: String,
    commit: String,
    date: String,
    /// Averages of a minute, at the start and at the end.
    loads: [String; 2],
    /// The share of the processor time that other programs used.
    others: f64,
}

/// The start of a run.
pub struct Start {
    at: Instant,
    commit: String,
    date: String,
    load: String,
    busy: f64,
    own: f64,
}

impl Start {
    pub fn now() -> Result<Start> {
        let commit = text("git", &["describe", "--always", "--dirty=, with changes"])?;
        let date = text("date", &["--utc", "+%Y-%m-%d %H:%M UTC"])?;
        Ok(Start {
            at: Instant::now(),
            commit,
            date,
            load: load()?,
            busy: busy()?,
            own: cpu("/proc/self", true)?,
        })
    }

    /// Describes the run, which ends now.
    pub fn end(self) -> Result<Machine> {
        let information = fs::read_to_string("/proc/cpuinfo")?;
        let processor =
            information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let is_virtual =
            information.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
        let cores = thread::available_parallelism()?.get();
        let others = busy()? - self.busy - (cpu("/proc/self", true)? - self.own);
        let distribution = std::env::var("ROS_DISTRO").unwrap_or_default();
        Ok(Machine {
            processor: format!(
                "{}{}",
                processor.map_or("unknown", |(_, name)| name),
                if is_virtual { ", a virtual machine" } else { "" }
            ),
            cores,
            kernel: text("uname", &["-sr"])?,
            rustc: text("rustc", &["--version"])?,
            middleware: format!("{}, ROS 2 {distribution}", test_support::middleware::rmw()),
            commit: self.commit,
            date: self.date,
            loads: [self.load, load()?],
            others: (others / self.at.elapsed().as_secs_f64() / cores as f64).max(0.0),
        })
    }
}

impl Machine {
    pub fn figures(&self) -> [(&'static str, String); 9] {
        let [at_start, at_end] = &self.loads;
        let quiet = match self.others <= QUIET {
            true => "It was quiet".to_owned(),
            false => "**It was not quiet: measure again**".to_owned(),
        };
        [
            ("processor", self.processor.clone()),
            ("cores", self.cores.to_string()),
            ("kernel", self.kernel.clone()),
            ("rustc", self.rustc.clone()),
            ("middleware", self.middleware.clone()),
            ("commit", self.commit.clone()),
            ("date", self.date.clone()),
            ("load", format!("{at_start} at the start, {at_end} at the end")),
            (
                "quiet",
                format!("{quiet}: other programs used {:.0} % of its processor time", self.others * 100.0),
            ),
        ]
    }
}

/// Returns what a program prints.
fn text(program: &str, arguments: &[&str]) -> Result<String> {
    output(Command::new(program).args(arguments))
}

/// Returns the average of the last minute.
fn load() -> Result<String> {
    let load = fs::read_to_string("/proc/loadavg")?;
    Ok(load.split(' ').next().unwrap_or_default().to_owned())
}

/// Returns the processor time of the whole machine that was not idle, in seconds.
fn busy() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let times = stat.lines().next().context("/proc/stat is empty")?.split_whitespace().skip(1).take(8);
    let ticks = times.map(str::parse::<f64>).collect::<Result<Vec<_>, _>>()?;
    // The 4th and 5th are idle and waiting for disks.
    Ok((ticks.iter().sum::<f64>() - ticks.iter().skip(3).take(2).sum::<f64>()) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_was_not_quiet_is_called_so() {
        let quiet = |others| {
            let figures = Machine { others, ..Machine::default() }.figures();
            figures.into_iter().find_map(|(name, figure)| (name == "quiet").then_some(figure)).unwrap()
        };
        assert_eq!(quiet(0.01), "It was quiet: other programs used 1 % of its processor time");
        assert!(quiet(0.4).starts_with("**It was not quiet"), "{}", quiet(0.4));
    }
}
