// SPDX-License-Identifier: Apache-2.0

//! A process of the robot in Rust: it publishes and subscribes with statistics, and writes its own log.
//!
//! The log is the oracle: it has the readings of the process's clocks, and nothing of the library but the lines `W`,
//! `H` and `T`; these are compared. All times are in nanoseconds. `ID` refers to a line `P` or `L`.
//!
//! | line | is |
//! |---|---|
//! | `P ID topic source` | a publisher |
//! | `L ID topic source` | a subscription |
//! | `S ID number stamp before after` | a publication, with the monotonic clock before and after it |
//! | `X ID number error` | a publication that failed |
//! | `R ID incarnation number stamp sent received free start system after end` | a callback: the middleware's timestamps; when its thread was last seen before it; three readings at its start, monotonic, system and monotonic; and one at its end |
//! | `W ID start stop length count is_known unrecorded step received lost late duplicates publishers metrics...` | a window, as the library has it in the process |
//! | `H ID stop level condition value` | the health, as of the window until then |
//! | `T ID received lost late duplicates publishers` | the totals at the end |

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{
        atomic::{AtomicBool, AtomicI64, Ordering},
        mpsc, Arc,
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use nix::time::{clock_gettime, ClockId};
use rclrs::*;
use rclrs_topic_statistics::{
    health::{Cause, Expectations, Health},
    ClockStep, IntoMeasuredOptions, MeasuredSubscription, Metric, NodeStatistics, NodeStatisticsOptions,
    TopicStatisticsOptions, Totals, WindowStatistics,
};
use ros_env::statistics_msgs::msg::MetricsMessage;
use test_support::Spinning;

use super::{
    messages::{for_kind, Payload, Truth},
    scenario::{self, subscriptions, Process, Topic, TOPICS},
};
use crate::windows;

/// How long a publisher waits for its subscriptions, and the node for the readers of `/statistics`.
const DISCOVERY: Duration = Duration::from_secs(15);
/// The readers of `/statistics`: the exporter, topic_monitor and the log.
const READERS: usize = 3;
/// A sender that is later than this does not catch up.
const LATEST: Duration = Duration::from_millis(500);

/// The metrics of each subscription.
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

/// The log of a process: each line is written at once, so that it survives SIGKILL.
#[derive(Clone)]
struct Log(Arc<File>);

impl Log {
    fn write(&self, line: std::fmt::Arguments<'_>) {
        let line = format!("{line}\n");
        (&*self.0).write_all(line.as_bytes()).expect("the log cannot be written");
    }
}

pub fn now(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).expect("a clock of POSIX");
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

fn nanoseconds(time: Option<SystemTime>) -> i64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as i64)
}

fn known(count: Option<u64>) -> i64 {
    count.map_or(-1, |count| count as i64)
}

fn totals(totals: Totals) -> String {
    let Totals { received, lost, out_of_order, duplicates, publishers, .. } = totals;
    let [lost, late, duplicates, publishers] = [lost, out_of_order, duplicates, publishers].map(known);
    format!("{received} {lost} {late} {duplicates} {publishers}")
}

fn write_window(log: &Log, id: usize, window: &WindowStatistics) {
    let metrics: Vec<String> = window
        .metrics
        .iter()
        .map(|(metric, summary)| {
            let rclrs_topic_statistics::Summary {
                average,
                minimum,
                maximum,
                standard_deviation,
                sample_count,
                ..
            } = summary;
            format!("{metric}:{average}:{minimum}:{maximum}:{standard_deviation}:{sample_count}")
        })
        .collect();
    log.write(format_args!(
        "W {id} {} {} {} {} {} {} {} {} {}",
        window.window.start.as_nanoseconds(),
        window.window.stop.as_nanoseconds(),
        window.length.as_nanos(),
        window.count,
        u8::from(window.is_count_known),
        window.unrecorded,
        window.clock_step.map_or(0, ClockStep::as_nanoseconds),
        totals(window.totals.unwrap_or_default()),
        metrics.join(" ")
    ));
}

fn write_health(log: &Log, id: usize, health: &Health) {
    let cause = match &health.cause {
        Cause::Condition { condition, value, .. } => format!("{condition} {value}"),
        cause => format!("{cause:?} NaN"),
    };
    let stop = health.window.map_or(0, |window| window.stop.as_nanoseconds());
    log.write(format_args!("H {id} {stop} {} {cause}", health.level));
}

