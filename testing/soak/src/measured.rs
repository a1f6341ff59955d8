// SPDX-License-Identifier: Apache-2.0

//! The cycles of a run, what its processes use, figures that may not grow, and a lock.

use std::{
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{ensure, Context, Result};

/// A process's use of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// Returns the bytes of this process's heap that are in use.
pub fn heap() -> u64 {
    // SAFETY: mallinfo2 has no arguments and returns a struct of numbers.
    let heap = unsafe { libc::mallinfo2() };
    (heap.uordblks + heap.hblkhd) as u64
}

#[derive(clap::Args)]
pub struct Options {
    /// How long
    #[arg(long)]
    hours: f64,
    /// The time between two lines, in seconds
    #[arg(long, default_value_t = 60.0)]
    interval: f64,
    /// The length of a cycle, in seconds
    #[arg(long, default_value_t = 10.0, hide = true)]
    pub cycle: f64,
    /// The length of a window, in ms
    #[arg(long, default_value_t = 1000, hide = true)]
    pub window: u64,
}

/// What was seen at the end of a cycle: cells of the line, the judged process and the control, and how much more heap
/// the first has than the second, in kB.
pub type Cycle = (Vec<(&'static str, String)>, [u32; 2], f64);

impl Options {
    /// How long all cycles take.
    pub fn length(&self) -> Duration {
        Duration::from_secs_f64(self.hours * 3600.0)
    }

    /// Runs cycles, at least three, and prints a line now and then. After the warm-up, threads and descriptors come
    /// back to what they were in each cycle. The heap does not rise by more than `highest` kB in a third of the run.
    /// Returns the time that it took.
    pub fn run(
        &self,
        warm_up: usize,
        highest: f64,
        mut cycle: impl FnMut(usize) -> Result<Cycle>,
    ) -> Result<Duration> {
        let (began, mut last) = (Instant::now(), None::<Instant>);
        let (mut baseline, mut growth) = (None, vec![]);
        for number in 1.. {
            let (mut cells, processes, difference) = cycle(number - 1)?;
            let [ours, control] = [usage(processes[0])?, usage(processes[1])?];
            let is_over = began.elapsed() >= self.length() && number >= 3;
            let waited = last.unwrap_or(began).elapsed().as_secs_f64() + self.cycle / 2.0;
            if waited >= self.interval || is_over {
                let [threads, descriptors] = [|of: &Usage| of.threads, |of: &Usage| of.descriptors]
                    .map(|of| format!("{}/{}", of(&ours), of(&control)));
                cells.insert(0, ("time", clock(began.elapsed())));
                cells.push(("memory_kB", ours.memory.to_string()));
                cells.push(("diff_kB", format!("{difference:.1}")));
                cells.extend([("threads", threads), ("descriptors", descriptors)]);
                let cells = cells.iter().map(|(heading, text)| format!("{heading} {text}"));
                println!("{}", cells.collect::<Vec<_>>().join("  "));
                last = Some(Instant::now());
            }
            growth.push(difference);
            let now = [ours.threads, ours.descriptors, control.threads, control.descriptors];
            if number == warm_up {
                baseline = Some(now);
            }
            let before = baseline.unwrap_or(now);
            ensure!(
                now == before,
                "Threads and descriptors, also of the control: {now:?}; before {before:?}"
            );
            check_growth(&growth, highest)?;
            if is_over {
                break;
            }
        }
        Ok(began.elapsed())
    }
}

/// Errors if the heap has risen beyond the control's, from the second third of the samples to the last one: by medians,
/// in kB. Few samples show no rise.
fn check_growth(samples: &[f64], highest: f64) -> Result<()> {
    let third = samples.len() / 3;
    let [.., before, after] = [0, 1, 2].map(|part| {
        let mut part = samples[part * third..][..third].to_vec();
        part.sort_by(f64::total_cmp);
        part.get(third / 2).copied().unwrap_or(0.0)
    });
    let is_right = third < 4 || after - before < highest;
    ensure!(is_right, "The heap rose by {:.0} kB more than the control's", after - before);
    Ok(())
}

/// Returns a time as h:mm:ss.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A lock whose value is used even after a thread that held it panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
