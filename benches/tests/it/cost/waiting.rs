// SPDX-License-Identifier: Apache-2.0

//! Allocations of services, clients and timers.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::NodeStatistics;
use ros_env::rcl_interfaces::srv::{GetParameters, GetParameters_Request, GetParameters_Response};
use test_support::{node, wait_for, Spinning};

use super::options;
use crate::ONE_AT_A_TIME;

/// Returns the allocations per event, in steady state. `start` starts something that increments the counter at each
/// event.
fn allocations_per_event<Handle>(
    start: impl FnOnce(&Node, &NodeStatistics, Arc<AtomicU64>) -> Handle,
) -> f64 {
    const EVENTS: u64 = 1000;
    let (executor, node) = node("counting", &[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let events = Arc::new(AtomicU64::new(0));
    let _handle = start(&node, &statistics, Arc::clone(&events));
    let _spinning = Spinning::start(executor);
    let wait_until = |count| wait_for("events", || events.load(Ordering::Relaxed) >= count);
    wait_until(500);
    let count = || (dhat::HeapStats::get().total_blocks, events.load(Ordering::Relaxed));
    let (blocks, before) = count();
    wait_until(before + EVENTS);
    let (blocks_after, after) = count();
    (blocks_after - blocks) as f64 / (after - before) as f64
}

#[test]
fn a_call_of_a_timer_costs_no_allocation() {
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let period = Duration::from_millis(1);
    let increment = |count: Arc<AtomicU64>| {
        move || {
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let plain = allocations_per_event(|node, _, count| {
        node.create_timer_repeating(period, increment(count)).unwrap()
    });
    let measured = allocations_per_event(|_, statistics, count| {
        statistics.create_timer_repeating(period, increment(count)).unwrap()
    });
    // The graph is read once per second. So the counts are not integers.
    assert!(measured < plain + 0.1, "{measured} measured, {plain} plain");
}

/// Calls a service from a thread, one call after the other. Ends when the counter is dropped elsewhere. A request that a
/// service has not received, because it did not know the client yet, is repeated.
fn call_repeatedly(
    count: Arc<AtomicU64>,
    call: impl Fn() -> Promise<GetParameters_Response> + Send + 'static,
) {
    std::thread::spawn(move || {
        while Arc::strong_count(&count) > 1 {
            let (mut promise, mut called) = (call(), Instant::now());
            while matches!(promise.try_recv(), Ok(None)) && Arc::strong_count(&count) > 1 {
                if called.elapsed() > Duration::from_secs(2) {
                    (promise, called) = (call(), Instant::now());
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
}

#[test]
fn a_request_costs_one_allocation_and_a_call_three() {
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let serve = |_: GetParameters_Request| GetParameters_Response::default();
    let plain_client = |node: &Node, count| {
        let client = node.create_client::<GetParameters>("serve").unwrap();
        call_repeatedly(count, move || client.call(GetParameters_Request::default()).unwrap());
    };
    // A wake-up of rclrs allocates, too, and serves more events on a machine that is busy with something else.
    const ATTEMPTS: usize = 12;
    let mut attempts = vec![];
    let is_right = (0..ATTEMPTS).any(|_| {
        let plain = allocations_per_event(|node, _, count| {
            plain_client(node, count);
            node.create_service::<GetParameters, _>("serve", serve).unwrap()
        });
        let measured_service = allocations_per_event(|node, statistics, count| {
            plain_client(node, count);
            statistics.create_service::<GetParameters, _>("serve", serve).unwrap()
        });
        let measured_client = allocations_per_event(|node, statistics, count| {
            let client = statistics.create_client::<GetParameters>("serve").unwrap();
            call_repeatedly(count, move || client.call(GetParameters_Request::default()).unwrap());
            node.create_service::<GetParameters, _>("serve", serve).unwrap()
        });
        let (request, call) = (measured_service - plain, measured_client - plain);
        println!("allocations_per_request={request:.2}\nallocations_per_call={call:.2}");
        attempts.push((plain, measured_service, measured_client));
        (0.9..1.1).contains(&request) && (2.0..3.1).contains(&call)
    });
    assert!(is_right, "plain, a measured service, a measured client: {attempts:?}");
}
