// SPDX-License-Identifier: Apache-2.0

//! A process of the robot: it publishes and subscribes with statistics, and checks its windows.
//!
//! The log of the process consists of lines of JSON: one for each window (`window`), for the health after each compared
//! window (`compared`), for each `difference`, and at the end for the number of messages `sent`. Each line is written
//! at once.

use std::{
    path::Path,
    sync::{
        atomic::{AtomicI64, Ordering},
        mpsc, Arc, Mutex,
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use nix::time::{clock_gettime, ClockId};
use rclrs::*;
use rclrs_topic_statistics::{
    watch, IntoStatsOptions, Metric, NodeStatistics, StatisticsOptions, StatsWorkerSubscription, Summary,
    Timestamp, WindowStatistics,
};
use ros_env::{builtin_interfaces::msg::Time, sensor_msgs::msg::Image, statistics_msgs::msg::MetricsMessage};
use serde_json::json;
use simulator::{oracle::Wanted, scenario::Row};
use test_support::{on_each, Spinning};

use super::{
    is_latched, period, subscriptions, topics,
    windows::{Log, Message, Source},
    Fate, Process, PROCESSES,
};
use crate::{measured::lock, talker::until_line};

/// The longest time for which a publisher waits for its subscriptions, and the process for the readers of
/// `/statistics`.
const DISCOVERY: Duration = Duration::from_secs(15);
/// The readers of `/statistics`: the exporter, topic_monitor and the reader.
const READERS: usize = 3;
const BILLION: i64 = 1_000_000_000;

fn now(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).expect("a clock of POSIX");
    time.tv_sec() * BILLION + time.tv_nsec()
}

fn nanoseconds(time: Option<SystemTime>) -> i64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as i64)
}

struct Sender {
    row: &'static Row,
    number: u32,
    next: Duration,
    /// Publishes the message with this number. Returns whether the middleware accepted the message.
    publish: Box<dyn FnMut(u32) -> bool>,
}

struct Running {
    log: Log,
    statistics: NodeStatistics,
    worker: Worker<()>,
    incarnation: u32,
    image: usize,
    process: &'static Process,
    /// The time at which a callback last ended on the worker's thread. This thread runs all callbacks.
    free: Arc<AtomicI64>,
    sources: Vec<Arc<Mutex<Source>>>,
    /// Functions that the worker runs at the end of the process, between two callbacks.
    ends: Vec<Box<dyn FnOnce() + Send>>,
}

impl Running {
    fn qos(row: &Row) -> PrimitiveOptions<'_> {
        let depth = if is_latched(row) { 1 } else { (BILLION / row.period).clamp(5, 500) as u32 };
        let options = row.name.keep_last(depth).reliable();
        match is_latched(row) {
            true => options.transient_local(),
            false => options,
        }
    }

    fn follow(
        &mut self,
        source: &Arc<Mutex<Source>>,
        name: &str,
        windows: watch::Receiver<Option<Arc<WindowStatistics>>>,
    ) {
        name.clone_into(&mut lock(source).name);
        self.sources.push(Arc::clone(source));
        let (to, log, name) = (Arc::clone(source), self.log.clone(), name.to_owned());
        on_each(windows, move |window| {
            let Some(window) = window else { return };
            let figures = window.metrics.iter().map(|(metric, summary)| {
                let Summary { average, minimum, maximum, standard_deviation, sample_count, .. } = *summary;
                let count = sample_count as f64;
                (metric.name().to_owned(), json!([average, minimum, maximum, standard_deviation, count]))
            });
            let [start, stop] = [window.window.start, window.window.stop].map(Timestamp::as_nanoseconds);
            let (totals, length) = (window.totals.unwrap_or_default(), window.length.as_secs_f64());
            log.write(&json!({
                "window": name, "start": start, "stop": stop, "length": length, "received": totals.received,
                "metrics": figures.collect::<serde_json::Map<_, _>>(),
            }));
            lock(&to).windows.push_back(window);
        });
    }

    fn sender(&mut self, row: &'static Row) -> Result<Sender> {
        let sizes = StatisticsOptions::new().metrics([Metric::MessageSize]);
        let publisher = self.statistics.create_publisher::<Image>(Self::qos(row).statistics(sizes))?;
        let source = Arc::new(Mutex::new(Source::new(self.log.clone(), row, true)));
        self.follow(&source, publisher.statistics().source_name(), publisher.statistics().watch());
        // If the publisher waits for all subscriptions, both sides count from the first message on.
        let (waited, all) = (Instant::now(), subscriptions(row.name));
        while publisher.get_subscription_count()? < all && waited.elapsed() < DISCOVERY {
            std::thread::sleep(Duration::from_millis(20));
        }
        // Each message contains its sender, its number and its stamp, for the comparison.
        let bytes = if matches!(row.name, "/camera" | "/map") { self.image } else { 0 };
        let mut message = Image { data: vec![7; bytes], height: self.incarnation, ..Image::default() };
        let publish = move |number| {
            let stamp = now(ClockId::CLOCK_REALTIME);
            (message.header.stamp.sec, message.width) = ((stamp / BILLION) as i32, number);
            message.header.stamp.nanosec = (stamp % BILLION) as u32;
            let start = now(ClockId::CLOCK_MONOTONIC);
            // Fast DDS sometimes refuses a message when the clock is stepped. The number of the refused message is then
            // used for the next message.
            let is_sent = publisher.publish(&message).is_ok();
            if is_sent {
                let end = now(ClockId::CLOCK_MONOTONIC);
                lock(&source).messages.push_back(Message { start, end, ..Message::default() });
            }
            is_sent
        };
        Ok(Sender { row, number: 0, next: Duration::ZERO, publish: Box::new(publish) })
    }

    fn subscribe(&mut self, row: &'static Row) -> Result<()> {
        let source = Arc::new(Mutex::new(Source::new(self.log.clone(), row, false)));
        let (to, free, began) = (Arc::clone(&source), Arc::clone(&self.free), Instant::now());
        let (blocks, mut blocked) = (self.process.fate == Fate::Behind, 0);
        let callback = move |_: &mut (), message: Image, info: MessageInfo| {
            let start = now(ClockId::CLOCK_MONOTONIC);
            let system = now(ClockId::CLOCK_REALTIME);
            let after = now(ClockId::CLOCK_MONOTONIC);
            let Image { height: incarnation, width: number, header, .. } = message;
            let Time { sec, nanosec } = header.stamp;
            let stamp = i64::from(sec) * BILLION + i64::from(nanosec);
            let (sent, received) = (nanoseconds(info.source_timestamp), nanoseconds(info.received_timestamp));
            let turn = began.elapsed().as_secs() / 20;
            if blocks && row.name == "/joint_states" && turn > blocked {
                blocked = turn;
                std::thread::sleep(Duration::from_secs(2));
            }
            let (free_before, end) = (free.load(Ordering::Relaxed), now(ClockId::CLOCK_MONOTONIC));
            #[rustfmt::skip]
            let message = Message {
                incarnation, number, stamp, sent, received, free: free_before, start, system, after, end,
            };
            lock(&to).messages.push_back(message);
            free.store(now(ClockId::CLOCK_MONOTONIC), Ordering::Relaxed);
        };
        let wanted = Wanted::parse(row.warn_unless, row.error_unless);
        let expected = wanted.context("The oracle does not know the conditions")?.expectations();
        // The clock offset is published as a separate source, so it is not compared here.
        let metrics =
            Metric::OF_SUBSCRIPTIONS.iter().copied().filter(|metric| *metric != Metric::ClockOffset);
        let options = StatisticsOptions::new().metrics(metrics).expect(expected);
        let subscription: StatsWorkerSubscription<Image, ()> = self.statistics.create_worker_subscription(
            &self.worker,
            Self::qos(row).statistics(options),
            callback,
        )?;
        self.follow(&source, subscription.statistics().source_name(), subscription.statistics().watch());
        let to = Arc::clone(&source);
        on_each(subscription.statistics().health(), move |health| lock(&to).changes.push_back(health));
        self.ends.push(Box::new(move || lock(&source).end(&subscription.statistics().totals().unwrap())));
        Ok(())
    }
}

