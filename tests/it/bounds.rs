// SPDX-License-Identifier: Apache-2.0

//! Memory is bounded, a drop returns soon, and a fault of one part does not affect the others.

use std::{
    future::Future,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, Mutex,
    },
    task::{Context as Task, Poll, Wake, Waker},
    time::{Duration, Instant, SystemTime},
};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoMeasuredOptions, Metric, NodeStatistics, NodeStatisticsOptions, TopicStatisticsOptions,
    WindowStatistics,
};
use ros_env::{
    sensor_msgs::msg::Imu, std_msgs::msg::Int32, topic_statistics_interfaces::msg::MessagesLostEvent,
};
use test_support::{
    collect, context, domain, in_a_process_of_its_own, middleware, node, wait_for, warnings, Program,
    Spinning, Windows, LIMIT,
};
use tokio::sync::watch;

use crate::lifetime::has_thread;

/// The longest time that a drop may take: the limit of one second, and a reserve for a busy machine.
const DROP: Duration = Duration::from_millis(1500);

fn every(window: Duration) -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().publish_period(window)
}

/// Returns the resident memory of this process, in MB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap() / 1e3
}

fn warnings_of(text: &str) -> usize {
    warnings::so_far().iter().filter(|warning| warning.contains(text)).count()
}

/// Waits for a time. The statistics continue meanwhile.
fn let_run(time: Duration) {
    let until = Instant::now() + time;
    wait_for("end of a time", || Instant::now() >= until);
}

/// Drops statistics. Returns the time that this took.
fn time_of_drop(statistics: NodeStatistics) -> Duration {
    let started = Instant::now();
    drop(statistics);
    started.elapsed()
}

#[test]
fn a_stopped_reader_does_not_fill_the_memory_or_block_the_drop() {
    in_a_process_of_its_own(|| {
        warnings::collect();
        let discarded = || warnings_of("are discarded");
        let domain = domain();
        let (executor, node) = node("held_up", &[]);
        let keep_all = QoSProfile { history: QoSHistoryPolicy::KeepAll, ..QoSProfile::topics_default() };
        let options = every(Duration::from_millis(1)).qos(keep_all.reliable());
        let statistics = NodeStatistics::with_options(&node, options).unwrap();
        let _spinning = Spinning::start(executor);
        let stopwatches = statistics.create_stopwatches("call", 0..500);
        let reader = Program::start("statistics_reader.py", &["--keep-all"], domain);
        assert_eq!(reader.read("first window"), "received");
        reader.signal("STOP");

        wait_for("warning that windows are discarded", || discarded() > 0);
        // DDS rejects messages when its history is full. There is one warning per second, not one per message.
        let failures = || warnings_of("could not be published");
        if !middleware::is_no_dds("messages that the middleware rejects") {
            wait_for("warning that messages are rejected", || failures() > 0);
        }
        let before = memory();
        let_run(Duration::from_secs(5));
        let grown = memory() - before;
        assert!(grown < 30.0, "{grown} MB in 5 s: {before} before");
        assert_eq!(discarded(), 1, "the warning is logged once");
        assert!(failures() < 30, "{} warnings", failures());

        drop(stopwatches);
        let took = time_of_drop(statistics);
        assert!(took < DROP, "{took:?}");
    });
}

#[test]
fn memory_is_bounded_for_a_thousand_subscriptions_with_windows_of_a_millisecond() {
    in_a_process_of_its_own(|| {
        let (_executor, node) = node("crowded", &[]);
        let statistics = NodeStatistics::with_options(&node, every(Duration::from_millis(1))).unwrap();
        let subscriptions: Vec<_> =
            (0..1000).map(|_| statistics.create_subscription("imu", |_: Imu| ()).unwrap()).collect();
        let_run(Duration::from_secs(2));
        let before = memory();
        let_run(Duration::from_secs(4));
        let grown = memory() - before;
        assert!(grown < 30.0, "{grown} MB in 4 s: {before} before");
        drop(subscriptions);
        let took = time_of_drop(statistics);
        assert!(took < DROP, "{took:?}");
    });
}

/// A waker that runs a function inline, as the wakers of some executors do.
struct Inline(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let code = self.0.lock().unwrap().take();
        if let Some(code) = code {
            code();
        }
    }
}

