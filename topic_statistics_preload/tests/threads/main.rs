// SPDX-License-Identifier: Apache-2.0

//! Threads that create, use and destroy endpoints at once, with short windows, of a middleware that does nothing. The
//! library is linked to this program, so that a sanitizer sees both: `cargo xtask prove races memory`.

use std::{
    collections::BTreeMap,
    ffi::{c_char, c_void, CStr, CString},
    ptr::{null, null_mut},
    sync::{
        atomic::{AtomicPtr, Ordering},
        Arc, Mutex,
    },
    thread,
};

use test_support::{preload, wait_for};
use topic_statistics_preload::abi::*;

extern "C-unwind" {
    fn rmw_create_subscription(
        node: *const Node,
        type_support: *const TypeSupport,
        topic: *const c_char,
        qos: *const Qos,
        options: *const c_void,
    ) -> *mut Endpoint;
    fn rmw_destroy_subscription(node: *mut Node, subscription: *mut Endpoint) -> Ret;
    fn rmw_create_publisher(
        node: *const Node,
        type_support: *const TypeSupport,
        topic: *const c_char,
        qos: *const Qos,
        options: *const PublisherOptions,
    ) -> *mut Endpoint;
    fn rmw_destroy_publisher(node: *mut Node, publisher: *mut Endpoint) -> Ret;
    fn rmw_create_service(
        node: *const Node,
        type_support: *const c_void,
        name: *const c_char,
        qos: *const Qos,
    ) -> *mut Endpoint;
    fn rmw_destroy_service(node: *mut Node, service: *mut Endpoint) -> Ret;
    fn rmw_create_client(
        node: *const Node,
        type_support: *const c_void,
        name: *const c_char,
        qos: *const Qos,
    ) -> *mut Endpoint;
    fn rmw_destroy_client(node: *mut Node, client: *mut Endpoint) -> Ret;
    fn rmw_destroy_node(node: *mut Node) -> Ret;
    fn rmw_take_with_info(
        subscription: *const Endpoint,
        message: *mut c_void,
        taken: *mut bool,
        info: *mut MessageInfo,
        allocation: *mut c_void,
    ) -> Ret;
    fn rmw_publish(publisher: *const Endpoint, message: *const c_void, allocation: *mut c_void) -> Ret;
    fn rmw_take_request(
        service: *const Endpoint,
        info: *mut ServiceInfo,
        request: *mut c_void,
        taken: *mut bool,
    ) -> Ret;
    fn rmw_send_response(service: *const Endpoint, request: *mut RequestId, response: *mut c_void) -> Ret;
    fn rmw_send_request(client: *const Endpoint, request: *const c_void, number: *mut i64) -> Ret;
    fn rmw_take_response(
        client: *const Endpoint,
        info: *mut ServiceInfo,
        response: *mut c_void,
        taken: *mut bool,
    ) -> Ret;
    fn rmw_wait(
        subscriptions: *mut c_void,
        guard_conditions: *mut c_void,
        services: *mut c_void,
        clients: *mut c_void,
        events: *mut c_void,
        wait_set: *mut c_void,
        timeout: *const RmwTime,
    ) -> Ret;
    fn ros_trace_rcl_subscription_init(
        subscription: *const c_void,
        node: *const c_void,
        rmw_subscription: *const Endpoint,
        topic: *const c_char,
        depth: usize,
    );
    fn ros_trace_rclcpp_subscription_callback_added(subscription: *const c_void, callback: *const c_void);
    fn ros_trace_callback_start(callback: *const c_void, is_intra_process: bool);
    fn ros_trace_callback_end(callback: *const c_void);
    fn ros_trace_rclcpp_intra_publish(publisher: *const c_void, message: *const c_void);
}

/// The callback of intra-process messages of the subscription that was created last. It may be destroyed.
static INTRA_PROCESS: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// What a node's name and namespace point to.
const NAMESPACE: &CStr = c"/";

/// A node. All nodes share a context. Any thread may use it.
struct OwnNode {
    node: *mut Node,
    _name: CString,
}

