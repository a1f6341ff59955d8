// SPDX-License-Identifier: Apache-2.0

//! Dropped handles leave the graph, and failed creations leave nothing behind.

use std::{
    any::Any,
    error::Error as _,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc, Arc, Mutex, OnceLock,
    },
    time::{Duration, Instant, SystemTime},
};

use rclrs::*;
use rclrs_topic_statistics::{
    testing, watch, IntoMeasuredOptions, MeasuredExecutor, MeasuredSubscription, Metric, NodeStatistics,
    NodeStatisticsOptions, StatisticsError, TopicStatisticsOptions, TopicStatisticsState, WindowStatistics,
};
use ros_env::{
    sensor_msgs::msg::{rmw, Imu},
    statistics_msgs::msg::MetricsMessage,
    test_msgs::{
        action::Fibonacci,
        srv::{Empty, Empty_Request, Empty_Response},
    },
    topic_statistics_interfaces::msg::MessagesLostEvent,
};
use test_support::{
    domain, in_a_process_of_its_own, itself, node, preload, wait_for, Program, Spinning, LIMIT,
};

/// Waits until a dropped subscription has left the graph.
///
/// rclrs 0.8 sometimes misses the wake-up of a drop, with or without statistics. The subscription is then removed when
/// the wait set wakes next. So this function wakes it.
fn wait_for_end_of(topic: &str, node: &Node) {
    wait_for(&format!("end of {topic}"), || {
        drop(node.create_subscription::<Imu, _>("wakes_the_wait_set", |_: Imu| ()).unwrap());
        node.count_subscriptions(topic).unwrap() == 0
    });
}

/// Returns options with short windows, so that many messages are published.
fn short_windows() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().publish_period(Duration::from_millis(10))
}

/// Messages of another callback are not seen. A window with a count of 0 would report silence. No public method hands
/// out the subscription of rclrs; whatever else replaces the callback is noticed.
#[test]
fn a_callback_that_is_replaced_through_rclrs_ends_the_statistics() {
    let (executor, node) = node("replacing", &[]);
    let statistics = NodeStatistics::with_options(&node, short_windows()).unwrap();
    let imu = statistics.create_subscription("imu".keep_last(100), |_: Imu| ()).unwrap();
    let publisher = node.create_publisher::<Imu>("imu".keep_last(100)).unwrap();
    let _spinning = Spinning::start(executor);
    let publish = |what: &str, is_there: &dyn Fn() -> bool| {
        wait_for(what, || {
            publisher.publish(Imu::default()).unwrap();
            is_there()
        });
    };
    publish("messages", &|| imu.totals().received > 0 && imu.latest().is_some());
    assert!(imu.is_enabled());
    let count = Arc::new(AtomicU64::new(0));
    let others = Arc::clone(&count);
    let subscription: Subscription<rmw::Imu> = testing::rclrs_subscription(&imu).unwrap();
    subscription.set_callback(move |_: rmw::Imu| {
        others.fetch_add(1, Ordering::Relaxed);
    });
    publish("messages of the other callback", &|| count.load(Ordering::Relaxed) >= 50);
    assert!(!imu.is_enabled(), "it cannot be measured any more");
    imu.set_state(TopicStatisticsState::Enable);
    assert!(!imu.is_enabled());
    let last = imu.latest().unwrap().window;
    publish("more messages", &|| count.load(Ordering::Relaxed) >= 100);
    assert_eq!(imu.latest().unwrap().window, last, "there is no window of what is not known");
}

#[test]
fn a_dropped_subscription_and_dropped_statistics_leave_the_graph() {
    let (executor, node) = node("dropping", &[]);
    let _spinning = Spinning::start(executor);
    let statistics = NodeStatistics::new(&node).unwrap();
    let imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    assert_eq!(imu.topic_name(), "/imu");
    assert!(matches!(imu.qos().reliability, QoSReliabilityPolicy::Reliable));
    // The C layout is a message type like the idiomatic one.
    let raw = statistics.create_subscription("raw", |_: rmw::Imu, _: MessageInfo| ()).unwrap();
    assert_eq!(raw.topic_name(), "/raw");
    wait_for("publisher and subscription", || {
        node.count_publishers("/statistics").unwrap() == 1 && node.count_subscriptions("/imu").unwrap() == 1
    });

    drop(imu);
    wait_for_end_of("/imu", &node);
    assert_eq!(node.count_publishers("/statistics").unwrap(), 1);

    drop((raw, statistics));
    wait_for("end of the publisher", || node.count_publishers("/statistics").unwrap() == 0);
}

