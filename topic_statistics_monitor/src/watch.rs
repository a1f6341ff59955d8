// SPDX-License-Identifier: Apache-2.0

//! The topics that are watched.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    FirstPeriod, Metric, NodeStatistics, NodeStatisticsOptions, StatisticsError, TopicStatisticsOptions,
    TopicStatisticsState,
};

use crate::{
    graph::Graph,
    pattern::Pattern,
    row::{Problem, Row},
    topic::{Context, Topic},
};

/// Topics that everybody has and few look at.
const COMMON: [&str; 3] = ["/parameter_events", "/rosout", "/statistics"];

/// The metrics of whom only listens: all but the callback's own duration.
fn metrics() -> impl Iterator<Item = Metric> {
    Metric::ALL.into_iter().filter(|metric| *metric != Metric::CallbackDuration)
}

/// What is to be watched, and how.
pub struct Options {
    /// None: all topics.
    pub patterns: Vec<Pattern>,
    /// Common and hidden topics too.
    pub all: bool,
    pub period: Duration,
    pub depth: Option<u32>,
    pub publish: bool,
    /// How many topics at most, and so threads and subscriptions. Those that the patterns name are watched in any case.
    pub max_topics: usize,
}

/// The topics, and their subscriptions.
pub struct Watch {
    node: Node,
    statistics: NodeStatistics,
    options: Options,
    graph: Graph,
    topics: BTreeMap<String, Topic>,
    /// Of topics that are not watched any more. rclrs 0.8 does not end a worker's thread before the executor.
    workers: Vec<Worker<()>>,
    left_out: usize,
}

impl Watch {
    /// How many topics there are at most without an option.
    pub const MAX_TOPICS: usize = 500;

    pub fn new(node: &Node, options: Options) -> Result<Self, StatisticsError> {
        let statistics = TopicStatisticsOptions::new()
            .state(TopicStatisticsState::Enable)
            .publish_period(options.period)
            .first_period(FirstPeriod::CarriedOver)
            .metrics(metrics());
        let statistics = if options.publish { statistics } else { statistics.unpublished() };
        let names = options.patterns.iter().filter_map(Pattern::name);
        let topics = names.map(|name| {
            let mut row = Row::new(name);
            row.problem = Some(Problem::Waiting(format!("there is no topic {name} yet; waiting for it")));
            row.publishers = Some(0);
            (name.to_owned(), Topic::new(row))
        });
        Ok(Self {
            node: Arc::clone(node),
            // Losses are shown; they are no other node's to announce.
            statistics: NodeStatistics::with_options(
                node,
                NodeStatisticsOptions::from(statistics).max_event_rate(0.0),
            )?,
            graph: Graph::new(node),
            topics: topics.collect(),
            workers: vec![],
            left_out: 0,
            options,
        })
    }

    /// Reads the graph if that is due, and returns the names of the topics of which a whole window ended.
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

    /// Returns how many topics are left out because there is no room for them.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    fn refresh(&mut self) {
        let Some(graph) = self.graph.topics() else { return };
        // One that has subscriptions only is nothing to see yet.
        let is_new = |name: &&String| {
            !self.topics.contains_key(*name) && self.is_wanted(name) && self.graph.has_publisher(name)
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
            let mut context = Context {
                statistics: &self.statistics,
                node: &self.node,
                period: self.options.period,
                depth: self.options.depth,
                workers: &mut self.workers,
            };
            topic.refresh(self.graph.publishers(name), graph.contains(name), &mut context);
        }
    }

    /// Drops the topic that has had no publisher for longest; returns whether there was one.
    fn make_room(&mut self) -> bool {
        let others = self.topics.iter().filter(|(name, _)| !is_named(&self.options.patterns, name));
        let gone = others.filter(|(name, _)| !self.graph.has_publisher(name));
        // One that is gone since the graph was read last is not marked as gone yet.
        let now = Instant::now();
        let first = gone.min_by_key(|(_, topic)| topic.gone_since.unwrap_or(now)).map(|(name, _)| name);
        let Some(topic) = first.cloned().and_then(|name| self.topics.remove(&name)) else { return false };
        self.workers.extend(topic.into_worker());
        true
    }

    fn is_wanted(&self, name: &str) -> bool {
        let patterns = &self.options.patterns;
        let is_common = COMMON.contains(&name) || name.split('/').any(|part| part.starts_with('_'));
        is_named(patterns, name)
            || ((self.options.all || !is_common)
                && (patterns.is_empty() || patterns.iter().any(|pattern| pattern.is_match(name))))
    }
}

fn is_named(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.name() == Some(name))
}
