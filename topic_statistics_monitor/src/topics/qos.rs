// SPDX-License-Identifier: Apache-2.0

//! The QoS of a subscription that all publishers of a topic can serve.

use rclrs::*;
use topic_statistics_core::incompatible::MatchedQos;

/// The policies that decide which publishers can serve a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    reliable: bool,
    transient_local: bool,
}

impl Qos {
    /// The QoS that every publisher can serve, with the lowest cost for a publisher: the publisher waits for no
    /// acknowledgements, and does not resend messages.
    pub const WEAKEST: Self = Self { reliable: false, transient_local: false };

    /// The QoS of a latched topic.
    pub const LATCHED: Self = Self { reliable: true, transient_local: true };

    /// Returns the strongest policies that all publishers can serve.
    pub fn of_all<'a>(offered: impl Iterator<Item = &'a QoSProfile>) -> Self {
        let all = Self { reliable: true, transient_local: true };
        offered.fold(all, |all, one| Self {
            reliable: all.reliable && one.reliability != QoSReliabilityPolicy::BestEffort,
            transient_local: all.transient_local && one.durability == QoSDurabilityPolicy::TransientLocal,
        })
    }

    /// Returns whether all publishers that can serve a subscription with the policies `other` can also serve a
    /// subscription with these policies.
    pub fn receives_all_of(self, other: Self) -> bool {
        (other.reliable || !self.reliable) && (other.transient_local || !self.transient_local)
    }

    /// Returns whether all publishers keep their last messages for later subscriptions.
    pub fn is_latched(self) -> bool {
        self.transient_local
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

/// Returns the policies of an endpoint in the graph as the core compares them.
pub fn matched(qos: &QoSProfile) -> MatchedQos {
    let limit = |limit| match limit {
        QoSDuration::Infinite => Some(None),
        QoSDuration::Custom(duration) => Some(Some(duration)),
        _ => None,
    };
    MatchedQos {
        is_reliable: match qos.reliability {
            QoSReliabilityPolicy::Reliable => Some(true),
            QoSReliabilityPolicy::BestEffort => Some(false),
            _ => None,
        },
        is_transient_local: match qos.durability {
            QoSDurabilityPolicy::TransientLocal => Some(true),
            QoSDurabilityPolicy::Volatile => Some(false),
            _ => None,
        },
        is_manual: match qos.liveliness {
            QoSLivelinessPolicy::ManualByTopic => Some(true),
            QoSLivelinessPolicy::Automatic => Some(false),
            _ => None,
        },
        deadline: limit(qos.deadline),
        lease: limit(qos.liveliness_lease),
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
