// SPDX-License-Identifier: Apache-2.0

//! Watches topics: finds topics in the ROS graph, subscribes to these topics, and keeps a row for each topic.

mod subscribed;
mod topic;

pub use topic::explain;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use rclrs::*;
use rclrs_topic_statistics::{
    FirstPeriod, Metric, NodeStatistics, StatisticsError, StatisticsOptions, StatisticsState,
};
use topic_statistics_observe::{
    pattern::Selection,
    row::{Problem, Row, Rows},
};

use crate::{
    arguments::Arguments,
    graph::Graph,
    process::Failure,
    provider::{notice, RowProvider},
    record::Recording,
};
use topic::{SubscribeContext, Topic};

pub struct TopicWatcher<'a> {
    arguments: &'a Arguments,
    selection: Selection,
    /// The maximum number of topics, threads and subscriptions. Topics selected by name are always watched.
    max: usize,
    recording: Option<Arc<Recording>>,
    node: Node,
    statistics: NodeStatistics,
    graph: Graph,
    topics: BTreeMap<String, Topic>,
    /// Workers without a topic, for reuse: rclrs 0.8 does not end a worker's thread before the executor ends.
    free_workers: Vec<Worker<()>>,
    left_out: usize,
}

impl<'a> TopicWatcher<'a> {
    /// The default of `--max-topics`.
    const MAX_TOPICS: usize = 500;

    pub fn new(
        node: &Node,
        arguments: &'a Arguments,
        selection: Selection,
        recording: Option<Arc<Recording>>,
    ) -> Result<Self, StatisticsError> {
        // Measures all metrics except the duration of the callback, because the callback only records the message.
        let metrics = Metric::OF_SUBSCRIPTIONS.iter().copied();
        let metrics = metrics.filter(|metric| *metric != Metric::CallbackDuration);
        let statistics = StatisticsOptions::new()
            .state(StatisticsState::Enable)
            .publish_period(arguments.period)
            .first_period(FirstPeriod::CarriedOver)
            .metrics(metrics)
            .distributions(true);
        let statistics = if arguments.publish { statistics } else { statistics.publish(false) };
        let topics = selection.names().map(|name| {
            let mut row = Row::new(name);
            row.problem = Some(Problem::Waiting(format!("there is no topic {name} yet; waiting for it")));
            row.publisher_count = Some(0);
            (name.to_owned(), Topic::new(row))
        });
        Ok(Self {
            node: Arc::clone(node),
            // The monitor publishes no events about its own losses, because each node that loses messages publishes
            // such events.
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
            arguments,
            selection,
            max: arguments.max_topics.map_or(Self::MAX_TOPICS, |max| max as usize),
            recording,
        })
    }

    fn refresh(&mut self) {
        let Some(graph) = self.graph.topics() else { return };
        // A topic is not added before it has a publisher.
        let is_new = |name: &&String| {
            !self.topics.contains_key(*name)
                && self.selection.is_wanted(name)
                && self.graph.has_publisher(name)
        };
        let new: Vec<String> = graph.iter().filter(is_new).cloned().collect();
        self.left_out = 0;
        for name in new {
            if self.left_out > 0 || self.topics.len() >= self.max && !self.make_room() {
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
                arguments: self.arguments,
                recording: self.recording.as_deref(),
                free_workers: &mut self.free_workers,
            };
            topic.refresh(self.graph.publishers(name), graph.contains(name), &mut context);
        }
    }

    /// Stops watching the topic that has had no publisher for the longest time. Returns whether such a topic was found.
    fn make_room(&mut self) -> bool {
        let others = self.topics.iter().filter(|(name, _)| !self.selection.is_named(name));
        let gone = others.filter(|(name, _)| !self.graph.has_publisher(name));
        // A topic whose last publisher ended after the last refresh has no `gone_since` yet.
        let now = Instant::now();
        let first = gone.min_by_key(|(_, topic)| topic.gone_since.unwrap_or(now)).map(|(name, _)| name);
        let Some(topic) = first.cloned().and_then(|name| self.topics.remove(&name)) else { return false };
        self.free_workers.extend(topic.into_worker());
        true
    }
}

impl RowProvider for TopicWatcher<'_> {
    /// Reads the graph if the graph has changed, and updates the rows.
    fn poll(&mut self) -> Result<Vec<String>, Failure> {
        if self.graph.is_due() {
            self.refresh();
        }
        let now = Instant::now();
        let has_ended = |topic: &mut Topic| topic.read(now).then(|| topic.row.name.clone());
        Ok(self.topics.values_mut().filter_map(has_ended).collect())
    }

    fn notice(&self) -> Option<String> {
        notice(self.left_out, 0, None)
    }
}

impl Rows for TopicWatcher<'_> {
    fn rows(&self) -> Vec<&Row> {
        self.topics.values().map(|topic| &topic.row).collect()
    }

    fn row_mut(&mut self, name: &str) -> Option<&mut Row> {
        self.topics.get_mut(name).map(|topic| &mut topic.row)
    }
}
