// SPDX-License-Identifier: Apache-2.0

//! A watched topic: when the monitor subscribes to the topic, and with which type and QoS.

use std::{sync::Arc, time::Instant};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoStatsOptions, NodeStatistics, StatisticsError, StatisticsOptions, StatisticsState,
};
use topic_statistics_observe::{
    format::name,
    row::{Problem, Row, Window},
};

use crate::{
    arguments::Arguments,
    graph::{node_name, Qos},
    process::print_error,
    record::{RecordedTopic, Recording},
};

use super::subscribed::{Earlier, Subscribed};

#[derive(Default)]
pub struct Topic {
    pub row: Row,
    /// Since when the topic has had no publisher. `None` if the topic has a publisher.
    pub gone_since: Option<Instant>,
    /// A worker, with a thread, for this topic only, so that a failure on one topic does not stop others. If 22 topics
    /// shared one wait set, each message would cost time for every topic: twice the CPU time in total. The worker is
    /// kept when a subscription ends, because rclrs 0.8 does not end a worker's thread before the executor ends.
    worker: Option<Worker<()>>,
    subscribed: Option<Subscribed>,
    earlier: Earlier,
    recorded: Option<Arc<RecordedTopic>>,
    /// The type and QoS of the last subscription that could not be created.
    failed: Option<(String, Qos)>,
}

pub struct SubscribeContext<'a> {
    pub statistics: &'a NodeStatistics,
    pub node: &'a Node,
    pub arguments: &'a Arguments,
    pub recording: Option<&'a Recording>,
    pub free_workers: &'a mut Vec<Worker<()>>,
}

impl Topic {
    /// The maximum number of publishers whose nodes are shown.
    const MAX_NODES: usize = 256;

    pub fn new(row: Row) -> Self {
        Self { row, ..Self::default() }
    }

    pub fn into_worker(self) -> Option<Worker<()>> {
        self.worker
    }

    /// Subscribes again if the type or the QoS of the present subscription does not fit all publishers.
    pub fn refresh(
        &mut self,
        publishers: Vec<TopicEndpointInfo>,
        is_in_graph: bool,
        context: &mut SubscribeContext,
    ) {
        self.row.publisher_count = Some(publishers.len());
        self.row.nodes = publishers.iter().take(Self::MAX_NODES).map(node_name).collect();
        let Some(first) = publishers.first() else {
            self.gone_since.get_or_insert_with(Instant::now);
            let name = name(&self.row.name);
            self.row.problem = Some(Problem::Waiting(if is_in_graph || self.subscribed.is_some() {
                format!("{name} has no publisher; waiting for one")
            } else {
                format!("there is no topic {name} yet; waiting for it")
            }));
            return;
        };
        self.gone_since = None;
        let is_offered = |wanted: &str| publishers.iter().any(|publisher| publisher.topic_type == wanted);
        // If publishers have several types, the type of the present subscription is kept.
        let message_type = match &self.subscribed {
            Some(subscribed) if is_offered(&subscribed.message_type) => subscribed.message_type.clone(),
            _ => first.topic_type.clone(),
        };
        let of_type = publishers.iter().filter(|publisher| publisher.topic_type == message_type);
        let offered = Qos::of_all(of_type.map(|publisher| &publisher.qos_profile));
        self.row.is_latched = offered.transient_local;
        let qos = if context.arguments.best_effort { Qos::WEAKEST } else { offered };
        let is_served = self.subscribed.as_ref().is_some_and(|subscribed| {
            subscribed.message_type == message_type && subscribed.qos.receives_all_of(qos)
        });
        if !is_served && self.failed.as_ref() != Some(&(message_type.clone(), qos)) {
            if let Some(subscribed) = self.subscribed.take() {
                self.earlier = subscribed.end(&self.row, Instant::now());
            }
            self.row.message_type = Some(message_type.clone());
            self.failed = None;
            match self.subscribe(&message_type, qos, &publishers, context) {
                Ok(subscribed) => {
                    self.subscribed = Some(subscribed);
                    self.row.earlier_subscriptions = self.earlier.subscriptions;
                }
                Err(error) => {
                    self.row.problem = Some(Problem::Error(error));
                    self.failed = Some((message_type.clone(), qos));
                }
            }
        } else if let Some(recorded) = &self.recorded {
            recorded.set_publishers(&publishers);
        }
        if self.failed.is_none() {
            let other = publishers.iter().find(|publisher| publisher.topic_type != message_type);
            self.row.problem = other.map(|other| {
                let [node, other] = [&other.node_name, &other.topic_type].map(|text| name(text));
                Problem::Error(format!(
                    "{node} publishes {other} on it, which is not shown: all publishers of a topic need the same type"
                ))
            });
        }
    }

