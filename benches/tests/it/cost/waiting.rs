// SPDX-License-Identifier: Apache-2.0

//! Allocations of services, clients and timers.

use std::{
    collections::BTreeMap,
    ffi::{c_int, c_void},
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

/// How often rclrs has waited in this process.
static WAITS: AtomicU64 = AtomicU64::new(0);

/// Counts, and calls rcl's own function: of two with the same name, the program's is called.
///
/// # Safety
///
/// As rcl's own: the wait set is valid.
#[no_mangle]
unsafe extern "C" fn rcl_wait(wait_set: *mut c_void, timeout: i64) -> c_int {
    type Wait = unsafe extern "C" fn(*mut c_void, i64) -> c_int;
    WAITS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the name ends with a zero.
    let real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"rcl_wait".as_ptr()) };
    // SAFETY: rclrs links rcl, whose function has this type.
    let real = unsafe { std::mem::transmute::<*mut c_void, Wait>(real) };
    // SAFETY: the caller's wait set.
    unsafe { real(wait_set, timeout) }
}

/// How often rclrs waits in a call, and the allocations of most calls with that number: a wake-up of rclrs allocates,
/// too, and how many a call needs is a matter of chance.
type Allocations = BTreeMap<u64, u64>;

/// Returns the allocations of a call, its request and its response. `start` starts the service, and returns it with a
/// function that calls it.
fn allocations_per_call<Handle, Call: Fn() -> Promise<GetParameters_Response>>(
    start: impl FnOnce(&Node, &NodeStatistics) -> (Handle, Call),
) -> Allocations {
    const CALLS: usize = 200;
    /// Fewer are no rule.
    const MANY: usize = 20;
    let (executor, node) = node("counting", &[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let (_service, call) = start(&node, &statistics);
    let _spinning = Spinning::start(executor);
    let pause = || std::thread::sleep(Duration::from_micros(200));
    let counts = || (WAITS.load(Ordering::Relaxed), dhat::HeapStats::get().total_blocks);
    let mut calls_with: BTreeMap<u64, BTreeMap<u64, usize>> = BTreeMap::new();
    for _ in 0..CALLS {
        let (waits, blocks) = counts();
        let (mut promise, called) = (call(), Instant::now());
        // A request that a service has not received, because it did not know the client yet, is given up.
        while matches!(promise.try_recv(), Ok(None)) && called.elapsed() < Duration::from_secs(2) {
            pause();
        }
        // The executor goes back to sleep after the response.
        let mut last = (0, 0);
        while std::mem::replace(&mut last, counts()) != last {
            pause();
        }
        *calls_with.entry(last.0 - waits).or_default().entry(last.1 - blocks).or_default() += 1;
    }
    let of_most = calls_with.into_iter().filter_map(|(waits, calls)| {
        let (blocks, calls) = calls.into_iter().max_by_key(|(_, calls)| *calls)?;
        (calls >= MANY).then_some((waits, blocks))
    });
    of_most.collect()
}

/// Returns how many more allocations than plain calls those with as many wake-ups have, if it is the same for each
/// number of wake-ups.
fn beyond(measured: &Allocations, plain: &Allocations) -> Option<u64> {
    let mut beyond = measured.iter().filter_map(|(waits, blocks)| blocks.checked_sub(*plain.get(waits)?));
    let first = beyond.next()?;
    beyond.all(|other| other == first).then_some(first)
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
    let (mut plain, mut service, mut client) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let is_right = (0..10).any(|_| {
        plain.extend(allocations_per_call(|node, _| {
            (node.create_service::<GetParameters, _>("serve", serve).unwrap(), plain_client(node))
        }));
        service.extend(allocations_per_call(|node, statistics| {
            (statistics.create_service::<GetParameters, _>("serve", serve).unwrap(), plain_client(node))
        }));
        client.extend(allocations_per_call(|node, statistics| {
            let client = statistics.create_client::<GetParameters>("serve").unwrap();
            let call = move || client.call(GetParameters_Request::default()).unwrap();
            (node.create_service::<GetParameters, _>("serve", serve).unwrap(), call)
        }));
        println!("waits: allocations; plain {plain:?}, a measured service {service:?}, a measured client {client:?}");
        beyond(&service, &plain) == Some(1) && beyond(&client, &plain) == Some(2)
    });
    assert!(is_right, "plain {plain:?}, a measured service {service:?}, a measured client {client:?}");
}
