// SPDX-License-Identifier: Apache-2.0

//! Finds the publishers of a topic that cannot serve a subscription, and the reasons.

use std::{
    borrow::Cow,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rclrs::{
    NodeState, Promise, QoSDurabilityPolicy, QoSDuration, QoSLivelinessPolicy, QoSProfile,
    QoSReliabilityPolicy, TopicEndpointInfo,
};

use crate::escape::Escaped;

/// A publisher of a subscription's topic that cannot serve the subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IncompatiblePublisher {
    /// The fully qualified name of its node, as the graph has it: display it [`Escaped`].
    pub node: String,
    /// The resolved topic name.
    pub topic: String,
    /// The reasons; at least one.
    pub reasons: Vec<Incompatibility>,
}

/// The reason why a publisher cannot serve a subscription: the QoS that the publisher offers and the subscription requests, by the
/// tables of [Quality of Service compatibilities](https://docs.ros.org/en/kilted/Concepts/Intermediate/About-Quality-of-Service-Settings.html#qos-compatibilities).
///
/// An unknown policy, such as a system default, is never reported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incompatibility {
    /// The publisher offers best effort, the subscription requests reliable.
    Reliability,
    /// The publisher offers volatile, the subscription requests transient local.
    Durability,
    /// The publisher offers a longer deadline than the subscription requests.
    Deadline {
        /// None means infinite.
        offered: Option<Duration>,
        /// The subscription's.
        requested: Duration,
    },
    /// The publisher offers automatic liveliness, the subscription requests manual by topic.
    Liveliness,
    /// The publisher offers a longer liveliness lease than the subscription requests.
    LivelinessLease {
        /// None means infinite.
        offered: Option<Duration>,
        /// The subscription's.
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
                "it publishes {}, and this subscription is of {}; one of them has the wrong topic or type",
                Escaped(offered),
                Escaped(requested)
            ),
        }
    }
}

/// Calls `act` at the next change of the graph, once, while the returned promise is kept.
///
/// rclrs 0.8 also reports a change with every message that arrives. A call for each would cost time with every message, so call
/// this again for the next change, not too soon.
pub(crate) fn on_next_graph_change(node: &NodeState, act: impl FnOnce() + Send + 'static) -> Promise<()> {
    // rclrs calls at changes, and besides periodically, which is not needed here.
    const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);
    let (mut is_first, mut act) = (true, Some(act));
    node.notify_on_graph_change_with_period(PERIOD, move || {
        if std::mem::take(&mut is_first) {
            return false; // rclrs calls once without a change
        }
        if let Some(act) = act.take() {
            act();
        }
        true
    })
}

/// Finds the publishers that cannot serve a subscription, while it receives nothing.
///
/// Reading a publisher's QoS makes rclrs 0.8 log an error for each publisher whose history DDS does not report, which is every
/// one. So publishers are read only if the subscription has received nothing for a while although there are publishers, and once
/// for each number of publishers.
pub(crate) struct PublisherCheck {
    request: Request,
    /// None until publishers are found that do not serve the subscription, or may not: few subscriptions have any.
    found: Mutex<Option<Box<Found>>>,
}

/// The result of the last check.
#[derive(Default)]
struct Found {
    incompatible: Vec<IncompatiblePublisher>,
    /// The number of publishers that were read last.
    read: usize,
    /// Since when there are publishers, and nothing is received.
    silent_since: Option<Instant>,
}

impl PublisherCheck {
    /// Longer than a slow topic takes for a message.
    const PATIENCE: Duration = Duration::from_secs(15);

    pub(crate) fn new(request: Request) -> Self {
        Self { request, found: Mutex::default() }
    }

    pub(crate) fn topic(&self) -> &str {
        &self.request.topic
    }

    /// Returns the publishers that the last check found.
    pub(crate) fn incompatible(&self) -> Vec<IncompatiblePublisher> {
        self.found().as_ref().map_or_else(Vec::new, |found| found.incompatible.clone())
    }

    /// Waits anew before the next check: the statistics are disabled, so it is not known what is received.
    pub(crate) fn restart(&self) {
        if let Some(found) = self.found().as_mut() {
            found.silent_since = None;
        }
    }

    /// Checks the publishers, and appends a warning for each new one that cannot serve the subscription. Returns when to check
    /// again, if it is too early to know.
    pub(crate) fn run(
        &self,
        node: &NodeState,
        has_received: bool,
        now: Instant,
        warnings: &mut Vec<String>,
    ) -> Option<Instant> {
        let count = node.count_publishers(&self.request.topic).ok()?;
        let mut found = self.found();
        let has_incompatible = found.as_ref().is_some_and(|found| !found.incompatible.is_empty());
        if count == 0 || (has_received && !has_incompatible) {
            *found = None;
            return None;
        }
        let found = found.get_or_insert_default();
        if count == found.read {
            return None;
        }
        if found.read == 0 {
            let due = *found.silent_since.get_or_insert(now) + Self::PATIENCE;
            if now < due {
                return Some(due);
            }
        }
        let incompatible =
            self.request.incompatible(node.get_publishers_info_by_topic(&self.request.topic).ok()?);
        let before = std::mem::replace(&mut found.incompatible, incompatible);
        found.read = count;
        let new = found.incompatible.iter().filter(|publisher| !before.contains(publisher));
        warnings.extend(new.map(ToString::to_string));
        None
    }

    fn found(&self) -> MutexGuard<'_, Option<Box<Found>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The topic, type and QoS that a subscription requests of publishers.
pub(crate) struct Request {
    pub(crate) topic: Box<str>,
    /// As `package/msg/Name`.
    pub(crate) message_type: Cow<'static, str>,
    pub(crate) qos: QoSProfile,
}

impl Request {
    /// Returns those of the topic's publishers that cannot serve it.
    pub(crate) fn incompatible(&self, publishers: Vec<TopicEndpointInfo>) -> Vec<IncompatiblePublisher> {
        let incompatible = publishers.into_iter().map(|publisher| IncompatiblePublisher {
            node: format!("{}/{}", publisher.node_namespace.trim_end_matches('/'), publisher.node_name),
            topic: self.topic.to_string(),
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
        let message_type = (*publisher.topic_type != *self.message_type).then(|| Incompatibility::Type {
            offered: publisher.topic_type,
            requested: self.message_type.to_string(),
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

/// Returns the offered and the requested duration if the offered one is longer.
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
        let request = Request { topic: "/imu".into(), message_type: IMU.into(), qos: requested };
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
            reasons: vec![Incompatibility::Type {
                offered: "a\u{7}".to_owned(),
                requested: "b\n/msg/C".to_owned(),
            }],
        };
        let shown = publisher.to_string();
        assert!(!shown.contains(char::is_control), "{shown}");
    }

    #[test]
    fn another_type_is_named_with_both() {
        let request = Request { topic: "/ns/imu".into(), message_type: IMU.into(), qos: qos() };
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
