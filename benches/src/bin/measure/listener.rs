// SPDX-License-Identifier: Apache-2.0

//! A listener process: receives a talker's messages for some seconds, and reports their cost.

use std::{
    any::Any,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use anyhow::Result;
use hdrhistogram::Histogram;
use rclrs::*;
use rclrs_topic_statistics::{
    IntoStatsOptions, Metric, NodeStatistics, StatisticsOptions, StatisticsState, StatsExecutor,
};
use ros_env::{
    sensor_msgs::msg::{Image, Imu},
    statistics_msgs::msg::MetricsMessage,
};
use rosidl_runtime_rs::Message;
use serde::{Deserialize, Serialize};
use test_support::{on_each, Spinning};
use topic_statistics_core::mutex::lock;

use crate::{
    process::{cpu_time, memory},
    talker::Kind,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Statistics {
    Off,
    /// The listener measures nothing, but has a publisher on /statistics that publishes nothing.
    Publisher,
    On,
    All,
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    Node,
    Worker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Runtime {
    Basic,
    Measured,
    SingleThreaded,
}

#[derive(Serialize, Deserialize)]
pub struct Options {
    pub message: Kind,
    pub statistics: Statistics,
    pub scope: Scope,
    pub runtime: Runtime,
    pub seconds: f64,
}

/// A listener's report. Unless a field says otherwise, it covers the time after the warm-up.
#[derive(Default, Serialize, Deserialize)]
pub struct Listened {
    pub received: u64,
    /// Messages lost between the first and the last received message, including the warm-up.
    pub lost: u64,
    pub windows: u64,
    /// The number of windows that did not start exactly when the previous window stopped.
    pub gaps: u64,
    pub seconds: f64,
    /// CPU time of the whole process since the end of the warm-up, in seconds.
    pub cpu: f64,
    /// CPU time of the whole process until the end of the warm-up, in seconds.
    pub start_cpu: f64,
    /// The median latency from source timestamp to callback, in microseconds.
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    pub peak_kb: u64,
}

impl Listened {
    /// Returns the CPU time per message, in seconds.
    pub fn cpu_per_message(&self) -> f64 {
        self.cpu / self.received.max(1) as f64
    }
}

/// The length of the warm-up. Discovery is complete this long after the first message.
const WARM_UP: Duration = Duration::from_secs(1);

struct Received {
    first: Option<Instant>,
    /// The time at which the warm-up ended, and the process's CPU time at that moment.
    begun: Option<(Instant, Duration)>,
    messages: u64,
    /// The publication sequence numbers of the first and of the last received message; messages of the warm-up count
    /// too.
    numbers: Option<(u64, u64)>,
    all: u64,
    /// The latency from source timestamp to callback, in microseconds.
    latency: Histogram<u64>,
}

impl Received {
    fn receive(&mut self, info: &MessageInfo) {
        let number = info.publication_sequence_number;
        let (first, last) = self.numbers.unwrap_or((number, number));
        self.numbers = Some((first, last.max(number)));
        self.all += 1;
        let first = *self.first.get_or_insert_with(Instant::now);
        if self.begun.is_none() {
            if first.elapsed() < WARM_UP {
                return;
            }
            self.begun = Some((Instant::now(), cpu_time()));
        }
        self.messages += 1;
        let latency = info.source_timestamp.and_then(|source| SystemTime::now().duration_since(source).ok());
        self.latency.saturating_record(latency.unwrap_or_default().as_micros() as u64);
    }
}

pub fn run(options: Options) -> Result<()> {
    match options.message {
        Kind::Image => listen::<Image>(&options),
        Kind::Imu => listen::<Imu>(&options),
    }
}

fn listen<T: Message>(options: &Options) -> Result<()> {
    let latency = Histogram::new_with_bounds(1, 60_000_000, 3)?;
    let received = Received { first: None, begun: None, messages: 0, numbers: None, all: 0, latency };
    let received = Arc::new(Mutex::new(received));
    let context = Context::default_from_env()?;
    let executor = match options.runtime {
        Runtime::Basic => context.create_basic_executor(),
        Runtime::Measured => context.create_executor(StatsExecutor::new()),
        Runtime::SingleThreaded => context.create_executor(StatsExecutor::single_threaded()),
    };
    let node = executor.create_node("bench_listener")?;
    let worker = node.create_worker(());
    let to = Arc::clone(&received);
    let callback = move |_: T, info: MessageInfo| lock(&to).receive(&info);
    let topic = "load".keep_last(10);
    let measured = match options.statistics {
        Statistics::Off | Statistics::Publisher => None,
        Statistics::On => Some(StatisticsOptions::new()),
        Statistics::All => Some(StatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS)),
        Statistics::Disabled => Some(StatisticsOptions::new().state(StatisticsState::Disable)),
    };
    let publisher = matches!(options.statistics, Statistics::Publisher);
    let _publisher = publisher.then(|| node.create_publisher::<MetricsMessage>("/statistics")).transpose()?;
    // The number of windows, the number of windows that did not start when the previous window stopped, and the stop of
    // the last window.
    let windows = Arc::new(Mutex::new((0, 0, None)));
    let _subscription: Box<dyn Any> = match (measured, options.scope) {
        (None, Scope::Node) => Box::new(node.create_subscription::<T, _>(topic, callback)?),
        (None, Scope::Worker) => Box::new(worker.create_subscription::<T, _>(topic, callback)?),
        (Some(measured), scope) => {
            let (topic, statistics) = (topic.statistics(measured), NodeStatistics::new(&node)?);
            let (subscription, finished): (Box<dyn Any>, _) = match scope {
                Scope::Worker => {
                    let subscription = statistics.create_worker_subscription(&worker, topic, callback)?;
                    let finished = subscription.statistics().watch();
                    (Box::new(subscription), finished)
                }
                Scope::Node => {
                    let subscription = statistics.create_subscription(topic, callback)?;
                    let finished = subscription.statistics().watch();
                    (Box::new(subscription), finished)
                }
            };
            let to = Arc::clone(&windows);
            on_each(finished, move |window| {
                let (windows, gaps, stop) = &mut *lock(&to);
                let Some(window) = window.map(|window| window.window) else { return };
                *windows += 1;
                *gaps += u64::from(stop.is_some_and(|stop| stop != window.start));
                *stop = Some(window.stop);
            });
            Box::new((subscription, statistics))
        }
    };

    let _spinning = Spinning::start(executor);
    let (begun, start) = loop {
        if let Some(begun) = lock(&received).begun {
            break begun;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    std::thread::sleep(Duration::from_secs_f64(options.seconds).saturating_sub(begun.elapsed()));
    let (received, (windows, gaps, _)) = (lock(&received), *lock(&windows));
    let (elapsed, cpu) = (begun.elapsed(), cpu_time() - start);
    let (first, last) = received.numbers.unwrap_or_default();
    let listened = Listened {
        received: received.messages,
        lost: (last - first + 1).saturating_sub(received.all),
        windows,
        gaps,
        seconds: elapsed.as_secs_f64(),
        cpu: cpu.as_secs_f64(),
        start_cpu: start.as_secs_f64(),
        p50_us: received.latency.value_at_quantile(0.5),
        p99_us: received.latency.value_at_quantile(0.99),
        max_us: received.latency.max(),
        peak_kb: memory("self", "VmHWM")?,
    };
    drop(received); // a callback may wait for this lock
    println!("{}", serde_json::to_string(&listened)?);
    Ok(())
}