// SAFETY: rmw's functions on a node may be called by any thread.
unsafe impl Sync for OwnNode {}
// SAFETY: Likewise.
unsafe impl Send for OwnNode {}

static CONTEXT: u8 = 0;

impl OwnNode {
    fn new(name: &str) -> Arc<Self> {
        let name = CString::new(name).unwrap();
        let node = Box::into_raw(Box::new(Node {
            implementation_identifier: c"rmw_fastrtps_cpp".as_ptr(),
            data: null_mut(),
            name: name.as_ptr(),
            namespace: NAMESPACE.as_ptr(),
            context: std::ptr::from_ref(&CONTEXT).cast_mut().cast(),
        }));
        Arc::new(Self { node, _name: name })
    }
}

impl Drop for OwnNode {
    fn drop(&mut self) {
        // SAFETY: It was created by `new`, and its endpoints are destroyed.
        unsafe {
            rmw_destroy_node(self.node);
            drop(Box::from_raw(self.node));
        }
    }
}

/// The endpoints of a thread, of each kind one.
struct Endpoints {
    node: Arc<OwnNode>,
    subscription: *mut Endpoint,
    publisher: *mut Endpoint,
    service: *mut Endpoint,
    client: *mut Endpoint,
    _name: CString,
}

// SAFETY: rmw's functions on an endpoint may be called by any thread.
unsafe impl Sync for Endpoints {}

impl Endpoints {
    fn new(node: &Arc<OwnNode>, name: &str) -> Self {
        let name = CString::new(name).unwrap();
        let (topic, handle) = (name.as_ptr(), node.node);
        // SAFETY: null_rmw.c reads the name only, which lives as long as the endpoints. The addresses of callbacks are
        // not read.
        unsafe {
            let subscription = rmw_create_subscription(handle, null(), topic, null(), null());
            ros_trace_rcl_subscription_init(null(), null(), subscription, topic, 1);
            let [intra_process, callback] = Self::callbacks(subscription);
            ros_trace_rclcpp_subscription_callback_added(null(), intra_process);
            ros_trace_rclcpp_subscription_callback_added(null(), callback);
            INTRA_PROCESS.store(intra_process, Ordering::Relaxed);
            Self {
                node: Arc::clone(node),
                subscription,
                publisher: rmw_create_publisher(handle, null(), topic, null(), null()),
                service: rmw_create_service(handle, null(), topic, null()),
                client: rmw_create_client(handle, null(), topic, null()),
                _name: name,
            }
        }
    }

    /// Returns the addresses of the callbacks of intra-process messages, and of others.
    fn callbacks(subscription: *mut Endpoint) -> [*mut c_void; 2] {
        [1, 2].map(|number| subscription.cast::<u8>().wrapping_add(number).cast())
    }

    /// Takes and publishes in its callback, serves and calls.
    fn use_once(&self) {
        let mut message = [0_u64; 8];
        let mut taken = false;
        let mut number = 0;
        // SAFETY: The endpoints live, and null_rmw.c writes no more than that.
        unsafe {
            let mut buffer: MessageInfoBuffer = std::mem::zeroed();
            let mut service_info: ServiceInfo = std::mem::zeroed();
            rmw_wait(null_mut(), null_mut(), null_mut(), null_mut(), null_mut(), null_mut(), null());
            let message = message.as_mut_ptr().cast();
            let (intra_process, [_, callback]) =
                (INTRA_PROCESS.load(Ordering::Relaxed), Self::callbacks(self.subscription));
            ros_trace_callback_start(intra_process, true);
            ros_trace_callback_end(intra_process);
            rmw_take_with_info(self.subscription, message, &mut taken, &mut buffer.info, null_mut());
            ros_trace_callback_start(callback, false);
            ros_trace_rclcpp_intra_publish(self.publisher.cast(), message);
            rmw_publish(self.publisher, message, null_mut());
            ros_trace_callback_end(callback);
            rmw_take_request(self.service, &mut service_info, null_mut(), &mut taken);
            rmw_send_response(self.service, &mut service_info.request_id, null_mut());
            rmw_send_request(self.client, null(), &mut number);
            rmw_take_response(self.client, &mut service_info, null_mut(), &mut taken);
        }
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        // SAFETY: They were created by `new`, and no thread uses them any more.
        unsafe {
            rmw_destroy_client(self.node.node, self.client);
            rmw_destroy_service(self.node.node, self.service);
            rmw_destroy_publisher(self.node.node, self.publisher);
            rmw_destroy_subscription(self.node.node, self.subscription);
        }
    }
}