/// A publisher, with its next publication.
struct Sender {
    topic: usize,
    period: Duration,
    next: Duration,
    publish: Box<dyn FnMut()>,
}

struct Running<'a> {
    log: Log,
    node: Node,
    statistics: NodeStatistics,
    incarnation: u32,
    /// The bytes of an image.
    image: usize,
    process: &'a Process,
}

impl Running<'_> {
    fn options(&self, topic: &Topic) -> Result<TopicStatisticsOptions> {
        let options = TopicStatisticsOptions::new().metrics(METRICS).distributions(topic.has_distributions());
        Ok(match topic.expected {
            "" => options,
            expected => options.expect(Expectations::new().warn_unless(expected.parse()?)),
        })
    }

    fn qos<'t>(topic: &'t Topic) -> PrimitiveOptions<'t> {
        let options = topic.name.keep_last(topic.depth).reliable();
        if topic.is_latched {
            options.transient_local()
        } else {
            options
        }
    }

    fn sender<T: Payload>(&self, topic: usize, rate: f64) -> Result<Sender> {
        let id = topic;
        let sizes = TopicStatisticsOptions::new().metrics([Metric::MessageSize]);
        let publisher =
            self.statistics.create_publisher::<T>(Self::qos(&TOPICS[topic]).topic_statistics(sizes))?;
        self.log.write(format_args!("P {id} {} {}", TOPICS[topic].name, publisher.source_name()));
        let log = self.log.clone();
        windows::each(publisher.watch(), move |window| {
            if let Some(window) = window {
                write_window(&log, id, window);
            }
        });
        // All figures begin with the first message.
        let (waited, all) = (Instant::now(), subscriptions(topic));
        while publisher.get_subscription_count()? < all && waited.elapsed() < DISCOVERY {
            std::thread::sleep(Duration::from_millis(20));
        }
        let (log, incarnation, mut number, mut message) =
            (self.log.clone(), self.incarnation, 0, T::default());
        message.body(self.image);
        let publish = move || {
            number += 1;
            let stamp = now(ClockId::CLOCK_REALTIME);
            message.set(&Truth { incarnation, number, stamp });
            let before = now(ClockId::CLOCK_MONOTONIC);
            let published = publisher.publish(&message);
            let after = now(ClockId::CLOCK_MONOTONIC);
            match published {
                Ok(()) => log.write(format_args!("S {id} {number} {stamp} {before} {after}")),
                // Fast DDS refuses a message now and then when the clock is stepped; it has no number there.
                Err(error) => {
                    log.write(format_args!("X {id} {number} {error}"));
                    number -= 1;
                }
            }
        };
        let period = if rate > 0.0 { Duration::from_secs_f64(1.0 / rate) } else { Duration::MAX };
        Ok(Sender { topic, period, next: Duration::ZERO, publish: Box::new(publish) })
    }

    fn subscribe<T: Payload>(
        &self,
        worker: &Worker<()>,
        topic: usize,
        free: &Arc<AtomicI64>,
    ) -> Result<Box<dyn Fn() + Send>> {
        let id = TOPICS.len() + topic;
        let (log, free) = (self.log.clone(), Arc::clone(free));
        let began = Instant::now();
        let (blocks, mut blocked) = (self.process.falls_behind, 0);
        let callback = move |_: &mut (), message: T, info: MessageInfo| {
            let start = now(ClockId::CLOCK_MONOTONIC);
            let system = now(ClockId::CLOCK_REALTIME);
            let after = now(ClockId::CLOCK_MONOTONIC);
            let Truth { incarnation, number, stamp } = message.truth();
            let (sent, received) = (nanoseconds(info.source_timestamp), nanoseconds(info.received_timestamp));
            let turn = began.elapsed().as_secs() / 20;
            if blocks > 0 && topic == scenario::JOINTS && turn > blocked {
                blocked = turn;
                std::thread::sleep(Duration::from_secs(blocks));
            }
            let (free_before, end) = (free.load(Ordering::Relaxed), now(ClockId::CLOCK_MONOTONIC));
            log.write(format_args!(
                "R {id} {incarnation} {number} {stamp} {sent} {received} {free_before} {start} {system} {after} {end}",
            ));
            free.store(now(ClockId::CLOCK_MONOTONIC), Ordering::Relaxed);
        };
        let options = Self::qos(&TOPICS[topic]).topic_statistics(self.options(&TOPICS[topic])?);
        let subscription: MeasuredSubscription<T> =
            self.statistics.create_worker_subscription(worker, options, callback)?;
        self.log.write(format_args!("L {id} {} {}", TOPICS[topic].name, subscription.source_name()));
        let log = self.log.clone();
        windows::each(subscription.watch(), move |window| {
            if let Some(window) = window {
                write_window(&log, id, window);
            }
        });
        let log = self.log.clone();
        windows::each(subscription.health(), move |health| write_health(&log, id, health));
        let log = self.log.clone();
        Ok(Box::new(move || log.write(format_args!("T {id} {}", totals(subscription.totals())))))
    }
}

