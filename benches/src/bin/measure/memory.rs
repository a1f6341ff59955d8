// SPDX-License-Identifier: Apache-2.0

//! The heap of a node's statistics beside that of a plain publisher, by the depth of its history.

use anyhow::Result;
use benchmarks::heap;
use rclrs::*;
use rclrs_topic_statistics::{NodeStatistics, TopicStatisticsOptions};
use ros_env::statistics_msgs::msg::MetricsMessage;
use serde::{Deserialize, Serialize};

use crate::{
    process::report,
    table::{quantile, Table},
};

/// The heap for a depth, in bytes. What was not measured is `None`.
#[derive(Serialize, Deserialize)]
pub struct Heap {
    depth: String,
    publisher: Option<f64>,
    statistics: f64,
    with_distributions: Option<f64>,
}

pub fn measure() -> Result<Vec<Heap>> {
    report(&["heap"])
}

/// The process that is measured. Prints its heap for each depth.
pub fn run() -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_heap")?;
    let mut first = None;
    let mut heaps = vec![];
    for depth in [32, 2000, 50, 10] {
        let qos = QoSProfile::default().keep_last(depth);
        let options = || TopicStatisticsOptions::new().qos(qos);
        let statistics = heaps_of(|| Ok(NodeStatistics::with_options(&node, options())?))?;
        first = first.or(statistics.first().copied());
        let plain = heaps_of(|| Ok(node.create_publisher::<MetricsMessage>("plain".qos(qos))?))?;
        let with = heaps_of(|| Ok(NodeStatistics::with_options(&node, options().distributions(true))?))?;
        heaps.push(Heap {
            depth: depth.to_string(),
            publisher: Some(quantile(plain, 0.5)),
            statistics: quantile(statistics, 0.5),
            with_distributions: Some(quantile(with, 0.5)),
        });
    }
    if let Some(statistics) = first {
        let depth = "32, the first one of a process".to_owned();
        heaps.insert(0, Heap { depth, publisher: None, statistics, with_distributions: None });
    }
    println!("{}", serde_json::to_string(&heaps)?);
    Ok(())
}

/// Returns the bytes of a value, several times: threads of the middleware allocate meanwhile. The first time, it also
/// loads libraries and registers types.
fn heaps_of<T>(create: impl Fn() -> Result<T>) -> Result<Vec<f64>> {
    let measure = |_| {
        let before = heap();
        let created = create()?;
        let after = heap();
        drop(created);
        Ok(after as f64 - before as f64)
    };
    (0..11).map(measure).collect()
}

pub fn table(heaps: &[Heap]) -> Table {
    let mut table = Table::new(
        "depth of the history | a plain publisher, kB | a `NodeStatistics`, kB | with distributions, kB",
    );
    let kilobytes = |bytes: Option<f64>| bytes.map_or(String::new(), |bytes| format!("{:.0}", bytes / 1e3));
    for Heap { depth, publisher, statistics, with_distributions } in heaps {
        let [plain, with] = [*publisher, *with_distributions].map(kilobytes);
        table.row(format!("{depth} | {plain} | {:.0} | {with}", statistics / 1e3));
    }
    table
}
