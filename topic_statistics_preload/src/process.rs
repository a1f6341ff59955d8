// SPDX-License-Identifier: Apache-2.0

//! The statistics of this process. The statistics begin with the first measured subscription, publisher, service or
//! client.
//!
//! The statistics end if something fails, and when the process exits. A child of `fork` has no statistics, because the
//! thread of the statistics is only in the parent.

use std::{
    ffi::{c_char, CStr},
    panic::AssertUnwindSafe,
    sync::{
        atomic::{AtomicI64, AtomicU8, AtomicUsize, Ordering},
        Arc, Mutex, Once, OnceLock, PoisonError,
    },
};

use topic_statistics_core::{
    health::NodeExpectations,
    mutex::lock,
    record::{
        clock::{system_time, HostClock},
        middleware::{Middleware, UNKNOWN},
        options::{SourceDefaults, SourceOptions},
        publications::Publications,
        recorder::{Recorder, RecorderOptions},
        source::{Source, SourceHandle, WindowedCollector},
        source_name::UniqueName,
        transport::Transport,
        windowed::Windowed,
    },
    schedule::{
        judges::Diagnosed, losses::LossEvents, outbox::PublishError, scheduler::Scheduler, state::Schedule,
    },
    Escaped, Metric,
};

use crate::{
    abi::{Endpoint, Node, Qos, TypeSupport},
    callbacks::{Callbacks, ENDING, INTRA_PROCESS_PUBLISHERS},
    cause, fork,
    health::{self, Expected},
    hops::{self, PublisherHops},
    log::{line, Lines},
    options::{has_lifecycle_name, is_hidden, Options},
    output::{Content, NodeHandle, NodeState, Output, OutputTopic},
    real,
    services::{Client, Service},
    stamp::{is_of_lifecycle, MessageType, Stamp},
    table::{Table, BOUND},
};

static SUBSCRIPTIONS: Table<Subscription> = Table::new();
static PUBLISHERS: Table<Publisher> = Table::new();
pub static SERVICES: Table<Service> = Table::new();
pub static CLIENTS: Table<Client> = Table::new();
static PROCESS: OnceLock<Option<Process>> = OnceLock::new();
static STATE: AtomicU8 = AtomicU8::new(NEW);

/// The statistics have not begun, or are running.
const NEW: u8 = 0;
const ENDED: u8 = 1;
/// This process is a forked child of a process with statistics. `fork` may have copied a lock in the locked state. The
/// child must not wait for such a lock, because no thread of the child would unlock it.
const FORKED: u8 = 2;

struct Process {
    options: &'static Options,
    /// `None` if nothing is judged.
    expected: Option<Expected>,
    topics: Arc<[OutputTopic]>,
    scheduler: Arc<Scheduler>,
    outputs: Mutex<Vec<Arc<Output>>>,
    /// The subscriptions to /clock, and their nodes.
    clocks: Mutex<Vec<(usize, Arc<NodeState>)>>,
}

pub struct Subscription {
    /// The first field, so it is dropped first. When it is dropped, the statistics end, while the other fields still
    /// exist.
    _source: SourceHandle,
    pub recorder: Arc<Recorder>,
    pub transport: &'static Transport,
    pub stamp: Option<Stamp>,
    pub node: Arc<NodeState>,
    /// The number of the topic as an input of hops (a hop leads from a received message to the publication that the
    /// message causes). 0 if hops are not measured, or if the topic belongs to an action, because rclcpp does not
    /// report the callbacks of actions.
    pub topic: u32,
    pub context: usize,
    pub callbacks: Callbacks,
    /// Up to this time, a gap in the sequence numbers may come from a content filter instead of a loss. In nanoseconds
    /// since the epoch; 0 if the subscription never had a filter, `i64::MAX` while it has a filter.
    pub filtered_until: AtomicI64,
}

pub struct Publisher {
    _source: SourceHandle,
    pub context: usize,
    /// The key in [`INTRA_PROCESS_PUBLISHERS`]; 0 if the publisher has no intra-process communication.
    pub intra_process: AtomicUsize,
    pub publications: Arc<Windowed<Publications>>,
    /// `None` if hops are not measured.
    pub hops: Option<Arc<PublisherHops>>,
}

/// Runs code of the statistics within a function that the host has called. A panic ends only the statistics, not the
/// host.
pub fn protect<T>(run: impl FnOnce() -> T) -> Option<T> {
    let result = std::panic::catch_unwind(AssertUnwindSafe(run));
    if result.is_err() {
        end("they failed, please report this");
    }
    result.ok()
}

