// SPDX-License-Identifier: Apache-2.0

//! A step of the system clock changes no duration of a service, a client or a timer, and makes no delay wrong.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{NodeStatistics, TopicStatisticsOptions};
use ros_env::test_msgs::srv::{BasicTypes, BasicTypes_Request, BasicTypes_Response};
use test_support::{clock::SteppedClock, domain, itself, lines, of, Metric, Process, Reader, Spinning};

use crate::{check::HELD_UP, Turn, STEPS};

/// What a callback of the service takes, and the period of the timer, in milliseconds.
const CALLBACK: f64 = 20.0;
const PERIOD: f64 = 50.0;

/// Each metric in milliseconds: its source and name, and the least value of a sample.
const METRICS: [(&str, &str, f64); 8] = [
    ("/stepped:/serve", "callback_duration_ms", CALLBACK),
    ("/stepped:/serve", "request_period", 0.0),
    ("/stepped:/serve", "source_to_callback_ms", 0.0),
    ("/caller:/serve", "round_trip_ms", CALLBACK),
    ("/caller:/serve", "source_to_callback_ms", 0.0),
    ("/caller:/serve", "oldest_call_ms", 0.0),
    ("/caller:timer/50ms", "timer_period", 0.0),
    ("/caller:timer/50ms", "timer_lateness_ms", 0.0),
];

/// How long a response is awaited until the service is called again.
const LOST: Duration = Duration::from_secs(5);

/// A busy machine may hold up the program for longer than the checks allow for: then there is another try.
const ATTEMPTS: usize = 3;

#[test]
fn a_step_changes_no_duration_of_what_waits_and_makes_no_delay_wrong() {
    let Some(clock) = SteppedClock::new() else { return };
    let attempts = (0..ATTEMPTS).map(|_| faults_of_steps(&clock));
    let faults: Vec<Vec<String>> = attempts.take_while(|faults| !faults.is_empty()).collect();
    assert!(faults.len() < ATTEMPTS, "{faults:#?}");
}

/// Steps the clock of a service, a client and a timer. Returns the windows that are wrong.
fn faults_of_steps(clock: &SteppedClock) -> Vec<String> {
    let (domain, _turn) = (domain(), Turn::take());
    let mut reader = Reader::start_with_depth(domain, 2000);
    let mut command = itself("waiting::stepped_service_and_caller", domain);
    command.stdout(Stdio::null());
    clock.preload(&mut command);
    let _stepped = Process::spawn(&mut command);
    // A window is measured if there is a sample in it.
    let measured = |read: &[Metric]| {
        METRICS
            .map(|(source, metric, _)| of(read, source, metric).filter(|window| window.count() > 0.0).count())
    };
    let mut before = [0; METRICS.len()];
    for step in [0].into_iter().chain(STEPS) {
        clock.step(step);
        // The second window after a step has no message that was on the way while the clock was stepped.
        reader.read_until("windows of each metric", |read| {
            measured(read).iter().zip(before).all(|(now, before)| *now >= before + 3)
        });
        before = measured(&reader.metrics);
    }
    let mut faults = vec![];
    for (source, metric, least) in METRICS {
        let windows = of(&reader.metrics, source, metric).filter(|window| window.count() > 0.0);
        // All but the age of a call are times between events that are at most a period and a callback apart.
        let most = CALLBACK.max(PERIOD) + HELD_UP;
        let is_wrong = |window: &&Metric| window.minimum() < least || window.maximum() > most;
        faults.extend(windows.filter(is_wrong).map(|window| format!("{source} {metric}: {window:?}")));
    }
    faults
}

/// A service, and a timer that calls it if no call is under way, or its response is lost. Ends with its standard input.
#[test]
#[ignore = "is the program of the other test"]
fn stepped_service_and_caller() {
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let [server_node, caller_node] = ["stepped", "caller"].map(|name| executor.create_node(name).unwrap());
    let period = TopicStatisticsOptions::new().publish_period(Duration::from_millis(250));
    let server = NodeStatistics::with_options(&server_node, period.clone()).unwrap();
    let caller = NodeStatistics::with_options(&caller_node, period).unwrap();
    let worker = server_node.create_worker(());
    let serve = |_: BasicTypes_Request| {
        std::thread::sleep(Duration::from_secs_f64(CALLBACK / 1e3));
        BasicTypes_Response::default()
    };
    let _service = server.create_worker_service::<BasicTypes, _, _>(&worker, "serve", serve).unwrap();
    let client = caller.create_client::<BasicTypes>("serve").unwrap();
    let called = Arc::new(Mutex::new(None::<Instant>));
    let call = move || {
        // A response is lost if the service has not discovered its client yet: that attempt fails.
        let waits = called.lock().unwrap().is_some_and(|called| called.elapsed() < LOST);
        if client.service_is_ready().unwrap() && !waits {
            *called.lock().unwrap() = Some(Instant::now());
            let called = Arc::clone(&called);
            let end = move |_: BasicTypes_Response| *called.lock().unwrap() = None;
            drop(client.call_then(BasicTypes_Request::default(), end).unwrap());
        }
    };
    let _timer = caller.create_timer_repeating(Duration::from_secs_f64(PERIOD / 1e3), call).unwrap();
    let _spinning = Spinning::start(executor);
    lines(std::io::stdin()).iter().for_each(drop);
}
