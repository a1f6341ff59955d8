// SPDX-License-Identifier: Apache-2.0

//! Publishes windows through a publisher that is created on one of the process's own nodes: one for each context.

use std::{
    ffi::{CStr, CString},
    ptr::{null_mut, NonNull},
    sync::{atomic::AtomicBool, Arc, Mutex},
    time::Duration,
};

use topic_statistics_core::{
    collector::Distribution,
    mutex::lock,
    record::source_name::SourceNames,
    schedule::outbox::{PublishError, PublishWindows},
    Metric, Summary, Window,
};

use crate::{
    abi::{
        DataPoint, Endpoint, MetricsMessage, Node, PublisherOptions, Qos, RmwTime, RosString, Time,
        TypeSupport, OK,
    },
    real,
    stamp::{reset_error, MessageType},
};

/// The type support of `statistics_msgs/MetricsMessage`.
#[derive(Clone, Copy)]
pub struct StatisticsType(NonNull<TypeSupport>);

// SAFETY: rosidl's type supports are constants of libraries that stay loaded.
unsafe impl Send for StatisticsType {}
// SAFETY: Likewise.
unsafe impl Sync for StatisticsType {}

impl StatisticsType {
    /// Finds it. Errors if it is not installed, or if its layout is another one.
    pub fn find() -> Result<Self, String> {
        let support = real::type_support("statistics_msgs", "MetricsMessage");
        let support = support.and_then(|support| NonNull::new(support.cast_mut())).ok_or(
            "the package statistics_msgs is not found (libstatistics_msgs__rosidl_typesupport_c.so)",
        )?;
        // SAFETY: It is rosidl's own.
        let size = unsafe { MessageType::of(support.as_ptr()) }.size;
        match size == size_of::<MetricsMessage>() {
            true => Ok(Self(support)),
            false => Err(format!(
                "statistics_msgs/MetricsMessage has {size} bytes here, and {} are expected",
                size_of::<MetricsMessage>()
            )),
        }
    }
}

/// A node of the process.
#[derive(Clone, Copy, PartialEq)]
pub struct NodeHandle(NonNull<Node>);

// SAFETY: rmw's functions on nodes and publishers can be called by any thread. A handle is forgotten before its node is
// destroyed.
unsafe impl Send for NodeHandle {}

impl NodeHandle {
    pub fn new(node: *const Node) -> Option<Self> {
        NonNull::new(node.cast_mut()).map(Self)
    }

    /// The address of its context.
    pub fn context(self) -> usize {
        // SAFETY: The node lives.
        unsafe { self.0.as_ref() }.context.addr()
    }

    /// The fully qualified name.
    pub fn name(self) -> String {
        // SAFETY: The node lives.
        let node = unsafe { self.0.as_ref() };
        // SAFETY: rmw's rule for both names is that they are null-terminated strings.
        let text = |text| unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let (namespace, name) = (text(node.namespace), text(node.name));
        format!("{}/{name}", namespace.trim_end_matches('/'))
    }
}

/// What the sources of a node have in common.
#[derive(Default)]
pub struct NodeState {
    pub names: Arc<SourceNames>,
    /// Whether it runs on simulated time: then stamps are of another clock than the system's.
    pub is_simulated: AtomicBool,
}

/// The publisher of a context's windows.
pub struct Output {
    context: usize,
    state: Mutex<State>,
}

struct State {
    topic: CString,
    statistics_type: StatisticsType,
    /// The nodes of the context that have statistics.
    nodes: Vec<(NodeHandle, Arc<NodeState>)>,
    publisher: Option<(NodeHandle, PublisherHandle)>,
}

struct PublisherHandle(NonNull<Endpoint>);

// SAFETY: As for `NodeHandle`.
unsafe impl Send for PublisherHandle {}

impl Output {
    /// How long the exit of the process waits for a message that is being published.
    const EXIT: Duration = Duration::from_millis(500);

    pub fn new(context: usize, topic: CString, statistics_type: StatisticsType) -> Self {
        Self { context, state: Mutex::new(State { topic, statistics_type, nodes: vec![], publisher: None }) }
    }

    pub fn is_of(&self, context: usize) -> bool {
        self.context == context
    }

    /// Adds a node, unless it is there.
    pub fn add_node(&self, node: NodeHandle) -> Arc<NodeState> {
        let mut state = lock(&self.state);
        if let Some((_, present)) = state.nodes.iter().find(|(of, _)| *of == node) {
            return Arc::clone(present);
        }
        let new = Arc::<NodeState>::default();
        state.nodes.push((node, Arc::clone(&new)));
        new
    }

    /// Creates the publisher on that node, unless there is one. Errors if the middleware does.
    pub fn create_publisher(&self, node: NodeHandle) -> Result<(), String> {
        let mut state = lock(&self.state);
        if state.publisher.is_none() {
            state.publisher = Some((node, state.create(node)?));
        }
        Ok(())
    }

