// SPDX-License-Identifier: Apache-2.0

//! The rules that find why messages do not arrive. The rules are pure functions of a [`Snapshot`].

use std::collections::{BTreeMap, BTreeSet};

use topic_statistics_core::{metric::nearest, record::transport::Gid, Incompatibility};
use topic_statistics_observe::{
    format::{name, number_of},
    pattern::{Pattern, Selection},
};

use super::{Endpoint, Ends, Flows, Graph, Snapshot};

/// The kind of a finding. The most probable cause of missing messages is first. JSON has the names of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Kind {
    NoNode,
    NoTopic,
    Type,
    Qos,
    NoClock,
    NearName,
    NoPublisher,
    Silent,
    #[value(name = "two_authorities")]
    Authorities,
    Transform,
    FewerReceived,
    SlowPublisher,
    OtherDomain,
    NoReader,
    Arrives,
    NotKnown,
}

/// A finding: a problem or a note, with a sentence that describes it.
#[derive(Clone, Debug)]
pub struct Finding {
    pub kind: Kind,
    /// Whether this is a problem. Otherwise it is a note about something that is also normal on a healthy robot.
    pub is_problem: bool,
    pub topic: Option<String>,
    pub nodes: Vec<String>,
    /// The sentence, with escaped names.
    pub text: String,
    /// Whether another finding is probably the cause of this finding.
    is_consequence: bool,
}

/// Types of messages that sensors and clocks publish all the time. So silence on a topic of these types is a fault.
const STREAMS: [&str; 13] = [
    "nav_msgs/msg/Odometry",
    "rosgraph_msgs/msg/Clock",
    "sensor_msgs/msg/CameraInfo",
    "sensor_msgs/msg/CompressedImage",
    "sensor_msgs/msg/Image",
    "sensor_msgs/msg/Imu",
    JOINT_STATE,
    "sensor_msgs/msg/LaserScan",
    "sensor_msgs/msg/MagneticField",
    "sensor_msgs/msg/NavSatFix",
    "sensor_msgs/msg/PointCloud2",
    "sensor_msgs/msg/Range",
    TRANSFORMS,
];
const JOINT_STATE: &str = "sensor_msgs/msg/JointState";
pub const TRANSFORMS: &str = "tf2_msgs/msg/TFMessage";
pub const CLOCK: &str = "/clock";
/// A subscription is reported if its rate is below this share of the best rate of another subscription to its topic.
const FEWER: f64 = 0.8;
/// Rates are compared only if the best subscription received at least this number of messages.
const COMPARABLE: u64 = 20;
/// `--why` notes a publisher as slow if the fastest publisher of the topic sent at least 5 times as many messages.
const SLOWER: f64 = 5.0;

/// The findings of one snapshot.
#[derive(Debug)]
pub struct Findings {
    /// The findings. Problems are before notes, and the most probable cause is first.
    pub found: Vec<Finding>,
    /// The number of problems that are only in the later graph. These problems may disappear again.
    pub new_problems: usize,
}

/// Returns the findings that are in both graphs of a snapshot, so a node that just started or ended causes no finding.
pub fn findings(snapshot: &Snapshot) -> Findings {
    let [earlier, later] =
        [&snapshot.earlier, &snapshot.graph].map(|graph| Rules { snapshot, graph, found: vec![] }.run());
    let key = |finding: &Finding| (finding.kind, finding.topic.clone(), finding.nodes.clone());
    let earlier: BTreeSet<_> = earlier.iter().map(key).collect();
    let (mut found, new): (Vec<_>, Vec<_>) =
        later.into_iter().partition(|finding| earlier.contains(&key(finding)));
    let new_problems = new.iter().filter(|finding| finding.is_problem).count();
    find_causes(&mut found, &snapshot.graph);
    found.sort_by_key(|finding| {
        (!finding.is_problem, finding.is_consequence, finding.kind, finding.topic.clone())
    });
    Findings { found, new_problems }
}

