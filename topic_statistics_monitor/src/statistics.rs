// SPDX-License-Identifier: Apache-2.0

//! Reads the messages on /statistics, and keeps a row for each source of statistics. For sources that are executors,
//! the module also reads lines about their callbacks from /diagnostics.
//!
//! Any process can publish any values on /statistics and /diagnostics. So names and values are checked on reception,
//! all memory is limited, and messages beyond a limit are counted and reported.

mod inferred;
#[cfg(test)]
mod judged;
mod source;
mod sources;

use std::{
    sync::{mpsc::Receiver, Arc},
    time::Instant,
};

use rclrs::*;
#[cfg(feature = "interfaces")]
use ros_env::topic_statistics_interfaces::msg::MetricsDistribution;
use ros_env::{diagnostic_msgs::msg::DiagnosticArray, statistics_msgs::msg::MetricsMessage};
#[cfg(feature = "interfaces")]
use topic_statistics_observe::ros::wire::MetricDistribution;
use topic_statistics_observe::{
    bounds::Sender,
    format::name,
    pattern::Pattern,
    ros::wire::{ExecutorCallbacks, MetricWindow, Refused},
    row::{Row, Rows},
};

use crate::{
    diagnostics::Diagnostics,
    graph::{Graph, Qos},
    process::Failure,
    provider::{notice, RowProvider},
    queue::Queue,
};
pub use sources::Sources;

pub struct StatisticsReader {
    worker: Worker<()>,
    graph: Graph,
    metrics: Subscribed<MetricsMessage>,
    #[cfg(feature = "interfaces")]
    distributions: Subscribed<MetricsDistribution>,
    diagnostics: Subscribed<DiagnosticArray>,
    queue: Arc<Queue<Received>>,
    messages: Receiver<(Instant, Received)>,
    /// The number of refused messages, and why the last one was refused.
    refused: Option<(u64, String)>,
    sources: Sources,
}

enum Received {
    Metric(Sender, MetricWindow),
    #[cfg(feature = "interfaces")]
    Distribution(MetricDistribution),
    Callbacks(ExecutorCallbacks),
    Refused(String),
}

/// A subscription with a QoS that all publishers can serve. It is created when the first publisher appears.
struct Subscribed<T: rosidl_runtime_rs::Message> {
    topic: String,
    subscription: Option<(WorkerSubscription<T, ()>, Qos)>,
}

impl StatisticsReader {
    /// The default of the maximum number of sources.
    pub const MAX_SOURCES: usize = 1000;
    const DEPTH: u32 = 2000;

    pub fn new(node: &Node, topic: &str, patterns: Vec<Pattern>, max_sources: Option<u32>) -> Self {
        #[cfg(not(feature = "interfaces"))]
        crate::process::print_error(
            "built without topic_statistics_interfaces: there are no percentiles of published distributions",
        );
        let (queue, messages) = Queue::new();
        Self {
            worker: node.create_worker(()),
            graph: Graph::new(node),
            metrics: Subscribed { topic: topic.to_owned(), subscription: None },
            #[cfg(feature = "interfaces")]
            distributions: Subscribed { topic: format!("{topic}/distribution"), subscription: None },
            diagnostics: Subscribed { topic: Diagnostics::TOPIC.to_owned(), subscription: None },
            queue,
            messages,
            refused: None,
            sources: Sources::new(patterns, topic, max_sources.map_or(Self::MAX_SOURCES, |max| max as usize)),
        }
    }

