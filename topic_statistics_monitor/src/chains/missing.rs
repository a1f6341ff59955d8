// SPDX-License-Identifier: Apache-2.0

//! The nodes of a chain that publish no hop, according to the ROS graph. A hop is the way of messages from an input
//! topic through a node to an output topic.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use topic_statistics_observe::{format, pattern::Selection};

use super::hops::Hops;
use crate::why::Graph;

/// A step of a path: the node, its input topic, and whether the node publishes statistics of this hop.
type Step<'a> = (&'a str, &'a str, bool);

/// When each node of the graph was first seen.
#[derive(Default)]
pub struct Seen(BTreeMap<String, Instant>);

impl Seen {
    /// The length of a preloaded node's windows, if `TOPIC_STATISTICS_PERIOD` is not set.
    const WINDOW: Duration = Duration::from_secs(1);

    fn update(&mut self, graph: &Graph, now: Instant) {
        self.0.retain(|node, _| graph.nodes.contains(node));
        graph.nodes.iter().for_each(|node| {
            self.0.entry(node.clone()).or_insert(now);
        });
    }
}

/// Returns the missing hops of the path with the fewest missing hops.
pub fn missing(
    graph: &Graph,
    hops: &Hops,
    [first, last]: [&str; 2],
    seen: &mut Seen,
    now: Instant,
) -> Vec<String> {
    seen.update(graph, now);
    // A node was seen at any time of its window, and the window arrives later than it ends.
    let wait = 2 * hops.longest_window().max(Seen::WINDOW);
    let is_new =
        |node: &str| seen.0.get(node).is_some_and(|since| now.saturating_duration_since(*since) < wait);
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
            found.push(match is_new(node) {
                true => format!("waiting for the first window of {}", format::name(node)),
                false => why(hops, node, before, at, wait),
            });
        }
        at = before;
    }
    found.reverse();
    found
}

fn why(hops: &Hops, node: &str, input: &str, output: &str, wait: Duration) -> String {
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
        "{node} is not preloaded, or its windows are longer than {} s: from {input} to {output}, start it by \
         `topic_statistics run` with TOPIC_STATISTICS_METRICS=all",
        wait.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::graph;
    use topic_statistics_observe::testing::at;

    #[test]
    fn the_nodes_between_that_are_not_preloaded_are_named() {
        let graph = graph(&[
            ("/scan", "", &[], &["/filter", "/logger"]),
            ("/points", "", &["/filter"], &["/planner", "/logger"]),
            ("/map", "", &[], &["/planner"]),
            ("/plan", "", &["/planner"], &["/driver", "/logger"]),
            ("/cmd_vel", "", &["/driver"], &["/logger"]),
        ]);
        let mut seen = Seen::default();
        let mut find =
            |first, last, second| missing(&graph, &Hops::default(), [first, last], &mut seen, at(second));
        for second in [0, 1] {
            let found = find("/scan", "/cmd_vel", second);
            assert_eq!(found[0], "waiting for the first window of /filter", "its first window has not ended");
        }
        let found = find("/scan", "/cmd_vel", 2);
        let names: Vec<&str> = found.iter().map(|text| text.split(' ').next().unwrap()).collect();
        assert_eq!(names, ["/filter", "/planner", "/driver"]);
        assert!(found.iter().all(|text| text.contains("is not preloaded")), "{found:?}");
        for (first, last, what) in [
            ("/scann", "/cmd_vel", "receives /scann"),
            ("/scan", "/cmd", "publishes /cmd"),
            ("/cmd_vel", "/plan", "on a way from /cmd_vel to /plan"),
        ] {
            let found = find(first, last, 2);
            assert!(found.len() == 1 && found[0].contains(what), "{found:?}");
        }
    }
}