/// Runs code on the thread that ends the next window.
fn at_the_next_window(
    mut windows: watch::Receiver<Option<Arc<WindowStatistics>>>,
    code: impl FnOnce() + Send + 'static,
) {
    let waker = Waker::from(Arc::new(Inline(Mutex::new(Some(Box::new(code))))));
    std::thread::spawn(move || {
        loop {
            let mut changed = Box::pin(windows.changed());
            match changed.as_mut().poll(&mut Task::from_waker(&waker)) {
                Poll::Pending => return std::thread::park_timeout(LIMIT), // the future is not dropped before
                Poll::Ready(changed) => changed.unwrap(),                 // a window ended before this poll
            }
        }
    });
}

#[test]
fn a_waker_may_read_the_totals_and_drop_the_statistics() {
    in_a_process_of_its_own(|| {
        let (_executor, node) = node("inline", &[]);
        let statistics =
            Arc::new(NodeStatistics::with_options(&node, every(Duration::from_millis(50))).unwrap());
        let imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();

        let totals = Arc::new(AtomicU64::new(0));
        at_the_next_window(imu.watch(), {
            let (statistics, totals) = (Arc::downgrade(&statistics), Arc::clone(&totals));
            move || totals.store(statistics.upgrade().unwrap().totals().len() as u64, Ordering::Relaxed)
        });
        wait_for("totals", || totals.load(Ordering::Relaxed) == 1);

        let is_dropped = Arc::new(AtomicBool::new(false));
        let windows = imu.watch();
        at_the_next_window(windows, {
            let is_dropped = Arc::clone(&is_dropped);
            move || {
                drop((statistics, imu));
                is_dropped.store(true, Ordering::Relaxed);
            }
        });
        wait_for("drop", || is_dropped.load(Ordering::Relaxed));
        // The thread ends the middleware's publisher: a process that exits meanwhile can crash in it.
        wait_for("end of the thread", || !has_thread());
    });
}

#[test]
fn a_panic_of_the_statistics_thread_is_logged_and_does_not_block_the_drop() {
    in_a_process_of_its_own(|| {
        warnings::collect();
        let (_executor, node) = node("unlucky", &[]);
        let statistics = NodeStatistics::with_options(&node, every(Duration::from_millis(50))).unwrap();
        let imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
        at_the_next_window(imu.watch(), || panic!("the panic of a waker"));
        wait_for("error in the log", || warnings_of("of /unlucky panicked") == 1);
        wait_for("end of the statistics", || !imu.is_enabled());
        drop(imu);
        let took = time_of_drop(statistics);
        assert!(took < DROP, "{took:?}");
    });
}

#[test]
fn no_window_is_shorter_than_its_period() {
    const PERIOD: Duration = Duration::from_millis(200);
    let (_executor, node) = node("early", &[]);
    let statistics = NodeStatistics::with_options(&node, every(PERIOD)).unwrap();
    // Created one after the other: a window of the earlier counters ends soon after the creation of a later one.
    let counters: Vec<_> = (0..60)
        .map(|number| {
            let before = SystemTime::now();
            let counter = statistics.create_counter(format!("call_{number}"));
            let windows = collect(counter.watch());
            counter.increment();
            let created = before..=SystemTime::now();
            std::thread::sleep(PERIOD / 20);
            (counter, created, windows)
        })
        .collect();
    let is_complete = |windows: &Windows| !windows.lock().unwrap().is_empty();
    wait_for("first windows", || counters.iter().all(|(.., windows)| is_complete(windows)));
    let mut seen = 0;
    for (_, created, windows) in &counters {
        let first = &windows.lock().unwrap()[0];
        if !created.contains(&SystemTime::from(first.window.start)) {
            continue; // this thread was held up for a whole window before it collected them
        }
        seen += 1;
        // In a window that is too short, one increment would be a high rate: 43 Hz in 23 ms.
        assert!(first.length >= PERIOD, "{first:?}");
        assert!(first.rate() <= 1.0 / PERIOD.as_secs_f64(), "{first:?}");
    }
    assert!(seen > 30, "{seen} first windows were seen");
}

#[test]
fn totals_of_subscriptions_that_have_ended_are_kept_up_to_a_bound() {
    in_a_process_of_its_own(|| {
        warnings::collect();
        const MOST: usize = 1000;
        let (_executor, node) = node("changing", &[]);
        let statistics = NodeStatistics::new(&node).unwrap();
        for number in 0..MOST + 20 {
            drop(statistics.create_subscription(&format!("imu_{number}"), |_: Imu| ()).unwrap());
        }
        let totals = statistics.totals();
        assert_eq!(totals.len(), MOST);
        assert_eq!((&*totals[0].topic_name, &*totals[MOST - 1].topic_name), ("/imu_20", "/imu_1019"));
        wait_for("warning", || warnings_of("subscriptions of different names have ended") == 1);
    });
}

