// SPDX-License-Identifier: Apache-2.0

//! Threads create, use and destroy endpoints at the same time. The windows are short, and the middleware does nothing.
//! The library is linked to this program, so that a sanitizer checks both: `cargo xtask prove races memory`.

use std::{
    ffi::{c_char, c_int, CStr, CString},
    mem::{offset_of, zeroed},
    ptr::{from_ref, null_mut},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Barrier, Mutex,
    },
    thread,
};

use test_support::{preload, wait_for};
use topic_statistics_preload::abi::{MessageInfoBuffer, Node, ServiceInfo, TimerCallInfo};

/// The address of an endpoint, or of anything that null_rmw.c does not read.
type P = usize;
type Name = *const c_char;

extern "C-unwind" {
    fn rmw_create_subscription(node: P, of: P, name: Name, qos: P, options: P) -> P;
    fn rmw_create_publisher(node: P, of: P, name: Name, qos: P, options: P) -> P;
    fn rmw_create_service(node: P, of: P, name: Name, qos: P) -> P;
    fn rmw_create_client(node: P, of: P, name: Name, qos: P) -> P;
    fn rmw_destroy_subscription(node: P, subscription: P) -> c_int;
    fn rmw_destroy_publisher(node: P, publisher: P) -> c_int;
    fn rmw_destroy_service(node: P, service: P) -> c_int;
    fn rmw_destroy_client(node: P, client: P) -> c_int;
    fn rmw_destroy_node(node: P) -> c_int;
    fn rmw_take_with_info(
        by: P,
        message: P,
        taken: &mut bool,
        info: &mut MessageInfoBuffer,
        allocation: P,
    ) -> c_int;
    fn rmw_publish(by: P, message: P, allocation: P) -> c_int;
    fn rmw_take_request(by: P, info: &mut ServiceInfo, request: P, taken: &mut bool) -> c_int;
    fn rmw_send_response(by: P, request: P, response: P) -> c_int;
    fn rmw_send_request(by: P, request: P, number: &mut i64) -> c_int;
    fn rmw_take_response(by: P, info: &mut ServiceInfo, response: P, taken: &mut bool) -> c_int;
    fn rmw_wait(subscriptions: P, guards: P, services: P, clients: P, events: P, set: P, timeout: P)
        -> c_int;
    fn ros_trace_rcl_subscription_init(subscription: P, node: P, of_rmw: P, name: Name, depth: usize);
    fn ros_trace_rclcpp_construct_ring_buffer(buffer: P, capacity: u64);
    fn ros_trace_rclcpp_ipb_to_subscription(buffer: P, subscription: P);
    fn ros_trace_rclcpp_ring_buffer_enqueue(buffer: P, index: u64, size: u64, is_overwritten: bool);
    fn ros_trace_rclcpp_ring_buffer_dequeue(buffer: P, index: u64, size: u64);
    fn ros_trace_rclcpp_timer_callback_added(timer: P, callback: P);
    fn ros_trace_rclcpp_timer_link_node(timer: P, node: P);
    fn rcl_timer_call_with_info(timer: P, info: &mut TimerCallInfo) -> c_int;
    fn rcl_timer_fini(timer: P) -> c_int;
    fn ros_trace_rclcpp_subscription_callback_added(subscription: P, callback: P);
    fn ros_trace_callback_start(callback: P, is_intra_process: bool);
    fn ros_trace_callback_end(callback: P);
    fn ros_trace_rclcpp_intra_publish(publisher: P, message: P);
}

/// Runs a function with a new node. All nodes share a context.
fn with_node(name: &str, run: impl FnOnce(P)) {
    static CONTEXT: u8 = 0;
    let name = CString::new(name).unwrap();
    let node = Node {
        implementation_identifier: c"rmw_fastrtps_cpp".as_ptr(),
        data: null_mut(),
        name: name.as_ptr(),
        namespace: c"/".as_ptr(),
        context: from_ref(&CONTEXT).cast_mut().cast(),
    };
    let node = from_ref(&node).expose_provenance();
    run(node);
    // SAFETY: The endpoints of the node are already destroyed.
    unsafe { rmw_destroy_node(node) };
}