    /// Reads the received messages. Calls `complete` with the row of the source for each complete window. After a delay
    /// of the network, one call can receive several windows of a source. The row keeps only the last of these windows.
    pub fn poll_windows(&mut self, mut complete: impl FnMut(&Row)) -> Result<(), RclrsError> {
        if self.graph.is_due() {
            self.subscribe()?;
        }
        // Reads at most as many messages as fit the queue, so that a flood does not delay the rest of the program.
        for (at, received) in self.messages.try_iter().take(Queue::<Received>::SIZE) {
            match received {
                Received::Metric(sender, window) => {
                    let name = self.sources.add_metric(window, sender, at);
                    name.and_then(|name| self.sources.row(&name)).into_iter().for_each(&mut complete);
                }
                #[cfg(feature = "interfaces")]
                Received::Distribution(distribution) => self.sources.accept_distribution(&distribution, at),
                Received::Callbacks(callbacks) => self.sources.accept_callbacks(callbacks),
                Received::Refused(why) => {
                    let number = self.refused.as_ref().map_or(0, |(number, _)| *number);
                    self.refused = Some((number + 1, why));
                }
            }
        }
        let settled = self.sources.settle(Instant::now());
        settled.iter().filter_map(|name| self.sources.row(name)).for_each(complete);
        Ok(())
    }

    fn subscribe(&mut self) -> Result<(), RclrsError> {
        let queue = Arc::clone(&self.queue);
        self.metrics.refresh(&self.graph, &self.worker, move |message, info| {
            let sender = Sender::new(&info.publisher_gid.data);
            let why = |error| refused(&message.metrics_source, &message.measurement_source_name, &error);
            let window = MetricWindow::new(&message);
            queue.put(window.map_or_else(why, |window| Received::Metric(sender, window)));
        })?;
        #[cfg(feature = "interfaces")]
        {
            let queue = Arc::clone(&self.queue);
            self.distributions.refresh(&self.graph, &self.worker, move |message, _| {
                let why = |error| refused(&message.metrics_source, &message.measurement_source_name, &error);
                queue.put(MetricDistribution::new(&message).map_or_else(why, Received::Distribution));
            })?;
        }
        let queue = Arc::clone(&self.queue);
        self.diagnostics.refresh(&self.graph, &self.worker, move |message, _| {
            let callbacks = message.status.iter().filter_map(ExecutorCallbacks::new);
            callbacks.for_each(|callbacks| queue.put(Received::Callbacks(callbacks)));
        })
    }
}

impl RowProvider for StatisticsReader {
    fn poll(&mut self) -> Result<Vec<String>, Failure> {
        let mut complete = vec![];
        self.poll_windows(|row| complete.push(row.name.clone()))?;
        Ok(complete)
    }

    fn notice(&self) -> Option<String> {
        notice(self.sources.left_out(), self.queue.dropped(), self.refused.as_ref())
    }
}

impl Rows for StatisticsReader {
    fn rows(&self) -> Vec<&Row> {
        self.sources.rows().collect()
    }

    fn row_mut(&mut self, name: &str) -> Option<&mut Row> {
        self.sources.row_mut(name)
    }
}

/// Describes which message was refused, and why, in printable characters.
fn refused(metric: &str, source: &str, error: &Refused) -> Received {
    const SHOWN: usize = 200;
    let [metric, source] = [metric, source].map(|text| name(&text.chars().take(SHOWN).collect::<String>()));
    Received::Refused(format!("{metric} of {source}: {error}"))
}

impl<T: rosidl_runtime_rs::Message> Subscribed<T> {
    /// Creates the subscription if there are publishers and no subscription with the best QoS for them.
    fn refresh(
        &mut self,
        graph: &Graph,
        worker: &Worker<()>,
        receive: impl Fn(T, MessageInfo) + Send + Sync + 'static,
    ) -> Result<(), RclrsError> {
        let publishers = graph.publishers(&self.topic);
        // The subscription is volatile, because windows that ended before the monitor started are not needed.
        let offered = publishers.iter().map(|publisher| publisher.qos_profile.volatile()).collect::<Vec<_>>();
        let qos = Qos::of_all(offered.iter());
        let is_same = self.subscription.as_ref().is_some_and(|(_, before)| *before == qos);
        if publishers.is_empty() || is_same {
            return Ok(());
        }
        let options = self.topic.qos(qos.profile(StatisticsReader::DEPTH));
        let subscription = worker
            .create_subscription(options, move |message: T, info: MessageInfo| receive(message, info))?;
        self.subscription = Some((subscription, qos));
        Ok(())
    }
}
