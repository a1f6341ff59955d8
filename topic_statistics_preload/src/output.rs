// SPDX-License-Identifier: Apache-2.0

//! Publishes windows and diagnostics. In each context, the publishers belong to one of the process's own nodes.

use std::{
    ffi::{CStr, CString},
    ptr::{null_mut, NonNull},
    sync::{atomic::AtomicUsize, Arc, Mutex, Weak},
    time::Duration,
};

use topic_statistics_core::{
    collector::Distribution,
    mutex::lock,
    record::{clock::system_time, source::Source, source_name::SourceNames},
    schedule::outbox::{PublishError, PublishWindows},
    Metric, Summary, Window,
};

use crate::{
    abi::{
        DataPoint, DiagnosticArray, Endpoint, MetricsDistribution, MetricsMessage, Node, PublisherOptions,
        Qos, RmwTime, RosSequence, RosString, Time, TypeSupport, OK,
    },
    real,
    stamp::{reset_error, MessageType},
};

#[derive(Clone, Copy, PartialEq)]
pub enum Content {
    Windows,
    Distributions,
    Diagnostics,
}

/// A topic on which the library publishes, and the type of the topic.
pub struct OutputTopic {
    content: Content,
    name: CString,
    type_support: NonNull<TypeSupport>,
}

// SAFETY: rosidl's type supports are constants of libraries that stay loaded.
unsafe impl Send for OutputTopic {}
// SAFETY: The type supports are constants, as above.
unsafe impl Sync for OutputTopic {}