/// Returns whether the thread of some statistics runs in this process.
pub fn has_thread() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|name| name.trim() == "topic_stats")
}

/// A set-up function may return a handle only.
#[test]
fn each_handle_keeps_the_statistics_alive_and_the_last_one_ends_them() {
    type Windows = watch::Receiver<Option<Arc<WindowStatistics>>>;
    fn kept<T: 'static>(handle: T, windows: impl Fn(&T) -> Windows) -> (Box<dyn Any>, Windows) {
        let windows = windows(&handle);
        (Box::new(handle), windows)
    }
    type Create = fn(NodeStatistics) -> (Box<dyn Any>, Windows);
    let creations: [Create; 9] = [
        |statistics| {
            kept(statistics.create_subscription("imu", |_: Imu| ()).unwrap(), |handle| handle.watch())
        },
        |statistics| kept(statistics.create_publisher::<Imu>("imu").unwrap(), |handle| handle.watch()),
        |statistics| {
            let service =
                statistics.create_service::<Empty, _>("empty", |_: Empty_Request| Empty_Response::default());
            kept(service.unwrap(), |handle| handle.watch())
        },
        |statistics| kept(statistics.create_client::<Empty>("empty").unwrap(), |handle| handle.watch()),
        |statistics| {
            let timer = statistics.create_timer_repeating(Duration::from_secs(1), || ());
            kept(timer.unwrap(), |handle| handle.watch())
        },
        |statistics| {
            let server =
                statistics.create_action_server::<Fibonacci, _>("fibonacci", |goal| async { goal.reject() });
            kept(server.unwrap(), |handle| handle.watch())
        },
        |statistics| {
            kept(statistics.create_action_client::<Fibonacci>("fibonacci").unwrap(), |handle| handle.watch())
        },
        |statistics| kept(statistics.create_stopwatch("call"), |handle| handle.watch()),
        |statistics| kept(statistics.create_counter("calls"), |handle| handle.watch()),
    ];
    in_a_process_of_its_own(move || {
        let context = test_support::context(domain(), &[]);
        let executor = context.create_executor(MeasuredExecutor::new()); // it is a source without a handle
        let node = executor.create_node("returning").unwrap();
        for (kind, create) in creations.into_iter().enumerate() {
            let (handle, mut windows) = create(NodeStatistics::with_options(&node, short_windows()).unwrap());
            for _ in 0..3 {
                wait_for(&format!("a window of handle {kind}"), || windows.has_changed().unwrap());
                windows.mark_unchanged();
            }
            drop(handle);
            wait_for(&format!("the end with handle {kind}"), || {
                windows.has_changed().is_err() && !has_thread()
            });
        }
    });
}

#[test]
fn a_handle_in_a_callback_keeps_the_statistics_until_the_executor_drops_the_callback() {
    in_a_process_of_its_own(|| {
        let (executor, node) = node("capturing", &[]);
        let statistics = NodeStatistics::with_options(&node, short_windows()).unwrap();
        let call = statistics.create_stopwatch("call");
        let mut windows = call.watch();
        let imu = statistics.create_subscription("imu", move |_: Imu| call.time(|| ())).unwrap();
        drop((imu, statistics, node));
        windows.mark_unchanged();
        wait_for("a window", || windows.has_changed().unwrap());
        drop(executor);
        wait_for("the end", || windows.has_changed().is_err() && !has_thread());
    });
}

