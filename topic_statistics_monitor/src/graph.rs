// SPDX-License-Identifier: Apache-2.0

//! The graph, as a node sees it, and what publishers offer.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use rclrs::*;

/// The graph, as a node sees it.
pub struct Graph {
    node: Node,
    has_changed: Arc<AtomicBool>,
    last_refresh: Option<Instant>,
    next_change: Option<Promise<()>>,
}

impl Graph {
    /// It is read when it changes, and as often as this at most.
    const EVERY: Duration = Duration::from_secs(1);

    pub fn new(node: &Node) -> Self {
        Self { node: Arc::clone(node), has_changed: Arc::default(), last_refresh: None, next_change: None }
    }

    /// Returns whether it is time to read it. To be called before that, so that no change is missed.
    pub fn is_due(&mut self) -> bool {
        let is_early = self.last_refresh.is_some_and(|last| last.elapsed() < Self::EVERY);
        // A subscription of ours appears in the graph like any other, so at first it is read anyway.
        if is_early || !(self.has_changed.swap(false, Ordering::Relaxed) || self.last_refresh.is_none()) {
            return false;
        }
        self.last_refresh = Some(Instant::now());
        let has_changed = Arc::clone(&self.has_changed);
        let change = on_next_graph_change(&self.node, move || has_changed.store(true, Ordering::Relaxed));
        self.next_change = Some(change);
        true
    }

    /// Returns the names of the topics; None if they cannot be read.
    pub fn topics(&self) -> Option<Vec<String>> {
        Some(self.node.get_topic_names_and_types().ok()?.into_keys().collect())
    }

    /// Returns whether somebody publishes on a topic.
    pub fn has_publisher(&self, topic: &str) -> bool {
        self.node.count_publishers(topic).is_ok_and(|publishers| publishers > 0)
    }

    /// Returns the publishers of a topic.
    pub fn publishers(&self, topic: &str) -> Vec<TopicEndpointInfo> {
        self.node.get_publishers_info_by_topic(topic).unwrap_or_default()
    }
}

/// Keeps the log free of an error for each publisher that is read, of which nobody can do anything: DDS does not tell a publisher's
/// history, and rclrs 0.8 says so. The level is that of the whole process.
pub fn expect_no_history() -> Result<(), RclrsError> {
    Logger::new("QoSProfile.conversion")?.set_level(LogSeverity::Fatal)
}

/// What publishers offer, as far as it decides who can serve whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    reliable: bool,
    transient_local: bool,
}

impl Qos {
    /// Returns what all of them can serve.
    pub fn of_all<'a>(offered: impl Iterator<Item = &'a QoSProfile>) -> Self {
        let all = Self { reliable: true, transient_local: true };
        offered.fold(all, |all, one| Self {
            reliable: all.reliable && one.reliability != QoSReliabilityPolicy::BestEffort,
            transient_local: all.transient_local && one.durability == QoSDurabilityPolicy::TransientLocal,
        })
    }

    /// Returns whether a subscription with this receives all that one with the other receives.
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

/// Calls `act` at the next change of the graph, once, while the returned promise is kept.
///
/// rclrs 0.8 reports a change with every message that arrives, too; to be called for each would cost something per message.
fn on_next_graph_change(node: &NodeState, act: impl FnOnce() + Send + 'static) -> Promise<()> {
    // rclrs calls at changes, and besides at this interval, which is not needed here.
    const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
    let (mut is_first, mut act) = (true, Some(act));
    node.notify_on_graph_change_with_period(INTERVAL, move || {
        if std::mem::take(&mut is_first) {
            return false; // rclrs calls once without a change
        }
        if let Some(act) = act.take() {
            act();
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_qos_is_the_strongest_that_all_can_serve() {
        let (reliable, best_effort) = (QoSProfile::topics_default(), QoSProfile::sensor_data_default());
        let latched = reliable.transient_local();
        let of = |offered: &[QoSProfile]| Qos::of_all(offered.iter());
        assert_eq!(of(&[reliable]), Qos { reliable: true, transient_local: false });
        assert_eq!(of(&[latched, latched]), Qos { reliable: true, transient_local: true });
        assert_eq!(of(&[latched, reliable]), Qos { reliable: true, transient_local: false });
        assert_eq!(of(&[latched, best_effort]), Qos { reliable: false, transient_local: false });
    }

    #[test]
    fn a_subscription_is_made_anew_only_if_it_misses_somebody() {
        let weak = Qos { reliable: false, transient_local: false };
        let strong = Qos { reliable: true, transient_local: true };
        assert!(weak.receives_all_of(strong) && weak.receives_all_of(weak) && strong.receives_all_of(strong));
        assert!(!strong.receives_all_of(weak));
        assert!(!strong.receives_all_of(Qos { transient_local: false, ..strong }));
    }
}