fn end(why: &str) {
    if STATE.swap(ENDED, Ordering::Relaxed) == NEW {
        line(format_args!("no topic statistics in process {}: {why}", std::process::id()));
    }
}

/// Returns whether the statistics have ended, or this process is a forked child.
#[inline]
pub fn has_ended() -> bool {
    STATE.load(Ordering::Relaxed) != NEW
}

/// Runs when the process exits. Exit functions run in reverse order of registration. The middleware was loaded earlier,
/// so this function runs before the middleware's exit functions.
extern "C" fn at_exit() {
    if STATE.swap(ENDED, Ordering::Relaxed) != FORKED {
        let _ended = protect(|| {
            if let Some(process) = initialised() {
                lock(&process.outputs).iter().for_each(|output| output.close());
            }
        });
    }
}

fn initialised() -> Option<&'static Process> {
    PROCESS.get()?.as_ref()
}

/// Returns the statistics of this process, if the statistics have begun and this process is no forked child.
fn running() -> Option<&'static Process> {
    initialised().filter(|_| STATE.load(Ordering::Relaxed) != FORKED)
}

/// Returns the statistics of this process; `None` if the statistics could not begin. The first call begins the
/// statistics.
fn process(options: &'static Options) -> Option<&'static Process> {
    if let Some(process) = PROCESS.get() {
        return process.as_ref();
    }
    let begin = || Process::begin(options).map_err(|why| end(&why)).ok();
    fork::with_blocked_forks(|| PROCESS.get_or_init(begin).as_ref())
}

fn options() -> Option<&'static Options> {
    static OPTIONS: OnceLock<Option<Options>> = OnceLock::new();
    if let Some(options) = OPTIONS.get() {
        return options.as_ref();
    }
    let read = || Options::read(std::env::vars_os()).map_err(|why| end(&why)).ok();
    fork::with_blocked_forks(|| OPTIONS.get_or_init(read).as_ref())
}

/// Returns whether the options select the executors, and the statistics have not ended.
pub fn wants_executor() -> bool {
    !has_ended() && options().is_some_and(|options| options.has_executor)
}

impl Process {
    fn begin(options: &'static Options) -> Result<Self, String> {
        let find = |content| OutputTopic::find(content, &options.publish_topic);
        let mut topics = vec![find(Content::Windows)?];
        if options.distributions {
            topics.push(find(Content::Distributions)?);
        }
        let mut expected =
            options.expect.as_deref().and_then(|path| Expected::read(path, &options.expect_namespace));
        if expected.is_some() {
            match find(Content::Diagnostics) {
                Ok(topic) => topics.push(topic),
                Err(why) => {
                    expected = None;
                    line(format_args!("no health: {why}"));
                }
            }
        }
        let topics = topics.into();
        let mut defaults = SourceDefaults::default();
        defaults.publish_period = options.period;
        defaults.distributions = options.distributions;
        let name = format!("process {}", std::process::id());
        let mut schedule =
            Schedule::new(defaults, false, LossEvents::new(name.clone(), 0.0)).without_totals();
        schedule.judge_by(NodeExpectations::default(), expected.is_some());
        let scheduler = Arc::new(Scheduler::new(name, Box::new(Lines { publish_health }), schedule, None));
        fork::call_in_children(|| STATE.store(FORKED, Ordering::Relaxed));
        // SAFETY: The function lives as long as this library, which is never unloaded.
        if unsafe { libc::atexit(at_exit) } != 0 {
            return Err("atexit is refused".to_owned());
        }
        // These functions are looked up here, in advance. The search takes the dynamic linker's lock, which must not be
        // taken while the outputs are locked, as they are when the functions are called.
        let _found = (real::rmw_create_publisher(), real::rmw_publish(), real::rmw_destroy_publisher());
        scheduler.start(|_| None).map_err(|error| format!("a thread cannot be started: {error}"))?;
        if options.has_hops {
            cause::enable();
        }
        Ok(Self { options, expected, topics, scheduler, outputs: Mutex::default(), clocks: Mutex::default() })
    }

    /// Returns the output of a node's context. Creates the output if the context has none.
    fn output(&self, node: NodeHandle) -> Arc<Output> {
        let mut outputs = lock(&self.outputs);
        let context = node.context();
        if let Some(output) = outputs.iter().find(|output| output.has_context(context)) {
            return Arc::clone(output);
        }
        let output = Arc::new(Output::new(context, Arc::clone(&self.topics), create_hops));
        outputs.push(Arc::clone(&output));
        output
    }

