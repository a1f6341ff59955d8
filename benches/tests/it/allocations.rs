// SPDX-License-Identifier: Apache-2.0

//! Counts allocations on the threads that handle messages, timers, requests and calls, with and without statistics.

use std::{
    any::Any,
    sync::Mutex,
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{Metric, NodeStatistics, StatisticsOptions, StatisticsState, StatsExecutor};
use ros_env::{
    rcl_interfaces::srv::{GetParameters, GetParameters_Request, GetParameters_Response},
    sensor_msgs::msg::Imu,
};
use test_support::{context, domain, wait_for, Spinning};

use crate::counting::{call, calls, counted, restart, Taken};

/// If a triggered callback has not started after this time, the test triggers the callback again.
const LOST: Duration = Duration::from_secs(2);

/// The counters are global, so only one test may count at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A function that triggers the counted callback, and the objects that must live while callbacks are counted.
type Counted = (Box<dyn FnMut()>, Box<dyn Any>);

/// Counts allocations per round of the wait set and per callback, as quartiles. `create` creates the callback, and the
/// function that triggers it.
fn count(taken: Taken, executor: Executor, create: impl FnOnce(&Node) -> Counted) -> [[u64; 3]; 2] {
    const CALLS: u64 = 300;
    let node = executor.create_node("counting").unwrap();
    let (mut trigger, _counted) = create(&node);
    let _spinning = Spinning::start(executor);
    let mut call_once = || {
        let before = calls();
        while calls() == before {
            trigger();
            let triggered = Instant::now();
            // A trigger before discovery is complete starts no callback, so after a time, the test triggers again.
            while calls() == before && triggered.elapsed() < LOST {
                std::thread::yield_now();
            }
        }
    };
    // The first calls are not counted. After these calls, discovery is complete, and the queues have their final size.
    (0..CALLS).for_each(|_| call_once());
    restart();
    (0..CALLS).for_each(|_| call_once());
    counted(taken)
}

/// Returns options with windows that end during the test. Windows end on another thread, which is not counted.
fn options() -> StatisticsOptions {
    StatisticsOptions::new().publish_period(Duration::from_millis(100))
}

fn statistics(node: &Node, options: StatisticsOptions) -> NodeStatistics {
    NodeStatistics::with_options(node, options).unwrap()
}

/// The configuration of a subscription.
#[derive(Clone, Copy, Debug)]
struct Setting {
    on_worker: bool,
    is_boxed: bool,
    /// The number of further subscriptions of the node. They receive no messages.
    idle: usize,
}

/// Counts the allocations per message. `options` are the options of the statistics; `None` for plain rclrs.
fn message(executor: Executor, setting: Setting, options: Option<StatisticsOptions>) -> [[u64; 3]; 2] {
    count(Taken::Message, executor, |node| {
        let imu = node.create_publisher::<Imu>("imu".keep_last(100)).unwrap();
        let statistics = options.map(|options| statistics(node, options));
        let worker = node.create_worker(());
        macro_rules! subscribe {
            ($topic:expr, $message:ty) => {{
                let (topic, callback) = ($topic.as_str().keep_last(100), |_: $message| call());
                let subscription: Box<dyn Any> = match (&statistics, setting.on_worker) {
                    (None, false) => Box::new(node.create_subscription::<Imu, _>(topic, callback)),
                    (None, true) => Box::new(worker.create_subscription::<Imu, _>(topic, callback)),
                    (Some(of), false) => Box::new(of.create_subscription(topic, callback)),
                    (Some(of), true) => Box::new(of.create_worker_subscription(&worker, topic, callback)),
                };
                subscription
            }};
        }
        let topics = (0..setting.idle).map(|index| format!("idle_{index}"));
        let idle: Vec<_> = topics.map(|topic| subscribe!(topic, Imu)).collect();
        let topic = "imu".to_owned();
        let subscription =
            if setting.is_boxed { subscribe!(topic, Box<Imu>) } else { subscribe!(topic, Imu) };
        let publish = move || imu.publish(Imu::default()).unwrap();
        (Box::new(publish), Box::new((statistics, worker, subscription, idle)))
    })
}

fn is_no_more(measured: [[u64; 3]; 2], plain: [[u64; 3]; 2]) -> bool {
    measured.iter().flatten().zip(plain.iter().flatten()).all(|(measured, plain)| measured <= plain)
}

#[test]
fn a_message_needs_no_more_allocations_than_plain_rclrs() {
    let _one = ONE_AT_A_TIME.lock();
    let basic = || context(domain(), &[]).create_basic_executor();
    let everything = || options().metrics(Metric::OF_SUBSCRIPTIONS);
    for on_worker in [false, true] {
        for (is_boxed, idle) in [(false, 0), (true, 0), (false, 100)] {
            let setting = Setting { on_worker, is_boxed, idle };
            let plain = message(basic(), setting, None);
            assert!(plain[0][1] > 1, "the counting works: {plain:?}");
            let kinds = [options(), everything(), everything().state(StatisticsState::Disable)];
            let measured = kinds.map(|options| message(basic(), setting, Some(options)));
            for measured in measured {
                assert!(is_no_more(measured, plain), "{measured:?}, plain {plain:?}, {setting:?}");
            }
        }
        let setting = Setting { on_worker, is_boxed: false, idle: 0 };
        let plain = message(basic(), setting, None);
        let executor = context(domain(), &[]).create_executor(StatsExecutor::new());
        let measured = message(executor, setting, Some(options()));
        assert!(is_no_more(measured, plain), "measured executor: {measured:?}, plain {plain:?}");
        // The single thread of this executor not only calls callbacks, but also waits for messages, and the middleware
        // allocates during the wait. So only the rounds are compared.
        let executor = context(domain(), &[]).create_executor(StatsExecutor::single_threaded());
        let [rounds, _] = message(executor, setting, Some(options()));
        assert!(is_no_more([rounds, [0; 3]], plain), "single-threaded: {rounds:?}, plain {plain:?}");
    }
    println!("allocations_per_message=0");
}

#[test]
fn a_timer_adds_no_allocation_a_request_one_and_a_call_two() {
    let _one = ONE_AT_A_TIME.lock();
    let basic = || context(domain(), &[]).create_basic_executor();
    // Adds two medians: of the thread that waits, and of the thread that calls the callbacks.
    let total = |counts: [[u64; 3]; 2]| counts[0][1] + counts[1][1];
    let timer = |is_measured: bool| {
        total(count(Taken::Timer, basic(), |node| {
            let (statistics, period) = (statistics(node, options()), Duration::from_millis(1));
            let timer: Box<dyn Any> = match is_measured {
                true => Box::new(statistics.create_timer_repeating(period, call)),
                false => Box::new(node.create_timer_repeating(period, call)),
            };
            (Box::new(|| ()), Box::new((statistics, timer)))
        }))
    };
    assert_eq!(timer(true), timer(false));

    // The service and its client have separate executors, so a round of a wait set takes one request or response.
    let call_of = |taken: Taken, is_measured: bool| {
        total(count(taken, basic(), |server| {
            let executor = basic();
            let caller = executor.create_node("calling").unwrap();
            let statistics = [server, &caller].map(|node| statistics(node, options()));
            let takes_request = taken == Taken::Request;
            let serve = move |_: GetParameters_Request| {
                if takes_request {
                    call();
                }
                GetParameters_Response::default()
            };
            let service: Box<dyn Any> = match is_measured && takes_request {
                true => Box::new(statistics[0].create_service::<GetParameters, _>("serve", serve)),
                false => Box::new(server.create_service::<GetParameters, _>("serve", serve)),
            };
            let plain = caller.create_client::<GetParameters>("serve").unwrap();
            let measured = statistics[1].create_client::<GetParameters>("serve").unwrap();
            wait_for("service", || plain.service_is_ready().unwrap() && measured.service_is_ready().unwrap());
            let request = move || {
                let mut response: Promise<GetParameters_Response> = match is_measured && !takes_request {
                    true => measured.call(GetParameters_Request::default()).unwrap(),
                    false => plain.call(GetParameters_Request::default()).unwrap(),
                };
                let called = Instant::now();
                while matches!(response.try_recv(), Ok(None)) && called.elapsed() < LOST {
                    std::thread::yield_now();
                }
                if !takes_request && called.elapsed() < LOST {
                    call();
                }
            };
            (Box::new(request), Box::new((statistics, service, Spinning::start(executor))))
        }))
    };
    let beyond = |taken: Taken| call_of(taken, true) - call_of(taken, false);
    assert_eq!([Taken::Request, Taken::Response].map(beyond), [1, 2]);
}