/// A subscription of rclrs holds its callback, so this is a circle.
#[test]
fn a_handle_in_its_own_callback_keeps_the_statistics_for_ever_and_a_weak_one_does_not() {
    in_a_process_of_its_own(|| {
        for is_weak in [true, false] {
            let (executor, node) = node("circular", &[]);
            let statistics = NodeStatistics::with_options(&node, short_windows()).unwrap();
            let own = Arc::new(OnceLock::<Box<dyn Any + Send + Sync>>::new());
            let in_callback = Arc::clone(&own);
            let imu = statistics
                .create_subscription("imu", move |_: Imu| assert!(in_callback.get().is_some()))
                .unwrap();
            let mut windows = imu.watch();
            let captured = match is_weak {
                true => own.set(Box::new(Arc::downgrade(&imu))),
                false => own.set(Box::new(Arc::clone(&imu))),
            };
            captured.ok().unwrap();
            drop((imu, own, statistics, node, executor));
            if is_weak {
                wait_for("the end", || windows.has_changed().is_err() && !has_thread());
                continue;
            }
            for _ in 0..3 {
                windows.mark_unchanged();
                wait_for("a window", || windows.has_changed().unwrap());
            }
        }
    });
}

#[test]
fn an_invalid_topic_name_is_an_error_with_the_name_and_creates_nothing() {
    let (_executor, node) = node("failing", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();

    for name in ["", "1st topic", "imu/"] {
        let error = statistics.create_subscription(name, |_: Imu| ()).err().unwrap();
        assert!(
            matches!(&error, StatisticsError::CreateSubscription { topic, .. } if topic == name),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        assert!(error.to_string().contains("/failing") && error.source().is_some(), "{error}");
    }
    let names = node.get_topic_names_and_types().unwrap();
    assert!(!names.values().flatten().any(|name| name.contains("Imu")), "{names:?}");
}

/// The source of each received message, and the time of its publication: its source timestamp.
type Published = Arc<Mutex<Vec<(String, SystemTime)>>>;

/// Subscribes to `/statistics`.
fn subscribe_to_statistics(node: &Node) -> (Published, Subscription<MetricsMessage>) {
    let published = Arc::new(Mutex::new(vec![]));
    let to = Arc::clone(&published);
    let subscription = node
        .create_subscription::<MetricsMessage, _>(
            "/statistics".keep_last(10_000),
            move |message: MetricsMessage, info: MessageInfo| {
                to.lock().unwrap().push((message.measurement_source_name, info.source_timestamp.unwrap()));
            },
        )
        .unwrap();
    (published, subscription)
}

#[test]
fn everything_can_be_dropped_in_any_order_while_messages_arrive_and_nothing_is_published_after() {
    let (executor, listener) = node("statistics_reader", &[]);
    let (published, _subscription) = subscribe_to_statistics(&listener);
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "500"], domain());

    let orders = permutations(4);
    assert_eq!(orders.len(), 24);
    // All nodes are created first, because discovery takes time.
    let nodes: Vec<_> = (0..orders.len())
        .map(|round| {
            let (executor, node) = node(&format!("leaving_{round}"), &[]);
            let statistics = NodeStatistics::with_options(&node, short_windows()).unwrap();
            let imu = statistics.create_subscription("imu".keep_last(10), |_: Imu| ()).unwrap();
            (imu, statistics, node, Spinning::start(executor))
        })
        .collect();
    wait_for("windows with messages of all", || {
        let published = published.lock().unwrap();
        nodes.iter().all(|(imu, ..)| {
            imu.totals().received > 5 && published.iter().any(|(source, _)| source == imu.source_name())
        })
    });

    let mut ends = vec![];
    for (order, (imu, statistics, node, spinning)) in orders.into_iter().zip(nodes) {
        let source = imu.source_name().to_owned();
        // On its own thread, so that a deadlock is detected.
        let (done, dropped) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut imu, mut statistics, mut node, mut spinning) =
                (Some(imu), Some(statistics), Some(node), Some(spinning));
            let mut silent_from = None;
            for what in order {
                match what {
                    0 => drop(imu.take()),
                    1 => drop(statistics.take()),
                    2 => drop(node.take()),
                    _ => drop(spinning.take()),
                }
                if what == 0 {
                    silent_from = Some(SystemTime::now());
                }
            }
            done.send(silent_from.unwrap()).unwrap();
        });
        ends.push((order, source, dropped.recv_timeout(LIMIT).expect("a deadlock")));
    }
    wait_for("end of all nodes", || {
        !listener.get_node_names().unwrap().iter().any(|other| other.name.starts_with("leaving"))
    });
    for (order, source, silent_from) in ends {
        let late = published
            .lock()
            .unwrap()
            .iter()
            .filter(|(name, at)| *name == source && *at > silent_from)
            .count();
        assert_eq!(late, 0, "published after the subscription was dropped: {order:?}");
    }
}