/// If a silent node itself receives nothing on one of its topics, marks its silence as a consequence.
fn find_causes(found: &mut [Finding], graph: &Graph) {
    let causes: Vec<(Kind, String, Vec<String>)> = found
        .iter()
        .filter(|finding| finding.is_problem && finding.kind <= Kind::Silent)
        .filter_map(|finding| Some((finding.kind, finding.topic.clone()?, finding.nodes.clone())))
        .collect();
    for finding in found.iter_mut().filter(|finding| finding.kind == Kind::Silent) {
        let input = causes.iter().find_map(|(kind, topic, nodes)| {
            let ends = graph.topics.get(topic)?;
            let reads = ends.subscriptions.iter().any(|reader| finding.nodes.contains(&reader.node));
            // A finding about a publisher and a subscription concerns only the node of the subscription, which is the
            // first node of the finding.
            let concerns = !matches!(kind, Kind::Type | Kind::Qos)
                || nodes.first().is_some_and(|reader| finding.nodes.contains(reader));
            (reads && concerns && Some(topic) != finding.topic.as_ref()).then_some(topic)
        });
        if let Some(input) = input {
            finding.is_consequence = true;
            finding.text += &format!("; probably because it receives nothing on {}", name(input));
        }
    }
}

struct Rules<'a> {
    snapshot: &'a Snapshot,
    graph: &'a Graph,
    found: Vec<Finding>,
}

impl<'a> Rules<'a> {
    fn run(mut self) -> Vec<Finding> {
        if self.graph.nodes.is_empty() {
            self.no_node();
        }
        let (graph, usual) = (self.graph, Selection::default());
        for (topic, ends) in &graph.topics {
            if !self.is_asked(topic) {
                continue;
            }
            self.pairs(topic, ends);
            let is_usual = usual.is_wanted(topic) && topic != CLOCK;
            match (ends.publishers.is_empty(), ends.subscriptions.is_empty()) {
                (true, false) if is_usual => self.no_publisher(topic, ends),
                (false, true) if is_usual => {
                    let publishers = nodes(&ends.publishers);
                    let text =
                        format!("nobody reads {}, which is published by {}", name(topic), list(&publishers));
                    self.add(Kind::NoReader, false, Some(topic), &publishers, text);
                }
                _ => {}
            }
            self.flows(topic, ends);
        }
        let asked = self.snapshot.asked.iter().filter_map(Pattern::name);
        for topic in asked.filter(|topic| !graph.topics.contains_key(*topic)) {
            self.no_topic(topic);
        }
        self.clock();
        self.transforms();
        self.fewer_received();
        if let Some(others) = self.other_domains().filter(|_| !self.graph.nodes.is_empty()) {
            let text = format!("{others}, and their nodes are invisible in domain {}", self.snapshot.domain);
            self.add(Kind::OtherDomain, false, None, &[], text);
        }
        for text in &self.snapshot.unknown {
            self.add(Kind::NotKnown, false, None, &[], text.clone());
        }
        self.found
    }

    fn add(&mut self, kind: Kind, is_problem: bool, topic: Option<&str>, nodes: &[&str], text: String) {
        let mut nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
        nodes.dedup();
        let topic = topic.map(str::to_owned);
        self.found.push(Finding { kind, is_problem, topic, nodes, text, is_consequence: false });
    }

    fn other_domains(&self) -> Option<String> {
        let others = &self.snapshot.other_domains;
        let text = || format!("processes of this host use ROS domain {}", list(others));
        (!others.is_empty()).then(text)
    }

    fn is_asked(&self, topic: &str) -> bool {
        let asked = &self.snapshot.asked;
        asked.is_empty() || asked.iter().any(|pattern| pattern.is_match(topic))
    }

    fn is_named(&self, topic: &str) -> bool {
        self.snapshot.asked.iter().any(|pattern| pattern.name() == Some(topic))
    }