    /// Adds a source. `source` makes the source from its unique name and its topic. Errors if the windows of the source
    /// cannot be published.
    fn add(
        &self,
        new: Wanted,
        source: impl FnOnce(UniqueName, String) -> Source,
    ) -> Result<SourceHandle, String> {
        new.output.create_publishers(new.node)?;
        let node = new.node.name();
        let name = new.state.names.reserve(&node, &format!("{node}:{}", new.name));
        let source = source(name, new.name);
        let collector = Arc::clone(&source.collector);
        let output = Arc::clone(&new.output);
        let added = self.scheduler.add(collector, SourceOptions::default(), Some(new.output as _));
        let source = Arc::new(source);
        if let Some(expectations) = self.expected.as_ref().and_then(|all| all.expectations(&source)) {
            match output.judge(&source) {
                Ok(()) => self.scheduler.expect(&source, expectations),
                Err(why) => line(format_args!("no health of {}: {why}", Escaped(&source.name))),
            }
        }
        Ok(added.complete(source))
    }
}

/// Publishes the health of sources. This function runs on the thread of the statistics.
fn publish_health(diagnosed: &[&Diagnosed]) -> Result<(), PublishError> {
    let Some(process) = initialised() else { return Ok(()) };
    let outputs = lock(&process.outputs).clone();
    outputs.iter().try_for_each(|output| health::publish(output, diagnosed))
}

fn create_hops() {
    if let Some(process) = initialised() {
        hops::create_marked(&process.scheduler);
    }
}

/// Returns a function that makes the source of a publisher, a service or a client.
fn source_of(collector: Arc<dyn WindowedCollector>) -> impl FnOnce(UniqueName, String) -> Source {
    |name, topic| Source::new(name, collector, None).of_topic(topic.clone(), &topic)
}

/// The arguments and the result of a call of rmw that has created an endpoint.
pub struct Created {
    node: *const Node,
    /// The type support of a message or a service. Both type supports begin with the same fields.
    type_support: *const TypeSupport,
    name: *const c_char,
    qos: *const Qos,
    endpoint: *const Endpoint,
}

/// Measures a new endpoint from now on, if the options select the endpoint and it is not null. `kind` is the method for
/// the endpoint's kind, such as [`Created::publisher`]. Safety: The pointers must be the arguments and the result of a
/// call of rmw.
pub unsafe fn measure(
    kind: fn(&Created),
    node: *const Node,
    type_support: *const TypeSupport,
    name: *const c_char,
    qos: *const Qos,
    endpoint: *mut Endpoint,
) {
    if !endpoint.is_null() {
        let _panic = protect(|| kind(&Created { node, type_support, name, qos, endpoint }));
    }
}

struct Wanted {
    process: &'static Process,
    node: NodeHandle,
    output: Arc<Output>,
    name: String,
    state: Arc<NodeState>,
}

impl Created {
    /// Returns the data that are needed to measure the endpoint; `None` if the endpoint is not measured.
    fn wanted(&self, is_clock: bool) -> Option<Wanted> {
        if has_ended() {
            return None;
        }
        // SAFETY: rmw has accepted the name.
        let name = unsafe { CStr::from_ptr(self.name) }.to_str().ok()?.to_owned();
        let options = options()?;
        // SAFETY: rmw has accepted the type.
        let is_lifecycle = has_lifecycle_name(&name) && unsafe { is_of_lifecycle(self.type_support) };
        let is_measured = options.measures(&name, is_lifecycle);
        if !is_measured && !is_clock {
            return None;
        }
        let wanted = Wanted::new(self.node, options, name)?;
        if is_clock {
            wanted.state.clocks.fetch_add(1, Ordering::Relaxed);
            lock(&wanted.process.clocks).push((self.endpoint.addr(), Arc::clone(&wanted.state)));
        }
        is_measured.then_some(wanted)
    }

