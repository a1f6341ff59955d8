// SPDX-License-Identifier: Apache-2.0

//! The subscriptions that add received messages to the state.

use std::{
    any::Any,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use rclrs::*;
#[cfg(feature = "interfaces")]
use ros_env::topic_statistics_interfaces::msg::{MessagesLostEvent, MetricsDistribution};
use ros_env::{diagnostic_msgs::msg::DiagnosticArray, statistics_msgs::msg::MetricsMessage};
#[cfg(feature = "interfaces")]
use topic_statistics_observe::ros::wire::{Losses, MetricDistribution};
use topic_statistics_observe::{
    bounds::Sender,
    format::number_of,
    ros::wire::{Diagnostic, MetricWindow, Refused},
};

use super::{
    model::Received,
    options::Options,
    state::{Counts, Now, SharedState},
};

pub struct Subscriptions {
    node: Node,
    worker: Worker<()>,
    state: SharedState,
    topics: Vec<Topic>,
    /// The counts of messages when the program last checked for refused messages.
    logged: Counts,
}

struct Topic {
    name: String,
    subscribe: Subscribe,
    /// The subscription, and whether its QoS reliability is "reliable".
    subscription: Option<(Box<dyn Any>, bool)>,
}

#[derive(Debug, thiserror::Error)]
#[error("Cannot subscribe to {topic:?}: {error}")]
pub struct SubscriptionError {
    topic: String,
    #[source]
    error: RclrsError,
}

type Subscribe = fn(&Worker<()>, SubscriptionOptions<'_>, SharedState) -> Result<Box<dyn Any>, RclrsError>;

/// A function that adds the content of a message to the state.
type Accept<'a> = dyn FnMut(Result<Received, Refused>) + 'a;

impl Subscriptions {
    /// The depth of a subscription's queue. The queue is deep, because many nodes publish at the same time, and the
    /// exporter takes no message while it makes an HTTP response.
    const DEPTH: u32 = 10_000;

    pub fn new(node: &Node, options: &Options, state: SharedState) -> Result<Self, SubscriptionError> {
        let kinds: &[(&[String], &str, Subscribe)] = &[
            (&options.statistics_topics, "", |worker, options, state| {
                subscribe(worker, options, state, |message: MetricsMessage, accept| {
                    accept(MetricWindow::new(&message).map(Received::from));
                })
            }),
            #[cfg(feature = "interfaces")]
            (&options.statistics_topics, "/distribution", |worker, options, state| {
                subscribe(worker, options, state, |message: MetricsDistribution, accept| {
                    accept(MetricDistribution::new(&message).map(Received::from));
                })
            }),
            #[cfg(feature = "interfaces")]
            (&options.losses_topics, "", |worker, options, state| {
                subscribe(worker, options, state, |message: MessagesLostEvent, accept| {
                    for losses in &message.messages_lost_statistics {
                        accept(Losses::new(&message.node_name, losses).map(Received::from));
                    }
                })
            }),
            (&options.diagnostics_topics, "", |worker, options, state| {
                subscribe(worker, options, state, |message: DiagnosticArray, accept| {
                    for status in &message.status {
                        accept(Diagnostic::new(status).map(Received::from));
                    }
                })
            }),
        ];
        let topics = kinds.iter().flat_map(|(names, suffix, subscribe)| {
            // An empty name is ignored: it stands for an empty list of names, which the ROS command line cannot
            // express.
            names.iter().filter(|name| !name.is_empty()).map(move |name| Topic {
                name: format!("{name}{suffix}"),
                subscribe: *subscribe,
                subscription: None,
            })
        });
        let mut subscriptions = Self {
            node: Arc::clone(node),
            worker: node.create_worker(()),
            state,
            topics: topics.collect(),
            logged: Counts::default(),
        };
        subscriptions.refresh()?;
        Ok(subscriptions)
    }

    /// Subscribes again to each topic whose publishers need a subscription with another reliability. Removes ended
    /// sources from the state. Logs the messages that were refused since the last call.
    pub fn refresh(&mut self) -> Result<(), SubscriptionError> {
        for topic in &mut self.topics {
            let error = |error| SubscriptionError { topic: topic.name.clone(), error };
            let publishers = self.node.get_publishers_info_by_topic(&topic.name).map_err(error)?;
            let is_reliable = publishers
                .iter()
                .all(|publisher| publisher.qos_profile.reliability != QoSReliabilityPolicy::BestEffort);
            if topic.subscription.as_ref().is_some_and(|(_, before)| *before == is_reliable) {
                continue;
            }
            let mut options = SubscriptionOptions::new(&topic.name);
            // With "transient local" durability, the exporter would count old messages again after its restart.
            let qos = QoSProfile::topics_default().keep_last(Self::DEPTH).volatile();
            options.qos = if is_reliable { qos.reliable() } else { qos.best_effort() };
            topic.subscription = None;
            let subscription =
                (topic.subscribe)(&self.worker, options, Arc::clone(&self.state)).map_err(error)?;
            topic.subscription = Some((subscription, is_reliable));
        }
        // Ended sources are removed here and not only in scrapes, because it is possible that nothing scrapes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner).expire(Instant::now());
        self.log_refused();
        Ok(())
    }

    fn log_refused(&mut self) {
        let counts = *self.state.lock().unwrap_or_else(PoisonError::into_inner).counts();
        let limit = "There are as many time series as there may be (max_series): some are left out";
        let of_node =
            "A node has as many time series as a node may have (max_series_per_node): some are left out";
        let invalid = "Messages with impossible names or numbers are refused";
        let too_wide = "Distributions whose samples span more than 12 orders of magnitude are refused";
        for (now, before, text) in [
            (counts.beyond_max_series, self.logged.beyond_max_series, limit),
            (counts.beyond_max_of_node, self.logged.beyond_max_of_node, of_node),
            (counts.invalid, self.logged.invalid, invalid),
            (counts.too_wide, self.logged.too_wide, too_wide),
        ] {
            if now > before {
                log_warn!(
                    self.node.throttle(Self::LOG_INTERVAL),
                    "{text}: {} so far",
                    number_of(now, "message")
                );
            }
        }
        self.logged = counts;
    }

    /// The shortest time between two log messages about refused messages.
    const LOG_INTERVAL: Duration = Duration::from_secs(60);
}

/// Subscribes to a topic. `receive` reads a message, and calls its second argument to add the content to the state.
fn subscribe<T: rosidl_runtime_rs::Message>(
    worker: &Worker<()>,
    options: SubscriptionOptions<'_>,
    state: SharedState,
    receive: fn(T, &mut Accept<'_>),
) -> Result<Box<dyn Any>, RclrsError> {
    let subscription = worker.create_subscription(options, move |message: T, info: MessageInfo| {
        let (now, sender) = (Now::read(), Sender::new(&info.publisher_gid.data));
        receive(message, &mut |received| {
            state.lock().unwrap_or_else(PoisonError::into_inner).accept_from(sender, received, now);
        });
    })?;
    Ok(Box::new(subscription))
}