    fn no_node(&mut self) {
        let text = match self.other_domains() {
            Some(others) => format!(", but {others}: set ROS_DOMAIN_ID"),
            None => ": see whether the robot runs, and its ROS_DOMAIN_ID and ROS_AUTOMATIC_DISCOVERY_RANGE"
                .to_owned(),
        };
        let text = format!("there is no other node in ROS domain {}{text}", self.snapshot.domain);
        self.add(Kind::NoNode, true, None, &[], text);
    }

    fn pairs(&mut self, topic: &str, ends: &Ends) {
        for reader in &ends.subscriptions {
            let reasons = |publisher: &Endpoint| {
                let is_other = publisher.message_type != reader.message_type;
                let of_type = is_other.then(|| Incompatibility::Type {
                    offered: publisher.message_type.clone(),
                    requested: reader.message_type.clone(),
                });
                let of_qos = match self.snapshot.matches_qos {
                    true => publisher.qos.reasons(&reader.qos),
                    false => vec![],
                };
                of_type.into_iter().chain(of_qos).collect::<Vec<_>>()
            };
            let pairs: Vec<_> =
                ends.publishers.iter().map(|publisher| (publisher, reasons(publisher))).collect();
            let matching = pairs.iter().filter(|(_, reasons)| reasons.is_empty()).count();
            for (publisher, reasons) in pairs.iter().filter(|(_, reasons)| !reasons.is_empty()) {
                let is_of_type = matches!(reasons.first(), Some(Incompatibility::Type { .. }));
                let others = match (matching, ends.publishers.len()) {
                    (_, 1) => String::new(),
                    (0, all) => format!(", nor from any other of the {all} publishers"),
                    (matching, all) => format!(", only from {matching} of {all} publishers"),
                };
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                let [node, from, on] = [&*reader.node, &publisher.node, topic].map(name);
                let text =
                    format!("{node} receives nothing from {from} on {on}{others}: {}", reasons.join("; "));
                let kind = if is_of_type { Kind::Type } else { Kind::Qos };
                self.add(kind, true, Some(topic), &[&reader.node, &publisher.node], text);
            }
        }
    }

    fn no_publisher(&mut self, topic: &str, ends: &Ends) {
        let readers = nodes(&ends.subscriptions);
        let shown = list(&readers);
        let near = self.near(topic, |other| {
            let is_same =
                |end: &Endpoint| ends.subscriptions.iter().any(|own| own.message_type == end.message_type);
            other.publishers.iter().any(is_same)
        });
        let near = near.map(|near| (near, &self.graph.topics[near]));
        let Some((near, other)) = near else {
            let text = format!("nobody publishes {}, which is read by {shown}", name(topic));
            return self.add(Kind::NoPublisher, self.is_named(topic), Some(topic), &readers, text);
        };
        let publishers = nodes(&other.publishers);
        let named = list(&publishers);
        let is_unread = other.subscriptions.is_empty();
        let unread = if is_unread { " and read by nobody" } else { "" };
        let text = format!(
            "nobody publishes {}, which is read by {shown}, but {} is published by {named}{unread}: one of the names \
             is wrong, or a node does not run",
            name(topic), name(near)
        );
        let all = [readers, publishers].concat();
        let is_sibling = near.rsplit_once('/').map(|(of, _)| of) == topic.rsplit_once('/').map(|(of, _)| of);
        let is_problem = is_unread || is_sibling || self.is_named(topic);
        self.add(Kind::NearName, is_problem, Some(topic), &all, text);
    }

    fn no_topic(&mut self, topic: &str) {
        let near = self.near(topic, |_| true).map(|near| format!("; the nearest name is {}", name(near)));
        let others = self.other_domains().map(|others| format!("; {others}"));
        let [near, others] = [near, others].map(Option::unwrap_or_default);
        let text = format!("nobody publishes or reads {}{near}{others}", name(topic));
        self.add(Kind::NoTopic, true, Some(topic), &[], text);
    }

