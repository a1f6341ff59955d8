// SPDX-License-Identifier: Apache-2.0

//! A node with many subscriptions with statistics. Each receives messages at 10 Hz: `bench_many SUBSCRIPTIONS SECONDS`.
//! Prints as JSON the cost, including the publishers in the same process, and the time from the end of a window to its
//! last message.

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nix::time::{clock_gettime, ClockId};
use rclrs::*;
use rclrs_topic_statistics::NodeStatistics;
use ros_env::{sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, count, seconds] = &arguments[..] else { return Err("bench_many SUBSCRIPTIONS SECONDS".into()) };
    let (count, seconds): (usize, u64) = (count.parse()?, seconds.parse()?);
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_many")?;
    let statistics = NodeStatistics::new(&node)?;
    let mut held = vec![];
    for index in 0..count {
        let topic = format!("load_{index}");
        let subscription = statistics.create_subscription(topic.as_str().keep_last(10), |_: Imu| ())?;
        held.push((subscription, node.create_publisher::<Imu>(topic.as_str().keep_last(10))?));
    }
    // The longest time from the stop of a window to the publication of its message, in milliseconds; the number of
    // messages; and the number of gaps between two messages of one source and metric.
    let ticks = Arc::new(Mutex::new((0.0_f64, 0_u64, 0_u64)));
    let _reader = {
        let ticks = Arc::clone(&ticks);
        let worker = node.create_worker(());
        let mut stops = HashMap::new();
        worker.create_subscription::<MetricsMessage, _>(
            "/statistics".keep_last(4000),
            move |message: MetricsMessage, info: MessageInfo| {
                let stop = Duration::new(message.window_stop.sec as u64, message.window_stop.nanosec);
                let published = info.source_timestamp.unwrap_or(SystemTime::UNIX_EPOCH);
                let after = published.duration_since(UNIX_EPOCH + stop).unwrap_or_default();
                let of = (message.measurement_source_name, message.metrics_source);
                let before = stops.insert(of, message.window_stop);
                let is_missing = before.is_some_and(|stop| stop != message.window_start);
                let mut ticks = ticks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *ticks =
                    (ticks.0.max(after.as_secs_f64() * 1e3), ticks.1 + 1, ticks.2 + u64::from(is_missing));
            },
        )?
    };
    let commands = Arc::clone(executor.commands());
    let talking = std::thread::spawn(move || {
        let started = Instant::now();
        let before = cpu_time();
        for number in 0..seconds * 10 {
            for (_, publisher) in &held {
                if let Err(error) = publisher.publish(Imu::default()) {
                    eprintln!("{error}");
                }
            }
            std::thread::sleep(
                (Duration::from_millis(100) * (number as u32 + 1)).saturating_sub(started.elapsed()),
            );
        }
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let memory =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default().to_owned();
        let windows = held.iter().filter(|(subscription, _)| subscription.latest().is_some()).count();
        let (tick, published, missing) = *ticks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        println!(
            "{{\"cpu_percent\": {:.2}, \"memory_kb\": {}, \"threads\": {threads}, \"tick_ms\": {tick:.1}, \"published\": {published}, \"missing\": {missing}, \"windows\": {windows}}}",
            (cpu_time() - before).as_secs_f64() * 100.0 / started.elapsed().as_secs_f64(),
            memory.trim().trim_end_matches(" kB"),
        );
        commands.halt_spinning();
        drop(held);
    });
    executor.spin(SpinOptions::default()).first_error()?;
    talking.join().map_err(|_| "the thread of the publishers panicked")?;
    Ok(())
}

/// Returns the CPU time of this process so far.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