struct Endpoints {
    subscription: P,
    publisher: P,
    service: P,
    client: P,
    timer: P,
}

/// A timer of null_rclcpp.c.
#[repr(C)]
struct Timer {
    period: i64,
    expected: i64,
    actual: i64,
    clock: c_int,
    callback: u8,
}

/// The address of the intra-process callback of the subscription that was created last. The subscription may already be
/// destroyed.
static INTRA_PROCESS: AtomicUsize = AtomicUsize::new(0);

fn with_endpoints(node: P, name: &str, run: impl FnOnce(&Endpoints)) {
    let owned = CString::new(name).unwrap();
    let name = owned.as_ptr();
    // SAFETY: null_rmw.c reads only the name, which lives as long as the endpoints. Nothing reads the callbacks and the
    // buffer: their addresses are the subscription's address plus 1, 2 and 3.
    unsafe {
        let subscription = rmw_create_subscription(node, 0, name, 0, 0);
        ros_trace_rcl_subscription_init(0, 0, subscription, name, 1);
        ros_trace_rclcpp_construct_ring_buffer(subscription + 3, 8);
        ros_trace_rclcpp_ipb_to_subscription(0, 0);
        ros_trace_rclcpp_subscription_callback_added(0, subscription + 1);
        ros_trace_rclcpp_subscription_callback_added(0, subscription + 2);
        INTRA_PROCESS.store(subscription + 1, Ordering::Relaxed);
        let publisher = rmw_create_publisher(node, 0, name, 0, 0);
        let (service, client) = (rmw_create_service(node, 0, name, 0), rmw_create_client(node, 0, name, 0));
        let timer = Timer { period: 1000, expected: 0, actual: 0, clock: 3, callback: 0 };
        let callback = from_ref(&timer.callback).expose_provenance();
        let timer = from_ref(&timer).expose_provenance();
        ros_trace_rclcpp_timer_callback_added(timer, callback);
        ros_trace_rclcpp_timer_link_node(timer, node);
        run(&Endpoints { subscription, publisher, service, client, timer });
        rcl_timer_fini(timer);
        rmw_destroy_client(node, client);
        rmw_destroy_service(node, service);
        rmw_destroy_publisher(node, publisher);
        rmw_destroy_subscription(node, subscription);
    }
}

impl Endpoints {
    /// Uses each endpoint once: takes a message and publishes in its callback, answers a request, and makes a call.
    fn use_once(&self) {
        let (mut message, mut taken, mut number) = ([0_u64; 8], false, 0);
        let (message, callback) = (message.as_mut_ptr().expose_provenance(), self.subscription + 2);
        let intra_process = INTRA_PROCESS.load(Ordering::Relaxed);
        // SAFETY: The endpoints live, and null_rmw.c writes only to these variables.
        unsafe {
            let (mut info, mut service_info): (MessageInfoBuffer, ServiceInfo) = (zeroed(), zeroed());
            rmw_wait(0, 0, 0, 0, 0, 0, 0);
            // Another thread may already have destroyed the ring buffer of this subscription. Then the library ignores
            // these events.
            ros_trace_rclcpp_ring_buffer_enqueue(intra_process + 2, 0, 1, false);
            ros_trace_rclcpp_ring_buffer_dequeue(intra_process + 2, 0, 0);
            ros_trace_callback_start(intra_process, true);
            ros_trace_callback_end(intra_process);
            let timer_callback = self.timer + offset_of!(Timer, callback);
            rcl_timer_call_with_info(self.timer, &mut TimerCallInfo { expected: 0, actual: 0 });
            ros_trace_callback_start(timer_callback, false);
            ros_trace_callback_end(timer_callback);
            rmw_take_with_info(self.subscription, message, &mut taken, &mut info, 0);
            ros_trace_callback_start(callback, false);
            ros_trace_rclcpp_intra_publish(self.publisher, message);
            rmw_publish(self.publisher, message, 0);
            ros_trace_callback_end(callback);
            rmw_take_request(self.service, &mut service_info, 0, &mut taken);
            rmw_send_response(self.service, from_ref(&service_info.request_id).expose_provenance(), 0);
            rmw_send_request(self.client, 0, &mut number);
            rmw_take_response(self.client, &mut service_info, 0, &mut taken);
        }
    }
}

