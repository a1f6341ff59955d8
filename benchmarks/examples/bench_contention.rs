// SPDX-License-Identifier: Apache-2.0

//! How long a record takes while the thread that ends the windows is kept from running: `bench_contention SECONDS`.
//!
//! Three threads on one core: one ends windows without a pause, at normal priority; one records at 5 kHz, at a real-time
//! priority; and one works half of the time, at a real-time priority between them. Where the first holds the lock when the
//! others preempt it, it cannot go on: a record that waited for it would wait for the one in the middle. Prints as JSON the
//! times of a record in nanoseconds, or a line on standard error if the process may not set priorities.

use std::{
    error::Error,
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, UNIX_EPOCH},
};

use benchmarks::{MeasuredSubscription, Metric, TopicStatisticsOptions};
use hdrhistogram::Histogram;
use rclrs::{MessageInfo, PublisherGid};
use ros_env::sensor_msgs::msg::rmw::Imu;

const RECORDS: Duration = Duration::from_micros(200);
const WORK: Duration = Duration::from_millis(5);

/// Keeps this thread on the first core, and gives it a real-time priority if it is to have one.
fn settle(priority: Option<i32>) -> std::io::Result<()> {
    // SAFETY: a cpu_set_t is a set of bits, of which none is set.
    let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is in the range of a cpu_set_t.
    unsafe { libc::CPU_SET(0, &mut cores) };
    // SAFETY: 0 is the calling thread; the pointer is to a whole cpu_set_t of that size.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&cores), &cores) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let Some(sched_priority) = priority else { return Ok(()) };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: 0 is the calling thread; the pointer is to a whole sched_param.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds: f64 = std::env::args().nth(1).ok_or("bench_contention SECONDS")?.parse()?;
    let measured =
        MeasuredSubscription::new(&TopicStatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS));
    let message = Imu::default();
    let mut info = MessageInfo {
        source_timestamp: Some(UNIX_EPOCH + Duration::from_secs(1)),
        received_timestamp: Some(UNIX_EPOCH + Duration::from_secs(1)),
        publication_sequence_number: 0,
        reception_sequence_number: u64::MAX,
        publisher_gid: PublisherGid { data: Default::default(), implementation_identifier: std::ptr::null() },
    };
    let is_over = AtomicBool::new(false);
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let mut windows = 0_u64;
    let ran = std::thread::scope(|scope| {
        let ending = scope.spawn(|| {
            settle(None)?;
            while !is_over.load(Ordering::Relaxed) {
                black_box(measured.end_window());
                windows += 1;
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
        return Ok(());
    }
    println!(
        "{{\"records\": {}, \"windows\": {windows}, \"p50_ns\": {}, \"p99_ns\": {}, \"p9999_ns\": {}, \"max_ns\": {}}}",
        times.len(),
        times.value_at_quantile(0.5),
        times.value_at_quantile(0.99),
        times.value_at_quantile(0.9999),
        times.max()
    );
    Ok(())
}
