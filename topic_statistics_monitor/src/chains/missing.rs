// SPDX-License-Identifier: Apache-2.0

//! The nodes of a chain that publish no hop, according to the ROS graph. A hop is the way of messages from an input
//! topic through a node to an output topic.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rclrs::Node;
use topic_statistics_observe::{format, pattern::Selection};

use super::hops::Hops;

/// The topics that a node receives and publishes.
#[derive(Debug, Default)]
pub struct Topics {
    inputs: BTreeSet<String>,
    outputs: BTreeSet<String>,
}

/// Reads the nodes of the ROS graph.
pub struct Nodes {
    node: Node,
}

impl Nodes {
    pub fn new(node: &Node) -> Self {
        Self { node: Node::clone(node) }
    }

    /// Returns a text for each node between two topics that has no hop, with the reason and a remedy.
    pub fn missing(&self, hops: &Hops, first: &str, last: &str) -> Vec<String> {
        missing(&self.read(), hops, first, last)
    }

    fn read(&self) -> BTreeMap<String, Topics> {
        let mut nodes = BTreeMap::<String, Topics>::new();
        let topics = self.node.get_topic_names_and_types().unwrap_or_default();
        let usual = Selection { patterns: vec![], all: false, own: None };
        for topic in topics.into_keys().filter(|topic| usual.is_wanted(topic)) {
            let name = |namespace: &str, name: &str| format!("{}/{name}", namespace.trim_end_matches('/'));
            for subscription in self.node.get_subscriptions_info_by_topic(&topic).unwrap_or_default() {
                let node =
                    nodes.entry(name(&subscription.node_namespace, &subscription.node_name)).or_default();
                node.inputs.insert(topic.clone());
            }
            for publisher in self.node.get_publishers_info_by_topic(&topic).unwrap_or_default() {
                let node = nodes.entry(name(&publisher.node_namespace, &publisher.node_name)).or_default();
                node.outputs.insert(topic.clone());
            }
        }
        nodes
    }
}

/// A step of a path: the node, the input topic of the node, and whether the step is a known hop. If the step is not a
/// known hop, the node publishes no statistics of this step.
type Step<'a> = (&'a str, &'a str, bool);

/// Returns the missing hops of the path with the fewest missing hops.
fn missing(nodes: &BTreeMap<String, Topics>, hops: &Hops, first: &str, last: &str) -> Vec<String> {
    // For each topic, the number of missing hops on the best path to the topic, and the last step of this path.
    let mut ways = BTreeMap::<&str, (usize, Option<Step>)>::from([(first, (0, None))]);
    let mut next = VecDeque::from([first]);
    while let Some(at) = next.pop_front() {
        let cost = ways[at].0;
        let by_hops = hops.iter().filter(|hop| hop.input == at);
        let by_hops = by_hops.map(|hop| (&*hop.node, &*hop.output, true));
        let through = nodes.iter().filter(|(_, topics)| topics.inputs.contains(at));
        let through = through
            .flat_map(|(node, topics)| topics.outputs.iter().map(move |output| (&**node, &**output, false)));
        for (node, output, is_hop) in by_hops.chain(through) {
            let cost = cost + usize::from(!is_hop);
            if ways.get(output).is_none_or(|(known, _)| cost < *known) {
                ways.insert(output, (cost, Some((node, at, is_hop))));
                match is_hop {
                    true => next.push_front(output),
                    false => next.push_back(output),
                }
            }
        }
    }
    if !ways.contains_key(last) {
        let is_received = nodes.values().any(|topics| topics.inputs.contains(first));
        let is_published = nodes.values().any(|topics| topics.outputs.contains(last));
        let [first, last] = [first, last].map(format::name);
        return vec![match (is_received, is_published) {
            (false, _) => format!("no node is seen that receives {first}; waiting for one"),
            (true, false) => format!("no node is seen that publishes {last}; waiting for one"),
            (true, true) => format!("no node is seen on a way from {first} to {last}; waiting for one"),
        }];
    }
    let (mut at, mut found) = (last, vec![]);
    while let Some((_, Some((node, before, is_hop)))) = ways.get(at) {
        if !is_hop {
            found.push(why(hops, node, before, at));
        }
        at = before;
    }
    found.reverse();
    found
}

/// Explains why a node has no hop from `input` to `output`.
fn why(hops: &Hops, node: &str, input: &str, output: &str) -> String {
    let has_hops = hops.iter().any(|hop| hop.node == node);
    let has_node = hops.has_node(node);
    let [node, input, output] = [node, input, output].map(format::name);
    if has_hops {
        return format!(
            "{node} has made no publication on {output} in a callback of {input}: a timer or another thread makes \
             them, or another topic causes them"
        );
    }
    if has_node {
        return format!(
            "{node} publishes statistics without a hop from {input} to {output}: TOPIC_STATISTICS_METRICS has no \
             input_to_output_ms, no callback of {input} publishes, or it is not preloaded"
        );
    }
    format!(
        "{node} is not preloaded: from {input} to {output}, start it by `topic_statistics run` with \
         TOPIC_STATISTICS_METRICS=all"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(nodes: &[(&str, &[&str], &[&str])]) -> BTreeMap<String, Topics> {
        let set = |topics: &[&str]| topics.iter().map(|topic| (*topic).to_owned()).collect();
        let topics = |inputs, outputs| Topics { inputs: set(inputs), outputs: set(outputs) };
        nodes.iter().map(|(node, inputs, outputs)| ((*node).to_owned(), topics(inputs, outputs))).collect()
    }

    #[test]
    fn the_nodes_between_that_are_not_preloaded_are_named() {
        let graph = nodes(&[
            ("/filter", &["/scan"], &["/points"]),
            ("/planner", &["/points", "/map"], &["/plan"]),
            ("/driver", &["/plan"], &["/cmd_vel"]),
            ("/logger", &["/scan", "/points", "/plan", "/cmd_vel"], &[]),
        ]);
        let found = missing(&graph, &Hops::default(), "/scan", "/cmd_vel");
        let names: Vec<&str> = found.iter().map(|text| text.split(' ').next().unwrap()).collect();
        assert_eq!(names, ["/filter", "/planner", "/driver"]);
        assert!(found.iter().all(|text| text.contains("is not preloaded")), "{found:?}");
        for (first, last, what) in [
            ("/scann", "/cmd_vel", "receives /scann"),
            ("/scan", "/cmd", "publishes /cmd"),
            ("/cmd_vel", "/plan", "on a way from /cmd_vel to /plan"),
        ] {
            let found = missing(&graph, &Hops::default(), first, last);
            assert!(found.len() == 1 && found[0].contains(what), "{found:?}");
        }
    }
}