/// The counted metrics. If a node has several sources with the same topic, the names of the sources that are created
/// later end with a number.
const COUNTED: [(&str, &str); 4] = [
    ("/shared:/own_shared (2)", "publish_duration_ms"),
    ("/shared:/own_shared (3)", "requests"),
    ("/shared:/own_shared (4)", "calls"),
    ("/shared:/own_shared (4)", "responses"),
];
static COUNTS: Mutex<[f64; 4]> = Mutex::new([0.0; 4]);

/// Counts a published metric. null_rmw.c calls this function for each metric of a window.
unsafe extern "C" fn accept(source: Name, metric: Name, average: f64, count: f64) {
    // SAFETY: Both are strings of the message.
    let [source, metric] = [source, metric].map(|text| unsafe { CStr::from_ptr(text) }.to_str().unwrap());
    if let Some(place) = COUNTED.iter().position(|counted| *counted == (source, metric)) {
        COUNTS.lock().unwrap()[place] += if place == 0 { count } else { average };
    }
}

#[test]
fn threads_that_create_use_and_destroy_at_once_lose_no_sample_of_another() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 50;
    const USES: usize = 20;
    // With a shorter period, the windows would not be published in time under a sanitizer.
    std::env::set_var("TOPIC_STATISTICS_PERIOD", "0.1");
    std::env::set_var("TOPIC_STATISTICS_METRICS", "all");
    let Some(rmw) = preload::library("null_rclcpp") else { return };
    let rmw = CString::new(rmw.to_str().unwrap()).unwrap();
    // SAFETY: The path is a C string, and null_rmw.c declares the variable with this type.
    unsafe {
        let handle = libc::dlopen(rmw.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        let on_statistics = libc::dlsym(handle, c"on_statistics".as_ptr());
        assert!(!on_statistics.is_null());
        *on_statistics.cast::<unsafe extern "C" fn(Name, Name, f64, f64)>() = accept;
    }
    let round = |number: usize, node: P, shared: &Endpoints| {
        with_node(&format!("own_{number}"), |own_node| {
            with_endpoints(own_node, "/own_topic", |own| {
                with_endpoints(node, &format!("/own_topic_{number}"), |of_shared_node| {
                    for _ in 0..USES {
                        [own, of_shared_node, shared].into_iter().for_each(Endpoints::use_once);
                    }
                });
            });
        });
    };
    // The first node has the publisher of the windows. This node is destroyed while the other nodes continue.
    let (begins, ends) = (Barrier::new(2), Barrier::new(2));
    let wait = |_: &Endpoints| {
        begins.wait();
        ends.wait();
    };
    thread::scope(|scope| {
        scope.spawn(|| with_node("first", |first| with_endpoints(first, "/own_first", wait)));
        begins.wait();
        with_node("shared", |node| {
            with_endpoints(node, "/own_shared", |shared| {
                thread::scope(|scope| {
                    for number in 0..THREADS {
                        scope.spawn(move || (0..ROUNDS).for_each(|_| round(number, node, shared)));
                    }
                    ends.wait();
                });
                let expected = [(THREADS * ROUNDS * USES) as f64; 4];
                let counts = || *COUNTS.lock().unwrap();
                wait_for("all windows", || (0..4).all(|place| counts()[place] >= expected[place]));
                assert_eq!(counts(), expected);
            });
        });
    });
}