/// Publishing the windows of 60 subscriptions takes some time.
#[test]
fn dropping_a_subscription_does_not_publish_its_finished_window() {
    const SUBSCRIPTIONS: usize = 60;
    let (executor, node) = node("waiting", &[]);
    let (published, _subscription) = subscribe_to_statistics(&node);
    let statistics = NodeStatistics::new(&node).unwrap();
    let subscribe = |index| statistics.create_subscription(&format!("imu_{index}"), |_: Imu| ()).unwrap();
    let mut subscriptions: Vec<_> = (0..SUBSCRIPTIONS).map(subscribe).collect();
    let _spinning = Spinning::start(executor);
    let wait_for_window = |subscription: &MeasuredSubscription<Imu>| {
        let mut windows = subscription.watch();
        windows.mark_unchanged();
        wait_for("end of a window", || windows.has_changed().unwrap());
    };
    let times_of = |source: &str| {
        let published = published.lock().unwrap();
        published.iter().filter(|(name, _)| name == source).map(|(_, at)| *at).collect::<Vec<_>>()
    };

    // The window of the last subscription is published last. On a busy machine it may be published before the drop: then
    // the next one is the last.
    let is_published = |last: MeasuredSubscription<Imu>, witness: &MeasuredSubscription<Imu>| {
        let source = last.source_name().to_owned();
        wait_for_window(&last);
        let before = times_of(&source).len();
        drop(last);
        let witness_before = times_of(witness.source_name()).len();
        wait_for("the rest of the window", || times_of(witness.source_name()).len() >= witness_before + 2);
        times_of(&source).len() > before
    };
    let is_silent = (0..5).any(|_| {
        let last = subscriptions.pop().unwrap();
        !is_published(last, subscriptions.last().unwrap())
    });
    assert!(is_silent, "nothing is published of a dropped subscription");
}

/// Returns all orders of `count` things.
fn permutations(count: usize) -> Vec<[usize; 4]> {
    let mut orders = vec![];
    for code in 0..count.pow(4) {
        let order = [code / 64, code / 16 % 4, code / 4 % 4, code % 4];
        if (0..count).all(|what| order.contains(&what)) {
            orders.push(order);
        }
    }
    orders
}

#[test]
fn subscriptions_can_be_created_and_dropped_on_several_threads_while_messages_arrive() {
    let (executor, node) = node("busy", &[]);
    let statistics = Arc::new(NodeStatistics::with_options(&node, short_windows()).unwrap());
    let lasting = statistics.create_subscription("imu".keep_last(10), |_: Imu| ()).unwrap();
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "500"], domain());
    wait_for("messages", || lasting.totals().received > 5);

    let (done, ended) = mpsc::channel();
    for _ in 0..3 {
        let (statistics, done) = (Arc::clone(&statistics), done.clone());
        std::thread::spawn(move || {
            for round in 0..30 {
                let imu = statistics.create_subscription("imu".keep_last(10), |_: Imu| ()).unwrap();
                statistics.set_state((round % 2 == 0).into());
                std::thread::sleep(Duration::from_millis(5));
                drop(imu);
            }
            done.send(()).unwrap();
        });
    }
    for _ in 0..3 {
        ended.recv_timeout(LIMIT).expect("a deadlock");
    }
    statistics.set_state(TopicStatisticsState::Enable);
    let (received, window) = (lasting.totals().received, lasting.latest().unwrap().window);
    wait_for("messages and windows as before", || {
        lasting.totals().received > received + 50 && lasting.latest().unwrap().window.start > window.stop
    });
}