#[test]
fn losses_are_unknown_and_no_event_is_published_with_more_publishers_than_are_tracked() {
    const PUBLISHERS: usize = 257;
    let domain = domain();
    let (executor, node) = node("transforms", &[]);
    let events = Arc::new(AtomicU64::new(0));
    let _events = node
        .create_subscription::<MessagesLostEvent, _>("/events/messages_lost", {
            let events = Arc::clone(&events);
            move |_: MessagesLostEvent| {
                events.fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
    let options = NodeStatisticsOptions::new()
        .topic_statistics(every(Duration::from_millis(100)).metrics([Metric::PublicationSeqGap]))
        .max_event_rate(100.0);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let tf = statistics
        .create_worker_subscription(&node.create_worker(()), "tf".keep_last(10_000), |_: Int32| ())
        .unwrap();
    let _spinning = Spinning::start(executor);
    let sender = context(domain, &[]).create_basic_executor();
    let sender = sender.create_node("sender").unwrap();
    let publishers: Vec<_> =
        (0..PUBLISHERS).map(|_| sender.create_publisher::<Int32>("tf".keep_last(100)).unwrap()).collect();
    wait_for("discovery", || {
        publishers.iter().all(|publisher| publisher.get_subscription_count().unwrap() == 1)
    });
    for _ in 0..2 {
        publishers.iter().for_each(|publisher| publisher.publish(Int32 { data: 1 }).unwrap());
    }
    wait_for("all messages", || tf.totals().received == 2 * PUBLISHERS as u64);
    let totals = tf.totals();
    assert_eq!((totals.lost, totals.out_of_order, totals.publishers), (None, None, None), "{totals:?}");
    assert_eq!(tf.publishers().len(), 256);
    let window = tf.latest();
    wait_for("window after them", || tf.latest() != window);
    let gaps = *tf.latest().unwrap().get(Metric::PublicationSeqGap).unwrap();
    assert!(gaps.average.is_nan() && gaps.sample_count == 0, "{gaps:?}");
    assert_eq!(events.load(Ordering::Relaxed), 0);
}

#[test]
fn pending_losses_of_many_short_subscriptions_are_one_entry_per_topic() {
    // One event in 1000 s: all losses wait until the drop.
    const ROUNDS: u64 = 20;
    let (executor, node) = node("short", &[]);
    let lost = Arc::new(Mutex::new(vec![]));
    let _events = node
        .create_subscription::<MessagesLostEvent, _>("/events/messages_lost".keep_last(100), {
            let lost = Arc::clone(&lost);
            move |event: MessagesLostEvent| lost.lock().unwrap().push(event.messages_lost_statistics)
        })
        .unwrap();
    let losses = TopicStatisticsOptions::new().metrics([Metric::PublicationSeqGap]);
    let options = NodeStatisticsOptions::new().topic_statistics(losses.clone()).max_event_rate(0.001);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let publisher = node.create_publisher::<Int32>("number".keep_last(1)).unwrap();
    let worker = node.create_worker(());
    let _spinning = Spinning::start(executor);
    let mut missing = 0;
    for _ in 0..ROUNDS {
        let is_open = Arc::new(AtomicBool::new(false));
        let number = statistics
            .create_worker_subscription(&worker, "number".keep_last(1).topic_statistics(losses.clone()), {
                let is_open = Arc::clone(&is_open);
                move |_: Int32| {
                    let started = Instant::now();
                    while !is_open.load(Ordering::Relaxed) && started.elapsed() < LIMIT {
                        std::thread::yield_now();
                    }
                }
            })
            .unwrap();
        wait_for("discovery", || publisher.get_subscription_count().unwrap() == 1);
        publisher.publish(Int32 { data: 0 }).unwrap();
        // The callback blocks the worker, and the queue holds one message.
        wait_for("callback", || number.totals().received == 1);
        (1..=5).for_each(|data| publisher.publish(Int32 { data }).unwrap());
        is_open.store(true, Ordering::Relaxed);
        wait_for("last message", || number.totals().received >= 2);
        missing += number.totals().lost.unwrap();
        drop(number);
        wait_for("end", || publisher.get_subscription_count().unwrap() == 0);
    }
    assert!(missing >= ROUNDS, "{missing}");
    drop(statistics);
    let sum = || {
        let lost = lost.lock().unwrap();
        lost.iter().flatten().map(|entry| entry.messages_lost).sum::<u64>()
    };
    wait_for("event at the end", || sum() > 0);
    let lost = lost.lock().unwrap();
    assert!(lost.iter().all(|event| event.len() == 1), "one entry per topic: {lost:?}");
}
