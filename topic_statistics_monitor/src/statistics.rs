// SPDX-License-Identifier: Apache-2.0

//! Reads /statistics, and keeps a row for each source. What an executor ran is on /diagnostics.
//!
//! Anybody can publish anything there. Names and figures are checked on reception. Everything kept has a bound; excess
//! is counted and reported.

#[cfg(test)]
mod judged;
mod message;
mod source;
mod sources;
mod told;

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender},
        Arc,
    },
    time::Instant,
};

use rclrs::*;
#[cfg(feature = "interfaces")]
use ros_env::topic_statistics_interfaces::msg::MetricsDistribution;
use ros_env::{diagnostic_msgs::msg::DiagnosticArray, statistics_msgs::msg::MetricsMessage};
use topic_statistics_observe::{bounds::Sender, pattern::Pattern, row::Row};

use crate::{
    diagnostics::Diagnostics,
    topics::{Graph, Qos},
};
pub use message::{SourceCallbacks, SourceDistribution, SourceMetric};
pub use sources::Sources;

/// The statistics that nodes publish.
pub struct StatisticsReader {
    worker: Worker<()>,
    graph: Graph,
    metrics: Subscribed<MetricsMessage>,
    #[cfg(feature = "interfaces")]
    distributions: Subscribed<MetricsDistribution>,
    diagnostics: Subscribed<DiagnosticArray>,
    sender: SyncSender<Received>,
    messages: Receiver<Received>,
    /// Messages that were not accepted: the queue was full, or their names were too long.
    dropped: Arc<AtomicU64>,
    /// How many distributions were invalid, and why the last one was.
    invalid: Option<(u64, String)>,
    sources: Sources,
}

/// A message that waits to be read.
#[cfg_attr(not(feature = "interfaces"), allow(dead_code))] // there are no distributions
enum Received {
    Metric(SourceMetric),
    Distribution(SourceDistribution),
    Callbacks(SourceCallbacks),
    /// A distribution that is invalid, and why.
    Invalid(String),
}

/// The subscription of a topic, with a QoS that all its publishers can serve. There is none before the first publisher.
struct Subscribed<T: rosidl_runtime_rs::Message> {
    topic: String,
    subscription: Option<(WorkerSubscription<T, ()>, Qos)>,
}

impl StatisticsReader {
    /// How many sources are shown by default.
    pub const MAX_SOURCES: usize = 1000;
    /// How many messages wait in the middleware.
    const DEPTH: u32 = 2000;
    /// How many messages wait to be read.
    const QUEUE: usize = 10_000;

    pub fn new(node: &Node, topic: &str, patterns: Vec<Pattern>, max_sources: usize) -> Self {
        #[cfg(not(feature = "interfaces"))]
        crate::error::print_error(
            "built without topic_statistics_interfaces: there are no percentiles of published distributions",
        );
        let (sender, messages) = mpsc::sync_channel(Self::QUEUE);
        Self {
            worker: node.create_worker(()),
            graph: Graph::new(node),
            metrics: Subscribed { topic: topic.to_owned(), subscription: None },
            #[cfg(feature = "interfaces")]
            distributions: Subscribed { topic: format!("{topic}/distribution"), subscription: None },
            diagnostics: Subscribed { topic: Diagnostics::TOPIC.to_owned(), subscription: None },
            sender,
            messages,
            dropped: Arc::default(),
            invalid: None,
            sources: Sources::new(patterns, topic, max_sources),
        }
    }

    /// Reads the messages that were received. Returns the names of the sources with a new complete window.
    pub fn poll(&mut self) -> Result<Vec<String>, RclrsError> {
        let mut complete = vec![];
        self.poll_windows(|row| complete.push(row.name.clone()))?;
        Ok(complete)
    }

