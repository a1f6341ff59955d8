// SPDX-License-Identifier: Apache-2.0

//! Publishers that cannot serve a subscription, with the reasons.

use std::{fmt, time::Duration};

use crate::escape::Escaped;

/// A publisher of a subscription's topic that cannot serve the subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IncompatiblePublisher {
    /// The fully qualified name of the publisher's node, as the ROS graph reports it. Wrap the name in [`Escaped`] to
    /// display it.
    pub node: String,
    /// The resolved topic name.
    pub topic: String,
    /// The reasons why the publisher cannot serve the subscription; at least one.
    pub reasons: Vec<Incompatibility>,
}

/// The reason why a publisher cannot serve a subscription: the QoS that the publisher offers does not meet the QoS that
/// the subscription requests, by the tables of
/// [Quality of Service
/// compatibilities](https://docs.ros.org/en/kilted/Concepts/Intermediate/About-Quality-of-Service-Settings.html#qos-compatibilities).
///
/// An unknown policy, such as a system default, is never reported. No policy is reported with rmw_zenoh_cpp, because
/// rmw_zenoh_cpp matches publishers and subscriptions only by topic and type. No policy is reported with a middleware
/// that this library does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incompatibility {
    /// The publisher offers best effort, but the subscription requests reliable.
    Reliability,
    /// The publisher offers volatile, but the subscription requests transient local.
    Durability,
    /// The publisher offers a longer deadline than the subscription requests.
    Deadline {
        /// The deadline of the publisher; `None` means infinite.
        offered: Option<Duration>,
        /// The deadline of the subscription.
        requested: Duration,
    },
    /// The publisher offers automatic liveliness, but the subscription requests manual by topic.
    Liveliness,
    /// The publisher offers a longer liveliness lease than the subscription requests.
    LivelinessLease {
        /// The liveliness lease of the publisher; `None` means infinite.
        offered: Option<Duration>,
        /// The liveliness lease of the subscription.
        requested: Duration,
    },
    /// The publisher and the subscription have different message types.
    Type {
        /// The type of the publisher, as `package/msg/Name`.
        offered: String,
        /// The type of the subscription, as `package/msg/Name`.
        requested: String,
    },
}

/// The QoS policies that decide whether a publisher can serve a subscription. They are the policies that a publisher
/// offers, or the policies that a subscription requests. `None` means that a policy is unknown, such as a system
/// default.
#[doc(hidden)] // for code that reads the graph
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchedQos {
    pub is_reliable: Option<bool>,
    pub is_transient_local: Option<bool>,
    /// Whether liveliness is manual by topic. `Some(false)` means automatic.
    pub is_manual: Option<bool>,
    /// The deadline. The inner `None` means infinite.
    pub deadline: Option<Option<Duration>>,
    /// The liveliness lease. The inner `None` means infinite.
    pub lease: Option<Option<Duration>>,
}

impl MatchedQos {
    /// Returns the reasons why a publisher that offers these policies cannot serve a subscription that requests the
    /// policies `requested`.
    #[doc(hidden)] // for code that reads the graph
    pub fn reasons(&self, requested: &Self) -> Vec<Incompatibility> {
        let lacks = |offered, requested| (offered, requested) == (Some(false), Some(true));
        let too_long = |offered: Option<Option<Duration>>, requested: Option<Option<Duration>>| {
            let (offered, requested) = (offered?, requested??);
            offered.is_none_or(|offered| offered > requested).then_some((offered, requested))
        };
        let reliability = lacks(self.is_reliable, requested.is_reliable);
        let durability = lacks(self.is_transient_local, requested.is_transient_local);
        let liveliness = lacks(self.is_manual, requested.is_manual);
        let deadline = too_long(self.deadline, requested.deadline)
            .map(|(offered, requested)| Incompatibility::Deadline { offered, requested });
        let lease = too_long(self.lease, requested.lease)
            .map(|(offered, requested)| Incompatibility::LivelinessLease { offered, requested });
        let reasons = [
            reliability.then_some(Incompatibility::Reliability),
            durability.then_some(Incompatibility::Durability),
            deadline,
            liveliness.then_some(Incompatibility::Liveliness),
            lease,
        ];
        reasons.into_iter().flatten().collect()
    }
}

impl IncompatiblePublisher {
    #[doc(hidden)] // for code that reads the graph
    pub fn new(node: String, topic: String, reasons: Vec<Incompatibility>) -> Self {
        Self { node, topic, reasons }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
