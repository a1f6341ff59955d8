// SPDX-License-Identifier: Apache-2.0

//! The host whose clock is stepped: one process with all nodes of that host.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoStatsOptions, Metric, NodeStatistics, NodeStatisticsOptions, SourceName, StatisticsOptions,
};
use ros_env::{
    sensor_msgs::msg::Imu,
    test_msgs::srv::{BasicTypes, BasicTypes_Request, BasicTypes_Response},
};
use test_support::{lines, node, Spinning};

/// The source of messages that this host also publishes.
pub const OWN: &str = "/stepped:/own";
/// The node that receives the messages of this host with a slow callback, so that its queue of ten is always full.
pub const QUEUED: &str = "queued";
/// The source of messages from a host whose clock is not stepped.
pub const FOREIGN: &str = "/stepped:/foreign";
/// The source of messages with simulated stamps, from a host whose clock is not stepped.
pub const SIMULATED: &str = "/simulated:/imu";

pub const TOTALS: &str = "HOST_TOTALS";

const PERIOD: Duration = Duration::from_millis(50);
/// The timeout of a call. A response is lost if the service has not discovered its client yet.
const LOST: Duration = Duration::from_secs(5);

/// Starts to publish messages with stamps at 20 Hz.
fn start_talker(node: &Node, topic: &str) -> Timer {
    let publisher = node.create_publisher::<Imu>(topic.keep_last(100)).unwrap();
    let clock = node.get_clock();
    let publish = move || {
        let mut imu = Imu::default();
        imu.header.stamp = clock.now().to_ros_msg().unwrap();
        // Fast DDS may refuse a publication while the clock is stepped forward. Then this message is not sent.
        drop(publisher.publish(imu));
    };
    node.create_timer_repeating(PERIOD, publish).unwrap()
}

/// Starts a talker in the process of the test, whose clock is not stepped.
pub fn start_talker_on_another_host() -> (Timer, Spinning) {
    let (executor, node) = node("talker", &[]);
    (start_talker(&node, "foreign"), Spinning::start(executor))
}

/// The program of the stepped host. It ends when its standard input ends.
#[test]
#[ignore = "is the host of the other tests"]
fn stepped_host() {
    let executor = |arguments: &[&str]| {
        let arguments = arguments.iter().map(|argument| argument.to_string());
        Context::new(arguments, InitOptions::default()).unwrap().create_basic_executor()
    };
    let executors = [executor(&[]), executor(&["--ros-args", "-p", "use_sim_time:=true"])];
    let [stepped, caller] = ["stepped", "caller"].map(|name| executors[0].create_node(name).unwrap());
    let simulated = executors[1].create_node("simulated").unwrap();
    let options = || {
        let everything = StatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS);
        NodeStatisticsOptions::new().statistics(everything.publish_period(Duration::from_millis(500)))
    };
    let with = |node: &Node, options| NodeStatistics::with_options(node, options).unwrap();
    let stepped_statistics = with(&stepped, options().totals_file(std::env::var(TOTALS).unwrap()));
    let [caller_statistics, simulated_statistics] = [&caller, &simulated].map(|node| with(node, options()));

    let _talker = start_talker(&stepped, "own");
    let _own = stepped_statistics.create_subscription("own".keep_last(10), |_: Imu| ()).unwrap();
    let _foreign = stepped_statistics.create_subscription("foreign".keep_last(10), |_: Imu| ()).unwrap();
    let _simulated = simulated_statistics.create_subscription("imu".keep_last(10), |_: Imu| ()).unwrap();
    // The callback takes longer than the period of the messages, so that they wait in the middleware's queue.
    let slow = |_: Imu| std::thread::sleep(PERIOD + PERIOD / 2);
    let own = StatisticsOptions::new()
        .metrics(Metric::OF_SUBSCRIPTIONS)
        .publish_period(Duration::from_millis(500))
        .source_name(SourceName::Custom(QUEUED.to_owned()));
    let (worker, topic) = (stepped.create_worker(()), "own".keep_last(10).statistics(own));
    let _queued = stepped_statistics.create_worker_subscription(&worker, topic, slow).unwrap();

    let serve = |_: BasicTypes_Request| {
        std::thread::sleep(PERIOD / 2);
        BasicTypes_Response::default()
    };
    let worker = stepped.create_worker(());
    let _service =
        stepped_statistics.create_worker_service::<BasicTypes, _, _>(&worker, "serve", serve).unwrap();
    let client = caller_statistics.create_client::<BasicTypes>("serve").unwrap();
    let called = Arc::new(Mutex::new(None::<Instant>));
    // Calls the service if no call is under way.
    let call = move || {
        let waits = called.lock().unwrap().is_some_and(|called| called.elapsed() < LOST);
        if client.service_is_ready().unwrap() && !waits {
            *called.lock().unwrap() = Some(Instant::now());
            let called = Arc::clone(&called);
            let end = move |_: BasicTypes_Response| *called.lock().unwrap() = None;
            drop(client.call_then(BasicTypes_Request::default(), end).unwrap());
        }
    };
    let _timer = caller_statistics.create_timer_repeating(PERIOD, call).unwrap();
    let _spinning = executors.map(Spinning::start);
    lines(std::io::stdin()).iter().for_each(drop);
}