/// Runs a process of the robot until its standard input ends. The first line of the input ends the publications.
pub fn run(name: &str, incarnation: u32, image: usize, directory: &Path) -> Result<()> {
    let process = PROCESSES.iter().find(|process| process.name == name);
    let process: &'static Process = process.with_context(|| format!("The robot has no process {name:?}"))?;
    let path = directory.join(format!("{name}.{incarnation}.log"));
    let log = Log::open(path)?;
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node(name.namespace("/robot"))?;
    let _spinning = Spinning::start(executor);
    // Some readers of `/statistics` subscribe only when the topic has a publisher, so this publisher is created early.
    let early = node.create_publisher::<MetricsMessage>("/statistics".reliable())?;
    let waited = Instant::now();
    while node.count_subscriptions("/statistics")? < READERS && waited.elapsed() < DISCOVERY {
        std::thread::sleep(Duration::from_millis(20));
    }
    let statistics = NodeStatistics::with_options(&node, StatisticsOptions::new())?;
    drop(early);
    // All callbacks of the process run on one thread, so a callback starts only after the previous one has ended.
    let worker = node.create_worker(());
    let (free, sources, ends) = (Arc::default(), vec![], vec![]);
    let mut running =
        Running { log: log.clone(), statistics, worker, incarnation, image, process, free, sources, ends };
    for row in topics().filter(|row| process.listens.contains(&row.name)) {
        running.subscribe(row)?;
    }
    let mut senders = vec![];
    for row in topics().filter(|row| process.publishes.contains(&row.name)) {
        senders.push(running.sender(row)?);
    }
    let (is_over, input) = until_line();
    let (began, mut compared) = (Instant::now(), Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        let elapsed = began.elapsed();
        for sender in senders.iter_mut().filter(|sender| sender.next <= elapsed) {
            if (sender.publish)(sender.number + 1) {
                sender.number += 1;
            }
            // If a sender is more than 500 ms late, it skips the missed times.
            let latest = sender.next.max(elapsed.saturating_sub(Duration::from_millis(500)));
            let period = Duration::from_nanos(period(sender.row, sender.number) as u64);
            sender.next = latest.saturating_add(period);
        }
        if compared.elapsed() > Duration::from_secs(1) {
            compared = Instant::now();
            running.sources.iter().for_each(|source| lock(source).compare());
        }
        let next = senders.iter().map(|sender| sender.next).min().unwrap_or(Duration::MAX);
        std::thread::sleep(next.saturating_sub(began.elapsed()).min(Duration::from_millis(50)));
    }
    let _ended = input.join();
    running.sources.iter().for_each(|source| lock(source).compare());
    // The worker runs these functions between two callbacks, so that the totals include exactly the messages so far.
    let (sender, ended) = mpsc::channel();
    let ends = std::mem::take(&mut running.ends);
    drop(running.worker.run(move |_| {
        ends.into_iter().for_each(|end| end());
        sender.send(())
    }));
    ended.recv_timeout(DISCOVERY).context("The worker does not answer")?;
    for sender in &senders {
        log.write(&json!({ "sent": sender.row.name, "count": sender.number }));
    }
    Ok(())
}
