// SPDX-License-Identifier: Apache-2.0

//! Which publishers of a topic cannot serve a subscription, and why.

use std::{fmt, time::Duration};

use rclrs::{
    NodeState, Promise, QoSDurabilityPolicy, QoSDuration, QoSLivelinessPolicy, QoSProfile,
    QoSReliabilityPolicy, TopicEndpointInfo,
};

use crate::escape::Escaped;

/// A publisher of a subscription's topic whose messages the subscription does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompatiblePublisher {
    /// The fully qualified name of its node.
    pub node: String,
    /// The topic, resolved.
    pub topic: String,
    /// Why; at least one reason.
    pub reasons: Vec<Incompatibility>,
}

/// Why a publisher cannot serve a subscription: what the one offers and the other requests, by the tables of
/// [Quality of Service compatibilities](https://docs.ros.org/en/kilted/Concepts/Intermediate/About-Quality-of-Service-Settings.html#qos-compatibilities).
///
/// A policy that is not known, as system defaults are not, is never reported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incompatibility {
    /// Offered is best effort, requested is reliable.
    Reliability,
    /// Offered is volatile, requested is transient local.
    Durability,
    /// Offered is a longer deadline than is requested.
    Deadline {
        /// None: none, which is infinite.
        offered: Option<Duration>,
        /// What the subscription asks for.
        requested: Duration,
    },
    /// Offered is automatic liveliness, requested is manual by topic.
    Liveliness,
    /// Offered is a longer lease of liveliness than is requested.
    LivelinessLease {
        /// None: none, which is infinite.
        offered: Option<Duration>,
        /// What the subscription asks for.
        requested: Duration,
    },
    /// The types differ.
    Type {
        /// The publisher's, as `package/msg/Name`.
        offered: String,
        /// The subscription's, likewise.
        requested: String,
    },
}

impl fmt::Display for IncompatiblePublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nothing is received from {} on {}: ", Escaped(&self.node), Escaped(&self.topic))?;
        for (index, reason) in self.reasons.iter().enumerate() {
            write!(f, "{}{reason}", if index > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Incompatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = |period: &Option<Duration>| {
            period.map_or_else(|| "none".to_owned(), |period| format!("{period:?}"))
        };
        match self {
            Self::Reliability => f.write_str(
                "it publishes best effort, and this subscription requests reliable; subscribe with \
                 .best_effort(), or let it publish reliable",
            ),
            Self::Durability => f.write_str(
                "it publishes volatile, and this subscription requests transient local; subscribe with .volatile(), \
                 or let it publish transient local",
            ),
            Self::Deadline { offered, requested } => write!(
                f,
                "it offers a deadline of {offered}, and this subscription requests {requested:?}; subscribe with a \
                 deadline that is as long, or let it offer one of {requested:?} at most",
                offered = period(offered)
            ),
            Self::Liveliness => f.write_str(
                "it asserts its liveliness automatically, and this subscription requests manual by topic; subscribe \
                 with automatic liveliness, or let it assert it by topic",
            ),
            Self::LivelinessLease { offered, requested } => write!(
                f,
                "it offers a liveliness lease of {offered}, and this subscription requests {requested:?}; subscribe \
                 with a lease that is as long, or let it offer one of {requested:?} at most",
                offered = period(offered)
            ),
            Self::Type { offered, requested } => write!(
                f,
                "it publishes {}, and this subscription is of {requested}; one of them has the wrong topic or type",
                Escaped(offered)
            ),
        }
    }
}

/// Calls `act` at the next change in the graph, once, as long as what this returns is kept.
///
/// rclrs 0.8 tells of a change with every message that comes, too, so that to be told of each would cost something with every
/// message. Whoever wants to hear of the next one asks again, not too soon.
pub(crate) fn on_next_graph_change(node: &NodeState, act: impl FnOnce() + Send + 'static) -> Promise<()> {
    // rclrs tells of changes when they come, and besides with a period, of which there is no need here.
    const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);
    let (mut is_new, mut act) = (true, Some(act));
    node.notify_on_graph_change_with_period(PERIOD, move || {
        if std::mem::take(&mut is_new) {
            return false; // rclrs asks once without a change
        }
        if let Some(act) = act.take() {
            act();
        }
        true
    })
}

