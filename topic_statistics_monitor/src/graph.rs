// SPDX-License-Identifier: Apache-2.0

//! The ROS graph as a node sees it, and the QoS that all publishers of a topic can serve.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use rclrs::*;
use topic_statistics_core::{incompatible::MatchedQos, record::transport::Gid};

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

    /// Returns whether it is time to read the graph. Call this before reading, so that no change is missed.
    pub fn is_due(&mut self) -> bool {
        let is_early = self.last_refresh.is_some_and(|last| last.elapsed() < Self::MIN_INTERVAL);
        // The first call returns `true`, because rclrs reports no change for nodes that exist at the start.
        if is_early || !(self.has_changed.swap(false, Ordering::Relaxed) || self.last_refresh.is_none()) {
            return false;
        }
        self.last_refresh = Some(Instant::now());
        let has_changed = Arc::clone(&self.has_changed);
        let change = on_next_graph_change(&self.node, move || has_changed.store(true, Ordering::Relaxed));
        self.next_change = Some(change);
        true
    }

    /// Returns `None` if the names cannot be read.
    pub fn topics(&self) -> Option<Vec<String>> {
        Some(self.node.get_topic_names_and_types().ok()?.into_keys().collect())
    }

    pub fn has_publisher(&self, topic: &str) -> bool {
        self.node.count_publishers(topic).is_ok_and(|publishers| publishers > 0)
    }

    pub fn publishers(&self, topic: &str) -> Vec<TopicEndpointInfo> {
        self.node.get_publishers_info_by_topic(topic).unwrap_or_default()
    }
}

/// Calls `act` once, at the next change of the graph, unless the returned promise is dropped. rclrs 0.8 also reports a
/// change for every received message, so a callback that stays registered would cost time with every message.
fn on_next_graph_change(node: &NodeState, act: impl FnOnce() + Send + 'static) -> Promise<()> {
    // rclrs also calls the closure at regular intervals. This is not needed here, so the interval is a day.
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

pub fn full_name(namespace: &str, name: &str) -> String {
    format!("{}/{name}", namespace.trim_end_matches('/'))
}

pub fn node_name(end: &TopicEndpointInfo) -> String {
    full_name(&end.node_namespace, &end.node_name)
}

pub fn gid(info: &MessageInfo) -> Gid {
    let mut gid = Gid::default();
    gid.iter_mut().zip(&info.publisher_gid.data).for_each(|(to, from)| *to = *from);
    gid
}

/// The policies that decide which publishers can serve a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    reliable: bool,
    /// Whether all publishers keep their last messages for later subscriptions.
    pub transient_local: bool,
}

impl Qos {
    /// The QoS that every publisher can serve, at the lowest cost: without acknowledgements and resending.
    pub const WEAKEST: Self = Self { reliable: false, transient_local: false };

    pub const LATCHED: Self = Self { reliable: true, transient_local: true };

    /// Returns the strongest policies that all publishers can serve.
    pub fn of_all<'a>(offered: impl Iterator<Item = &'a QoSProfile>) -> Self {
        offered.fold(Self::LATCHED, |all, one| Self {
            reliable: all.reliable && one.reliability != QoSReliabilityPolicy::BestEffort,
            transient_local: all.transient_local && one.durability == QoSDurabilityPolicy::TransientLocal,
        })
    }

    /// Returns whether all publishers that can serve `other` can also serve this QoS.
    pub fn receives_all_of(self, other: Self) -> bool {
        (other.reliable || !self.reliable) && (other.transient_local || !self.transient_local)
    }

    pub fn profile(self, depth: u32) -> QoSProfile {
        let profile = QoSProfile::topics_default().keep_last(depth);
        let profile = if self.reliable { profile.reliable() } else { profile.best_effort() };
        if self.transient_local {
            profile.transient_local()
        } else {
            profile.volatile()
        }
    }

    pub fn text(self, depth: u32) -> String {
        let reliability = if self.reliable { "reliable" } else { "best effort" };
        let durability = if self.transient_local { "transient local" } else { "volatile" };
        format!("{reliability}, {durability}, depth {depth}")
    }
}

pub fn matched(qos: &QoSProfile) -> MatchedQos {
    use QoSDurabilityPolicy::{TransientLocal, Volatile};
    use QoSLivelinessPolicy::{Automatic, ManualByTopic};
    use QoSReliabilityPolicy::{BestEffort, Reliable};
    let known = |is: bool, is_not: bool| (is || is_not).then_some(is);
    let limit = |limit| match limit {
        QoSDuration::Infinite => Some(None),
        QoSDuration::Custom(duration) => Some(Some(duration)),
        _ => None,
    };
    let QoSProfile { reliability, durability, liveliness, deadline, liveliness_lease, .. } = *qos;
    MatchedQos {
        is_reliable: known(reliability == Reliable, reliability == BestEffort),
        is_transient_local: known(durability == TransientLocal, durability == Volatile),
        is_manual: known(liveliness == ManualByTopic, liveliness == Automatic),
        deadline: limit(deadline),
        lease: limit(liveliness_lease),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_qos_is_the_strongest_that_all_can_serve() {
        let (reliable, best_effort) = (QoSProfile::topics_default(), QoSProfile::sensor_data_default());
        let latched = reliable.transient_local();
        let of_all = |offered: &[QoSProfile]| Qos::of_all(offered.iter());
        assert_eq!(of_all(&[reliable]), Qos { reliable: true, transient_local: false });
        assert_eq!(of_all(&[latched, latched]), Qos { reliable: true, transient_local: true });
        assert_eq!(of_all(&[latched, reliable]), Qos { reliable: true, transient_local: false });
        assert_eq!(of_all(&[latched, best_effort]), Qos { reliable: false, transient_local: false });
    }

    #[test]
    fn a_subscription_is_replaced_only_if_it_misses_a_publisher() {
        let weak = Qos::WEAKEST;
        let strong = Qos { reliable: true, transient_local: true };
        assert!(weak.receives_all_of(strong) && weak.receives_all_of(weak) && strong.receives_all_of(strong));
        assert!(!strong.receives_all_of(weak));
        assert!(!strong.receives_all_of(Qos { transient_local: false, ..strong }));
    }
}
