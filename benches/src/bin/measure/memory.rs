// SPDX-License-Identifier: Apache-2.0

//! The heap of a node's statistics beside that of a plain publisher, by the depth of its history.

use anyhow::Result;
use rclrs::*;
use rclrs_topic_statistics::{NodeStatistics, TopicStatisticsOptions};
use ros_env::statistics_msgs::msg::MetricsMessage;
use serde::{Deserialize, Serialize};

use crate::{
    process::report,
    table::{quantile, Table},
};

/// The heap for a depth, in bytes.
#[derive(Serialize, Deserialize)]
pub struct Heap {
    depth: u32,
    publisher: f64,
    statistics: f64,
    with_distributions: f64,
}

pub fn measure() -> Result<Vec<Heap>> {
    report(&["heap"])
}

/// The process that is measured. Prints its heap for each depth.
pub fn run() -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_heap")?;
    let mut heaps = vec![];
    for depth in [2000, 50, 10] {
        let qos = QoSProfile::default().keep_last(depth);
        let options = || TopicStatisticsOptions::new().qos(qos);
        heaps.push(Heap {
            depth,
            publisher: heap_of(|| Ok(node.create_publisher::<MetricsMessage>("plain".qos(qos))?))?,
            statistics: heap_of(|| Ok(NodeStatistics::with_options(&node, options())?))?,
            with_distributions: heap_of(|| {
                Ok(NodeStatistics::with_options(&node, options().distributions(true))?)
            })?,
        });
    }
    println!("{}", serde_json::to_string(&heaps)?);
    Ok(())
}

/// Returns the bytes of a value: the median of several, because threads of the middleware allocate meanwhile, and
/// because the first one loads libraries and registers types.
fn heap_of<T>(create: impl Fn() -> Result<T>) -> Result<f64> {
    let measure = |_| {
        let before = heap();
        let created = create()?;
        let after = heap();
        drop(created);
        Ok(after as f64 - before as f64)
    };
    Ok(quantile((0..11).map(measure).collect::<Result<_>>()?, 0.5))
}

/// Returns the bytes of this process's heap that are in use.
fn heap() -> usize {
    // SAFETY: mallinfo2 has no arguments and returns a struct of numbers.
    let heap = unsafe { libc::mallinfo2() };
    heap.uordblks + heap.hblkhd
}

pub fn table(heaps: &[Heap]) -> Table {
    let mut table = Table::new(&[
        "depth of the history",
        "a plain publisher, kB",
        "a `NodeStatistics`, kB",
        "with distributions, kB",
    ]);
    for heap in heaps {
        let kilobytes = [heap.publisher, heap.statistics, heap.with_distributions]
            .map(|bytes| format!("{:.0}", bytes / 1e3));
        table.row([heap.depth.to_string()].into_iter().chain(kilobytes));
    }
    table
}
