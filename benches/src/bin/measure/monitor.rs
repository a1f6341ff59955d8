// SPDX-License-Identifier: Apache-2.0

//! The program topic_monitor under load: 20 topics at 100 Hz, one at 5000 Hz, an Image of 1 MB at 30 Hz. Beside it, a
//! minimal rclpy subscriber of the same topics.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::Value;
use test_support::Process;

use crate::{
    process::{build, command, cpu},
    table::Table,
    talker::{self, Kind},
};

/// The time until both receive.
const START: Duration = Duration::from_secs(30);

/// Measures what topic_monitor has lost, and the CPU and the messages per second of both.
pub fn measure(seconds: f64) -> Result<Table> {
    let program = build("topic_statistics_monitor", "topic_monitor")?;
    let imus: Vec<String> = (0..20).map(|index| format!("load/imu_{index}")).collect();
    let _load = [
        talker::start(Kind::Imu, 100.0, 100, &imus)?,
        talker::start(Kind::Imu, 5000.0, 1000, &["load/fast".to_owned()])?,
        talker::start(Kind::Image, 30.0, 10, &["load/image".to_owned()])?,
    ];
    let (subscriber, counts) = Process::spawn_printing(command("python3").arg("benches/subscriber.py"));
    let (monitor, objects) = Process::spawn_printing(command(program).args(["--json", "/load/*"]));
    // The last window of each topic.
    let mut topics: BTreeMap<String, Value> = BTreeMap::new();
    let mut read = |limit: Duration| -> Result<usize> {
        if let Ok(line) = objects.recv_timeout(limit) {
            let object: Value =
                serde_json::from_str(&line).context("A line of the monitor cannot be read")?;
            if object["window_start"].is_i64() {
                topics.insert(object["topic"].to_string(), object);
            }
        }
        Ok(topics.values().filter(|object| object["received"].as_u64() > Some(0)).count())
    };
    // Both receive all topics, then the time begins.
    while read(START)? < 22 {}
    let count = |line: String| Ok::<u64, anyhow::Error>(line.parse()?);
    let first = count(counts.recv_timeout(START).context("The rclpy subscriber receives nothing")?)?;
    let cpu_of = |process: &Process| cpu(format!("/proc/{}", process.id()), false);
    let (started, before) = (Instant::now(), [cpu_of(&monitor)?, cpu_of(&subscriber)?]);
    while started.elapsed().as_secs_f64() < seconds {
        read(Duration::from_millis(100))?;
    }
    let (after, elapsed) = ([cpu_of(&monitor)?, cpu_of(&subscriber)?], started.elapsed().as_secs_f64());
    let last = counts.try_iter().last().map_or(Ok(first), count)?;
    let [monitor, subscriber] = [0, 1].map(|of| (after[of] - before[of]) / elapsed * 100.0);
    let lost: u64 = topics.values().filter_map(|object| object["total"]["lost"].as_u64()).sum();
    let rate: f64 = topics.values().filter_map(|object| object["rate"].as_f64()).sum();
    let mut table = Table::new("subscriber | messages/s | lost | CPU, %");
    table.row(format!("topic_monitor | {rate:.0} | {lost} | {monitor:.1}"));
    table.row(format!("rclpy | {:.0} | not known | {subscriber:.1}", (last - first) as f64 / elapsed));
    Ok(table)
}
