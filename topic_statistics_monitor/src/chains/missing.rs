// SPDX-License-Identifier: Apache-2.0

//! The nodes of a chain that publish no hop, according to the ROS graph. A hop is the way of messages from an input
//! topic through a node to an output topic.

use std::collections::{BTreeMap, VecDeque};

use topic_statistics_observe::{format, pattern::Selection};

use super::hops::Hops;
use crate::why::Graph;

/// A step of a path: the node, its input topic, and whether the node publishes statistics of this hop.
type Step<'a> = (&'a str, &'a str, bool);

/// Returns the missing hops of the path with the fewest missing hops.
pub fn missing(graph: &Graph, hops: &Hops, first: &str, last: &str) -> Vec<String> {
    let usual = Selection::default();
    let outputs = || graph.topics.iter().filter(|(topic, _)| usual.is_wanted(topic));
    let hops_of: Vec<_> = hops.iter().collect();
    // For each topic, the number of missing hops on the best path to the topic, and the last step of this path.
    let mut ways = BTreeMap::<&str, (usize, Option<Step>)>::from([(first, (0, None))]);
    let mut next = VecDeque::from([first]);
    while let Some(at) = next.pop_front() {
        let cost = ways[at].0;
        let by_hops = hops_of.iter().filter(|hop| hop.input == at);
        let by_hops = by_hops.map(|hop| (&*hop.node, &*hop.output, true));
        let readers = graph.topics.get(at).filter(|_| usual.is_wanted(at));
        let reads =
            |node: &str| readers.is_some_and(|ends| ends.subscriptions.iter().any(|end| end.node == node));
        let through =
            outputs().flat_map(|(output, ends)| ends.publishers.iter().map(move |end| (output, end)));
        let through = through.filter(|(_, end)| reads(&end.node));
        let through = through.map(|(output, end)| (&*end.node, &**output, false));
        let mut through: Vec<_> = through.collect();
        through.sort_unstable(); // the middleware lists publishers in any order
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
        let ends = |topic: &str| graph.topics.get(topic).filter(|_| usual.is_wanted(topic));
        let is_received = ends(first).is_some_and(|ends| !ends.subscriptions.is_empty());
        let is_published = ends(last).is_some_and(|ends| !ends.publishers.is_empty());
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
    use crate::why::graph;

    #[test]
    fn the_nodes_between_that_are_not_preloaded_are_named() {
        let graph = graph(&[
            ("/scan", "", &[], &["/filter", "/logger"]),
            ("/points", "", &["/filter"], &["/planner", "/logger"]),
            ("/map", "", &[], &["/planner"]),
            ("/plan", "", &["/planner"], &["/driver", "/logger"]),
            ("/cmd_vel", "", &["/driver"], &["/logger"]),
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
