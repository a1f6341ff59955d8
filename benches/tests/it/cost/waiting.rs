// SPDX-License-Identifier: Apache-2.0

//! Allocations of services, clients and timers.

use std::{
    collections::BTreeMap,
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

/// Returns the allocations of a call, its request and its response, in most calls. `start` starts the service, and
/// returns it with a function that calls it.
fn allocations_per_call<Handle, Call: Fn() -> Promise<GetParameters_Response>>(
    start: impl FnOnce(&Node, &NodeStatistics) -> (Handle, Call),
) -> u64 {
    const CALLS: usize = 100;
    let (executor, node) = node("counting", &[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let (_service, call) = start(&node, &statistics);
    let _spinning = Spinning::start(executor);
    let pause = || std::thread::sleep(Duration::from_micros(200));
    let blocks = || dhat::HeapStats::get().total_blocks;
    let mut calls_with: BTreeMap<u64, usize> = BTreeMap::new();
    for _ in 0..CALLS {
        let before = blocks();
        let (mut promise, called) = (call(), Instant::now());
        // A request that a service has not received, because it did not know the client yet, is given up.
        while matches!(promise.try_recv(), Ok(None)) && called.elapsed() < Duration::from_secs(2) {
            pause();
        }
        // The executor goes back to sleep after the response.
        let mut last = 0;
        while std::mem::replace(&mut last, blocks()) != last {
            pause();
        }
        *calls_with.entry(last - before).or_default() += 1;
    }
    let most = calls_with.into_iter().max_by_key(|(_, calls)| *calls);
    most.expect("calls").0
}

/// The fewest and the most allocations of several nodes: a wake-up of rclrs allocates, too, and of two nodes with the
/// same code one may need a wake-up more per call.
#[derive(Clone, Copy, Debug)]
struct Range(u64, u64);

impl Range {
    fn add(&mut self, allocations: u64) {
        *self = Range(self.0.min(allocations), self.1.max(allocations));
    }

    /// Returns how many more than the other one it is, if its fewest and its most are the same number more.
    fn beyond(self, other: Range) -> Option<u64> {
        let beyond = self.0.checked_sub(other.0)?;
        (self.1.checked_sub(other.1) == Some(beyond)).then_some(beyond)
    }
}

#[test]
fn a_request_costs_one_allocation_and_a_call_two() {
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let serve = |_: GetParameters_Request| GetParameters_Response::default();
    let plain_client = |node: &Node| {
        let client = node.create_client::<GetParameters>("serve").unwrap();
        move || client.call(GetParameters_Request::default()).unwrap()
    };
    let nothing = Range(u64::MAX, 0);
    let (mut plain, mut service, mut client) = (nothing, nothing, nothing);
    let is_right = (0..30).any(|nodes| {
        plain.add(allocations_per_call(|node, _| {
            (node.create_service::<GetParameters, _>("serve", serve).unwrap(), plain_client(node))
        }));
        service.add(allocations_per_call(|node, statistics| {
            (statistics.create_service::<GetParameters, _>("serve", serve).unwrap(), plain_client(node))
        }));
        client.add(allocations_per_call(|node, statistics| {
            let client = statistics.create_client::<GetParameters>("serve").unwrap();
            let call = move || client.call(GetParameters_Request::default()).unwrap();
            (node.create_service::<GetParameters, _>("serve", serve).unwrap(), call)
        }));
        let has_both = plain.1 > plain.0; // a node of each kind was among them
        (has_both || nodes >= 10) && service.beyond(plain) == Some(1) && client.beyond(plain) == Some(2)
    });
    println!("allocations: plain {plain:?}, a measured service {service:?}, a measured client {client:?}");
    assert!(is_right, "plain {plain:?}, a measured service {service:?}, a measured client {client:?}");
}