/// Runs a process of the robot until the end of standard input. Its first line ends the publications.
pub fn run(name: &str, incarnation: u32, image: usize, directory: &Path) -> Result<()> {
    let process = scenario::PROCESSES.iter().find(|process| process.name == name);
    let process = process.with_context(|| format!("The robot has no process {name:?}"))?;
    let path = directory.join(format!("{name}.{incarnation}.log"));
    let log = Log(Arc::new(OpenOptions::new().create(true).append(true).open(path)?));
    let executor = Context::default_from_env()?.create_basic_executor();
    let node = executor.create_node(name.namespace("/robot"))?;
    let _spinning = Spinning::start(executor);
    // Some readers subscribe once there is a publisher.
    let early = node.create_publisher::<MetricsMessage>("/statistics".reliable())?;
    let waited = Instant::now();
    while node.count_subscriptions("/statistics")? < READERS && waited.elapsed() < DISCOVERY {
        std::thread::sleep(Duration::from_millis(20));
    }
    let options = NodeStatisticsOptions::new().topic_statistics(TopicStatisticsOptions::new());
    let statistics = NodeStatistics::with_options(&node, options)?;
    drop(early);
    let running = Running { log: log.clone(), node, statistics, incarnation, image, process };
    // One thread for all callbacks of the process: each callback starts after the one before has ended.
    let worker = running.node.create_worker(());
    let free = Arc::new(AtomicI64::new(0));
    let mut ends = vec![];
    for topic in process.listens {
        let kind = TOPICS[*topic].kind;
        ends.push(for_kind!(kind, subscribe_as(&running, &worker, *topic, &free))?);
    }
    let mut senders = vec![];
    for (topic, rate) in process.publishes {
        senders.push(for_kind!(TOPICS[*topic].kind, sender_as(&running, *topic, *rate))?);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let input = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut line = String::new();
            let _line_or_end = std::io::stdin().read_line(&mut line);
            is_over.store(true, Ordering::Relaxed);
            while std::io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {}
        }
    });
    let began = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let elapsed = began.elapsed();
        for sender in &mut senders {
            if elapsed < sender.next {
                continue;
            }
            if scenario::is_sent(sender.topic, elapsed.as_secs()) {
                (sender.publish)();
            }
            let latest = elapsed.saturating_sub(LATEST);
            sender.next = sender.next.max(latest).saturating_add(sender.period);
        }
        let next = senders.iter().map(|sender| sender.next).min().unwrap_or(Duration::MAX);
        std::thread::sleep(next.saturating_sub(began.elapsed()).min(Duration::from_millis(50)));
    }
    let _ended = input.join();
    // Between two callbacks, so that the totals belong to the lines before.
    let (sender, ended) = mpsc::channel();
    drop(worker.run(move |_| {
        ends.iter().for_each(|end| end());
        sender.send(())
    }));
    ended.recv_timeout(DISCOVERY).context("The worker does not answer")?;
    Ok(())
}

fn subscribe_as<T: Payload>(
    running: &Running,
    worker: &Worker<()>,
    topic: usize,
    free: &Arc<AtomicI64>,
) -> Result<Box<dyn Fn() + Send>> {
    running.subscribe::<T>(worker, topic, free)
}

fn sender_as<T: Payload>(running: &Running, topic: usize, rate: f64) -> Result<Sender> {
    running.sender::<T>(topic, rate)
}