    pub fn subscription(&self) {
        static IS_UNKNOWN: Once = Once::new();
        if has_ended() {
            return;
        }
        // SAFETY: rmw has accepted the type.
        let message_type = unsafe { MessageType::from_type_support(self.type_support) };
        let Some(wanted) = self.wanted(message_type.is_clock) else { return };
        if message_type.is_unknown
            && wanted.process.options.metrics.iter().any(|m| m.starts_at_header_stamp())
        {
            IS_UNKNOWN.call_once(|| {
                line(format_args!(
                    "ages of {}, and of other topics likewise, are NaN: the library with the introspection of its \
                     type (lib<package>__rosidl_typesupport_introspection_c.so, or _cpp.so) is not found",
                    Escaped(&wanted.name)
                ));
            });
        }
        // SAFETY: rmw has accepted the profile.
        let may_have_history = unsafe { self.qos.as_ref() }.is_some_and(Qos::may_have_history);
        let recorder_options =
            RecorderOptions::new().metrics(wanted.metrics()).transient_local(may_have_history);
        let recorder = Arc::new(Recorder::new(&wanted.name, recorder_options, None, &HostClock));
        match message_type.stamp {
            Some(_) => {}
            None if message_type.is_unknown => recorder.accept_no_stamps(),
            None => recorder.accept_no_header(),
        }
        let node = Arc::clone(&wanted.state);
        let transport = self.transport();
        let is_input = wanted.process.options.has_hops && !is_hidden(&wanted.name);
        let topic = if is_input { hops::topic_number(&wanted.name) } else { 0 };
        let context = wanted.node.context();
        let messages = Arc::clone(&recorder);
        let source = |name, topic| Source::new(name, messages, Some(Box::new(topic)));
        wanted.add(self.endpoint, &SUBSCRIPTIONS, source, |source| Subscription {
            _source: source,
            recorder,
            transport,
            stamp: message_type.stamp,
            node,
            topic,
            context,
            callbacks: Callbacks::default(),
            filtered_until: AtomicI64::default(),
        });
        note_filter(self.endpoint);
    }

    pub fn publisher(&self) {
        let Some(wanted) = self.wanted(false) else { return };
        let has_sizes = wanted.process.options.metrics.contains(&Metric::MessageSize);
        let publications = Arc::new(Windowed::new(Publications::new(Default::default(), has_sizes)));
        let source = source_of(Arc::clone(&publications) as _);
        let hops = wanted.process.options.has_hops.then(|| {
            let (node, names) = (wanted.node.name(), Arc::clone(&wanted.state.names));
            PublisherHops::new(node, wanted.name.clone(), names, Arc::clone(&wanted.output))
        });
        let context = wanted.node.context();
        wanted.add(self.endpoint, &PUBLISHERS, source, |source| Publisher {
            _source: source,
            context,
            intra_process: AtomicUsize::default(),
            publications,
            hops,
        });
    }

    pub fn service(&self) {
        let Some(wanted) = self.wanted(false) else { return };
        let recorder = Service::recorder();
        let source = source_of(Arc::clone(&recorder.requests) as _);
        wanted
            .add(self.endpoint, &SERVICES, source, |source| Service::new(source, recorder, self.transport()));
    }

    pub fn client(&self) {
        let Some(wanted) = self.wanted(false) else { return };
        let recorder = Client::recorder();
        let source = source_of(Arc::clone(&recorder.calls) as _);
        wanted.add(self.endpoint, &CLIENTS, source, |source| Client::new(source, recorder, self.transport()));
    }

    /// Returns what the endpoint's middleware reports with a message.
    fn transport(&self) -> &'static Transport {
        // SAFETY: rmw has returned the endpoint.
        let identifier = unsafe { (*self.endpoint).implementation_identifier };
        // SAFETY: rmw's rule is that the identifier is null or a null-terminated string.
        let middleware = (!identifier.is_null()).then(|| unsafe { CStr::from_ptr(identifier) });
        &middleware.and_then(Middleware::named).unwrap_or(&UNKNOWN).transport
    }
}

/// Adds a source that belongs to a node, but not to a topic. `name` is the name of the source. `new` returns the
/// source's collector; `None` if the options do not select the source. Returns `None` if the source is not measured.
/// Safety: `node` must be a node of rmw, or null.
pub unsafe fn add_untitled<C: WindowedCollector + 'static>(
    node: *const Node,
    name: &str,
    new: impl FnOnce(&Options, &Arc<NodeState>) -> Option<Arc<C>>,
) -> Option<SourceHandle> {
    if has_ended() {
        return None;
    }
    let options = options()?;
    let wanted = Wanted::new(node, options, name.to_owned())?;
    let collector = new(options, &wanted.state)?;
    let source = |name, _| Source::new(name, collector, None);
    wanted.process.add(wanted, source).map_err(|why| end(&why)).ok()
}

