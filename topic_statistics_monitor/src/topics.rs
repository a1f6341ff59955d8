// SPDX-License-Identifier: Apache-2.0

//! Watches topics: finds them in the graph, subscribes to them, and keeps a row for each.

mod graph;
mod message_type;
mod qos;
mod subscribed;
mod time;
mod topic;
mod windows;

pub use graph::Graph;
pub use message_type::explain;
pub use qos::Qos;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    FirstPeriod, Metric, NodeStatistics, StatisticsError, StatisticsOptions, StatisticsState,
};
use topic_statistics_observe::{
    pattern::Selection,
    row::{Problem, Row},
};

use crate::record::Recording;
use topic::{SubscribeContext, Topic};

/// The metrics of the monitor's subscriptions: all but the duration of their callback, which does nothing.
fn metrics() -> impl Iterator<Item = Metric> {
    Metric::OF_SUBSCRIPTIONS.iter().copied().filter(|metric| *metric != Metric::CallbackDuration)
}

/// Which topics are watched, and how.
pub struct Options {
    pub topics: Selection,
    pub period: Duration,
    pub depth: Option<u32>,
    /// Whether best effort is requested of reliable publishers, too.
    pub best_effort: bool,
    pub publish: bool,
    /// How many topics are watched at most, and so how many threads and subscriptions there are. Topics that are given
    /// by name are watched in any case.
    pub max_topics: usize,
    /// Where the messages are recorded.
    pub recording: Option<Arc<Recording>>,
}

/// The watched topics.
pub struct TopicWatcher {
    node: Node,
    statistics: NodeStatistics,
    options: Options,
    graph: Graph,
    topics: BTreeMap<String, Topic>,
    /// Workers of topics that are no longer watched. rclrs 0.8 does not end a worker's thread before the executor.
    free_workers: Vec<Worker<()>>,
    left_out: usize,
}

impl TopicWatcher {
    /// The default of [`Options::max_topics`].
    pub const MAX_TOPICS: usize = 500;

    pub fn new(node: &Node, options: Options) -> Result<Self, StatisticsError> {
        let statistics = StatisticsOptions::new()
            .state(StatisticsState::Enable)
            .publish_period(options.period)
            .first_period(FirstPeriod::CarriedOver)
            .metrics(metrics())
            .distributions(true);
        let statistics = if options.publish { statistics } else { statistics.publish(false) };
        let names = options.topics.names();
        let topics = names.map(|name| {
            let mut row = Row::new(name);
            row.problem = Some(Problem::Waiting(format!("there is no topic {name} yet; waiting for it")));
            row.publisher_count = Some(0);
            (name.to_owned(), Topic::new(row))
        });
        Ok(Self {
            node: Arc::clone(node),
            // The monitor shows losses, and publishes no loss events: the node that lost messages publishes them.
            #[cfg(feature = "interfaces")]
            statistics: NodeStatistics::with_options(
                node,
                rclrs_topic_statistics::NodeStatisticsOptions::from(statistics).max_event_rate(0.0),
            )?,
            #[cfg(not(feature = "interfaces"))]
            statistics: NodeStatistics::with_options(node, statistics)?,
            graph: Graph::new(node),
            topics: topics.collect(),
            free_workers: vec![],
            left_out: 0,
            options,
        })
    }

    /// Reads the graph if that is due, and updates the rows. Returns the names of the topics with a new whole window.
    pub fn poll(&mut self) -> Vec<String> {
        if self.graph.is_due() {
            self.refresh();
        }
        let now = Instant::now();
        let has_ended = |topic: &mut Topic| topic.read(now).then(|| topic.row.name.clone());
        self.topics.values_mut().filter_map(has_ended).collect()
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.topics.values().map(|topic| &topic.row)
    }

    pub fn row_mut(&mut self, name: &str) -> Option<&mut Row> {
        self.topics.get_mut(name).map(|topic| &mut topic.row)
    }

    /// Returns how many topics are left out because of [`Options::max_topics`].
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Reads the graph: adds new topics, and updates the subscriptions of all.
    fn refresh(&mut self) {
        let Some(graph) = self.graph.topics() else { return };
        // A topic without a publisher has nothing to show yet.
        let is_new = |name: &&String| {
            !self.topics.contains_key(*name)
                && self.options.topics.is_wanted(name)
                && self.graph.has_publisher(name)
        };
        let new: Vec<String> = graph.iter().filter(is_new).cloned().collect();
        self.left_out = 0;
        for name in new {
            if self.left_out > 0 || self.topics.len() >= self.options.max_topics && !self.make_room() {
                self.left_out += 1;
                continue;
            }
            let topic = Topic::new(Row::new(&name));
            self.topics.insert(name, topic);
        }
        for (name, topic) in &mut self.topics {
            let mut context = SubscribeContext {
                statistics: &self.statistics,
                node: &self.node,
                period: self.options.period,
                depth: self.options.depth,
                best_effort: self.options.best_effort,
                recording: self.options.recording.as_deref(),
                free_workers: &mut self.free_workers,
            };
            topic.refresh(self.graph.publishers(name), graph.contains(name), &mut context);
        }
    }

    /// Drops the topic that has had no publisher for the longest time. Returns whether there was one.
    fn make_room(&mut self) -> bool {
        let others = self.topics.iter().filter(|(name, _)| !self.options.topics.is_named(name));
        let gone = others.filter(|(name, _)| !self.graph.has_publisher(name));
        // A topic that lost its publisher since the last refresh has no `gone_since` yet.
        let now = Instant::now();
        let first = gone.min_by_key(|(_, topic)| topic.gone_since.unwrap_or(now)).map(|(name, _)| name);
        let Some(topic) = first.cloned().and_then(|name| self.topics.remove(&name)) else { return false };
        self.free_workers.extend(topic.into_worker());
        true
    }
}
