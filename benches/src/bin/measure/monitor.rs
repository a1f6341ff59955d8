// SPDX-License-Identifier: Apache-2.0

//! The program topic_monitor, measured under load: 20 topics at 100 Hz, one at 5000 Hz, an Image of 1 MB at 30 Hz.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::Value;
use test_support::Process;

use crate::{
    process::{build, command, cpu, talker},
    table::Table,
};

/// The time until both receive.
const START: Duration = Duration::from_secs(30);

/// Prints what topic_monitor has lost, and its CPU beside that of a minimal rclpy subscriber of the same topics in the
/// same run.
pub fn measure(seconds: f64) -> Result<()> {
    let program = build("topic_statistics_monitor", "topic_monitor")?;
    let imus: Vec<String> = (0..20).map(|index| format!("load/imu_{index}")).collect();
    let imus: Vec<&str> = ["imu", "100", "100"].into_iter().chain(imus.iter().map(String::as_str)).collect();
    let _load = [
        talker(&imus),
        talker(&["imu", "5000", "1000", "load/fast"]),
        talker(&["image", "30", "10", "load/image"]),
    ];
    let (subscriber, counts) = Process::spawn_printing(command("python3").arg("benches/subscriber.py"));
    let (monitor, objects) = Process::spawn_printing(command(program).args(["--json", "/load/*"]));

    // Both receive all topics, then the time begins.
    let mut topics = BTreeMap::new();
    while topics.len() < 22
        || topics.values().any(|object: &Value| object["received"].as_u64().unwrap_or(0) == 0)
    {
        take(&mut topics, &objects.recv_timeout(START).context("The monitor receives nothing")?)?;
    }
    counts.recv_timeout(START).context("The rclpy subscriber receives nothing")?;
    let last_count = || counts.try_iter().last().and_then(|count| count.parse::<u64>().ok());
    let cpu_of = |process: &Process| cpu(format!("/proc/{}", process.id()), false);
    let (started, before) = (Instant::now(), (cpu_of(&monitor)?, cpu_of(&subscriber)?));
    let mut count = (None, 0);
    while started.elapsed().as_secs_f64() < seconds {
        if let Ok(line) = objects.recv_timeout(Duration::from_millis(100)) {
            take(&mut topics, &line)?;
        }
        if let Some(new) = last_count() {
            count = (count.0.or(Some((new, Instant::now()))), new);
        }
    }
    let (after, elapsed) = ((cpu_of(&monitor)?, cpu_of(&subscriber)?), started.elapsed().as_secs_f64());
    let mut table = Table::new("topic | rate Hz | received | lost | out of order");
    for (topic, object) in &topics {
        let total =
            |key: &str| object["total"][key].as_u64().map_or("-".to_owned(), |count| count.to_string());
        let rate = object["rate"].as_f64().unwrap_or(f64::NAN);
        let [received, lost, order] = ["received", "lost", "out_of_order"].map(total);
        table.row(format!("{topic} | {rate:.1} | {received} | {lost} | {order}"));
    }
    let lost: u64 = topics.values().filter_map(|object| object["total"]["lost"].as_u64()).sum();
    let rate: f64 = topics.values().filter_map(|object| object["rate"].as_f64()).sum();
    let (monitor, subscriber) = (after.0 - before.0, after.1 - before.1);
    let of_subscriber =
        count.0.map_or(f64::NAN, |(first, at)| (count.1 - first) as f64 / at.elapsed().as_secs_f64());
    let percent = |cpu: f64| cpu / elapsed * 100.0;
    println!("{table}");
    println!("topic_monitor: {lost} lost, {rate:.0} messages/s, {:.1} % CPU", percent(monitor));
    println!("rclpy:         {of_subscriber:.0} messages/s, {:.1} % CPU", percent(subscriber));
    println!("ratio of CPU:  {:.2}", monitor / subscriber);
    Ok(())
}

/// Keeps the last window of each topic.
fn take(topics: &mut BTreeMap<String, Value>, line: &str) -> Result<()> {
    let object: Value = serde_json::from_str(line).context("A line of the monitor cannot be read")?;
    // Others are no windows.
    if object["window_start"].is_i64() {
        topics.insert(object["topic"].as_str().unwrap_or_default().to_owned(), object);
    }
    Ok(())
}
