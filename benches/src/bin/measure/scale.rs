// SPDX-License-Identifier: Apache-2.0

//! A node with many subscriptions with statistics. Each subscription receives messages at 10 Hz.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use rclrs::*;
use rclrs_topic_statistics::NodeStatistics;
use ros_env::{sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage};
use test_support::Spinning;
use topic_statistics_core::mutex::lock;

use crate::{
    process::{cpu_time, memory, report},
    table::Table,
};

/// Measures nodes with many subscriptions. The process also contains the publishers and a reader of `/statistics`, so
/// the figures include their cost.
pub fn measure(seconds: f64) -> Result<Table> {
    let mut table = Table::new(
        "subscriptions | CPU | memory | threads | tick | messages on `/statistics` | missing | with a window",
    );
    for count in [1, 10, 100, 1000] {
        let cells: String = report("many", &(count, seconds as u64))?;
        table.row(format!("{count} | {cells}"));
    }
    Ok(table)
}

pub fn run((count, seconds): (usize, u64)) -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_many")?;
    let statistics = NodeStatistics::new(&node)?;
    let mut held = vec![];
    for index in 0..count {
        let topic = format!("load_{index}");
        let subscription = statistics.create_subscription(topic.as_str().keep_last(10), |_: Imu| ())?;
        held.push((subscription, node.create_publisher::<Imu>(topic.as_str().keep_last(10))?));
    }
    // The longest time in ms from the stop of a window to the publication of its message; the number of messages on
    // `/statistics`; and the number of gaps between consecutive windows of the same metric.
    let ticks = Arc::new(Mutex::new((0.0_f64, 0_u64, 0_u64)));
    let (to, mut stops) = (Arc::clone(&ticks), HashMap::new());
    let read = move |message: MetricsMessage, info: MessageInfo| {
        let stop = Duration::new(message.window_stop.sec as u64, message.window_stop.nanosec);
        let published = info.source_timestamp.unwrap_or(SystemTime::UNIX_EPOCH);
        let after = published.duration_since(UNIX_EPOCH + stop).unwrap_or_default();
        let source_and_metric = (message.measurement_source_name, message.metrics_source);
        let before = stops.insert(source_and_metric, message.window_stop);
        let is_missing = before.is_some_and(|stop| stop != message.window_start);
        let mut ticks = lock(&to);
        *ticks = (ticks.0.max(after.as_secs_f64() * 1e3), ticks.1 + 1, ticks.2 + u64::from(is_missing));
    };
    let statistics_topic = "/statistics".keep_last(4000);
    let _reader = node.create_worker(()).create_subscription::<MetricsMessage, _>(statistics_topic, read)?;
    let _spinning = Spinning::start(executor);
    let (started, before) = (Instant::now(), cpu_time());
    for number in 1..=seconds * 10 {
        for (_, publisher) in &held {
            publisher.publish(Imu::default())?;
        }
        std::thread::sleep((Duration::from_millis(100) * number as u32).saturating_sub(started.elapsed()));
    }
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let with_window =
        held.iter().filter(|(subscription, _)| subscription.statistics().latest().is_some()).count();
    let (tick_ms, published, missing) = *lock(&ticks);
    let cpu = (cpu_time() - before).as_secs_f64() * 100.0 / started.elapsed().as_secs_f64();
    let megabytes = memory("self", "VmRSS")? / 1000;
    let cells = format!(
        "{cpu:.1} % | {megabytes} MB | {threads} | {tick_ms:.1} ms | {published} | {missing} | {with_window}"
    );
    println!("{}", serde_json::to_string(&cells)?);
    Ok(())
}
