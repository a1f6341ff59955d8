// SPDX-License-Identifier: Apache-2.0

//! Reads `/statistics`, and looks whether a window is missing.

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

use crate::{listener::LISTENER, lock::lock};

/// The sample count's data type on `/statistics`.
const SAMPLE_COUNT: u8 = 5;

/// A reader's report.
#[derive(Default, Serialize, Deserialize)]
pub struct Read {
    /// Messages of the listener's windows.
    pub messages: u64,
    /// Windows that did not start where the one before stopped.
    pub missing: u64,
    /// The first of them.
    pub first_missing: Option<String>,
    /// The sum of the sample counts of `message_age`, by source.
    pub sums: BTreeMap<String, u64>,
    /// The latest stop of a window, in seconds since the epoch.
    pub last_stop: f64,
}

fn seconds(time: &Time) -> f64 {
    f64::from(time.sec) + f64::from(time.nanosec) * 1e-9
}

/// Reports for each line on standard input, until its end.
pub fn run() -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("reader")?;
    let read = Arc::new(Mutex::new(Read::default()));
    let to = Arc::clone(&read);
    let mut stops = BTreeMap::<(String, String), Time>::new();
    let qos = QoSProfile { history: QoSHistoryPolicy::KeepAll, ..QoSProfile::topics_default() }.reliable();
    let mut options = SubscriptionOptions::new("/statistics");
    options.qos = qos;
    let worker = node.create_worker(());
    let _subscription =
        worker.create_subscription::<MetricsMessage, _>(options, move |message: MetricsMessage| {
            if !message.measurement_source_name.starts_with(&format!("/{LISTENER}:")) {
                return;
            }
            let mut read = lock(&to);
            read.messages += 1;
            read.last_stop = read.last_stop.max(seconds(&message.window_stop));
            if message.metrics_source == "message_age" {
                let count = message.statistics.iter().find(|point| point.data_type == SAMPLE_COUNT);
                *read.sums.entry(message.measurement_source_name.clone()).or_default() +=
                    count.map_or(0, |count| count.data as u64);
            }
            let source_and_metric = (message.measurement_source_name, message.metrics_source);
            match stops.insert(source_and_metric.clone(), message.window_stop.clone()) {
                Some(stop) if stop != message.window_start => {
                    read.missing += 1;
                    read.first_missing.get_or_insert_with(|| {
                        let (stop, start) = (seconds(&stop), seconds(&message.window_start));
                        format!(
                            "{} of {}: a window stops at {stop:.3}, the next starts at {start:.3}",
                            source_and_metric.1, source_and_metric.0
                        )
                    });
                }
                _ => {}
            }
        })?;
    let _spinning = Spinning::start(executor);
    for line in std::io::stdin().lock().lines() {
        let _request = line?;
        let report = serde_json::to_string(&*lock(&read))?;
        println!("{report}");
    }
    Ok(())
}
