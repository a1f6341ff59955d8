// SPDX-License-Identifier: Apache-2.0

//! The cost of statistics in a process: allocations, memory, threads and publishers.

mod c_allocations;
mod waiting;

use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use benchmarks::heap;
use rclrs::*;
use rclrs_topic_statistics::{MeasuredExecutor, Metric, NodeStatistics, TopicStatisticsOptions};
use ros_env::sensor_msgs::msg::Imu;
use test_support::{context, domain, node, wait_for, Program, Reader, Spinning, LIMIT};

use crate::ONE_AT_A_TIME;

/// Returns options with windows that do not end during a test.
fn options() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().publish_period(Duration::from_secs(3600))
}

/// Returns the allocations per message, in steady state, of the subscription that `subscribe` creates on the basic
/// executor. Its callback increments the counter.
fn allocations_per_message<Subscription>(
    subscribe: impl FnOnce(&Node, Arc<AtomicU64>) -> Subscription,
) -> f64 {
    allocations_on(context(domain(), &[]).create_basic_executor(), subscribe)
}

fn allocations_on<Subscription>(
    executor: Executor,
    subscribe: impl FnOnce(&Node, Arc<AtomicU64>) -> Subscription,
) -> f64 {
    const MESSAGES: u64 = 1000;
    let node = executor.create_node("counting").unwrap();
    let received = Arc::new(AtomicU64::new(0));
    let _subscription = subscribe(&node, Arc::clone(&received));
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "1000"], domain());
    let wait_until = |count| wait_for("messages", || received.load(Ordering::Relaxed) >= count);
    // After these messages, discovery is complete and queues have their final size.
    wait_until(500);
    let count = || (dhat::HeapStats::get().total_blocks, received.load(Ordering::Relaxed));
    let (blocks, messages) = count();
    wait_until(messages + MESSAGES);
    let (blocks_after, messages_after) = count();
    (blocks_after - blocks) as f64 / (messages_after - messages) as f64
}

/// A wake-up of rclrs allocates, too, and serves several callbacks at once more often on a machine that is busy. So the
/// least allocations of some attempts are compared with the most of plain ones.
const ATTEMPTS: usize = 6;

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
        ($message:ty) => {
            allocations_per_message(|node, count| {
                node.create_subscription::<Imu, _>(topic(), callback!(count, $message)).unwrap()
            })
        };
    }
    macro_rules! measured {
        ($message:ty, $options:expr) => {
            allocations_per_message(|node, count| {
                let statistics = NodeStatistics::with_options(&node, $options).unwrap();
                let callback = callback!(count, $message);
                let imu = statistics.create_subscription::<Imu, _>(topic(), callback).unwrap();
                (imu, statistics)
            })
        };
    }
    let mut attempts = vec![];
    let [mut plain, mut measured, mut everything, mut plain_boxed, mut boxed] = [f64::NAN; 5];
    let is_right = (0..ATTEMPTS).any(|_| {
        attempts.push([
            plain!(Imu),
            measured!(Imu, options()),
            measured!(Imu, options().metrics(Metric::OF_SUBSCRIPTIONS)),
            plain!(Box<Imu>),
            measured!(Box<Imu>, options()),
        ]);
        let each = |index: usize| attempts.iter().map(move |attempt| attempt[index]);
        let most = |index| each(index).fold(f64::NAN, f64::max);
        let least = |index| each(index).fold(f64::NAN, f64::min);
        (plain, measured, everything) = (most(0), least(1), least(2));
        (plain_boxed, boxed) = (most(3), least(4));
        // The queues of rclrs grow now and then, and the graph is read once per second. So the counts are not integers.
        measured < plain + 0.1 && everything < plain + 0.1 && boxed < plain_boxed + 0.1
    });
    println!("plain_allocations_per_message={plain:.2}");
    println!("allocations_per_message={:.0}", (measured - plain).max(0.0));
    println!("allocations_per_message_with_all_metrics={:.0}", (everything - plain).max(0.0));
    println!("allocations_per_boxed_message={:.0}", (boxed - plain_boxed).max(0.0));
    assert!(plain > 1.0, "the counting works: {plain}");
    assert!(is_right, "plain, measured, with all metrics; plain and measured of a box: {attempts:?}");
}