    /// Forgets a node that is about to be destroyed. Returns whether no node is left.
    pub fn remove_node(&self, node: NodeHandle) -> bool {
        let mut state = lock(&self.state);
        state.nodes.retain(|(of, _)| *of != node);
        if state.publisher.as_ref().is_some_and(|(of, _)| *of == node) {
            state.move_publisher();
        }
        state.nodes.is_empty()
    }

    /// Publishes nothing from now on: the process ends, and the middleware with it.
    pub fn close(&self) {
        for _ in 0..Self::EXIT.as_millis() {
            if let Ok(mut state) = self.state.try_lock() {
                state.publisher = None; // it is not destroyed: its node ends with the process
                state.nodes.clear();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl State {
    /// As the library's: reliable, and deep enough for the end of a window of many subscriptions.
    const DEPTH: usize = 1000;

    fn create(&self, node: NodeHandle) -> Result<PublisherHandle, String> {
        let unspecified = RmwTime { sec: 0, nsec: 0 };
        let qos = Qos {
            history: Qos::KEEP_LAST,
            depth: Self::DEPTH,
            reliability: Qos::RELIABLE,
            durability: Qos::VOLATILE,
            deadline: unspecified,
            lifespan: unspecified,
            liveliness: 0,
            liveliness_lease: unspecified,
            avoid_ros_namespace_conventions: false,
        };
        let options = PublisherOptions { payload: null_mut(), unique_network_flow_endpoints: 0 };
        let create = real::rmw_create_publisher().ok_or("rmw_create_publisher is not found")?;
        // SAFETY: The node lives, and the arguments are those of rmw.h. The middleware copies what it keeps.
        let publisher = unsafe {
            create(node.0.as_ptr(), self.statistics_type.0.as_ptr(), self.topic.as_ptr(), &qos, &options)
        };
        NonNull::new(publisher).map(PublisherHandle).ok_or_else(|| {
            reset_error();
            format!("the middleware refuses a publisher on {}", self.topic.to_string_lossy())
        })
    }

    /// Ends the publisher, and creates another one on another node, if there is one.
    fn move_publisher(&mut self) {
        if let (Some((node, publisher)), Some(destroy)) =
            (self.publisher.take(), real::rmw_destroy_publisher())
        {
            // SAFETY: The node lives, and the publisher was created on it.
            let result = unsafe { destroy(node.0.as_ptr(), publisher.0.as_ptr()) };
            if result != OK {
                reset_error();
            }
        }
        let nodes: Vec<NodeHandle> = self.nodes.iter().map(|(node, _)| *node).collect();
        self.publisher = nodes.into_iter().find_map(|node| Some((node, self.create(node).ok()?)));
    }

    fn publish(&self, message: &MetricsMessage) -> Result<(), PublishError> {
        // Without a node nothing is published.
        let Some((_, publisher)) = &self.publisher else { return Ok(()) };
        let publish = real::rmw_publish().ok_or("rmw_publish is not found")?;
        // SAFETY: The publisher lives, and the message is of its type.
        match unsafe { publish(publisher.0.as_ptr(), std::ptr::from_ref(message).cast(), null_mut()) } {
            OK => Ok(()),
            error => {
                reset_error();
                Err(format!("rmw_publish returns {error}").into())
            }
        }
    }
}

impl PublishWindows for Output {
    fn publish_metric(
        &self,
        source: &str,
        metric: Metric,
        window: Window,
        summary: &Summary,
    ) -> Result<(), PublishError> {
        let [source, name, unit] =
            [source, metric.name(), metric.unit()].map(|text| CString::new(text.replace('\0', "")));
        let (source, name, unit) = (source?, name?, unit?);
        // In rclcpp's order.
        let points = [
            DataPoint { data_type: 1, data: summary.average },
            DataPoint { data_type: 3, data: summary.maximum },
            DataPoint { data_type: 2, data: summary.minimum },
            DataPoint { data_type: 5, data: summary.sample_count as f64 },
            DataPoint { data_type: 4, data: summary.standard_deviation },
        ];
        let message = MetricsMessage {
            measurement_source_name: string(&source),
            metrics_source: string(&name),
            unit: string(&unit),
            window_start: time(window.start.as_nanoseconds()),
            window_stop: time(window.stop.as_nanoseconds()),
            statistics: points.as_ptr(),
            statistics_size: points.len(),
            statistics_capacity: points.len(),
        };
        lock(&self.state).publish(&message)
    }

    fn publish_distribution(
        &self,
        _: &str,
        _: Metric,
        _: Window,
        _: &Distribution,
    ) -> Result<(), PublishError> {
        Ok(()) // no source has any
    }
}

fn string(text: &CStr) -> RosString {
    let bytes = text.to_bytes();
    RosString { data: text.as_ptr(), size: bytes.len(), capacity: bytes.len() + 1 }
}

/// Times after 2038 become the largest one.
fn time(nanoseconds: i64) -> Time {
    const SECOND: i64 = 1_000_000_000;
    Time {
        sec: i32::try_from(nanoseconds.div_euclid(SECOND)).unwrap_or(i32::MAX),
        nanosec: nanoseconds.rem_euclid(SECOND) as u32,
    }
}
