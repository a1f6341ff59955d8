// SPDX-License-Identifier: Apache-2.0

//! A listener: receives a talker's messages for some seconds, and reports their cost.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{anyhow, Result};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use rclrs::*;
use rclrs_topic_statistics::{
    watch, InstrumentCallback, InstrumentWorkerCallback, IntoMeasuredOptions, MeasuredExecutor, Metric,
    NodeStatistics, TopicStatisticsOptions, TopicStatisticsState, WindowStatistics,
};
use ros_env::{
    sensor_msgs::msg::{Image, Imu},
    statistics_msgs::msg::MetricsMessage,
};
use rosidl_runtime_rs::Message;
use serde::{Deserialize, Serialize};

use crate::{
    process::{cpu_time, memory},
    talker::Kind,
};

/// The statistics of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Statistics {
    Off,
    /// None, but a publisher that publishes nothing.
    Publisher,
    On,
    All,
    Disabled,
}

/// What the subscription belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    Node,
    Worker,
}

/// What the listener spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Runtime {
    Basic,
    Measured,
    SingleThreaded,
}

#[derive(clap::Args)]
pub struct Options {
    message: Kind,
    statistics: Statistics,
    scope: Scope,
    runtime: Runtime,
    seconds: f64,
}

/// A listener's report. It begins when the creation of the node and discovery are complete.
#[derive(Default, Serialize, Deserialize)]
pub struct Listened {
    pub received: u64,
    /// Messages lost between the first one and the last one, also in the warm-up.
    pub lost: u64,
    pub windows: u64,
    /// The number of windows that did not start at the stop of the window before.
    pub gaps: u64,
    pub seconds: f64,
    /// CPU time of the whole process, in seconds.
    pub cpu: f64,
    /// CPU time until then, in seconds.
    pub start_cpu: f64,
    /// From source timestamp to callback.
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

/// After this time the creation and discovery are complete.
const WARM_UP: Duration = Duration::from_secs(1);

/// The messages and windows since the warm-up.
struct Received {
    first: Option<Instant>,
    /// The end of the warm-up, and the CPU time until then.
    begun: Option<(Instant, Duration)>,
    messages: u64,
    /// The numbers of the first and the last message, and the messages in between with both.
    numbers: Option<(u64, u64)>,
    all: u64,
    /// From source timestamp to callback, in microseconds.
    latency: Histogram<u64>,
    /// The number of windows, and the number of windows that did not start at the stop of the window before.
    windows: (u64, u64),
}

impl Received {
    fn lost(&self) -> u64 {
        self.numbers.map_or(0, |(first, last)| (last - first + 1).saturating_sub(self.all))
    }
}

pub fn run(options: &Options) -> Result<()> {
    let received = Received {
        first: None,
        begun: None,
        messages: 0,
        numbers: None,
        all: 0,
        latency: Histogram::new_with_bounds(1, 60_000_000, 3)?,
        windows: (0, 0),
    };
    let received = Arc::new(Mutex::new(received));
    match options.message {
        Kind::Image => listen::<Image>(options, received),
        Kind::Imu => listen::<Imu>(options, received),
    }
}

fn listen<T: Message>(options: &Options, received: Arc<Mutex<Received>>) -> Result<()> {
    let seconds = Duration::from_secs_f64(options.seconds);
    let context = Context::default_from_env()?;
    let mut executor = match options.runtime {
        Runtime::Basic => context.create_basic_executor(),
        Runtime::Measured => context.create_executor(MeasuredExecutor::new()),
        Runtime::SingleThreaded => context.create_executor(MeasuredExecutor::single_threaded()),
    };
    let node = executor.create_node("bench_listener")?;
    let worker = node.create_worker(());
    let count = Arc::clone(&received);
    let callback = move |_: T, info: MessageInfo| note(&count, &info);
    let topic = "load".keep_last(10);
    let (windows, _subscription) = subscribe(&node, &worker, options, topic, callback)?;
    if let Some(windows) = windows {
        drop(executor.commands().run(count_windows(windows, Arc::clone(&received))));
    }

    let commands = Arc::clone(executor.commands());
    let watched = Arc::clone(&received);
    let report = std::thread::spawn(move || {
        let (begun, start) = loop {
            if let Some(begun) = lock(&watched).begun {
                break begun;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        std::thread::sleep(seconds.saturating_sub(begun.elapsed()));
        let received = lock(&watched);
        let (elapsed, cpu) = (begun.elapsed(), cpu_time() - start);
        let (windows, gaps) = received.windows;
        let listened = Listened {
            received: received.messages,
            lost: received.lost(),
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
        println!("{}", serde_json::to_string(&listened)?);
        commands.halt_spinning();
        anyhow::Ok(())
    });
    executor.spin(SpinOptions::default()).first_error()?;
    report.join().map_err(|_| anyhow!("the thread of the report panicked"))?
}

/// The windows of a measured subscription.
type Windows = watch::Receiver<Option<Arc<WindowStatistics>>>;

/// A subscription, and its windows if it has any.
type Subscribed = (Option<Windows>, Box<dyn std::any::Any>);

async fn count_windows(mut windows: Windows, received: Arc<Mutex<Received>>) {
    let mut stop = None;
    while windows.changed().await.is_ok() {
        let Some(window) = windows.borrow_and_update().as_ref().map(|window| window.window) else { continue };
        let mut received = lock(&received);
        received.windows.0 += 1;
        received.windows.1 += u64::from(stop.is_some_and(|stop| stop != window.start));
        stop = Some(window.stop);
    }
}

/// Creates the subscription, plain or with statistics. It exists as long as the returned value.
fn subscribe<T: Message, Callback>(
    node: &rclrs::Node,
    worker: &rclrs::Worker<()>,
    options: &Options,
    topic: PrimitiveOptions<'_>,
    callback: Callback,
) -> Result<Subscribed>
where
    Callback: Fn(T, MessageInfo) + Send + Sync + 'static,
    Callback: InstrumentCallback<T, (T, MessageInfo)> + InstrumentWorkerCallback<T, (), (T, MessageInfo)>,
{
    let statistics = match options.statistics {
        Statistics::Off | Statistics::Publisher => {
            let subscription: Box<dyn std::any::Any> = match options.scope {
                Scope::Worker => Box::new(worker.create_subscription::<T, _>(topic, callback)?),
                Scope::Node => Box::new(node.create_subscription::<T, _>(topic, callback)?),
            };
            let publisher = match options.statistics {
                Statistics::Publisher => Some(node.create_publisher::<MetricsMessage>("/statistics")?),
                _ => None,
            };
            return Ok((None, Box::new((subscription, publisher))));
        }
        Statistics::On => TopicStatisticsOptions::new(),
        Statistics::All => TopicStatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS),
        Statistics::Disabled => TopicStatisticsOptions::new().state(TopicStatisticsState::Disable),
    };
    let topic = topic.topic_statistics(statistics);
    let statistics = NodeStatistics::new(node)?;
    let subscription = match options.scope {
        Scope::Worker => statistics.create_worker_subscription::<T, _, _>(worker, topic, callback)?,
        Scope::Node => statistics.create_subscription::<T, _>(topic, callback)?,
    };
    Ok((Some(subscription.watch()), Box::new((subscription, statistics))))
}

fn note(received: &Mutex<Received>, info: &MessageInfo) {
    let mut received = lock(received);
    let number = info.publication_sequence_number;
    received.numbers =
        Some(received.numbers.map_or((number, number), |(first, last)| (first, last.max(number))));
    received.all += 1;
    let first = *received.first.get_or_insert_with(Instant::now);
    if received.begun.is_none() {
        if first.elapsed() < WARM_UP {
            return;
        }
        received.begun = Some((Instant::now(), cpu_time()));
    }
    received.messages += 1;
    let latency = info.source_timestamp.and_then(|source| SystemTime::now().duration_since(source).ok());
    if let Some(latency) = latency {
        received.latency.saturating_record(latency.as_micros() as u64);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
