// SPDX-License-Identifier: Apache-2.0

//! What statistics cost that is the same on every machine: allocations, memory, threads, publishers, instructions.
//!
//! Each test prints a line `name=value`, which `cargo xtask bench` puts in its table.

#[path = "cost/c_allocations.rs"]
mod c_allocations;

use std::{
    collections::HashMap,
    process::Command,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Mutex,
    },
    time::{Duration, UNIX_EPOCH},
};

use test_support::{context, domain, wait_for, Program, Reader, Spinning};
use rclrs::*;
use rclrs_topic_statistics::{bench::Measured, Metric, NodeStatistics, TopicStatisticsOptions};
use ros_env::sensor_msgs::msg::{rmw, Imu};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The allocator counts for the whole process: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// No window ends while it is counted.
fn options() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().publish_period(Duration::from_secs(3600))
}

/// Allocations per message, in steady state, of a subscription that `subscribe` makes of a callback which counts.
fn allocations_per_message<Subscription>(
    number: u32,
    subscribe: impl FnOnce(&Node, Arc<AtomicU64>) -> Subscription,
) -> f64 {
    const MESSAGES: u64 = 1000;
    let executor = context(domain(number), &[]).create_basic_executor();
    let node = executor.create_node("counting").unwrap();
    let received = Arc::new(AtomicU64::new(0));
    let _subscription = subscribe(&node, Arc::clone(&received));
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "500"], domain(number));
    let wait_until = |count| wait_for("messages", || received.load(Ordering::Relaxed) >= count);
    // By then discovery is over, and queues have grown to their size.
    wait_until(500);
    let count = || (dhat::HeapStats::get().total_blocks, received.load(Ordering::Relaxed));
    let (blocks, messages) = count();
    wait_until(messages + MESSAGES);
    let (blocks_after, messages_after) = count();
    (blocks_after - blocks) as f64 / (messages_after - messages) as f64
}

#[test]
fn a_message_costs_no_allocation_beyond_plain_rclrs() {
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let topic = || "imu".keep_last(100);
    macro_rules! callback {
        ($count:ident, $message:ty) => {
            move |_: $message| {
                $count.fetch_add(1, Ordering::Relaxed);
            }
        };
    }
    macro_rules! plain {
        ($number:literal, $message:ty) => {
            allocations_per_message($number, |node, count| {
                node.create_subscription::<Imu, _>(topic(), callback!(count, $message)).unwrap()
            })
        };
    }
    macro_rules! measured {
        ($number:literal, $message:ty, $options:expr) => {
            allocations_per_message($number, |node, count| {
                let statistics = NodeStatistics::with_options(&node, $options).unwrap();
                let callback = callback!(count, $message);
                let imu = statistics.create_subscription::<Imu, _>(topic(), callback).unwrap();
                (imu, statistics)
            })
        };
    }
    let (plain, measured) = (plain!(0, Imu), measured!(1, Imu, options()));
    let everything = measured!(2, Imu, options().metrics(Metric::ALL));
    let (plain_boxed, boxed) = (plain!(3, Box<Imu>), measured!(4, Box<Imu>, options()));
    println!("plain_allocations_per_message={plain:.2}");
    println!("allocations_per_message={:.0}", (measured - plain).max(0.0));
    println!("allocations_per_message_with_all_metrics={:.0}", (everything - plain).max(0.0));
    println!("allocations_per_boxed_message={:.0}", boxed - plain_boxed);
    // rclrs's queues grow now and then, and once a second the graph is looked at, so the counts are no whole numbers.
    assert!(plain > 1.0, "the counting works: {plain}");
    assert!(measured < plain + 0.1, "{measured} measured, {plain} plain");
    assert!(everything < plain + 0.1, "{everything} with all metrics, {plain} plain");
    assert!(boxed < plain_boxed + 0.1, "{boxed} measured, {plain_boxed} plain");
}