#[test]
fn a_callback_of_a_measured_executor_costs_no_allocation_beyond_the_basic_one() {
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    // A plain subscription, and a timer, on a worker or in the node's scope.
    let subscribe = |on_worker: bool, is_measured: bool| {
        move |node: &Node, count: Arc<AtomicU64>| {
            let statistics = is_measured.then(|| NodeStatistics::with_options(node, options()).unwrap());
            assert_eq!(
                statistics.as_ref().is_some_and(|statistics| statistics.executor().is_some()),
                is_measured
            );
            let callback = move |_: Imu| {
                count.fetch_add(1, Ordering::Relaxed);
            };
            let (topic, period) = ("imu".keep_last(100), Duration::from_millis(1));
            let plain: Box<dyn std::any::Any> = match on_worker {
                true => {
                    let worker = node.create_worker(());
                    let listener = worker.listen(|_| ());
                    let subscription = worker.create_subscription::<Imu, _>(topic, callback).unwrap();
                    let timer = worker.create_timer_repeating(period, || ()).unwrap();
                    Box::new((worker, listener, subscription, timer))
                }
                false => {
                    let subscription = node.create_subscription::<Imu, _>(topic, callback).unwrap();
                    Box::new((subscription, node.create_timer_repeating(period, || ()).unwrap()))
                }
            };
            (plain, statistics)
        }
    };
    // With the timer, wake-ups are up to 0.8 allocations per message. An allocation per callback would be two.
    for on_worker in [false, true] {
        for create in [MeasuredExecutor::new, MeasuredExecutor::single_threaded] {
            let mut attempts = vec![];
            let is_right = (0..ATTEMPTS).any(|_| {
                let basic = allocations_per_message(subscribe(on_worker, false));
                let executor = context(domain(), &[]).create_executor(create());
                let measured = allocations_on(executor, subscribe(on_worker, true));
                attempts.push((measured, basic));
                let least = attempts.iter().map(|(measured, _)| *measured).fold(f64::INFINITY, f64::min);
                let most = attempts.iter().map(|(_, basic)| *basic).fold(0.0, f64::max);
                least < most + 0.1
            });
            let name = format!("{:?}, on a worker: {on_worker}", create());
            println!("{name}: allocations per message of it and of the basic one: {attempts:?}");
            assert!(is_right, "{name}: allocations per message of it and of the basic one: {attempts:?}");
        }
    }
}

#[test]
fn stopwatches_and_counters_cost_no_allocation() {
    let _one = ONE_AT_A_TIME.lock();
    let executor = context(domain(), &[]).create_basic_executor();
    let statistics =
        NodeStatistics::with_options(&executor.create_node("counting").unwrap(), options()).unwrap();
    let (stopwatches, counters) =
        (statistics.create_stopwatches("call", 0..4), statistics.create_counters("frames", 0..4));
    // Soon after the creation, another thread reads the graph.
    let _profiler = dhat::Profiler::builder().testing().build();
    let allocations = || {
        let before = dhat::HeapStats::get().total_blocks;
        for round in 0..10_000 {
            drop(stopwatches[round % 4].start());
            stopwatches[round % 4].time(|| counters[round % 4].increment());
        }
        dhat::HeapStats::get().total_blocks - before
    };
    let counted = allocations();
    assert!(counted < 100, "{counted} allocations for 20000 durations and 10000 counts");
}

#[test]
fn a_subscription_costs_at_most_2_kb_more_than_a_plain_one() {
    const COUNT: usize = 50;
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let (_executor, node) = node("weighing", &[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    // What stays: the thread of the statistics holds a list of the sources for a moment.
    let bytes = || {
        let reads = (0..50).map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            dhat::HeapStats::get().curr_bytes
        });
        reads.min().unwrap()
    };
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
        (500..=2048).contains(&beyond),
        "{beyond} bytes: {measured_bytes} for {COUNT}, {plain_bytes} for {COUNT} plain ones"
    );
    drop((first, plain, measured));
}

