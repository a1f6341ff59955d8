// SPDX-License-Identifier: Apache-2.0

//! How long it takes to record a message while the thread that ends windows is preempted.
//!
//! Three threads run on one core. The first thread ends windows without a pause, at normal priority. The second thread
//! records messages at 5 kHz, at a real-time priority. The third thread works half of the time, at a lower real-time
//! priority, and so preempts the first thread. A preempted thread cannot release a lock that it holds. So if recording
//! a message waited for this lock, it would also wait for the third thread (priority inversion).

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use benchmarks::{InstrumentedCallback, Metric, RecorderOptions};
use hdrhistogram::Histogram;
use nix::{
    sched::{sched_setaffinity, CpuSet},
    unistd::Pid,
};

use crate::table::Table;

const RECORDS: Duration = Duration::from_micros(200);
const WORK: Duration = Duration::from_millis(5);

/// Binds this thread to the first core. If `priority` is set, also gives the thread this real-time priority.
fn settle(priority: Option<i32>) -> std::io::Result<()> {
    let mut first = CpuSet::new();
    first.set(0)?;
    sched_setaffinity(Pid::from_raw(0), &first)?;
    let Some(sched_priority) = priority else { return Ok(()) };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: 0 is the calling thread. The pointer is valid for a sched_param.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

pub fn measure(seconds: f64) -> Result<Table> {
    let mut table = Table::new("records | 50 % | 99 % | 99.99 % | maximum");
    let measured = InstrumentedCallback::new(&RecorderOptions::new().metrics(Metric::OF_SUBSCRIPTIONS));
    let (message, mut info) = benchmarks::message();
    let is_over = AtomicBool::new(false);
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let ran = std::thread::scope(|scope| {
        let ending = scope.spawn(|| {
            settle(None)?;
            while !is_over.load(Ordering::Relaxed) {
                black_box(measured.end_window());
            }
            std::io::Result::Ok(())
        });
        let working = scope.spawn(|| {
            settle(Some(50))?;
            while !is_over.load(Ordering::Relaxed) {
                let started = Instant::now();
                while started.elapsed() < WORK {
                    std::hint::spin_loop();
                }
                std::thread::sleep(WORK);
            }
            std::io::Result::Ok(())
        });
        let recording = scope.spawn(|| {
            let settled = settle(Some(80));
            let started = Instant::now();
            while settled.is_ok() && started.elapsed().as_secs_f64() < seconds {
                std::thread::sleep(RECORDS);
                info.publication_sequence_number += 1;
                let before = Instant::now();
                measured.message(black_box(&message), black_box(&info));
                times.saturating_record(before.elapsed().as_nanos() as u64);
            }
            is_over.store(true, Ordering::Relaxed);
            settled
        });
        [ending, working, recording]
            .map(|thread| thread.join().expect("no panic"))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
    });
    if let Err(error) = ran {
        eprintln!("skipped: this process may not set its threads' priorities: {error}");
        table.row("not measured: this process may not set priorities | | | | ".to_owned());
        return Ok(table);
    }
    let us = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    let [p50, p99, p9999, longest] = [0.5, 0.99, 0.9999, 1.0].map(us);
    table.row(format!("{} | {p50:.2} us | {p99:.2} us | {p9999:.2} us | {longest:.2} us", times.len()));
    Ok(table)
}
