// SPDX-License-Identifier: Apache-2.0

//! Finds the publishers of a topic that cannot serve a subscription, and the reasons.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use rclrs::{
    Node, NodeState, Promise, QoSDurabilityPolicy, QoSDuration, QoSLivelinessPolicy, QoSProfile,
    QoSReliabilityPolicy, TopicEndpointInfo,
};
use topic_statistics_core::{
    incompatible::MatchedQos, record::source, Escaped, Incompatibility, IncompatiblePublisher,
};

use crate::transport::middleware_in_use;

/// Finds the publishers that cannot serve a subscription, while the subscription receives nothing.
///
/// The publishers are counted once per second. Waiting for a change of the graph would cost more, for two reasons:
/// rclrs 0.8 starts a thread (`async-io`) to wait with a timeout, and reports a change with every message that arrives.
/// When the QoS of publishers is read, rclrs 0.8 logs an error for each publisher, because DDS never reports the
/// history policy. So the QoS and types of publishers are read only if the subscription has received nothing for a
/// while although the topic has publishers, and again only when the number of publishers has changed. At the first
/// read, the check also gives the executor a task that does nothing. If the executor does not run this task, the
/// executor cannot receive messages either.
pub(crate) struct PublisherCheck {
    node: Weak<NodeState>,
    request: Request,
    /// The result of the last check. `None` if messages arrive and no publisher is incompatible, as for most
    /// subscriptions. Also `None` if the topic has no publishers and this check has not given the executor a task yet.
    found: Mutex<Option<Box<Found>>>,
}

#[derive(Default)]
struct Found {
    incompatible: Vec<IncompatiblePublisher>,
    /// The number of publishers at the last count.
    count: usize,
    /// The number of publishers when their types and QoS were last read; 0 before the first read.
    read: usize,
    /// The time since which the topic has had publishers, but no message has arrived.
    silent_since: Option<Instant>,
    /// The task that the executor has got and has not run yet, and the time at which the executor got the task. `None`
    /// after the task has run, or after the warning that the task has not run.
    asked: Option<(Instant, Promise<()>)>,
    /// Whether this check has given the executor a task. The check gives only one task, because an executor that never
    /// spins would keep each further task in memory.
    has_asked: bool,
}

impl Found {
    /// Returns a warning if the executor has not run the task of this check in time.
    fn find_idle_executor(&mut self, topic: &str, node: &str, now: Instant) -> Option<String> {
        let (at, answer) = self.asked.as_mut()?;
        let has_run = matches!(answer.try_recv(), Ok(Some(())));
        if !has_run && now < *at + PublisherCheck::ANSWER {
            return None;
        }
        self.asked = None;
        (!has_run).then(|| {
            format!(
                "Nothing is received on {}: the executor of {} has run nothing for {} s; spin it, or look for a \
                 callback that blocks it",
                Escaped(topic),
                Escaped(node),
                PublisherCheck::ANSWER.as_secs()
            )
        })
    }
}

impl PublisherCheck {
    /// If a topic has publishers but no message arrives, the check reads the publishers after this time. This time is
    /// longer than the period even of a slow topic.
    const PATIENCE: Duration = Duration::from_secs(15);
    /// The time between two counts of publishers. If two counts are equal, no publisher is new, so the graph
    /// already knows the node name of each publisher.
    const INTERVAL: Duration = Duration::from_secs(1);
    /// How long the executor may take to run the task of this check: longer than a callback should run.
    const ANSWER: Duration = Duration::from_secs(5);

    pub(crate) fn new(node: &Node, request: Request) -> Self {
        Self { node: Arc::downgrade(node), request, found: Mutex::default() }
    }

    fn found(&self) -> MutexGuard<'_, Option<Box<Found>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl source::Endpoint for PublisherCheck {
    fn topic(&self) -> &str {
        &self.request.topic
    }

    /// Returns the incompatible publishers that the last check found.
    fn incompatible(&self) -> Vec<IncompatiblePublisher> {
        self.found().as_ref().map_or_else(Vec::new, |found| found.incompatible.clone())
    }

    /// Restarts the wait ([`PATIENCE`](Self::PATIENCE)) before publishers are read. This method is called while the
    /// statistics are disabled, because disabled statistics do not see whether messages arrive.
    fn restart(&self) {
        if let Some(found) = self.found().as_mut() {
            found.silent_since = None;
        }
    }