#[test]
fn a_node_costs_at_most_30_kb_until_its_windows_need_a_deeper_history() {
    let _one = ONE_AT_A_TIME.lock();
    let (_executor, node) = node("heap", &[]);
    // Medians: threads of the middleware allocate meanwhile, and the first one registers types.
    let kilobytes = |counters: usize| {
        let mut all = std::array::from_fn::<_, 11, _>(|_| {
            let before = heap();
            let statistics = NodeStatistics::with_options(&node, options()).unwrap();
            let counters: Vec<_> =
                (0..counters).map(|number| statistics.create_counter(format!("of_{number}"))).collect();
            let after = heap();
            drop((counters, statistics));
            after.saturating_sub(before) / 1000
        });
        all.sort_unstable();
        all[all.len() / 2]
    };
    // A counter has one metric.
    let (none, eight, nine) = (kilobytes(0), kilobytes(8), kilobytes(9));
    println!("kilobytes_per_node={none}");
    assert!((15..=30).contains(&none), "{none} kB, with eight counters {eight}, with nine {nine}");
    assert!(
        eight < none + 15 && nine > eight + 15,
        "{none} kB, with eight counters {eight}, with nine {nine}"
    );
}

#[test]
fn a_node_has_one_thread_and_one_publisher_for_1_or_1000_subscriptions() {
    let _one = ONE_AT_A_TIME.lock();
    let (_executor, node) = node("many", &[]);
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.trim() == "topic_stats").count()
    };
    // The kernel lists a thread for a moment after it was joined.
    wait_for("end of an earlier test's thread", || threads() == 0);
    let statistics = NodeStatistics::new(&node).unwrap();
    let mut subscriptions = vec![];
    for count in [1, 1000] {
        subscriptions.resize_with(count, || statistics.create_subscription("imu", |_: Imu| ()).unwrap());
        // The thread sets its name when it starts.
        wait_for("thread", || threads() == 1);
        wait_for("publisher in the graph", || node.count_publishers("/statistics").unwrap() == 1);
    }
    drop((subscriptions, statistics));
    wait_for("end of the thread", || threads() == 0);
}

#[test]
fn a_reader_of_depth_10_receives_every_message_of_100_subscriptions() {
    const SUBSCRIPTIONS: usize = 100;
    let _one = ONE_AT_A_TIME.lock();
    let domain = domain();
    let (executor, node) = node("crowded", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();
    let subscriptions: Vec<_> = (0..SUBSCRIPTIONS)
        .map(|index| statistics.create_subscription(&format!("imu_{index}"), |_: Imu| ()).unwrap())
        .collect();
    let _spinning = Spinning::start(executor);
    // The statistics give a reader time for each message. On a busy machine the reader may still be late and lose
    // messages: the count of windows in a row then restarts. Without that time, it would be those of the same metrics.
    let mut reader = Reader::start_with_depth(domain, 10);
    #[derive(Default)]
    struct InARow {
        windows: usize,
        most: usize,
        stop: i64,
    }
    let mut in_a_row: HashMap<(String, String), InARow> = HashMap::new();
    let mut read = 0;
    let mut have_all = |metrics: &[test_support::Metric]| {
        for of in &metrics[read..] {
            let row = in_a_row.entry((of.source.clone(), of.metric.clone())).or_default();
            let follows = of.start == row.stop && (0.5..1.5).contains(&of.length());
            row.windows = if follows { row.windows + 1 } else { 1 };
            row.most = row.most.max(row.windows);
            row.stop = of.stop;
        }
        read = metrics.len();
        in_a_row.len() == 2 * SUBSCRIPTIONS && in_a_row.values().all(|row| row.most >= 10)
    };
    let has_all = (0..5).any(|_| {
        let (begun, mut has_all) = (Instant::now(), false);
        reader.read_until("windows", |metrics| {
            has_all = have_all(metrics);
            has_all || begun.elapsed() > LIMIT / 2
        });
        has_all
    });
    assert!(has_all, "10 windows in a row of each metric of each subscription");
    drop(subscriptions);
}
