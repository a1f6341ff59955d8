// SPDX-License-Identifier: Apache-2.0

//! The load of the exporter: the statistics of 1000 subscriptions, each with 10 metrics and the distributions of 5 of
//! them, in windows of 1 s. Runs until it is ended.
//!
//! Every 10 ms it prints how many messages it has published so far: `WINDOWS DISTRIBUTIONS`.

use std::{
    io::{self, Write},
    time::{Duration, Instant, SystemTime},
};

use anyhow::Result;
use rclrs::*;
use rclrs_topic_statistics::{Distribution, Metric};
use ros_env::{
    builtin_interfaces::msg::Time,
    statistics_msgs::msg::{MetricsMessage, StatisticDataPoint},
    topic_statistics_interfaces::msg::MetricsDistribution,
};

/// How many sources the load has.
pub const SOURCES: usize = 1000;
const METRICS: [Metric; 10] = [
    Metric::MessageAge,
    Metric::MessagePeriod,
    Metric::HeaderToSource,
    Metric::SourceToReceive,
    Metric::ReceiveToCallback,
    Metric::SourceToCallback,
    Metric::CallbackDuration,
    Metric::PublicationSeqGap,
    Metric::TimeSinceLastMessage,
    Metric::MessageSize,
];
const WITH_DISTRIBUTION: usize = 5;
/// Windows of different nodes do not end together: the number of ends in a second.
const SLOTS: usize = 100;

pub fn run() -> Result<()> {
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_statistics")?;
    let statistics = node.create_publisher::<MetricsMessage>("/statistics".keep_last(20_000))?;
    let distributions =
        node.create_publisher::<MetricsDistribution>("/statistics/distribution".keep_last(10_000))?;
    // The buckets of 100 samples each; different ones, so that they do not grow alike.
    let mut random = fastrand::Rng::with_seed(1);
    let prepared: Vec<MetricsDistribution> = (0..64).map(|_| distribution(&mut random)).collect();
    let (mut published_windows, mut published_distributions) = (0_u64, 0_u64);
    let started = Instant::now();
    for slot in 0_u64.. {
        let due = Duration::from_secs_f64(slot as f64 / SLOTS as f64);
        std::thread::sleep(due.saturating_sub(started.elapsed()));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let stop = Time { sec: now.as_secs() as i32, nanosec: now.subsec_nanos() };
        let start = Time { sec: stop.sec - 1, nanosec: stop.nanosec };
        let share = SOURCES / SLOTS;
        let first = slot as usize % SLOTS * share;
        for source in first..first + share {
            let name = format!("/robot/node_{}:/robot/sensors/topic_{source}", source / 20);
            for (index, metric) in METRICS.iter().enumerate() {
                let mean = 1.0 + random.f64();
                let points = [(1, mean), (3, mean * 4.0), (2, mean * 0.5), (5, 100.0), (4, mean * 0.3)];
                // A reader that is too slow makes it fail, and misses the message.
                let published = statistics.publish(MetricsMessage {
                    measurement_source_name: name.clone(),
                    metrics_source: metric.name().to_owned(),
                    unit: metric.unit().to_owned(),
                    window_start: start.clone(),
                    window_stop: stop.clone(),
                    statistics: points.map(|(data_type, data)| StatisticDataPoint { data_type, data }).into(),
                });
                published_windows += u64::from(published.is_ok());
                if index < WITH_DISTRIBUTION {
                    let mut message = prepared[random.usize(..prepared.len())].clone();
                    message.measurement_source_name.clone_from(&name);
                    metric.name().clone_into(&mut message.metrics_source);
                    (message.window_start, message.window_stop) = (start.clone(), stop.clone());
                    published_distributions += u64::from(distributions.publish(message).is_ok());
                }
            }
        }
        writeln!(io::stdout(), "{published_windows} {published_distributions}")?;
    }
    Ok(())
}

/// Returns the distribution of 100 samples around 1.5 ms, with a tail.
fn distribution(random: &mut fastrand::Rng) -> MetricsDistribution {
    let mut samples = Distribution::default();
    for _ in 0..100 {
        let sample = 1.0 + random.f64() + 10.0 * random.f64().powi(20);
        assert!(samples.accept(sample));
    }
    let buckets: Vec<(i32, u64)> = samples.positive().collect();
    let first = buckets.first().map_or(0, |(index, _)| *index);
    let mut positive_counts = vec![];
    for (index, count) in buckets {
        positive_counts.resize((index - first) as usize, 0);
        positive_counts.push(count);
    }
    MetricsDistribution {
        unit: "ms".to_owned(),
        count: samples.count(),
        sum: samples.sum(),
        minimum: samples.minimum(),
        maximum: samples.maximum(),
        scale: samples.scale(),
        positive_offset: first,
        positive_counts,
        ..Default::default()
    }
}
