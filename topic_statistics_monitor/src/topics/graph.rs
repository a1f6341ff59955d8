// SPDX-License-Identifier: Apache-2.0

//! The topics and publishers of the ROS graph, as a node sees them.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use rclrs::*;

/// The ROS graph as the monitor's node sees it.
pub struct Graph {
    node: Node,
    has_changed: Arc<AtomicBool>,
    last_refresh: Option<Instant>,
    next_change: Option<Promise<()>>,
}

impl Graph {
    /// The shortest time between two readings of the graph. The graph is read only after a change of the graph.
    const MIN_INTERVAL: Duration = Duration::from_secs(1);

    pub fn new(node: &Node) -> Self {
        Self { node: Arc::clone(node), has_changed: Arc::default(), last_refresh: None, next_change: None }
    }

    /// Returns whether it is time to read the graph. The caller calls this function before the reading, so that no
    /// change is missed.
    pub fn is_due(&mut self) -> bool {
        let is_early = self.last_refresh.is_some_and(|last| last.elapsed() < Self::MIN_INTERVAL);
        // The first call always returns `true`, because nodes and topics that exist at the start are not reported as a
        // change.
        if is_early || !(self.has_changed.swap(false, Ordering::Relaxed) || self.last_refresh.is_none()) {
            return false;
        }
        self.last_refresh = Some(Instant::now());
        let has_changed = Arc::clone(&self.has_changed);
        let change = on_next_graph_change(&self.node, move || has_changed.store(true, Ordering::Relaxed));
        self.next_change = Some(change);
        true
    }

    /// Returns the names of all topics. `None` if the names cannot be read.
    pub fn topics(&self) -> Option<Vec<String>> {
        Some(self.node.get_topic_names_and_types().ok()?.into_keys().collect())
    }

    /// Returns whether a topic has a publisher.
    pub fn has_publisher(&self, topic: &str) -> bool {
        self.node.count_publishers(topic).is_ok_and(|publishers| publishers > 0)
    }

    /// Returns the publishers of a topic.
    pub fn publishers(&self, topic: &str) -> Vec<TopicEndpointInfo> {
        self.node.get_publishers_info_by_topic(topic).unwrap_or_default()
    }
}

/// Calls `act` once, at the next change of the graph. Dropping the returned promise cancels the call.
///
/// rclrs 0.8 also reports a change of the graph for every received message. A callback that stays registered would cost
/// time with every message.
fn on_next_graph_change(node: &NodeState, act: impl FnOnce() + Send + 'static) -> Promise<()> {
    // rclrs also calls the function at regular intervals. This is not needed here, so the interval is a day.
    const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
    let (mut is_first, mut act) = (true, Some(act));
    node.notify_on_graph_change_with_period(INTERVAL, move || {
        if std::mem::take(&mut is_first) {
            return false; // rclrs makes the first call without a change.
        }
        if let Some(act) = act.take() {
            act();
        }
        true
    })
}