    /// Checks the publishers, and appends a warning for each new publisher that cannot serve the subscription. Returns
    /// the time of the next check; `None` if the subscription receives messages and no publisher is known to be
    /// incompatible.
    fn run(&self, has_received: bool, now: Instant, warnings: &mut Vec<String>) -> Option<Instant> {
        // The graph of a dropped node cannot be read.
        let node = self.node.upgrade()?;
        let mut found = self.found();
        let has_incompatible = found.as_ref().is_some_and(|found| !found.incompatible.is_empty());
        if has_received && !has_incompatible {
            *found = None;
            return None;
        }
        let again = Some(now + Self::INTERVAL);
        let Ok(count) = node.count_publishers(&self.request.topic) else { return again };
        if count == 0 {
            let asked = found.take().filter(|found| found.has_asked);
            *found = asked.map(|_| Box::new(Found { has_asked: true, ..Found::default() }));
            return again;
        }
        let found = found.get_or_insert_default();
        warnings.extend(found.find_idle_executor(&self.request.topic, &node.fully_qualified_name(), now));
        let is_settled = std::mem::replace(&mut found.count, count) == count;
        let is_too_early = found.read == 0 && now < *found.silent_since.get_or_insert(now) + Self::PATIENCE;
        if !is_settled || is_too_early || count == found.read {
            return again;
        }
        let Ok(publishers) = node.get_publishers_info_by_topic(&self.request.topic) else { return again };
        // If the middleware is unknown, it may deliver messages although the QoS differs. Only a different type
        // certainly prevents delivery.
        let matches_qos = middleware_in_use().is_ok_and(|middleware| middleware.matches_qos);
        let incompatible = self.request.incompatible(publishers, matches_qos);
        let before = std::mem::replace(&mut found.incompatible, incompatible);
        if !std::mem::replace(&mut found.has_asked, true) {
            found.asked = Some((now, node.commands().query(async {})));
        }
        found.read = count;
        let new = found.incompatible.iter().filter(|publisher| !before.contains(publisher));
        warnings.extend(new.map(ToString::to_string));
        again
    }
}

/// The topic, type and QoS that a subscription requests of publishers.
pub(crate) struct Request {
    pub(crate) topic: Box<str>,
    /// The message type, as `package/msg/Name`.
    pub(crate) message_type: Cow<'static, str>,
    pub(crate) qos: RequestedQos,
}

/// The QoS policies that a publisher has to offer. Other policies are not stored, to save memory, because this value
/// lives as long as the subscription.
#[derive(Clone)]
pub(crate) struct RequestedQos {
    reliability: QoSReliabilityPolicy,
    durability: QoSDurabilityPolicy,
    liveliness: QoSLivelinessPolicy,
    /// The deadline and the liveliness lease. `None` if both durations are infinite, as in most subscriptions.
    limits: Option<Box<[QoSDuration; 2]>>,
}

impl From<QoSProfile> for RequestedQos {
    fn from(qos: QoSProfile) -> Self {
        let QoSProfile { reliability, durability, deadline, liveliness, liveliness_lease, .. } = qos;
        let limits = [deadline, liveliness_lease];
        let is_limited = limits.iter().any(|limit| matches!(limit, QoSDuration::Custom(_)));
        Self { reliability, durability, liveliness, limits: is_limited.then(|| Box::new(limits)) }
    }
}

impl Request {
    /// Returns the topic's publishers that cannot serve the subscription: their type differs, or, if the middleware
    /// [`matches_qos`](crate::transport::Middleware::matches_qos), their QoS does not match.
    pub(crate) fn incompatible(
        &self,
        publishers: Vec<TopicEndpointInfo>,
        matches_qos: bool,
    ) -> Vec<IncompatiblePublisher> {
        let incompatible = publishers.into_iter().map(|publisher| {
            let node = format!("{}/{}", publisher.node_namespace.trim_end_matches('/'), publisher.node_name);
            IncompatiblePublisher::new(node, self.topic.to_string(), self.reasons(publisher, matches_qos))
        });
        incompatible.filter(|publisher| !publisher.reasons.is_empty()).collect()
    }

    fn reasons(&self, publisher: TopicEndpointInfo, matches_qos: bool) -> Vec<Incompatibility> {
        let QoSProfile { reliability, durability, deadline, liveliness, liveliness_lease, .. } =
            publisher.qos_profile;
        let offered = matched(reliability, durability, liveliness, [deadline, liveliness_lease]);
        let RequestedQos { reliability, durability, liveliness, limits } = &self.qos;
        let limits = limits.as_deref().copied().unwrap_or([QoSDuration::Infinite; 2]);
        let requested = matched(*reliability, *durability, *liveliness, limits);
        let message_type = (*publisher.topic_type != *self.message_type).then(|| Incompatibility::Type {
            offered: publisher.topic_type,
            requested: self.message_type.to_string(),
        });
        let of_qos = if matches_qos { offered.reasons(&requested) } else { vec![] };
        message_type.into_iter().chain(of_qos).collect()
    }
}

