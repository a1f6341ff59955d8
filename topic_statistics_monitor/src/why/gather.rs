// SPDX-License-Identifier: Apache-2.0

//! Gathers a snapshot: reads the graph, listens to topics, and asks nodes for `use_sim_time`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{Arc, Mutex},
    time::Instant,
};

use rclrs::*;
use ros_env::rcl_interfaces::srv::{GetParameters, GetParameters_Request, GetParameters_Response};
use topic_statistics_core::{
    mutex::lock,
    record::{clock::system_time, middleware::MIDDLEWARES, transport::Gid},
};
use topic_statistics_observe::{
    format::name,
    pattern::{Pattern, Selection},
    row::Row,
};

use super::{
    rules::{CLOCK, TRANSFORMS},
    transforms::{Stamp, Transforms},
    Endpoint, Ends, Flows, Graph, Snapshot,
};
use crate::{
    graph::{full_name, gid, matched, node_name, Qos},
    process,
    statistics::StatisticsReader,
    topics::explain,
};

/// The maximum numbers of topics to listen to, of nodes to ask, of publishers of a topic, and of loggers.
const MAX_TOPICS: usize = 200;
const MAX_ASKED: usize = 50;
const MAX_FLOWS: usize = 256;
const MAX_LOGGERS: usize = 4096;
const ROSOUT: &str = "/rosout";
/// The depth of a subscription. A full queue loses messages, but some messages of each publisher are still received.
const DEPTH: u32 = 100;

pub struct Gatherer {
    node: Node,
    snapshot: Snapshot,
    heard: Arc<Mutex<Heard>>,
    subscriptions: Vec<WorkerDynamicSubscription<()>>,
    calls: Vec<Call>,
    pub started: Instant,
}

#[derive(Default)]
struct Heard {
    flows: BTreeMap<String, Flows>,
    transforms: Transforms,
    loggers: BTreeMap<String, Gid>,
    /// The time in the last message on `/clock`, in nanoseconds. `None` before the first message.
    clock: Option<i64>,
}

struct Call {
    of: String,
    client: Client<GetParameters>,
    answer: Option<Promise<GetParameters_Response>>,
}