/// What a subscription requests of publishers.
pub(crate) struct Request {
    pub(crate) topic: String,
    /// As `package/msg/Name`.
    pub(crate) message_type: String,
    pub(crate) qos: QoSProfile,
}

impl Request {
    /// Returns the publishers that cannot serve it, among all of its topic.
    pub(crate) fn incompatible(&self, publishers: Vec<TopicEndpointInfo>) -> Vec<IncompatiblePublisher> {
        let incompatible = publishers.into_iter().map(|publisher| IncompatiblePublisher {
            node: format!("{}/{}", publisher.node_namespace.trim_end_matches('/'), publisher.node_name),
            topic: self.topic.clone(),
            reasons: self.reasons(publisher),
        });
        incompatible.filter(|publisher| !publisher.reasons.is_empty()).collect()
    }

    fn reasons(&self, publisher: TopicEndpointInfo) -> Vec<Incompatibility> {
        let (offered, requested) = (publisher.qos_profile, self.qos);
        let reliability = requested.reliability == QoSReliabilityPolicy::Reliable
            && offered.reliability == QoSReliabilityPolicy::BestEffort;
        let durability = requested.durability == QoSDurabilityPolicy::TransientLocal
            && offered.durability == QoSDurabilityPolicy::Volatile;
        let liveliness = requested.liveliness == QoSLivelinessPolicy::ManualByTopic
            && offered.liveliness == QoSLivelinessPolicy::Automatic;
        let deadline = too_long(offered.deadline, requested.deadline)
            .map(|(offered, requested)| Incompatibility::Deadline { offered, requested });
        let lease = too_long(offered.liveliness_lease, requested.liveliness_lease)
            .map(|(offered, requested)| Incompatibility::LivelinessLease { offered, requested });
        let message_type = (publisher.topic_type != self.message_type).then(|| Incompatibility::Type {
            offered: publisher.topic_type,
            requested: self.message_type.clone(),
        });
        [
            message_type,
            reliability.then_some(Incompatibility::Reliability),
            durability.then_some(Incompatibility::Durability),
            deadline,
            liveliness.then_some(Incompatibility::Liveliness),
            lease,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Returns what is offered and requested if it is longer than that.
fn too_long(offered: QoSDuration, requested: QoSDuration) -> Option<(Option<Duration>, Duration)> {
    match (offered, requested) {
        (QoSDuration::Infinite, QoSDuration::Custom(requested)) => Some((None, requested)),
        (QoSDuration::Custom(offered), QoSDuration::Custom(requested)) if offered > requested => {
            Some((Some(offered), requested))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMU: &str = "sensor_msgs/msg/Imu";

    fn reasons(offered: QoSProfile, requested: QoSProfile) -> Vec<Incompatibility> {
        let request = Request { topic: "/imu".to_owned(), message_type: IMU.to_owned(), qos: requested };
        let publisher = TopicEndpointInfo {
            node_name: "driver".to_owned(),
            node_namespace: "/".to_owned(),
            topic_type: IMU.to_owned(),
            qos_profile: offered,
        };
        request.reasons(publisher)
    }

    /// The topics' default, with its system defaults made what they are: no limits.
    fn qos() -> QoSProfile {
        QoSProfile {
            deadline: QoSDuration::Infinite,
            liveliness: QoSLivelinessPolicy::Automatic,
            liveliness_lease: QoSDuration::Infinite,
            ..QoSProfile::topics_default()
        }
    }

    #[test]
    fn best_effort_does_not_serve_reliable_and_all_else_goes() {
        let table = [
            (qos().best_effort(), qos().best_effort(), vec![]),
            (qos().best_effort(), qos().reliable(), vec![Incompatibility::Reliability]),
            (qos().reliable(), qos().best_effort(), vec![]),
            (qos().reliable(), qos().reliable(), vec![]),
        ];
        for (offered, requested, expected) in table {
            assert_eq!(reasons(offered, requested), expected, "{offered:?} {requested:?}");
        }
    }

    #[test]
    fn volatile_does_not_serve_transient_local_and_all_else_goes() {
        let table = [
            (qos().volatile(), qos().volatile(), vec![]),
            (qos().volatile(), qos().transient_local(), vec![Incompatibility::Durability]),
            (qos().transient_local(), qos().volatile(), vec![]),
            (qos().transient_local(), qos().transient_local(), vec![]),
        ];
        for (offered, requested, expected) in table {
            assert_eq!(reasons(offered, requested), expected, "{offered:?} {requested:?}");
        }
    }

    #[test]
    fn a_longer_deadline_or_lease_than_requested_does_not_serve() {
        let [x, y] = [Duration::from_millis(100), Duration::from_millis(200)];
        let deadline = |duration| qos().deadline_duration(duration);
        let lease = |duration| qos().liveliness_lease_duration(duration);
        type Make = fn(Option<Duration>, Duration) -> Incompatibility;
        let is_deadline: Make = |offered, requested| Incompatibility::Deadline { offered, requested };
        let is_lease: Make = |offered, requested| Incompatibility::LivelinessLease { offered, requested };
        let with: [(&dyn Fn(Duration) -> QoSProfile, Make); 2] =
            [(&deadline, is_deadline), (&lease, is_lease)];
        for (with, reason) in with {
            assert_eq!(reasons(qos(), qos()), []);
            assert_eq!(reasons(qos(), with(x)), [reason(None, x)], "none is infinite");
            assert_eq!(reasons(with(x), qos()), []);
            assert_eq!(reasons(with(x), with(x)), []);
            assert_eq!(reasons(with(x), with(y)), []);
            assert_eq!(reasons(with(y), with(x)), [reason(Some(y), x)]);
        }
    }

    #[test]
    fn automatic_liveliness_does_not_serve_manual_by_topic_and_all_else_goes() {
        let manual = QoSProfile { liveliness: QoSLivelinessPolicy::ManualByTopic, ..qos() };
        assert_eq!(reasons(qos(), qos()), []);
        assert_eq!(reasons(qos(), manual), [Incompatibility::Liveliness]);
        assert_eq!(reasons(manual, qos()), []);
        assert_eq!(reasons(manual, manual), []);
    }

    #[test]
    fn what_is_not_known_is_not_reported() {
        let unknown = QoSProfile::system_default();
        let strict = QoSProfile { liveliness: QoSLivelinessPolicy::ManualByTopic, ..qos() }
            .reliable()
            .transient_local()
            .deadline_duration(Duration::from_millis(1))
            .liveliness_lease_duration(Duration::from_millis(1));
        assert_eq!(reasons(unknown, strict), []);
        assert_eq!(reasons(strict, unknown), []);
    }

    #[test]
    fn a_foreign_name_cannot_forge_a_line_of_the_log() {
        let publisher = IncompatiblePublisher {
            node: "/x\u{1b}[2J\n[ERROR] forged".to_owned(),
            topic: "/imu".to_owned(),
            reasons: vec![Incompatibility::Type { offered: "a\u{7}".to_owned(), requested: IMU.to_owned() }],
        };
        let shown = publisher.to_string();
        assert!(!shown.contains(char::is_control), "{shown}");
    }

    #[test]
    fn another_type_is_named_with_both() {
        let request = Request { topic: "/ns/imu".to_owned(), message_type: IMU.to_owned(), qos: qos() };
        let publisher = TopicEndpointInfo {
            node_name: "driver".to_owned(),
            node_namespace: "/ns".to_owned(),
            topic_type: "std_msgs/msg/String".to_owned(),
            qos_profile: qos(),
        };
        let incompatible = request.incompatible(vec![publisher]);
        assert_eq!(
            incompatible[0].to_string(),
            "Nothing is received from /ns/driver on /ns/imu: it publishes std_msgs/msg/String, and this subscription is \
             of sensor_msgs/msg/Imu; one of them has the wrong topic or type"
        );
    }
}
