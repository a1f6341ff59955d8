// SPDX-License-Identifier: Apache-2.0

//! Reads `/statistics`, and checks that no window of the listener is missing.

use std::{
    collections::BTreeMap,
    io::BufRead,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use rclrs::*;
use ros_env::{builtin_interfaces::msg::Time, statistics_msgs::msg::MetricsMessage};
use serde::{Deserialize, Serialize};
use test_support::Spinning;

use crate::{listener::LISTENER, measured::lock};

const SAMPLE_COUNT: u8 = 5;

#[derive(Default, Serialize, Deserialize)]
pub struct Read {
    /// The number of messages on `/statistics` that have windows of the listener.
    pub messages: u64,
    /// The windows of the listener that did not start at the stop of the previous window.
    pub missing: Vec<String>,
    /// For each source, the sum of the sample counts of `message_age`.
    pub sums: BTreeMap<String, u64>,
    /// The latest stop of a window, in seconds since the epoch.
    pub last_stop: f64,
}

/// Prints a report for each line of standard input, until standard input ends.
pub fn run() -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("reader")?;
    let (read, mut stops) = (Arc::new(Mutex::new(Read::default())), BTreeMap::<_, Time>::new());
    let to = Arc::clone(&read);
    let options = "/statistics".keep_all().reliable();
    let accept = move |_: &mut (), message: MetricsMessage| {
        let source = message.measurement_source_name;
        if !source.starts_with(&format!("/{LISTENER}:")) {
            return;
        }
        let mut read = lock(&to);
        read.messages += 1;
        read.last_stop = read.last_stop.max(f64::from(message.window_stop.sec));
        if message.metrics_source == "message_age" {
            let count = message.statistics.iter().find(|point| point.data_type == SAMPLE_COUNT);
            *read.sums.entry(source.clone()).or_default() += count.map_or(0, |count| count.data as u64);
        }
        let stop = stops.insert((source.clone(), message.metrics_source), message.window_stop);
        if stop.is_some_and(|stop| stop != message.window_start) {
            read.missing.push(format!("{source} before {}", message.window_start.sec));
        }
    };
    let _subscription = node.create_worker(()).create_subscription::<MetricsMessage, _>(options, accept)?;
    let _spinning = Spinning::start(executor);
    for line in std::io::stdin().lock().lines() {
        let _request = line?;
        let report = serde_json::to_string(&*lock(&read))?;
        println!("{report}");
    }
    Ok(())
}