/// Another subscription receives all the time, so that the middleware has found the publisher before a subscription is
/// created.
#[test]
fn every_message_that_arrives_while_its_subscription_is_created_is_counted() {
    const ROUNDS: u64 = 100;
    let (executor, node) = node("creating", &[]);
    let lasting = NodeStatistics::new(&node).unwrap();
    let lasting = lasting.create_subscription("imu".keep_last(10).best_effort(), |_: Imu| ()).unwrap();
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "2000"], domain());
    wait_for("messages", || lasting.totals().received > 5);

    for round in 0..ROUNDS {
        // The first subscription with losses takes longer: their publisher is created, too.
        let statistics = NodeStatistics::with_options(&node, short_windows()).unwrap();
        let losses =
            TopicStatisticsOptions::new().metrics([Metric::MessagePeriod, Metric::PublicationSeqGap]);
        let called = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&called);
        let imu = statistics
            .create_subscription("imu".keep_last(10).best_effort().topic_statistics(losses), move |_: Imu| {
                counts.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        wait_for(&format!("as many messages as calls, in round {round}"), || {
            let received = imu.totals().received;
            received > 0 && received == called.load(Ordering::Relaxed)
        });
    }
}

#[test]
fn nodes_of_one_process_and_statistics_of_one_node_do_not_disturb_each_other() {
    let (executor, one) = node("one", &[]);
    let other = executor.create_node("other").unwrap();
    let (published, _subscription) = subscribe_to_statistics(&one);
    let [first, second, third] =
        [&one, &one, &other].map(|node| NodeStatistics::with_options(node, short_windows()).unwrap());
    let imu = first.create_subscription("imu", |_: Imu| ()).unwrap();
    let of_second = second.create_subscription("of_second", |_: Imu| ()).unwrap();
    let _of_other = third.create_subscription("imu", |_: Imu| ()).unwrap();
    let _spinning = Spinning::start(executor);
    assert_eq!((imu.source_name(), of_second.source_name()), ("/one:/imu", "/one:/of_second"));
    let wait_for_sources = |sources: &[&str]| {
        published.lock().unwrap().clear();
        wait_for("all sources", || {
            let published = published.lock().unwrap();
            sources.iter().all(|source| published.iter().any(|(name, _)| name == source))
        });
    };
    wait_for_sources(&["/one:/imu", "/one:/of_second", "/other:/imu"]);
    drop((first, imu));
    wait_for_sources(&["/one:/of_second", "/other:/imu"]);
}

/// Returns the resources of this process: threads, file descriptors, and resident memory in kB.
fn resources() -> (usize, usize, u64) {
    let count = |directory: &str| std::fs::read_dir(directory).unwrap().count();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let memory = memory.trim().trim_end_matches(" kB").parse().unwrap();
    (count("/proc/self/task"), count("/proc/self/fd"), memory)
}

#[test]
fn creating_and_dropping_200_times_leaks_no_thread_file_or_memory() {
    in_a_process_of_its_own(|| {
        let (executor, node) = node("rounds", &[]);
        let _spinning = Spinning::start(executor);
        let plain = || {
            let _publisher = node.create_publisher::<MetricsMessage>("/statistics").unwrap();
            let _imu = node.create_subscription::<Imu, _>("imu", |_: Imu| ()).unwrap();
            let _number = node.create_subscription::<Imu, _>("other", |_: Imu| ()).unwrap();
            let _events = node.create_publisher::<MessagesLostEvent>("/events/messages_lost").unwrap();
            let _imus = node.create_publisher::<Imu>("imu").unwrap();
        };
        let measured = || {
            // Without the service: rclrs 0.8 keeps the thread of a worker until its executor ends.
            let statistics = NodeStatistics::with_options(&node, short_windows()).unwrap();
            let _imus = statistics.create_publisher::<Imu>("imu").unwrap();
            let stopwatches = statistics.create_stopwatches("call", 0..3);
            let _running = stopwatches[0].start();
            statistics.create_counter("calls").increment();
            let all = TopicStatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS);
            let _imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
            let _number = statistics.create_subscription("other".topic_statistics(all), |_: Imu| ()).unwrap();
        };
        let grows = |what: &str, round: &dyn Fn()| {
            (0..20).for_each(|_| round());
            wait_for_end_of("/other", &node);
            let (threads, files, memory) = resources();
            (0..200).for_each(|_| round());
            wait_for_end_of("/other", &node);
            wait_for("as many threads and files as before", || {
                let (threads_now, files_now, _) = resources();
                (threads_now, files_now) == (threads, files)
            });
            let growth = resources().2.saturating_sub(memory);
            println!("200 rounds, {what}: {growth} kB");
            growth
        };
        let plain = grows("plain rclrs", &plain);
        let measured = grows("with statistics", &measured);
        assert!(measured < plain + 2000, "{measured} kB with statistics, {plain} kB without");
    });
}

