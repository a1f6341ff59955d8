// SPDX-License-Identifier: Apache-2.0

//! The heap of a node's statistics, compared with the heap of a plain publisher, for several depths of the history.

use anyhow::Result;
use benchmarks::heap;
use rclrs::*;
use rclrs_topic_statistics::{NodeStatistics, StatisticsOptions};
use ros_env::statistics_msgs::msg::MetricsMessage;

use crate::{
    process::report,
    table::{median, Table},
};

/// The depth of the history, and the heap in bytes: of a plain publisher, of statistics, and of statistics with
/// distributions.
type Heap = (String, [Option<f64>; 3]);

pub fn measure(_seconds: f64) -> Result<Table> {
    let mut table = Table::new(
        "depth of the history | a plain publisher, kB | a `NodeStatistics`, kB | with distributions, kB",
    );
    for (depth, heaps) in report::<Vec<Heap>>("heap", &())? {
        let [plain, statistics, with] =
            heaps.map(|bytes| bytes.map_or(String::new(), |bytes| format!("{:.0}", bytes / 1e3)));
        table.row(format!("{depth} | {plain} | {statistics} | {with}"));
    }
    Ok(table)
}

/// The measured process. Prints the heaps for each depth.
pub fn run() -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_heap")?;
    let mut heaps: Vec<Heap> = vec![];
    for depth in [32, 2000, 50, 10] {
        let qos = QoSProfile::default().keep_last(depth);
        let options = || StatisticsOptions::new().qos(qos);
        let statistics = heaps_of(|| Ok(NodeStatistics::with_options(&node, options())?))?;
        if heaps.is_empty() {
            let first = statistics.first().copied();
            heaps.push(("32, the first one of a process".to_owned(), [None, first, None]));
        }
        let plain = heaps_of(|| Ok(node.create_publisher::<MetricsMessage>("plain".qos(qos))?))?;
        let with = heaps_of(|| Ok(NodeStatistics::with_options(&node, options().distributions(true))?))?;
        heaps.push((depth.to_string(), [plain, statistics, with].map(|heaps| Some(median(heaps)))));
    }
    println!("{}", serde_json::to_string(&heaps)?);
    Ok(())
}

/// Returns the heap, in bytes, of a created value. The value is created several times, because threads of the
/// middleware also allocate memory, which disturbs single measurements. The first creation in a process takes more,
/// because it also loads libraries and registers types.
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
