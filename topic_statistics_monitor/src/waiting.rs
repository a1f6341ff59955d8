// SPDX-License-Identifier: Apache-2.0

//! Watches services and actions without being a client or a server: finds services and actions in the ROS graph,
//! subscribes to the events of services (`_service_event`), or to the statuses and the feedback of actions, and keeps a
//! row for each service or action.

mod calls;
mod foreign;
mod goals;
mod window;

use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Receiver,
        Arc,
    },
    time::{Duration, Instant, SystemTime},
};

use rclrs::*;
use ros_env::action_msgs::msg::GoalStatusArray;
use topic_statistics_core::{record::clock::system_time, Window as Times};
use topic_statistics_observe::{
    format::name,
    pattern::Selection,
    row::{Kind, Problem, Row, Rows, Window},
};

use crate::{
    arguments::Arguments,
    graph::{node_name, Graph, Qos},
    process::Failure,
    provider::{notice, RowProvider},
    queue::Queue as BoundedQueue,
};
pub use calls::{Calls, Event};
use foreign::{ForeignMessage, ForeignType};
pub use goals::{GoalId, Goals};

pub struct WaitingWatcher {
    /// Services or actions.
    kind: Kind,
    selection: Selection,
    period: Duration,
    /// The maximum number of services or actions. Services and actions selected by name are always watched.
    max: usize,
    subscriber: Subscriber,
    watched: BTreeMap<Arc<str>, Watched>,
    messages: Receiver<(Instant, Received)>,
    /// When the present window began: on the monotonic clock, and in nanoseconds since the epoch.
    began: (Instant, i64),
    left_out: usize,
}

struct Subscriber {
    node: Node,
    worker: Worker<()>,
    graph: Graph,
    queue: Arc<Queue>,
    /// The depth of a subscription: how many messages can wait in the middleware.
    depth: u32,
}

type Queue = BoundedQueue<Received>;

type Subscription = Box<dyn Send>;

type Received = (Arc<str>, What);

enum What {
    Event(Event),
    /// The status of each goal, and whether the goals may have started before the monitor started.
    Statuses(Vec<(GoalId, i8)>, bool),
    Feedback(GoalId),
}

struct Watched {
    row: Row,
    state: State,
    subscribed: Option<Subscribed>,
    /// The type and QoS of the last subscription that could not be created.
    failed: Option<(String, Qos)>,
}

enum State {
    Calls(Calls),
    Goals(Goals),
}

struct Subscribed {
    topic_type: String,
    qos: Qos,
    since: Instant,
    _subscription: Subscription,
    /// The subscription to the feedback of an action. `None` before the feedback has a publisher.
    feedback: Option<Subscription>,
}

/// The first fields of an event message of any service: a `service_msgs/msg/ServiceEventInfo`.
#[derive(Clone, Copy)]
#[repr(C)]
struct EventInfo {
    event_type: u8,
    stamp: (i32, u32),
    client_gid: [u8; 16],
    sequence_number: i64,
}

impl WaitingWatcher {
    /// The default of `--max-topics`.
    const MAX: usize = 500;
    const DEPTH: u32 = 1000;
    /// The assumed maximum time until a subscription is matched with publishers. Earlier windows lack messages.
    const MATCHING: Duration = Duration::from_millis(500);

    pub fn new(node: &Node, arguments: &Arguments, selection: Selection) -> Self {
        let (queue, messages) = Queue::new();
        let subscriber = Subscriber {
            node: Arc::clone(node),
            worker: node.create_worker(()),
            graph: Graph::new(node),
            queue,
            depth: arguments.depth.unwrap_or(Self::DEPTH),
        };
        let began = (Instant::now(), system_time());
        let names: Vec<String> = selection.names().map(str::to_owned).collect();
        let mut watcher = Self {
            kind: arguments.kind(),
            selection,
            period: arguments.period,
            max: arguments.max_topics.map_or(Self::MAX, |max| max as usize),
            subscriber,
            watched: BTreeMap::new(),
            messages,
            began,
            left_out: 0,
        };
        names.iter().for_each(|name| watcher.add(name));
        watcher
    }