impl Wanted {
    fn new(node: *const Node, options: &'static Options, name: String) -> Option<Self> {
        let node = NodeHandle::new(node)?;
        let process = process(options)?;
        let output = process.output(node);
        let state = output.add_node(node);
        Some(Self { process, node, output, name, state })
    }

    fn metrics(&self) -> Vec<Metric> {
        let chosen = &self.process.options.metrics;
        match &self.process.expected {
            Some(expected) => expected.metrics(&self.node.name(), &self.name, chosen),
            None => chosen.clone(),
        }
    }

    fn add<T>(
        self,
        endpoint: *const Endpoint,
        table: &Table<T>,
        source: impl FnOnce(UniqueName, String) -> Source,
        entry: impl FnOnce(SourceHandle) -> T,
    ) {
        let name = Escaped(&self.name).to_string();
        match self.process.add(self, source) {
            Err(why) => end(&why),
            Ok(source) => {
                if !table.insert(endpoint.addr(), Box::new(entry(source))) {
                    line(format_args!(
                        "{name} is not measured: the process has more than {BOUND} of its kind"
                    ));
                }
            }
        }
    }
}

/// Ends the statistics of a subscription that is about to be destroyed. Returns the statistics.
pub fn forget_subscription(endpoint: *const Endpoint) -> Option<Box<Subscription>> {
    let is_parent = STATE.load(Ordering::Relaxed) != FORKED;
    let ending = is_parent.then(|| ENDING.write().unwrap_or_else(PoisonError::into_inner));
    let subscription = forget(&SUBSCRIPTIONS, endpoint.addr());
    subscription.iter().for_each(|subscription| subscription.callbacks.end(endpoint));
    drop(ending); // unlocks `ENDING` here, because the code below may block
    let Some(process) = running() else { return subscription };
    let mut clocks = lock(&process.clocks);
    if let Some(index) = clocks.iter().position(|(clock, _)| *clock == endpoint.addr()) {
        clocks.swap_remove(index).1.clocks.fetch_sub(1, Ordering::Relaxed);
    }
    subscription
}

pub fn forget_publisher(endpoint: *const Endpoint) {
    let Some(publisher) = forget(&PUBLISHERS, endpoint.addr()) else { return };
    let key = publisher.intra_process.load(Ordering::Relaxed);
    if key != 0 {
        INTRA_PROCESS_PUBLISHERS.remove(key);
    }
}

pub fn forget<T>(table: &Table<T>, key: usize) -> Option<Box<T>> {
    running().and_then(|_| table.remove(key))
}

/// Removes a node that is about to be destroyed. The publishers of the statistics move from this node to another node.
pub fn forget_node(node: *const Node) {
    let (Some(process), Some(node)) = (running(), NodeHandle::new(node)) else { return };
    let context = node.context();
    lock(&process.outputs).retain(|output| !(output.has_context(context) && output.remove_node(node)));
}

/// Returns the statistics of an endpoint or a timer with the address `key`, if the endpoint or timer is measured.
#[inline]
pub fn measured<T>(table: &'static Table<T>, key: usize) -> Option<&'static T> {
    // SAFETY: The endpoint is not destroyed while a function of rmw or a callback uses it, and the value is used only
    // during this time. Where a callback may outlive its subscription, the caller holds the lock `ENDING`.
    (!has_ended()).then(|| unsafe { table.get(key) })?
}

#[inline]
pub fn measured_subscription(subscription: *const Endpoint) -> Option<&'static Subscription> {
    measured(&SUBSCRIPTIONS, subscription.addr())
}

#[inline]
pub fn measured_publisher(publisher: *const Endpoint) -> Option<&'static Publisher> {
    measured(&PUBLISHERS, publisher.addr())
}

pub fn note_filter(subscription: *const Endpoint) {
    /// How long a publisher may still filter messages after the filter of the subscription was removed, in nanoseconds.
    const GRACE: i64 = 1_000_000_000;
    let Some(measured) = measured_subscription(subscription) else { return };
    // SAFETY: The endpoint is a subscription of rmw.
    let is_set = unsafe { (*subscription.cast::<crate::abi::Subscription>()).is_cft_enabled };
    let was_set = measured.filtered_until.load(Ordering::Relaxed) == i64::MAX;
    if is_set != was_set {
        let until = if is_set { i64::MAX } else { system_time() + GRACE };
        measured.filtered_until.store(until, Ordering::Relaxed);
        measured.recorder.pause_losses();
    }
}