#[test]
fn a_time_and_a_count_cost_no_allocation() {
    let _one = ONE_AT_A_TIME.lock();
    let executor = context(domain(8), &[]).create_basic_executor();
    let statistics =
        NodeStatistics::with_options(&executor.create_node("counting").unwrap(), options()).unwrap();
    let (timers, counters) = (statistics.timers("call", 0..4), statistics.counters("frames", 0..4));
    // The graph is looked at soon after the creation, on another thread.
    let _profiler = dhat::Profiler::builder().testing().build();
    let allocations = || {
        let before = dhat::HeapStats::get().total_blocks;
        for round in 0..10_000 {
            drop(timers[round % 4].start());
            timers[round % 4].time(|| counters[round % 4].increment());
        }
        dhat::HeapStats::get().total_blocks - before
    };
    let counted = allocations();
    assert!(counted < 100, "{counted} allocations of 20000 times and 10000 counts");
}

/// A message, and what the middleware tells of it.
fn message() -> (rmw::Imu, MessageInfo) {
    let mut message = rmw::Imu::default();
    message.header.stamp.sec = 1_790_000_000;
    let info = MessageInfo {
        source_timestamp: Some(UNIX_EPOCH + Duration::from_secs(1_790_000_000)),
        received_timestamp: Some(UNIX_EPOCH + Duration::from_secs(1_790_000_001)),
        publication_sequence_number: 1,
        reception_sequence_number: u64::MAX,
        publisher_gid: PublisherGid { data: Default::default(), implementation_identifier: std::ptr::null() },
    };
    (message, info)
}

#[test]
fn a_subscription_costs_2_kb_at_most_beyond_a_plain_one_and_no_more_after_a_million_messages() {
    const COUNT: usize = 50;
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let executor = context(domain(5), &[]).create_basic_executor();
    let node = executor.create_node("weighing").unwrap();
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let bytes = || dhat::HeapStats::get().curr_bytes;
    let first = statistics.create_subscription("imu", |_: Imu| ()).unwrap(); // loads the type's introspection

    let before = bytes();
    let plain: Vec<_> =
        (0..COUNT).map(|_| node.create_subscription::<Imu, _>("imu", |_: Imu| ()).unwrap()).collect();
    let plain_bytes = bytes() - before;
    let before = bytes();
    let measured: Vec<_> =
        (0..COUNT).map(|_| statistics.create_subscription("imu", |_: Imu| ()).unwrap()).collect();
    let measured_bytes = bytes() - before;
    let beyond = measured_bytes.saturating_sub(plain_bytes) / COUNT;
    println!("bytes_per_subscription={beyond}");
    assert!(
        beyond <= 2048,
        "{beyond} bytes: {measured_bytes} for {COUNT}, {plain_bytes} for {COUNT} plain ones"
    );
    drop((first, plain, measured));
}

#[test]
fn memory_is_constant_whatever_arrives() {
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let bytes = || dhat::HeapStats::get().curr_bytes;
    for options in [options(), options().metrics(Metric::ALL)] {
        let measured = Measured::new(&options);
        let (message, mut info) = message();
        measured.message(&message, &info);
        let before = bytes();
        for _ in 0..1_000_000 {
            info.publication_sequence_number += 1;
            measured.message(&message, &info);
        }
        // The harness of the tests has a few strings of its own meanwhile; a byte a message would be a million.
        assert!(bytes() < before + 100_000, "{before} bytes before, {} after", bytes());
        assert_eq!(
            measured.end_window().unwrap().get(Metric::MessagePeriod).unwrap().sample_count,
            1_000_000
        );
    }
}

/// Takes a second in a release build, and a minute in others.
#[test]
#[ignore = "is run by `cargo xtask bench --soak`"]
fn soak_of_a_hundred_million_messages() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let (windows, messages) = (50, 1_000_000);
    let before = dhat::HeapStats::get().curr_bytes;
    for options in [options(), options().metrics(Metric::ALL)] {
        let measured = Measured::new(&options);
        let (message, mut info) = message();
        let mut now = 1_790_000_000_000_000_000;
        for _ in 0..windows {
            for _ in 0..messages {
                now += 200_000;
                info.publication_sequence_number += 1;
                measured.message_at(&message, &info, now);
            }
            let window = measured.end_window().unwrap();
            let period = window.get(Metric::MessagePeriod).unwrap();
            assert_eq!((period.sample_count, period.average), (messages - 1, 0.2));
            assert_eq!(window.get(Metric::MessageAge).unwrap().sample_count, messages);
            let lost = window.get(Metric::PublicationSeqGap).map(|gaps| gaps.maximum);
            assert!(lost.is_none_or(|lost| lost == 0.0), "{lost:?}");
        }
    }
    let after = dhat::HeapStats::get().curr_bytes;
    assert!(after < before + 100_000, "{before} bytes before, {after} after");
}