    fn add(&mut self, name: &str) {
        let kind = self.kind;
        let state = match kind {
            Kind::Action => State::Goals(Goals::default()),
            _ => State::Calls(Calls::default()),
        };
        let row = Row { kind, ..Row::new(name) };
        self.watched.insert(name.into(), Watched { row, state, subscribed: None, failed: None });
    }

    fn refresh(&mut self) {
        let Some(topics) = self.subscriber.graph.topics() else { return };
        let end = topic_of("", self.kind);
        self.left_out = 0;
        for found in topics.iter().filter_map(|topic| topic.strip_suffix(&*end)) {
            let is_new = !self.watched.contains_key(found) && self.selection.is_wanted(found);
            if !is_new || !self.subscriber.graph.has_publisher(&topic_of(found, self.kind)) {
                continue;
            }
            if self.watched.len() >= self.max && !self.make_room() {
                self.left_out += 1;
                continue;
            }
            self.add(found);
        }
        for (name, watched) in &mut self.watched {
            let publishers = self.subscriber.graph.publishers(&topic_of(name, self.kind));
            watched.row.publisher_count = Some(publishers.len());
            watched.row.nodes = nodes(&publishers);
            if publishers.is_empty() {
                let problem = without_publisher(&watched.row, &self.subscriber.node);
                watched.row.problem = Some(Problem::Waiting(problem));
                continue;
            }
            watched.refresh(name, &publishers, &self.subscriber);
        }
    }

    /// Stops watching one service or action that has no publisher and was not selected by name. Returns whether such a
    /// row was found.
    fn make_room(&mut self) -> bool {
        let is_gone = |name: &&Arc<str>| {
            !self.selection.is_named(name) && !self.subscriber.graph.has_publisher(&topic_of(name, self.kind))
        };
        let gone = self.watched.keys().find(is_gone).cloned();
        gone.is_some_and(|name| self.watched.remove(&name).is_some())
    }
}

impl RowProvider for WaitingWatcher {
    fn poll(&mut self) -> Result<Vec<String>, Failure> {
        if self.subscriber.graph.is_due() {
            self.refresh();
        }
        // Reads at most as many messages as fit the queue, so that a flood does not delay the rest of the program.
        for (at, (name, what)) in self.messages.try_iter().take(Queue::SIZE) {
            let Some(watched) = self.watched.get_mut(&name) else { continue };
            let has_room = match (&mut watched.state, what) {
                (State::Calls(calls), What::Event(event)) => calls.add_event(event),
                (State::Goals(goals), What::Statuses(statuses, is_old)) => {
                    goals.add_statuses(&statuses, is_old, at)
                }
                (State::Goals(goals), What::Feedback(goal)) => {
                    goals.accept_feedback(&goal, at);
                    true
                }
                _ => true,
            };
            if !has_room {
                self.subscriber.queue.count_dropped();
            }
            watched.row.last_message = Some(at);
        }
        let ended = Instant::now();
        let length = ended.saturating_duration_since(self.began.0);
        if length < self.period {
            return Ok(vec![]);
        }
        let stop = system_time();
        let window = Window::new(Times::from_nanoseconds(self.began.1, stop), ended, length);
        let began = std::mem::replace(&mut self.began, (ended, stop)).0;
        Ok(self.watched.values_mut().filter_map(|watched| watched.end_window(&window, began)).collect())
    }

    fn notice(&self) -> Option<String> {
        notice(self.left_out, self.subscriber.queue.dropped(), None)
    }
}

impl Rows for WaitingWatcher {
    fn rows(&self) -> Vec<&Row> {
        self.watched.values().map(|watched| &watched.row).collect()
    }

    fn row_mut(&mut self, name: &str) -> Option<&mut Row> {
        self.watched.get_mut(name).map(|watched| &mut watched.row)
    }
}