/// Converts the policies to the core's type. `limits` are the deadline and the liveliness lease.
fn matched(
    reliability: QoSReliabilityPolicy,
    durability: QoSDurabilityPolicy,
    liveliness: QoSLivelinessPolicy,
    limits: [QoSDuration; 2],
) -> MatchedQos {
    let [deadline, lease] = limits.map(|limit| match limit {
        QoSDuration::Infinite => Some(None),
        QoSDuration::Custom(duration) => Some(Some(duration)),
        _ => None,
    });
    MatchedQos {
        is_reliable: match reliability {
            QoSReliabilityPolicy::Reliable => Some(true),
            QoSReliabilityPolicy::BestEffort => Some(false),
            _ => None,
        },
        is_transient_local: match durability {
            QoSDurabilityPolicy::TransientLocal => Some(true),
            QoSDurabilityPolicy::Volatile => Some(false),
            _ => None,
        },
        is_manual: match liveliness {
            QoSLivelinessPolicy::ManualByTopic => Some(true),
            QoSLivelinessPolicy::Automatic => Some(false),
            _ => None,
        },
        deadline,
        lease,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs::{Executor, SpinOptions};
    use source::Endpoint;
    use topic_statistics_core::record::middleware::MIDDLEWARES;

    const IMU: &str = "sensor_msgs/msg/Imu";

    fn request(requested: QoSProfile) -> Request {
        Request { topic: "/imu".into(), message_type: IMU.into(), qos: requested.into() }
    }

    fn publisher(topic_type: &str, offered: QoSProfile) -> TopicEndpointInfo {
        TopicEndpointInfo {
            node_name: "driver".to_owned(),
            node_namespace: "/robot".to_owned(),
            topic_type: topic_type.to_owned(),
            qos_profile: offered,
        }
    }

    /// The default QoS of topics, with infinite durations instead of system defaults.
    fn qos() -> QoSProfile {
        QoSProfile {
            deadline: QoSDuration::Infinite,
            liveliness: QoSLivelinessPolicy::Automatic,
            liveliness_lease: QoSDuration::Infinite,
            ..QoSProfile::topics_default()
        }
    }

    /// The strictest QoS: each policy has the value that the fewest publishers can serve.
    fn strict() -> QoSProfile {
        QoSProfile { liveliness: QoSLivelinessPolicy::ManualByTopic, ..qos() }
            .reliable()
            .transient_local()
            .deadline_duration(Duration::from_millis(1))
            .liveliness_lease_duration(Duration::from_millis(1))
    }

    #[test]
    fn a_policy_weaker_than_requested_does_not_serve_and_all_else_goes() {
        use Incompatibility::{Deadline, Durability, Liveliness, LivelinessLease, Reliability};
        let [x, y] = [Duration::from_millis(100), Duration::from_millis(200)];
        let manual = QoSProfile { liveliness: QoSLivelinessPolicy::ManualByTopic, ..qos() };
        let (deadline, lease) =
            (|limit| qos().deadline_duration(limit), |limit| qos().liveliness_lease_duration(limit));
        let unknown = QoSProfile::system_default();
        for (offered, requested, expected) in [
            (qos().best_effort(), qos().best_effort(), vec![]),
            (qos().best_effort(), qos().reliable(), vec![Reliability]),
            (qos().reliable(), qos().best_effort(), vec![]),
            (qos().reliable(), qos().reliable(), vec![]),
            (qos().volatile(), qos().volatile(), vec![]),
            (qos().volatile(), qos().transient_local(), vec![Durability]),
            (qos().transient_local(), qos().volatile(), vec![]),
            (qos().transient_local(), qos().transient_local(), vec![]),
            (qos(), deadline(x), vec![Deadline { offered: None, requested: x }]), // unset means infinite
            (deadline(x), qos(), vec![]),
            (deadline(x), deadline(x), vec![]),
            (deadline(x), deadline(y), vec![]),
            (deadline(y), deadline(x), vec![Deadline { offered: Some(y), requested: x }]),
            (qos(), lease(x), vec![LivelinessLease { offered: None, requested: x }]),
            (lease(x), qos(), vec![]),
            (lease(x), lease(x), vec![]),
            (lease(x), lease(y), vec![]),
            (lease(y), lease(x), vec![LivelinessLease { offered: Some(y), requested: x }]),
            (qos(), qos(), vec![]),
            (qos(), manual, vec![Liveliness]),
            (manual, qos(), vec![]),
            (manual, manual, vec![]),
            // If a policy of one side is unknown, no incompatibility is reported.
            (unknown, strict(), vec![]),
            (strict(), unknown, vec![]),
        ] {
            let reasons = request(requested).reasons(publisher(IMU, offered), true);
            assert_eq!(reasons, expected, "{offered:?} {requested:?}");
        }
    }

    #[test]
    fn where_qos_need_not_match_only_the_type_is_a_reason() {
        let request = request(strict());
        let other_type =
            Incompatibility::Type { offered: "std_msgs/msg/String".to_owned(), requested: IMU.to_owned() };
        for middleware in &MIDDLEWARES {
            let reasons = |topic_type| {
                let offered = qos().best_effort().volatile();
                request.reasons(publisher(topic_type, offered), middleware.matches_qos)
            };
            let of_qos = reasons(IMU);
            assert_eq!(
                of_qos.len(),
                if middleware.transport.name == "rmw_zenoh_cpp" { 0 } else { 5 },
                "{of_qos:?}"
            );
            assert_eq!(reasons("std_msgs/msg/String")[0], other_type, "{}", middleware.transport.name);
        }
        let incompatible = request.incompatible(vec![publisher("std_msgs/msg/String", qos())], false);
        assert_eq!(
            incompatible[0].to_string(),
            "Nothing is received from /robot/driver on /imu: it publishes std_msgs/msg/String, and this subscription \
             is of sensor_msgs/msg/Imu; one of them has the wrong topic or type"
        );
    }

    #[test]
    fn an_executor_that_runs_nothing_is_named_once_and_one_that_spins_is_not() {
        let warnings_of = |name: &str, spin: fn(Executor, &Node) -> Option<Executor>| {
            let (executor, node) = test_support::node(name, &[]);
            let publisher = node.create_publisher::<ros_env::sensor_msgs::msg::Imu>(name).unwrap();
            let topic = publisher.topic_name();
            test_support::wait_for("publisher", || node.count_publishers(&topic).unwrap() == 1);
            let check = PublisherCheck::new(&node, Request { topic: (*topic).into(), ..request(qos()) });
            let start = Instant::now();
            let run = |seconds: std::ops::Range<u64>| {
                let mut warnings = vec![];
                for second in seconds {
                    check.run(false, start + Duration::from_secs(second), &mut warnings).unwrap();
                }
                warnings
            };
            assert_eq!(run(0..20), [""; 0], "the check gives the executor a task at 15 s");
            let _executor = spin(executor, &node);
            run(20..60)
        };
        let warning = |name| {
            format!(
                "Nothing is received on /{name}: the executor of /{name} has run nothing for 5 s; spin it, or look \
                 for a callback that blocks it"
            )
        };
        assert_eq!(warnings_of("idle", |executor, _| Some(executor)), [warning("idle")]);
        assert_eq!(warnings_of("dropped", |_, _| None), [warning("dropped")]);
        let spin = |mut executor: Executor, node: &Node| {
            let later = node.commands().run(async {}); // the executor runs tasks in the order of their creation
            let errors = executor.spin(SpinOptions::default().until_promise_resolved(later));
            assert!(errors.is_empty(), "{errors:?}");
            Some(executor)
        };
        assert_eq!(warnings_of("spinning", spin), [""; 0]);
    }

    #[test]
    fn a_publisher_is_reported_after_15_s_once_until_it_leaves() {
        let (_executor, node) = test_support::node("careful", &[]);
        let create = |count: usize| {
            let publishers: Vec<_> = (0..count)
                .map(|_| node.create_publisher::<ros_env::sensor_msgs::msg::Imu>("imu").unwrap())
                .collect();
            test_support::wait_for("publishers", || node.count_publishers("/imu").unwrap() == count);
            publishers
        };
        let request = Request { message_type: "other_msgs/msg/Imu".into(), ..request(qos()) };
        let (check, start) = (PublisherCheck::new(&node, request), Instant::now());
        let reported = |seconds: std::ops::Range<u64>| {
            let mut warnings = vec![];
            for second in seconds {
                check.run(false, start + Duration::from_secs(second), &mut warnings);
            }
            warnings.retain(|warning| warning.contains("it publishes sensor_msgs/msg/Imu"));
            warnings.len()
        };
        let first = create(1);
        assert_eq!([reported(0..15), reported(15..100)], [0, 1]);
        drop(first);
        create(0);
        assert_eq!((reported(100..102), check.incompatible().len()), (0, 0), "the publisher has left");
        let _again = create(1);
        assert_eq!([reported(102..117), reported(117..150)], [0, 1]);
    }
}