    /// Reads the messages that were received. Calls a function with the row of a source for each window that is
    /// complete: windows that the network has delayed are received at once, and the row has only the last one.
    pub fn poll_windows(&mut self, mut complete: impl FnMut(&Row)) -> Result<(), RclrsError> {
        if self.graph.is_due() {
            self.subscribe()?;
        }
        // One queue at most, so that a flood of messages does not hold up the rest.
        for message in self.messages.try_iter().take(Self::QUEUE) {
            match message {
                Received::Metric(metric) => {
                    let name = self.sources.accept(metric);
                    name.and_then(|name| self.sources.row(&name)).into_iter().for_each(&mut complete);
                }
                Received::Distribution(distribution) => self.sources.accept_distribution(&distribution),
                Received::Callbacks(callbacks) => self.sources.accept_callbacks(callbacks),
                Received::Invalid(why) => {
                    let number = self.invalid.as_ref().map_or(0, |(number, _)| *number);
                    self.invalid = Some((number + 1, why));
                }
            }
        }
        let settled = self.sources.settle(Instant::now());
        settled.iter().filter_map(|name| self.sources.row(name)).for_each(complete);
        Ok(())
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sources.rows()
    }

    pub fn row_mut(&mut self, name: &str) -> Option<&mut Row> {
        self.sources.row_mut(name)
    }

    /// Returns how many sources are left out because there is no room for them.
    pub fn left_out(&self) -> usize {
        self.sources.left_out()
    }

    /// Returns how many messages were not accepted.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns how many distributions were invalid, and why the last one was. `None` without any.
    pub fn invalid(&self) -> Option<(u64, &str)> {
        self.invalid.as_ref().map(|(number, why)| (*number, &**why))
    }

    fn subscribe(&mut self) -> Result<(), RclrsError> {
        let sender = |sender: &SyncSender<Received>, dropped: &Arc<AtomicU64>| {
            let (sender, dropped) = (sender.clone(), Arc::clone(dropped));
            move |message: Option<Received>| {
                if message.is_none_or(|message| sender.try_send(message).is_err()) {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let send = sender(&self.sender, &self.dropped);
        self.metrics.refresh(&self.graph, &self.worker, move |message, info| {
            let metric = SourceMetric::new(message, Instant::now());
            let sender = Sender::new(&info.publisher_gid.data);
            send(metric.map(|metric| Received::Metric(SourceMetric { sender, ..metric })));
        })?;
        #[cfg(feature = "interfaces")]
        {
            let send = sender(&self.sender, &self.dropped);
            self.distributions.refresh(&self.graph, &self.worker, move |message, _| {
                let checked = SourceDistribution::new(message, Instant::now());
                send(Some(checked.map_or_else(Received::Invalid, Received::Distribution)));
            })?;
        }
        let send = sender(&self.sender, &self.dropped);
        self.diagnostics.refresh(&self.graph, &self.worker, move |message, _| {
            for callbacks in message.status.into_iter().filter_map(SourceCallbacks::new) {
                send(Some(Received::Callbacks(callbacks)));
            }
        })
    }
}

impl<T: rosidl_runtime_rs::Message> Subscribed<T> {
    /// Subscribes if the topic has publishers, and the present subscription does not fit them.
    fn refresh(
        &mut self,
        graph: &Graph,
        worker: &Worker<()>,
        receive: impl Fn(T, MessageInfo) + Send + Sync + 'static,
    ) -> Result<(), RclrsError> {
        let publishers = graph.publishers(&self.topic);
        // Volatile, because windows that ended before the monitor started are of no interest.
        let offered = publishers.iter().map(|publisher| publisher.qos_profile.volatile()).collect::<Vec<_>>();
        let qos = Qos::of_all(offered.iter());
        let is_same = self.subscription.as_ref().is_some_and(|(_, before)| *before == qos);
        if publishers.is_empty() || is_same {
            return Ok(());
        }
        let mut options = SubscriptionOptions::new(&self.topic);
        options.qos = qos.profile(StatisticsReader::DEPTH);
        let subscription = worker
            .create_subscription(options, move |message: T, info: MessageInfo| receive(message, info))?;
        self.subscription = Some((subscription, qos));
        Ok(())
    }
}