impl Watched {
    /// Creates a new subscription if the type or the QoS of the present subscription does not fit all publishers.
    fn refresh(
        &mut self,
        watched_name: &Arc<str>,
        publishers: &[TopicEndpointInfo],
        subscriber: &Subscriber,
    ) {
        let topic_type = publishers[0].topic_type.clone();
        // For services, events from before the subscription are not needed. For actions, the last statuses from before
        // the subscription are needed.
        let offered: Vec<_> = publishers
            .iter()
            .map(|publisher| match self.row.kind {
                Kind::Action => publisher.qos_profile,
                _ => publisher.qos_profile.volatile(),
            })
            .collect();
        let qos = Qos::of_all(offered.iter());
        let is_served = |subscribed: &Subscribed| {
            subscribed.topic_type == topic_type && subscribed.qos.receives_all_of(qos)
        };
        if !self.subscribed.as_ref().is_some_and(is_served) {
            if self.failed.as_ref() == Some(&(topic_type.clone(), qos)) {
                return;
            }
            self.subscribed = None;
            let subscription = match self.row.kind {
                Kind::Action => subscriber.subscribe_to_statuses(watched_name, qos),
                _ => subscriber.subscribe_to_events(watched_name, &topic_type, qos),
            };
            match subscription {
                Ok(subscription) => {
                    self.row.qos = qos.text(subscriber.depth);
                    if self.row.kind == Kind::Service {
                        self.row.message_type = Some(topic_type.trim_end_matches("_Event").to_owned());
                    }
                    let (since, feedback) = (Instant::now(), None);
                    self.subscribed =
                        Some(Subscribed { topic_type, qos, since, _subscription: subscription, feedback });
                    self.failed = None;
                }
                Err(error) => {
                    let text = format!("{} has the type {}: {error}", name(watched_name), name(&topic_type));
                    self.row.problem = Some(Problem::Error(text));
                    self.failed = Some((topic_type, qos));
                    return;
                }
            }
        }
        self.row.problem = None;
        if self.row.kind == Kind::Action {
            self.refresh_feedback(watched_name, subscriber);
        }
    }

    fn refresh_feedback(&mut self, action: &Arc<str>, subscriber: &Subscriber) {
        let publishers = subscriber.graph.publishers(&feedback_of(action));
        let (Some(subscribed), Some(first)) = (&mut self.subscribed, publishers.first()) else { return };
        if subscribed.feedback.is_some() {
            return;
        }
        self.row.message_type = Some(first.topic_type.trim_end_matches("_FeedbackMessage").to_owned());
        let qos = Qos::of_all(publishers.iter().map(|publisher| &publisher.qos_profile));
        match subscriber.subscribe_to_feedback(action, &first.topic_type, qos) {
            Ok(subscription) => subscribed.feedback = Some(subscription),
            Err(error) => {
                let text = format!("the feedback of {} cannot be read: {error}", name(action));
                self.row.problem = Some(Problem::Waiting(text));
            }
        }
    }

    /// Ends the window that began at `began`. Returns the name of the row if the window is whole.
    fn end_window(&mut self, window: &Window, began: Instant) -> Option<String> {
        let (window, received): (Window, u64) = match &mut self.state {
            State::Calls(calls) => (calls.end_window(window.clone()), calls.received),
            State::Goals(goals) => (goals.end_window(window.clone()), goals.received),
        };
        self.row.received = received;
        let since = self.subscribed.as_ref()?.since;
        if began < since + WaitingWatcher::MATCHING {
            return None;
        }
        for (metric, distribution) in &window.distributions {
            self.row.last_minute.add(*metric, distribution, window.ended);
        }
        self.row.add_window(window);
        Some(self.row.name.clone())
    }
}

impl Subscriber {
    fn subscribe_to_events(
        &self,
        service: &Arc<str>,
        topic_type: &str,
        qos: Qos,
    ) -> Result<Subscription, String> {
        let (service, queue) = (Arc::clone(service), Arc::clone(&self.queue));
        let topic = topic_of(&service, Kind::Service);
        self.subscribe(&topic, topic_type, qos, move |message, foreign_type| {
            // SAFETY: The message has the type `foreign_type`, whose first field is a `ServiceEventInfo`.
            let info: EventInfo = unsafe { message.first_fields(foreign_type) };
            let call = (info.client_gid, info.sequence_number);
            match Event::new(info.event_type, call, info.stamp, Instant::now(), system_time()) {
                Some(event) => queue.put((Arc::clone(&service), What::Event(event))),
                None => queue.count_dropped(),
            }
        })
    }