impl Gatherer {
    /// Starts to listen to topics of the graph, and prepares the requests for `use_sim_time`.
    pub fn new(node: &Node, graph: Graph, asked: Vec<Pattern>, max_topics: Option<usize>) -> Self {
        let middleware = process::middleware();
        let known = MIDDLEWARES.iter().find(|known| known.transport.name == middleware);
        // Reads the environment variable in the way of rcl.
        let domain = std::env::var("ROS_DOMAIN_ID").ok().and_then(|domain| domain.trim().parse().ok());
        let domain = domain.unwrap_or(0);
        let ports =
            ["/proc/net/udp", "/proc/net/udp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
        let mut gatherer = Self {
            node: Arc::clone(node),
            snapshot: Snapshot {
                matches_qos: known.is_some_and(|known| known.matches_qos),
                has_participants: middleware.starts_with("rmw_fastrtps"),
                domain,
                other_domains: domains(&ports.concat())
                    .into_iter()
                    .filter(|other| *other != domain)
                    .collect(),
                asked,
                ..Snapshot::default()
            },
            heard: Arc::default(),
            subscriptions: vec![],
            calls: vec![],
            started: Instant::now(),
        };
        if known.is_none() {
            let text =
                format!("{} is not known here, so only types are compared, not QoS", name(&middleware));
            gatherer.snapshot.unknown.push(text);
        }
        gatherer.listen(&graph, max_topics.unwrap_or(MAX_TOPICS));
        gatherer.ask(&graph);
        gatherer.snapshot.earlier = graph;
        gatherer
    }

    /// Subscribes to topics whose silence can be a fault: the topics that the user asked about or, if there are none,
    /// the topics that have subscriptions.
    fn listen(&mut self, graph: &Graph, max: usize) {
        let worker = self.node.create_worker(());
        let usual = Selection { patterns: self.snapshot.asked.clone(), ..Selection::default() };
        let is_wanted = |topic: &str, ends: &Ends| {
            let of_all = topic == CLOCK
                || ends.publishers.iter().any(|publisher| publisher.message_type == TRANSFORMS);
            let is_read = !self.snapshot.asked.is_empty() || !ends.subscriptions.is_empty();
            !ends.publishers.is_empty() && (of_all || usual.is_wanted(topic) && is_read)
        };
        let wanted: Vec<_> = graph.topics.iter().filter(|(topic, ends)| is_wanted(topic, ends)).collect();
        for (topic, ends) in wanted.iter().take(max) {
            match subscribe(&worker, topic, ends, &self.heard, self.started) {
                Ok(subscription) => {
                    self.subscriptions.push(subscription);
                    lock(&self.heard).flows.entry((*topic).clone()).or_default();
                }
                Err(why) => self.snapshot.unknown.push(format!("silence is not known: {why}")),
            }
        }
        // Messages on `/rosout` show which participant belongs to which node. This is needed to assign publishers to
        // nodes if several nodes publish a topic.
        let has_several =
            |ends: &Ends| ends.publishers.iter().any(|other| other.node != ends.publishers[0].node);
        let rosout = graph.topics.get(ROSOUT).filter(|ends| !ends.publishers.is_empty());
        if let Some(ends) = rosout.filter(|_| wanted.iter().any(|(_, ends)| has_several(ends))) {
            let subscription = subscribe(&worker, ROSOUT, ends, &self.heard, self.started);
            self.subscriptions.extend(subscription); // Without `/rosout`, fewer participants are known.
        }
        if wanted.len() > max {
            let more = wanted.len() - max;
            self.snapshot.unknown.push(format!("silence of {more} more topics is not known (--max-topics)"));
        }
    }

    /// Prepares requests to the nodes that subscribe to `/clock`, as each node on simulated time does.
    fn ask(&mut self, graph: &Graph) {
        let readers = graph.topics.get(CLOCK).map(|ends| &ends.subscriptions[..]).unwrap_or_default();
        for reader in readers.iter().take(MAX_ASKED) {
            let client =
                self.node.create_client::<GetParameters>(&*format!("{}/get_parameters", reader.node));
            let of = reader.node.clone();
            self.snapshot.sim_time.insert(of.clone(), None);
            self.calls.extend(client.ok().map(|client| Call { of, client, answer: None }));
        }
    }

    pub fn poll(&mut self) {
        for Call { of, client, answer } in &mut self.calls {
            match answer {
                None if client.service_is_ready().unwrap_or(false) => {
                    let request = GetParameters_Request { names: vec!["use_sim_time".to_owned()] };
                    *answer = client.call(&request).ok();
                }
                None => {}
                Some(promise) => {
                    let Ok(Some(response)) = promise.try_recv() else { continue };
                    let value = response.values.first();
                    let is_bool = value.filter(|value| value.type_ == 1); // PARAMETER_BOOL
                    self.snapshot.sim_time.insert(of.clone(), is_bool.map(|value| value.bool_value));
                }
            }
        }
    }

    /// Adds the number of messages in a window of a node's statistics to the number of messages that the node has
    /// received so far.
    pub fn add_window(&mut self, row: &Row) {
        let Some(window) = &row.window else { return };
        let is_of_subscription = window.metrics.iter().any(|metric| metric.name == "message_period");
        let Some((node, topic)) = row.name.split_once(':').filter(|_| is_of_subscription) else { return };
        let Some(messages) = window.received.or(window.inferred) else { return };
        let (all, key) = (&mut self.snapshot.received, (node.to_owned(), topic.to_owned()));
        if all.len() >= StatisticsReader::MAX_SOURCES && !all.contains_key(&key) {
            return;
        }
        let received = all.entry(key).or_default();
        received.messages = received.messages.saturating_add(messages);
        received.seconds += window.length.as_secs_f64();
    }

    pub fn finish(mut self) -> Snapshot {
        self.subscriptions.clear();
        self.snapshot.listened = self.started.elapsed();
        self.snapshot.graph = read(&self.node);
        let heard = std::mem::take(&mut *lock(&self.heard));
        (self.snapshot.flows, self.snapshot.transforms) = (heard.flows, heard.transforms);
        self.snapshot.loggers = heard.loggers;
        if self.snapshot.transforms.is_full {
            let text = "some of the transforms are not known: there are too many frames";
            self.snapshot.unknown.push(text.to_owned());
        }
        self.snapshot
    }
}

/// Subscribes to a topic: best effort if it is not latched, so that publishers wait for no acknowledgements.
fn subscribe(
    worker: &Worker<()>,
    topic: &str,
    ends: &Ends,
    heard: &Arc<Mutex<Heard>>,
    started: Instant,
) -> Result<WorkerDynamicSubscription<()>, String> {
    let message_type = &ends.publishers[0].message_type;
    let type_name =
        MessageTypeName::try_from(&**message_type).map_err(|error| explain(topic, message_type, &error))?;
    let mut options = SubscriptionOptions::new(topic);
    options.qos = if ends.is_latched() { Qos::LATCHED } else { Qos::WEAKEST }.profile(DEPTH);
    let (heard, of, is_of_transforms) = (Arc::clone(heard), topic.to_owned(), message_type == TRANSFORMS);
    let receive = move |_: &mut (), message: DynamicMessage, info: MessageInfo| {
        let (at, publisher, mut heard) = (started.elapsed(), gid(&info), lock(&heard));
        if of == ROSOUT {
            let logger = message.get("name").and_then(text);
            if let Some(logger) = logger.filter(|_| heard.loggers.len() < MAX_LOGGERS) {
                heard.loggers.entry(logger).or_insert(publisher);
            }
            return;
        }
        let flows = heard.flows.entry(of.clone()).or_default();
        if flows.len() < MAX_FLOWS || flows.contains_key(&publisher) {
            *flows.entry(publisher).or_default() += 1;
        }
        if of == CLOCK {
            heard.clock = message.get("clock").and_then(|clock| nanoseconds(&clock)).or(heard.clock);
        }
        if is_of_transforms {
            let clock = heard.clock;
            for (frame, parent, stamp) in transforms(&message) {
                let stamp = Stamp { stamp, at, system: system_time(), clock };
                heard.transforms.add(&of, &frame, &parent, publisher, stamp);
            }
        }
    };
    worker.create_dynamic_subscription(type_name, options, receive).map_err(|error| match error {
        RclrsError::DynamicMessageError { err } => explain(topic, message_type, &err),
        error => name(&error.to_string()),
    })
}

/// Returns the frames, their parents and their stamps in a `tf2_msgs/msg/TFMessage`.
fn transforms(message: &DynamicMessage) -> Vec<(String, String, i64)> {
    let Some(Value::Sequence(SequenceValue::MessageSequence(transforms))) = message.get("transforms") else {
        return vec![];
    };
    let parts = transforms.iter().filter_map(|transform| {
        let Some(Value::Simple(SimpleValue::Message(header))) = transform.get("header") else { return None };
        let stamp = header.get("stamp").and_then(|stamp| nanoseconds(&stamp))?;
        Some((text(transform.get("child_frame_id")?)?, text(header.get("frame_id")?)?, stamp))
    });
    parts.collect()
}

/// Returns a `builtin_interfaces/msg/Time` in nanoseconds.
fn nanoseconds(time: &Value<'_>) -> Option<i64> {
    let Value::Simple(SimpleValue::Message(time)) = time else { return None };
    match (time.get("sec")?, time.get("nanosec")?) {
        (Value::Simple(SimpleValue::Int32(sec)), Value::Simple(SimpleValue::Uint32(nanosec))) => {
            Some(i64::from(*sec) * 1_000_000_000 + i64::from(*nanosec))
        }
        _ => None,
    }
}

fn text(value: Value<'_>) -> Option<String> {
    match value {
        Value::Simple(SimpleValue::String(text)) => Some(text.to_string()),
        _ => None,
    }
}

/// Reads the graph, without the nodes of this program and of the `ros2` command.
pub fn read(node: &Node) -> Graph {
    let own = node.fully_qualified_name();
    let is_tool =
        |node: &str| node == own || node.rsplit('/').next().is_some_and(|name| name.starts_with("_ros2cli"));
    let nodes = node.get_node_names().unwrap_or_default().into_iter();
    let nodes =
        nodes.map(|node| full_name(&node.namespace, &node.name)).filter(|node| !is_tool(node)).collect();
    let ends = |ends: Result<Vec<TopicEndpointInfo>, RclrsError>| {
        let ends = ends.unwrap_or_default().into_iter().map(|end| Endpoint {
            node: node_name(&end),
            message_type: end.topic_type,
            qos: matched(&end.qos_profile),
        });
        ends.filter(|end| !is_tool(&end.node)).collect::<Vec<_>>()
    };
    let topics = node.get_topic_names_and_types().unwrap_or_default().into_keys();
    let topics = topics.map(|topic| {
        let publishers = ends(node.get_publishers_info_by_topic(&topic));
        let subscriptions = ends(node.get_subscriptions_info_by_topic(&topic));
        (topic, Ends { publishers, subscriptions })
    });
    let topics =
        topics.filter(|(_, ends)| !ends.publishers.is_empty() || !ends.subscriptions.is_empty()).collect();
    let services = node.get_service_names_and_types().unwrap_or_default().into_iter();
    let lifecycle =
        services.filter(|(_, types)| types.iter().any(|kind| kind == "lifecycle_msgs/srv/GetState"));
    let lifecycle =
        lifecycle.filter_map(|(service, _)| Some(service.strip_suffix("/get_state")?.to_owned())).collect();
    Graph { topics, nodes, lifecycle }
}

/// Returns the ROS domains that are in use, according to a table of `/proc/net/udp` (DDSI-RTPS 2.5, 9.6.1.1). The port
/// for discovery by multicast is 7400 + 250 times the domain. A participant has two neighbouring ports, at least 10
/// above this port.
fn domains(table: &str) -> Vec<usize> {
    let port = |line: &str| {
        let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
        usize::from_str_radix(port, 16).ok()
    };
    let ports: BTreeSet<usize> = table.lines().filter_map(port).collect();
    let is_used = |domain: &usize| {
        let first = 7400 + 250 * domain;
        let mut own = (first + 10..first + 250).step_by(2);
        ports.contains(&first) || own.any(|port| ports.contains(&port) && ports.contains(&(port + 1)))
    };
    // Above domain 101, outgoing connections of Linux also use the ports of a domain, so a port shows no domain.
    (0..=101).filter(is_used).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_shows_its_domain_by_its_ports() {
        let line = |port: u16| format!("  1: 00000000:{port:04X} 00000000:0000 07 0\n");
        let table = |ports: &[u16]| ports.iter().map(|port| line(*port)).collect::<String>();
        assert_eq!(domains(&table(&[7400, 53, 8664, 8665])), [0, 5]);
        assert_eq!(domains(&table(&[7401, 7411, 7412, 53])), [0_usize; 0], "no pair");
        assert_eq!(domains("  sl  local_address rem_address\nno:port"), [0_usize; 0]);
    }
}