    /// Returns the topic with the most similar name: at most two characters differ in the last part, or one name lacks
    /// a namespace. Names that differ only in digits are usually different things, such as two sensors.
    fn near(&self, topic: &str, fits: impl Fn(&Ends) -> bool) -> Option<&'a str> {
        let others = self.graph.topics.iter().filter(|(other, ends)| *other != topic && fits(ends));
        let mut names: Vec<&'a str> = others.map(|(other, _)| &**other).collect();
        // Topics without a subscription are first.
        names.sort_by_key(|other| !self.graph.topics[*other].subscriptions.is_empty());
        let (namespace, own) = topic.rsplit_once('/')?;
        let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        let siblings = names.iter().filter_map(|other| other.rsplit_once('/'));
        let siblings = siblings.filter(|(of, other)| *of == namespace && letters(other) != letters(own));
        let sibling = nearest(own, siblings.map(|(_, other)| other));
        let sibling = sibling
            .and_then(|other| names.iter().find(|name| name.rsplit_once('/') == Some((namespace, other))));
        sibling
            .or_else(|| names.iter().find(|other| other.ends_with(topic) || topic.ends_with(**other)))
            .copied()
    }

    /// Finds silent and slow publishers of a topic that the program listened to.
    fn flows(&mut self, topic: &str, ends: &Ends) {
        let Some(flows) = self.snapshot.flows.get(topic).filter(|_| !ends.publishers.is_empty()) else {
            return;
        };
        let (all, listened) = (nodes(&ends.publishers), self.snapshot.listened.as_secs_f64());
        let count = flows.values().sum::<u64>();
        if self.is_named(topic) && count > 0 {
            let text =
                format!("{} on {} arrived here in {listened:.1} s", number_of(count, "message"), name(topic));
            self.add(Kind::Arrives, false, Some(topic), &all, text);
        }
        self.slow_publisher(topic, ends, flows);
        let silent = ends.publishers.len().saturating_sub(flows.len());
        // The program listens to one type only, so it does not judge topics with several types.
        let has_types =
            ends.publishers.iter().any(|other| other.message_type != ends.publishers[0].message_type);
        if silent == 0 || has_types {
            return;
        }
        let known = if flows.is_empty() { all.clone() } else { self.silent_nodes(&all, flows) };
        let shown = match known.len() {
            0 => format!("{silent} of {} publishers ({})", ends.publishers.len(), list(&all)),
            _ => list(&known),
        };
        let named = if known.is_empty() { &all } else { &known };
        let others = if flows.is_empty() { "" } else { ", unlike another publisher" };
        let lifecycle = known.iter().find(|node| self.graph.lifecycle.contains(**node));
        let remedy = match lifecycle {
            Some(node) => format!("see whether it is active: ros2 lifecycle get {}", name(node)),
            None => "see what it waits for, or whether it is blocked".to_owned(),
        };
        let text = format!("{shown} sent nothing on {} in {listened:.1} s{others}; {remedy}", name(topic));
        self.add(Kind::Silent, self.is_fault(topic, ends, flows), Some(topic), named, text);
    }

    /// Returns whether the silence of a publisher of a topic is a fault.
    fn is_fault(&self, topic: &str, ends: &Ends, flows: &Flows) -> bool {
        let first = ends.publishers.first();
        let of_type = |types: &[&str]| first.is_some_and(|first| types.contains(&&*first.message_type));
        if self.is_named(topic) && flows.is_empty() {
            return true;
        }
        if ends.subscriptions.is_empty() || ends.is_latched() {
            return false;
        }
        if !flows.is_empty() && of_type(&[TRANSFORMS]) {
            // A broadcaster may have nothing to send. Its silence is a fault only if a part of the tree is missing.
            let namespace = topic.rsplit_once('/').map_or("", |(namespace, _)| namespace);
            return self.snapshot.transforms.roots(namespace).len() > 1;
        }
        if !flows.is_empty() && of_type(&[JOINT_STATE]) {
            return false; // Several drivers share the topic, and one of them may be off.
        }
        let has_missed_deadline = ends.publishers.iter().any(|publisher| {
            publisher.qos.deadline.flatten().is_some_and(|deadline| deadline < self.snapshot.listened)
        });
        of_type(&STREAMS) || has_missed_deadline
    }

    /// Notes a publisher that is much slower than another one, because the topic's rate does not show a slow publisher.
    fn slow_publisher(&mut self, topic: &str, ends: &Ends, flows: &Flows) {
        let is_of_transforms = ends.publishers.iter().any(|publisher| publisher.message_type == TRANSFORMS);
        let slowest = flows.iter().min_by_key(|(_, count)| **count);
        let Some((gid, slow)) = slowest.filter(|_| flows.len() > 1 && !is_of_transforms) else { return };
        let fast = flows.values().copied().max().unwrap_or_default();
        if (*slow as f64) * SLOWER > fast as f64 {
            return;
        }
        let owners = self.owners(topic, gid);
        let text = format!(
            "a publisher of {} ({}) sent {}, and another one {fast}, so the rate of the topic does not \
             show the slow one",
            name(topic),
            list(&owners),
            number_of(*slow, "message")
        );
        self.add(Kind::SlowPublisher, false, Some(topic), &owners, text);
    }

    /// Finds nodes on simulated time while `/clock` has no publisher or no message.
    fn clock(&mut self) {
        let Some(ends) = self.graph.topics.get(CLOCK) else { return };
        let readers = nodes(&ends.subscriptions);
        let is_silent = ends.publishers.is_empty()
            || self.snapshot.flows.get(CLOCK).is_some_and(|flows| flows.is_empty());
        let answer = |node: &&str| self.snapshot.sim_time.get(*node).copied().flatten();
        let is_concerned = |node: &str| {
            self.snapshot.asked.is_empty()
                || self.graph.topics.iter().any(|(topic, ends)| {
                    let mut ends = ends.publishers.iter().chain(&ends.subscriptions);
                    self.is_asked(topic) && ends.any(|end| end.node == node)
                })
        };
        let is_simulated = |node: &&str| answer(node) != Some(false) && is_concerned(node);
        let readers: Vec<&str> = readers.into_iter().filter(is_simulated).collect();
        if !is_silent || readers.is_empty() {
            return;
        }
        let (are_known, shown) = (readers.iter().all(|node| answer(node) == Some(true)), list(&readers));
        let state = if ends.publishers.is_empty() { "nobody publishes /clock" } else { "/clock is silent" };
        let text = match are_known {
            true => format!(
                "{state}, but use_sim_time is true in {shown}, whose time stands still: start the simulator, play the \
                 bag with --clock, or set use_sim_time to false"
            ),
            false => format!(
                "{state}, but it is read by {shown}, as by each node with use_sim_time (not known for all: no answer): \
                 start the simulator, play the bag with --clock, or set use_sim_time to false"
            ),
        };
        self.add(Kind::NoClock, true, Some(CLOCK), &readers, text);
    }

    fn transforms(&mut self) {
        let has_clock = self.snapshot.flows.get(CLOCK).is_some_and(|flows| !flows.is_empty());
        for fault in self.snapshot.transforms.faults(self.snapshot.listened, has_clock) {
            let owners = fault.publishers.iter().map(|(topic, gid)| self.owners(topic, gid));
            let owners: Vec<Vec<&str>> = owners.collect();
            let all: BTreeSet<&str> = owners.iter().flatten().copied().collect();
            let all: Vec<&str> = all.into_iter().collect();
            let shown = list(&all);
            let shown = match (all.len() <= owners.len(), owners.len()) {
                (true, _) => shown,
                (false, 1) => format!("one of {shown}"),
                (false, count) => format!("{count} of {shown}"),
            };
            let kind = if fault.publishers.len() > 1 { Kind::Authorities } else { Kind::Transform };
            if self.is_asked(&fault.topic) {
                let text = format!("{shown} {}", fault.text);
                self.add(kind, true, Some(&fault.topic), &all, text);
            }
        }
    }

    /// Finds subscriptions that receive fewer messages than a subscription of another node to the same topic.
    fn fewer_received(&mut self) {
        for ((node, topic), received) in &self.snapshot.received {
            let of_topic = self.snapshot.received.iter().filter(|((_, other), _)| other == topic);
            // If several subscriptions have the highest rate, the first of them is chosen.
            let best = of_topic.rev().max_by(|(_, one), (_, other)| one.rate().total_cmp(&other.rate()));
            let Some(((neighbour, _), best)) = best else { continue };
            let is_in_pair = self.found.iter().any(|finding| {
                matches!(finding.kind, Kind::Qos | Kind::Type)
                    && finding.topic.as_ref() == Some(topic)
                    && finding.nodes.contains(node)
            });
            let ends = self.graph.topics.get(topic);
            let is_in_graph = ends.is_some_and(|ends| ends.subscriptions.iter().any(|end| end.node == *node));
            let is_fewer = best.messages >= COMPARABLE && received.rate() < FEWER * best.rate();
            if is_fewer && !is_in_pair && is_in_graph && self.is_asked(topic) {
                let text = format!(
                    "{} receives {:.1} Hz on {}, and {} {:.1} Hz: see its lost messages, the depth of its queue, and \
                     whether its callbacks take too long",
                    name(node), received.rate(), name(topic), name(neighbour), best.rate()
                );
                self.add(Kind::FewerReceived, true, Some(topic), &[node, neighbour], text);
            }
        }
    }

    /// Returns the participants of nodes that have logged to `/rosout`, or that alone publish a topic.
    fn participants(&self) -> BTreeMap<&'a str, &'a [u8]> {
        let mut known = BTreeMap::new();
        if !self.snapshot.has_participants {
            return known;
        }
        for (topic, flows) in &self.snapshot.flows {
            let owners = self.graph.topics.get(topic).map(|ends| nodes(&ends.publishers)).unwrap_or_default();
            if let ([owner], Some(gid)) = (&owners[..], flows.keys().next()) {
                known.insert(*owner, participant(gid));
            }
        }
        for node in &self.graph.nodes {
            let logger = node.trim_start_matches('/').replace('/', ".");
            if let Some(gid) = self.snapshot.loggers.get(&logger) {
                known.insert(node, participant(gid));
            }
        }
        known
    }

    /// Returns the nodes to which a publisher of a topic can belong. If its node is known, returns only that node.
    fn owners(&self, topic: &str, gid: &Gid) -> Vec<&'a str> {
        let all = self.graph.topics.get(topic).map(|ends| nodes(&ends.publishers)).unwrap_or_default();
        let known = self.participants();
        let can_be = |node: &&str| known.get(node).is_none_or(|of_node| *of_node == participant(gid));
        all.into_iter().filter(can_be).collect()
    }

    /// Returns the nodes whose participants are known and have sent no message on a topic.
    fn silent_nodes<'b>(&self, all: &[&'b str], flows: &Flows) -> Vec<&'b str> {
        let known = self.participants();
        let is_silent = |node: &&&str| {
            known.get(**node).is_some_and(|of_node| flows.keys().all(|gid| participant(gid) != *of_node))
        };
        all.iter().filter(is_silent).copied().collect()
    }
}

fn participant(gid: &Gid) -> &[u8] {
    &gid[..12]
}

fn nodes(ends: &[Endpoint]) -> Vec<&str> {
    let nodes: BTreeSet<&str> = ends.iter().map(|end| &*end.node).collect();
    nodes.into_iter().collect()
}

/// Returns a list as text: the first items, and the number of further items.
fn list<T: ToString>(all: &[T]) -> String {
    const SHOWN: usize = 4;
    let more = all.len().saturating_sub(SHOWN);
    let mut items: Vec<String> = all.iter().take(SHOWN).map(|item| name(&item.to_string())).collect();
    if more > 0 {
        items.push(format!("{more} more"));
    }
    match items.pop() {
        Some(last) if !items.is_empty() => format!("{} and {last}", items.join(", ")),
        last => last.unwrap_or_default(),
    }
}

#[cfg(test)]
pub mod tests;
