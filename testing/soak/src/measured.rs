// SPDX-License-Identifier: Apache-2.0

//! The cycles of a run, the resources that its processes use, the check for growth, and a helper to lock a mutex.

use std::{
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{ensure, Context, Result};

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
    /// The length of the run
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

/// The result of a cycle: the cells of the printed line, the process ids of the process under test and of the control,
/// and the heap of the process under test less the heap of the control, in kB.
pub type Cycle = (Vec<(&'static str, String)>, [u32; 2], f64);

impl Options {
    pub fn length(&self) -> Duration {
        Duration::from_secs_f64(self.hours * 3600.0)
    }

    /// Runs at least three cycles, and prints a line from time to time. Returns how long the run took.
    ///
    /// Errors if the numbers of threads and descriptors change between cycles after the warm-up, or if the heap,
    /// compared with the control's, rises by more than `highest` kB from the second third of the run to the last third.
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
                let [threads, descriptors] =
                    [|usage: &Usage| usage.threads, |usage: &Usage| usage.descriptors]
                        .map(|count| format!("{}/{}", count(&ours), count(&control)));
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
                "The numbers of threads and descriptors, ours and the control's, changed from {before:?} to {now:?}"
            );
            check_growth(&growth, highest)?;
            if is_over {
                break;
            }
        }
        Ok(began.elapsed())
    }
}

/// Errors if the samples rise by more than `highest` kB from the second third of the run to the last third. A sample is
/// the heap less the control's heap. The medians of the thirds are compared. With too few samples, there is no error.
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

/// Returns a duration as h:mm:ss.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Locks a mutex, even if a thread panicked while it held the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