impl OutputTopic {
    /// Finds the topic for windows, distributions or diagnostics (`content`). `windows` is the name of the topic for
    /// windows. Errors if the type is not installed, or does not have the expected size.
    pub fn find(content: Content, windows: &str) -> Result<Self, String> {
        let (name, package, message_type, expected) = match content {
            Content::Windows => {
                (windows.to_owned(), "statistics_msgs", "MetricsMessage", size_of::<MetricsMessage>())
            }
            Content::Distributions => (
                format!("{windows}/distribution"),
                "topic_statistics_interfaces",
                "MetricsDistribution",
                size_of::<MetricsDistribution>(),
            ),
            Content::Diagnostics => {
                let name = "/diagnostics".to_owned();
                (name, "diagnostic_msgs", "DiagnosticArray", size_of::<DiagnosticArray>())
            }
        };
        let support = real::type_support(package, message_type);
        let type_support = support.and_then(|support| NonNull::new(support.cast_mut())).ok_or_else(|| {
            format!("the package {package} is not found (lib{package}__rosidl_typesupport_c.so)")
        })?;
        // SAFETY: rosidl's library has returned the type support.
        let size = unsafe { MessageType::from_type_support(type_support.as_ptr()) }.size;
        let name = CString::new(name).map_err(|error| error.to_string())?;
        match size == expected {
            true => Ok(Self { content, name, type_support }),
            false => {
                Err(format!("{package}/{message_type} has {size} bytes here, and {expected} are expected"))
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub struct NodeHandle(NonNull<Node>);

// SAFETY: Any thread can call rmw's functions on nodes and publishers. A handle is removed before its node is
// destroyed.
unsafe impl Send for NodeHandle {}

impl NodeHandle {
    pub fn new(node: *const Node) -> Option<Self> {
        NonNull::new(node.cast_mut()).map(Self)
    }

    pub fn context(self) -> usize {
        // SAFETY: The node lives.
        unsafe { self.0.as_ref() }.context.addr()
    }

    /// Returns the fully qualified name of the node.
    pub fn name(self) -> String {
        // SAFETY: The node lives.
        let node = unsafe { self.0.as_ref() };
        // SAFETY: rmw's rule is that both names are null-terminated strings.
        let text = |text| unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let (namespace, name) = (text(node.namespace), text(node.name));
        format!("{}/{name}", namespace.trim_end_matches('/'))
    }
}

/// The state that the sources of a node share.
#[derive(Default)]
pub struct NodeState {
    pub names: Arc<SourceNames>,
    /// The number of the node's subscriptions to /clock. A node with such a subscription runs on simulated time, and
    /// its stamps are not from the system clock.
    pub clocks: AtomicUsize,
}

/// Publishes the windows and the health of the sources in one context.
pub struct Output {
    context: usize,
    /// A function that is called before a window is published.
    before: fn(),
    state: Mutex<State>,
}

struct State {
    topics: Arc<[OutputTopic]>,
    /// The context's nodes that have statistics.
    nodes: Vec<(NodeHandle, Arc<NodeState>)>,
    /// A publisher for each topic that is in use. All these publishers belong to the same node.
    publishers: Vec<Publisher>,
    /// The context's sources that are judged. If no source is judged, the library publishes nothing on /diagnostics.
    judged: Vec<Weak<Source>>,
}

impl Drop for State {
    /// Leaks the remaining publishers instead of destroying them, because their node may already be destroyed.
    fn drop(&mut self) {
        self.publishers.drain(..).for_each(std::mem::forget);
    }
}

/// A publisher of rmw on an existing node. Dropping this value destroys the publisher.
struct Publisher {
    content: Content,
    node: NodeHandle,
    endpoint: NonNull<Endpoint>,
}

// SAFETY: As for `NodeHandle`.
unsafe impl Send for Publisher {}

impl Output {
    /// The longest time that the exit of the process waits for a publication that is in progress.
    const EXIT: Duration = Duration::from_millis(500);

    pub fn new(context: usize, topics: Arc<[OutputTopic]>, before: fn()) -> Self {
        let (nodes, publishers, judged) = Default::default();
        Self { context, before, state: Mutex::new(State { topics, nodes, publishers, judged }) }
    }

    pub fn has_context(&self, context: usize) -> bool {
        self.context == context
    }

    pub fn add_node(&self, node: NodeHandle) -> Arc<NodeState> {
        let mut state = lock(&self.state);
        if let Some((_, present)) = state.nodes.iter().find(|(other, _)| *other == node) {
            return Arc::clone(present);
        }
        let new = Arc::<NodeState>::default();
        state.nodes.push((node, Arc::clone(&new)));
        new
    }

    /// Creates the publishers on this node, if the context has no publishers. Errors if the middleware refuses a
    /// publisher.
    pub fn create_publishers(&self, node: NodeHandle) -> Result<(), String> {
        let mut state = lock(&self.state);
        if state.publishers.is_empty() {
            state.publishers = state.create(node, |content| content != Content::Diagnostics)?;
        }
        Ok(())
    }

    /// Judges a source of the context from now on. Creates the publisher of the diagnostics, if the context has none.
    /// Errors if the middleware refuses the publisher.
    pub fn judge(&self, source: &Arc<Source>) -> Result<(), String> {
        let mut state = lock(&self.state);
        let has_diagnostics = state.publishers.iter().any(|own| own.content == Content::Diagnostics);
        if let Some(node) = state.publishers.first().filter(|_| !has_diagnostics).map(|own| own.node) {
            let new = state.create(node, |content| content == Content::Diagnostics)?;
            state.publishers.extend(new);
        }
        state.judged.retain(|judged| judged.strong_count() > 0);
        state.judged.push(Arc::downgrade(source));
        Ok(())
    }

    pub fn judges(&self, source: &Arc<Source>) -> bool {
        lock(&self.state).judged.iter().any(|judged| std::ptr::eq(judged.as_ptr(), Arc::as_ptr(source)))
    }

    pub fn publish_diagnostics(
        &self,
        message: impl FnOnce(Time) -> DiagnosticArray,
    ) -> Result<(), PublishError> {
        let message = message(time(system_time()));
        // SAFETY: The message has the type of the topic.
        unsafe { lock(&self.state).publish(Content::Diagnostics, &message) }
    }

    /// Removes a node that is about to be destroyed. If the publishers belong to this node, destroys them, and creates
    /// new publishers on another node. Returns whether the context has no node left.
    pub fn remove_node(&self, node: NodeHandle) -> bool {
        let mut state = lock(&self.state);
        state.nodes.retain(|(other, _)| *other != node);
        if state.publishers.first().is_some_and(|own| own.node == node) {
            let contents: Vec<_> = state.publishers.drain(..).map(|own| own.content).collect();
            let create = |node| state.create(node, |content| contents.contains(&content)).ok();
            let moved = state.nodes.iter().find_map(|(node, _)| create(*node));
            state.publishers = moved.unwrap_or_default();
        }
        state.nodes.is_empty()
    }

    pub fn close(&self) {
        for _ in 0..Self::EXIT.as_millis() {
            if let Ok(mut state) = self.state.try_lock() {
                // The publishers are not destroyed, because they end with the process.
                state.publishers.drain(..).for_each(std::mem::forget);
                state.nodes.clear();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl State {
    /// Creates publishers on a node: one for each content that `has` selects.
    fn create(&self, node: NodeHandle, has: impl Fn(Content) -> bool) -> Result<Vec<Publisher>, String> {
        let topics = self.topics.iter().filter(|topic| has(topic.content));
        topics.map(|topic| Publisher::create(node, topic)).collect()
    }

    /// Publishes a message on the topic with this content.
    /// Safety: The message must be of the topic's type.
    unsafe fn publish<Message>(&self, content: Content, message: &Message) -> Result<(), PublishError> {
        // Without a node, there are no publishers, and nothing is published.
        let Some(own) = self.publishers.iter().find(|own| own.content == content) else { return Ok(()) };
        let publish = real::rmw_publish().ok_or("rmw_publish is not found")?;
        // SAFETY: The publisher lives, and the caller guarantees that the message has the publisher's type.
        match unsafe { publish(own.endpoint.as_ptr(), std::ptr::from_ref(message).cast(), null_mut()) } {
            OK => Ok(()),
            error => {
                reset_error();
                Err(format!("rmw_publish returns {error}").into())
            }
        }
    }
}

impl Publisher {
    fn create(node: NodeHandle, topic: &OutputTopic) -> Result<Self, String> {
        let unspecified = RmwTime { sec: 0, nsec: 0 };
        let qos = Qos {
            history: Qos::KEEP_LAST,
            depth: match topic.content {
                // The queue is deep: the windows of many subscriptions may end at the same time.
                Content::Windows | Content::Distributions => 1000,
                Content::Diagnostics => 10, // readers need only the last message
            },
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
        // SAFETY: The node lives, and the arguments have the types of rmw.h. The middleware copies all data that it
        // keeps.
        let endpoint = unsafe {
            create(node.0.as_ptr(), topic.type_support.as_ptr(), topic.name.as_ptr(), &qos, &options)
        };
        NonNull::new(endpoint).map(|endpoint| Self { content: topic.content, node, endpoint }).ok_or_else(
            || {
                reset_error();
                format!("the middleware refuses a publisher on {}", topic.name.to_string_lossy())
            },
        )
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if let Some(destroy) = real::rmw_destroy_publisher() {
            // SAFETY: The node lives, and the publisher was created on it.
            if unsafe { destroy(self.node.0.as_ptr(), self.endpoint.as_ptr()) } != OK {
                reset_error();
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
        (self.before)();
        let [source, name, unit] = texts(source, metric)?;
        // The data points are in the order in which rclcpp publishes them.
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
            statistics: RosSequence::of(&points),
        };
        // SAFETY: The message has the type of the topic.
        unsafe { lock(&self.state).publish(Content::Windows, &message) }
    }

    fn publish_distribution(
        &self,
        source: &str,
        metric: Metric,
        window: Window,
        distribution: &Distribution,
    ) -> Result<(), PublishError> {
        let [source, name, unit] = texts(source, metric)?;
        let (positive_offset, positive) = distribution.positive_counts();
        let (negative_offset, negative) = distribution.negative_counts();
        let message = MetricsDistribution {
            measurement_source_name: string(&source),
            metrics_source: string(&name),
            unit: string(&unit),
            window_start: time(window.start.as_nanoseconds()),
            window_stop: time(window.stop.as_nanoseconds()),
            count: distribution.count(),
            sum: distribution.sum(),
            minimum: distribution.minimum(),
            maximum: distribution.maximum(),
            scale: distribution.scale(),
            zero_threshold: distribution.zero_threshold(),
            zero_count: distribution.zero_count(),
            positive_offset,
            positive_counts: RosSequence::of(&positive),
            negative_offset,
            negative_counts: RosSequence::of(&negative),
            p50: distribution.quantile(0.5),
            p90: distribution.quantile(0.9),
            p99: distribution.quantile(0.99),
            p99_9: distribution.quantile(0.999),
        };
        // SAFETY: The message has the type of the topic.
        unsafe { lock(&self.state).publish(Content::Distributions, &message) }
    }
}

fn texts(source: &str, metric: Metric) -> Result<[CString; 3], PublishError> {
    Ok([text(source)?, text(metric.name())?, text(metric.unit())?])
}

/// Returns a text that ends with NUL.
pub fn text(text: &str) -> Result<CString, PublishError> {
    Ok(CString::new(text.replace('\0', ""))?)
}

/// Returns a string that is valid as long as the text lives.
pub fn string(text: &CStr) -> RosString {
    let bytes = text.to_bytes();
    RosString { data: text.as_ptr(), size: bytes.len(), capacity: bytes.len() + 1 }
}

/// Converts nanoseconds since the epoch to a ROS time. For times after 2038, `sec` is the largest `i32`.
fn time(nanoseconds: i64) -> Time {
    const SECOND: i64 = 1_000_000_000;
    Time {
        sec: i32::try_from(nanoseconds.div_euclid(SECOND)).unwrap_or(i32::MAX),
        nanosec: nanoseconds.rem_euclid(SECOND) as u32,
    }
}