    fn subscribe(
        &mut self,
        message_type: &str,
        qos: Qos,
        publishers: &[TopicEndpointInfo],
        context: &mut SubscribeContext,
    ) -> Result<Subscribed, String> {
        let topic = &self.row.name;
        let explain = |error: DynamicMessageError| explain(topic, message_type, &error);
        let type_name = MessageTypeName::try_from(message_type).map_err(explain)?;
        let metadata = DynamicMessageMetadata::new(type_name.clone()).map_err(explain)?;
        let depth = context.arguments.depth.unwrap_or_else(|| default_depth(metadata.structure()));
        let mut options = SubscriptionOptions::new(topic);
        options.qos = qos.profile(depth);
        // The options are set for each subscription, so that a parameter of the node cannot override the command line.
        let statistics = StatisticsOptions::new()
            .state(StatisticsState::Enable)
            .publish_period(context.arguments.period)
            .distributions(true);
        self.recorded = context.recording.and_then(|recording| {
            let recorded = recording.topic(topic, &type_name);
            // A topic that cannot be recorded is still watched.
            recorded.map_err(|error| print_error(&format!("{}: {error}", name(topic)))).ok()
        });
        let recorded = self.recorded.clone();
        if let Some(recorded) = &recorded {
            recorded.set_publishers(publishers); // set before the first message is received
        }
        let SubscribeContext { node, free_workers, .. } = context;
        let worker =
            self.worker.get_or_insert_with(|| free_workers.pop().unwrap_or_else(|| node.create_worker(())));
        let subscription = context.statistics.create_worker_dynamic_subscription(
            worker,
            type_name,
            options.statistics(statistics),
            move |_: &mut (), message, info| {
                if let Some(recorded) = &recorded {
                    recorded.record(&message, &info);
                }
            },
        );
        let subscription = subscription.map_err(|error| match error {
            StatisticsError::Create { source: RclrsError::DynamicMessageError { err }, .. } => explain(err),
            error => name(&error.to_string()),
        })?;
        self.row.qos = qos.text(depth);
        let (earlier, period) = (self.earlier.clone(), context.arguments.period);
        Ok(Subscribed::new(subscription, node, message_type.to_owned(), qos, earlier, period))
    }

    pub fn read(&mut self, now: Instant) -> bool {
        let is_new = self.subscribed.as_mut().is_some_and(|subscribed| subscribed.read(&mut self.row, now));
        if self.row.problem.as_ref().is_none_or(|problem| matches!(problem, Problem::Note(_))) {
            let note = |_: &Window| Problem::Note(other_clock(&self.row.name));
            self.row.problem = self.row.window.as_ref().filter(|window| window.other_clock).map(note);
        }
        is_new
    }
}

/// Returns why the ages of a topic are unknown, and how the user can solve the problem.
fn other_clock(topic: &str) -> String {
    format!(
        "{} has header stamps on another clock than topic_monitor: only one of them is before the year 2000, so there \
         are no ages; start topic_monitor with --ros-args -p use_sim_time:=true if the stamps are on simulated time, \
         and without it if they are not",
        name(topic)
    )
}

/// Returns a queue depth that is enough for short delays of the monitor. It is smaller for messages that can be large.
pub fn default_depth(structure: &MessageStructure) -> u32 {
    let has_bytes = structure.fields.iter().any(|field| {
        let is_byte =
            matches!(field.base_type, BaseType::Octet | BaseType::Uint8 | BaseType::Int8 | BaseType::Char);
        is_byte && matches!(field.value_kind, ValueKind::Sequence | ValueKind::BoundedSequence { .. })
    });
    if has_bytes {
        100
    } else {
        1000
    }
}

/// Returns why messages of a type cannot be received, and how the user can solve the problem.
pub fn explain(topic: &str, message_type: &str, error: &DynamicMessageError) -> String {
    let (topic, message_type) = (name(topic), name(message_type));
    let package = message_type.split('/').next().unwrap_or_default();
    match error {
        DynamicMessageError::InvalidMessageTypeSyntax { .. } => {
            format!("{topic} has the type {message_type}, which is no message type of ROS 2")
        }
        DynamicMessageError::InvalidMessageType => format!(
            "{topic} has the type {message_type}, which the local version of the package {package} lacks: source the \
             version that the publisher uses"
        ),
        error => format!(
            "{topic} has the type {message_type}, and the package {package} cannot be loaded ({error}): install \
             ros-{distro}-{debian}, or source the workspace that has {package}",
            // The text of the error contains the package's name from the network, so the text is escaped.
            error = name(&error.to_string()),
            distro = std::env::var("ROS_DISTRO").unwrap_or_else(|_| "$ROS_DISTRO".to_owned()),
            debian = package.replace('_', "-"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_have_a_shorter_queue() {
        let depth = |name: &str| {
            let metadata = DynamicMessageMetadata::new(name.try_into().unwrap()).unwrap();
            default_depth(metadata.structure())
        };
        assert_eq!(depth("sensor_msgs/msg/Image"), 100);
        assert_eq!(depth("sensor_msgs/msg/Imu"), 1000);
    }

    #[test]
    fn a_type_from_the_network_is_escaped_wherever_it_is_written() {
        let hostile = "x\u{1b}[2J\n/msg/Foo";
        let type_name = MessageTypeName::try_from(hostile).unwrap();
        let error = DynamicMessageMetadata::new(type_name).map(drop).unwrap_err();
        let text = explain("/t\u{9b}2J", hostile, &error);
        assert!(!text.contains(char::is_control) && text.contains("x\\u{1b}[2J"), "{text}");
    }
}