/// The sums of the windows, by source and metric: of the averages, and of the sample counts.
static SUMS: Mutex<BTreeMap<(String, String), (f64, f64)>> = Mutex::new(BTreeMap::new());

/// null_rmw.c calls it for each metric of a window.
unsafe extern "C" fn accept(source: *const c_char, metric: *const c_char, average: f64, count: f64) {
    // SAFETY: Both are strings of the message.
    let text = |text| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned();
    let mut sums = SUMS.lock().unwrap();
    let sum = sums.entry((text(source), text(metric))).or_default();
    *sum = (sum.0 + average, sum.1 + count);
}

/// Loads the middleware that does nothing, as one that is linked to a program. False without a C compiler.
fn load() -> bool {
    let (Some(rmw), Some(rclcpp)) = (preload::library("null_rmw"), preload::library("null_rclcpp")) else {
        return false;
    };
    let [rmw, rclcpp] = [rmw, rclcpp].map(|library| CString::new(library.to_str().unwrap()).unwrap());
    // SAFETY: The paths are strings, and null_rmw.c declares the variable so.
    unsafe {
        let handle = libc::dlopen(rmw.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        assert!(!libc::dlopen(rclcpp.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL).is_null());
        let on_statistics = libc::dlsym(handle, c"on_statistics".as_ptr());
        assert!(!on_statistics.is_null());
        *on_statistics.cast::<unsafe extern "C" fn(*const c_char, *const c_char, f64, f64)>() = accept;
    }
    true
}

const THREADS: usize = 4;
const ROUNDS: usize = 50;
const USES: usize = 20;

#[test]
fn threads_that_create_use_and_destroy_at_once_lose_no_sample_of_another() {
    // As many windows as are published in time with a sanitizer.
    std::env::set_var("TOPIC_STATISTICS_PERIOD", "0.02");
    std::env::set_var("TOPIC_STATISTICS_METRICS", "message_age,source_to_receive_ms,input_to_output_ms");
    if !load() {
        return;
    }
    // It has the publisher of the windows first.
    let first = Endpoints::new(&OwnNode::new("first"), "/own_first");
    let node = OwnNode::new("shared");
    let shared = Endpoints::new(&node, "/own_shared");
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (node, shared) = (&node, &shared);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let own_node = OwnNode::new(&format!("own_{number}"));
                    let own = Endpoints::new(&own_node, "/own_topic");
                    let of_shared_node = Endpoints::new(node, &format!("/own_topic_{number}"));
                    for _ in 0..USES {
                        [&own, &of_shared_node, shared].iter().for_each(|endpoints| endpoints.use_once());
                    }
                }
            });
        }
        drop(first);
    });
    let expected = (THREADS * ROUNDS * USES) as f64;
    // Of one topic, the sources that are created later have a number.
    let counts = || {
        let sums = SUMS.lock().unwrap();
        [(" (2)", "publish_duration_ms"), (" (3)", "requests"), (" (4)", "calls"), (" (4)", "responses")].map(
            |(number, metric)| {
                let key = (format!("/shared:/own_shared{number}"), metric.to_owned());
                let (average, count) = sums.get(&key).copied().unwrap_or_default();
                if metric == "publish_duration_ms" {
                    count
                } else {
                    average
                }
            },
        )
    };
    wait_for("all windows", || counts().iter().all(|count| *count >= expected));
    assert_eq!(counts(), [expected; 4]);
}