#[test]
fn a_node_has_one_thread_and_one_publisher_for_1_or_1000_subscriptions() {
    let _one = ONE_AT_A_TIME.lock();
    let executor = context(domain(6), &[]).create_basic_executor();
    let node = executor.create_node("many").unwrap();
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.trim() == "topic_stats").count()
    };
    assert_eq!(threads(), 0);
    let statistics = NodeStatistics::new(&node).unwrap();
    let mut subscriptions = vec![];
    for count in [1, 1000] {
        subscriptions.resize_with(count, || statistics.create_subscription("imu", |_: Imu| ()).unwrap());
        // The thread names itself when it starts.
        wait_for("thread", || threads() == 1);
        wait_for("publisher in the graph", || node.count_publishers("/statistics").unwrap() == 1);
    }
    drop(statistics);
    assert_eq!(threads(), 0);
}

#[test]
fn a_reader_of_depth_10_gets_every_message_of_100_subscriptions() {
    const SUBSCRIPTIONS: usize = 100;
    let _one = ONE_AT_A_TIME.lock();
    let domain = domain(7);
    let executor = context(domain, &[]).create_basic_executor();
    let node = executor.create_node("crowded").unwrap();
    let statistics = NodeStatistics::new(&node).unwrap();
    let subscriptions: Vec<_> = (0..SUBSCRIPTIONS)
        .map(|index| statistics.create_subscription(&format!("imu_{index}"), |_: Imu| ()).unwrap())
        .collect();
    let _spinning = Spinning::start(executor);
    // The statistics give a reader time for each message. Whether it keeps up is the machine's: one that is held up misses
    // some, and begins again.
    let mut reader = Reader::start_with_depth(domain, 10);
    let mut in_a_row: HashMap<(String, String), (usize, i64)> = HashMap::new();
    let mut read = 0;
    reader.read_until("5 windows in a row of each metric of each subscription", |metrics| {
        for of in &metrics[read..] {
            let (windows, stop) = in_a_row.entry((of.source.clone(), of.metric.clone())).or_default();
            let length = (of.stop - of.start) as f64 * 1e-9;
            *windows = if of.start == *stop && (0.5..1.5).contains(&length) { *windows + 1 } else { 1 };
            *stop = of.stop;
        }
        read = metrics.len();
        in_a_row.len() == 2 * SUBSCRIPTIONS && in_a_row.values().all(|(windows, _)| *windows >= 5)
    });
    drop(subscriptions);
}

/// What valgrind counts the instructions of, as many messages as the environment says.
#[test]
#[ignore = "is run by the test below"]
fn messages_for_valgrind() {
    let count: u64 = std::env::var("MESSAGES").unwrap().parse().unwrap();
    let measured = Measured::new(&options());
    let (message, info) = message();
    let mut now = 1_790_000_000_000_000_000;
    for _ in 0..count {
        now += 200_000;
        measured.message_at(&message, &info, now);
    }
    assert_eq!(measured.end_window().unwrap().get(Metric::MessagePeriod).unwrap().sample_count, count - 1);
}

/// Instructions of a test process with so many messages; None where there is no valgrind.
fn instructions(messages: u64) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--test-threads=1", "messages_for_valgrind"])
        .env("MESSAGES", messages.to_string())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
    let collected = text.lines().find_map(|line| line.split("Collected : ").nth(1));
    Some(collected.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap())
}

#[test]
fn a_message_costs_120_instructions_at_most_without_the_clock() {
    const MESSAGES: u64 = 100_000;
    let (Some(once), Some(twice)) = (instructions(MESSAGES), instructions(2 * MESSAGES)) else {
        println!("instructions_per_message=NA");
        eprintln!("skipped: counting instructions, because there is no valgrind");
        return;
    };
    let per_message = (twice - once) as f64 / MESSAGES as f64;
    println!("instructions_per_message={per_message:.0}");
    if cfg!(debug_assertions) {
        eprintln!(
            "not asserted: {per_message:.0} instructions per message, because this is no release build"
        );
    } else {
        assert!(per_message <= 120.0, "{per_message} instructions; 107 with Rust 1.95");
    }
}
