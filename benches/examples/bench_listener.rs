// SPDX-License-Identifier: Apache-2.0

//! Receives the messages of `bench_talker` for some seconds, and prints the cost as JSON:
//! `bench_listener imu|image off|disabled|on|all node|worker SECONDS`.
//!
//! `cpu` is the CPU time of the whole process from one second after the first message on. `start_cpu` is the CPU time
//! before, which includes the creation of the node and discovery.

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use hdrhistogram::Histogram;
use nix::time::{clock_gettime, ClockId};
use rclrs::*;
use rclrs_topic_statistics::{
    watch, InstrumentCallback, InstrumentWorkerCallback, IntoMeasuredOptions, Metric, NodeStatistics,
    TopicStatisticsOptions, TopicStatisticsState, WindowStatistics,
};
use ros_env::sensor_msgs::msg::{Image, Imu};
use rosidl_runtime_rs::Message;

/// After this time the creation and discovery are complete.
const WARM_UP: Duration = Duration::from_secs(1);

/// The messages and windows since the warm-up.
struct Received {
    first: Option<Instant>,
    /// The end of the warm-up, and the CPU time until then.
    begun: Option<(Instant, Duration)>,
    messages: u64,
    /// From source timestamp to callback, in microseconds.
    latency: Histogram<u64>,
    /// The number of windows, and the number of windows that did not start at the stop of the window before.
    windows: (u64, u64),
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, topic_type, statistics, scope, seconds] = &arguments[..] else {
        return Err("bench_listener imu|image off|disabled|on|all node|worker SECONDS".into());
    };
    let received =
        Received { first: None, begun: None, messages: 0, latency: Histogram::new(3)?, windows: (0, 0) };
    let received = Arc::new(Mutex::new(received));
    let seconds = Duration::from_secs_f64(seconds.parse()?);
    if topic_type == "image" {
        listen::<Image>(statistics, scope, seconds, received)
    } else {
        listen::<Imu>(statistics, scope, seconds, received)
    }
}

fn listen<T: Message>(
    statistics: &str,
    scope: &str,
    seconds: Duration,
    received: Arc<Mutex<Received>>,
) -> Result<(), Box<dyn Error>> {
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node("bench_listener")?;
    let worker = node.create_worker(());
    let count = Arc::clone(&received);
    let callback = move |_: T, info: MessageInfo| note(&count, &info);
    let topic = "load".keep_last(10);
    let (windows, _subscription) = subscribe(&node, &worker, statistics, scope, topic, callback)?;
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
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        println!(
            "{{\"received\": {}, \"windows\": {}, \"gaps\": {}, \"seconds\": {}, \"cpu\": {}, \"start_cpu\": {}, \"p50_us\": {}, \"p99_us\": {}, \"max_us\": {}, \"peak_kb\": {}}}",
            received.messages,
            received.windows.0,
            received.windows.1,
            elapsed.as_secs_f64(),
            cpu.as_secs_f64(),
            start.as_secs_f64(),
            received.latency.value_at_quantile(0.5),
            received.latency.value_at_quantile(0.99),
            received.latency.max(),
            peak.trim().trim_end_matches(" kB"),
        );
        commands.halt_spinning();
    });
    executor.spin(SpinOptions::default()).first_error()?;
    report.join().map_err(|_| "the thread of the report panicked")?;
    Ok(())
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
    node: &Node,
    worker: &Worker<()>,
    statistics: &str,
    scope: &str,
    topic: PrimitiveOptions<'_>,
    callback: Callback,
) -> Result<Subscribed, Box<dyn Error>>
where
    Callback: Fn(T, MessageInfo) + Send + Sync + 'static,
    Callback: InstrumentCallback<T, (T, MessageInfo)> + InstrumentWorkerCallback<T, (), (T, MessageInfo)>,
{
    if statistics == "off" {
        let subscription: Box<dyn std::any::Any> = match scope {
            "worker" => Box::new(worker.create_subscription::<T, _>(topic, callback)?),
            _ => Box::new(node.create_subscription::<T, _>(topic, callback)?),
        };
        return Ok((None, subscription));
    }
    let mut options = TopicStatisticsOptions::new();
    match statistics {
        "all" => options = options.metrics(Metric::OF_SUBSCRIPTIONS),
        "disabled" => options = options.state(TopicStatisticsState::Disable),
        _ => {}
    }
    let statistics = NodeStatistics::new(node)?;
    let topic = topic.topic_statistics(options);
    let subscription = match scope {
        "worker" => statistics.create_worker_subscription::<T, _, _>(worker, topic, callback)?,
        _ => statistics.create_subscription::<T, _>(topic, callback)?,
    };
    Ok((Some(subscription.watch()), Box::new((subscription, statistics))))
}

fn note(received: &Mutex<Received>, info: &MessageInfo) {
    let mut received = lock(received);
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

/// Returns the CPU time of this process so far.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