/// The program of the next test: it drops its statistics while `fsync` takes five seconds.
#[test]
#[ignore = "is the program of another test"]
fn ends_on_a_busy_disk() {
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("busy").unwrap();
    let options = NodeStatisticsOptions::new().totals_file(std::env::var_os("TOTALS").unwrap());
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let begun = Instant::now();
    drop(statistics);
    assert!(begun.elapsed() < Duration::from_secs(5), "it waited for the disk");
}

#[test]
fn a_busy_disk_neither_holds_up_the_end_nor_loses_the_file_of_totals() {
    let Some(library) = preload::library("slow_fsync") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("totals.yaml");
    let mut program = itself("lifetime::ends_on_a_busy_disk", domain());
    preload::preload(&mut program, &library);
    let output = program.env("TOTALS", &file).output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert!(!text.contains("[ERROR]"), "{text}");
    let totals = std::fs::read_to_string(file).unwrap();
    assert!(totals.contains("node_name: /busy"), "{totals}");
}

/// Waits until a subscription has windows with messages from now on.
fn wait_for_windows(what: &str, subscription: &MeasuredSubscription<Imu>) {
    let mut windows = subscription.watch();
    windows.mark_unchanged();
    wait_for(what, || {
        windows.has_changed().unwrap()
            && windows
                .borrow_and_update()
                .as_ref()
                .is_some_and(|window| window.get(Metric::MessageAge).unwrap().sample_count > 0)
    });
}

#[test]
fn a_panic_on_a_worker_does_not_stop_the_statistics_of_other_subscriptions() {
    let (executor, node) = node("panicking_worker", &[]);
    let statistics = NodeStatistics::with_options(&node, short_windows()).unwrap();
    let (bad, good) = (node.create_worker(()), node.create_worker(()));
    let panicked = Arc::new(AtomicBool::new(false));
    let _panics = statistics
        .create_worker_subscription(&bad, "imu", {
            let panicked = Arc::clone(&panicked);
            move |_: Imu| {
                panicked.store(true, Ordering::Relaxed);
                panic!("the panic of this test");
            }
        })
        .unwrap();
    let on_worker = statistics.create_worker_subscription(&good, "imu", |_: Imu| ()).unwrap();
    let on_node = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "200"], domain());
    wait_for("panic", || panicked.load(Ordering::Relaxed));
    wait_for_windows("windows of another worker", &on_worker);
    wait_for_windows("windows of the node", &on_node);
}

#[test]
fn a_panic_of_a_node_callback_unwinds_from_spin_and_the_statistics_continue() {
    let (mut executor, node) = node("panicking", &[]);
    let statistics = NodeStatistics::with_options(&node, short_windows()).unwrap();
    let _panics = statistics.create_subscription("imu", |_: Imu| panic!("the panic of this test")).unwrap();
    let other = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let worker = node.create_worker(());
    let on_worker = statistics.create_worker_subscription(&worker, "imu", |_: Imu| ()).unwrap();
    let _publisher = Program::start("publisher.py", &["--rate", "200"], domain());
    let spun = catch_unwind(AssertUnwindSafe(|| executor.spin(SpinOptions::default().timeout(LIMIT))));
    assert!(spun.is_err(), "the panic unwinds from spin");

    // rclrs 0.8 cannot spin this executor again. Workers have their own threads, which continue. The statistics show
    // that the callbacks of the node are no longer called.
    wait_for_windows("windows of a worker", &on_worker);
    let stop = other.latest().map(|window| window.window.stop);
    wait_for("silent windows", || {
        let latest = other.latest();
        latest.is_some_and(|window| {
            Some(window.window.start) > stop && window.get(Metric::MessageAge).unwrap().sample_count == 0
        })
    });
}