    fn subscribe_to_feedback(
        &self,
        action: &Arc<str>,
        topic_type: &str,
        qos: Qos,
    ) -> Result<Subscription, String> {
        let (action, queue, topic) = (Arc::clone(action), Arc::clone(&self.queue), feedback_of(action));
        self.subscribe(&topic, topic_type, qos, move |message, foreign_type| {
            // SAFETY: The message has the type `foreign_type`, whose first field is a unique_identifier_msgs/msg/UUID.
            let goal: GoalId = unsafe { message.first_fields(foreign_type) };
            queue.put((Arc::clone(&action), What::Feedback(goal)));
        })
    }

    fn subscribe(
        &self,
        topic: &str,
        topic_type: &str,
        qos: Qos,
        receive: impl Fn(ForeignMessage, ForeignType) + Send + Sync + 'static,
    ) -> Result<Subscription, String> {
        let foreign_type = ForeignType::load(topic_type)?;
        let receive = move |message: ForeignMessage| receive(message, foreign_type);
        let options = topic.qos(qos.profile(self.depth));
        let subscription = foreign_type.subscribe(|| self.worker.create_subscription(options, receive));
        Ok(Box::new(subscription.map_err(|error| error.to_string())?))
    }

    fn subscribe_to_statuses(&self, action: &Arc<str>, qos: Qos) -> Result<Subscription, String> {
        let (action, queue) = (Arc::clone(action), Arc::clone(&self.queue));
        let topic = topic_of(&action, Kind::Action);
        let (subscribed, subscribed_at) = (Instant::now(), SystemTime::now());
        let is_first = AtomicBool::new(true);
        let callback = move |message: GoalStatusArray, info: MessageInfo| {
            let statuses = message.status_list.iter().map(|goal| (goal.goal_info.goal_id.uuid, goal.status));
            // Only the first message is checked for being older than the subscription: if the server's clock is behind,
            // later messages would also seem old.
            let is_older = is_first.swap(false, Ordering::Relaxed)
                && info.source_timestamp.is_some_and(|sent| sent < subscribed_at);
            let is_old = is_older || subscribed.elapsed() < WaitingWatcher::MATCHING;
            queue.put((Arc::clone(&action), What::Statuses(statuses.collect(), is_old)));
        };
        let options = topic.qos(qos.profile(self.depth));
        let subscription = self.worker.create_subscription(options, callback);
        Ok(Box::new(subscription.map_err(|error| error.to_string())?))
    }
}

fn feedback_of(action: &str) -> String {
    format!("{action}/_action/feedback")
}

fn topic_of(name: &str, kind: Kind) -> String {
    match kind {
        Kind::Action => format!("{name}/_action/status"),
        _ => format!("{name}/_service_event"),
    }
}

fn without_publisher(row: &Row, node: &NodeState) -> String {
    let name = name(&row.name);
    // In rclrs 0.8, `get_service_names_and_types` returns only the services of the calling node, so each node is read
    // separately.
    let has_service = |info: &NodeNameInfo| {
        let services = node.get_service_names_and_types_by_node(&info.name, &info.namespace);
        services.is_ok_and(|services| services.contains_key(&row.name))
    };
    let is_there = || node.get_node_names().is_ok_and(|nodes| nodes.iter().any(has_service));
    match row.kind {
        Kind::Action => format!("there is no action {name} yet; waiting for it"),
        _ if is_there() => format!(
            "{name} publishes no events; switch service introspection on in its node, and in its clients: \
             configure_introspection of rclcpp, rclpy and rclrs"
        ),
        _ => format!("there is no service {name} yet; waiting for it"),
    }
}

/// Returns the names of the publishers' nodes, without duplicates.
fn nodes(publishers: &[TopicEndpointInfo]) -> Vec<String> {
    const MAX_NODES: usize = 256;
    let mut nodes: Vec<_> = publishers.iter().map(node_name).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.truncate(MAX_NODES);
    nodes
}
