//! What nodes publish of themselves on /statistics.

use std::{
    collections::BTreeMap,
    sync::mpsc::{self, Receiver, Sender},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{publishers_of, Summary};
use ros_env::statistics_msgs::msg::MetricsMessage;

use crate::{
    pattern::Pattern,
    row::{Measured, Problem, Reading, Row, NOTHING},
    watch::{Graph, Qos},
};

/// The sources of statistics.
pub struct FromStatistics {
    node: Node,
    worker: Worker<()>,
    graph: Graph,
    topic: String,
    patterns: Vec<Pattern>,
    subscribed: Option<(WorkerSubscription<MetricsMessage, ()>, Qos)>,
    sender: Sender<MetricsMessage>,
    messages: Receiver<MetricsMessage>,
    sources: BTreeMap<String, Source>,
}

struct Source {
    row: Row,
    /// The metrics of a window come one by one: those that have come, and when the last did.
    coming: Option<(Reading, Instant)>,
}

impl FromStatistics {
    /// The metrics of a window come in batches; when none came for that long, there are no more.
    const BATCHES: Duration = Duration::from_millis(200);
    const DEPTH: u32 = 2000;

    pub fn new(node: &Node, topic: &str, patterns: Vec<Pattern>) -> Self {
        let (sender, messages) = mpsc::channel();
        let names = patterns.iter().filter_map(Pattern::name).map(|name| name.trim_start_matches('/'));
        let sources = names.map(|name| (name.to_owned(), Source { row: waiting(name, topic), coming: None }));
        Self {
            worker: node.create_worker(()),
            node: node.clone(),
            graph: Graph::new(node),
            topic: topic.to_owned(),
            subscribed: None,
            sources: sources.collect(),
            patterns,
            sender,
            messages,
        }
    }

    /// Reads what came, and returns the names of the sources of which a window is complete.
    pub fn poll(&mut self) -> Result<Vec<String>, RclrsError> {
        if self.graph.is_due() {
            self.subscribe()?;
        }
        let mut complete = vec![];
        for message in self.messages.try_iter() {
            let name = &message.measurement_source_name;
            if !self.patterns.is_empty() && !self.patterns.iter().any(|pattern| pattern.is_match(name)) {
                continue;
            }
            let new = || Source { row: Row::new(name), coming: None };
            let source = self.sources.entry(name.clone()).or_insert_with(new);
            source.row.problem = None;
            if source.accept(&message) {
                complete.push(name.clone());
            }
        }
        for (name, source) in &mut self.sources {
            let is_over = source.coming.as_ref().is_some_and(|(_, last)| last.elapsed() > Self::BATCHES);
            if is_over && source.complete() {
                complete.push(name.clone());
            }
        }
        Ok(complete)
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sources.values().map(|source| &source.row)
    }

    /// Subscribes so that all publishers are heard.
    fn subscribe(&mut self) -> Result<(), RclrsError> {
        let publishers = publishers_of(&self.node, &self.topic).unwrap_or_default();
        // Those of a window are no news to a late listener.
        let offered = publishers.iter().map(|of| of.qos_profile.volatile()).collect::<Vec<_>>();
        let qos = Qos::that_hears(offered.iter());
        let is_same = self.subscribed.as_ref().is_some_and(|(_, before)| *before == qos);
        if publishers.is_empty() || is_same {
            return Ok(());
        }
        let mut options = SubscriptionOptions::new(&self.topic);
        options.qos = qos.profile(Self::DEPTH);
        let sender = self.sender.clone();
        let subscription = self.worker.create_subscription(options, move |message: MetricsMessage| {
            let _nobody_reads = sender.send(message);
        })?;
        self.subscribed = Some((subscription, qos));
        Ok(())
    }
}

fn waiting(name: &str, topic: &str) -> Row {
    let mut row = Row::new(name);
    row.problem = Some(Problem::Waiting(format!("nothing of {name} came on {topic} yet; waiting for it")));
    row
}

impl Source {
    /// Takes a message; returns whether the window before is complete with it.
    fn accept(&mut self, message: &MetricsMessage) -> bool {
        let nanoseconds = |time: &ros_env::builtin_interfaces::msg::Time| {
            i64::from(time.sec) * 1_000_000_000 + i64::from(time.nanosec)
        };
        let (start, stop) = (nanoseconds(&message.window_start), nanoseconds(&message.window_stop));
        // The two collectors of rclcpp take their windows' times one after the other.
        let is_same = |reading: &Reading| {
            (reading.stop - stop).abs() < 1_000_000
                && !reading.metrics.iter().any(|measured| measured.name == message.metrics_source)
        };
        let was_complete =
            !self.coming.as_ref().is_some_and(|(reading, _)| is_same(reading)) && self.complete();
        let (reading, last) = self.coming.get_or_insert_with(|| {
            let metrics = vec![];
            let reading = Reading {
                start,
                stop,
                rate: f64::NAN,
                received: None,
                lost: None,
                out_of_order: None,
                metrics,
            };
            (reading, Instant::now())
        });
        *last = Instant::now();
        reading.metrics.push(Measured {
            name: message.metrics_source.clone(),
            unit: message.unit.clone(),
            summary: summary(message),
        });
        was_complete
    }

    /// Takes what has come as a whole window; returns whether there was something.
    fn complete(&mut self) -> bool {
        let Some((mut reading, _)) = self.coming.take() else { return false };
        let of = |name: &str| {
            let found = reading.metrics.iter().find(|measured| measured.name == name);
            found.map_or(NOTHING, |measured| measured.summary)
        };
        let (period, age) = (of("message_period"), of("message_age"));
        let (gap, silence) = (of("publication_seq_gap"), of("time_since_last_message_ms"));
        let row = &mut self.row;
        reading.rate = 1000.0 / period.average;
        // A sample is what is missing before a message.
        if gap.sample_count > 0 {
            let lost = (gap.average * gap.sample_count as f64).round() as u64;
            reading.lost = Some(lost);
            row.lost = Some(row.lost.unwrap_or_default() + lost);
        }
        // n periods are of n + 1 messages, or of n where they are carried over the windows' edges.
        let messages = period.sample_count.max(age.sample_count);
        row.received += messages;
        if !silence.average.is_nan() {
            row.last_message = Some(reading.stop - (silence.average * 1e6) as i64);
        } else if messages > 0 {
            row.last_message = Some(reading.stop);
        }
        if period.average > 0.0 {
            row.mean_period = period.average;
        }
        row.take(reading);
        true
    }
}

/// The summary that a message is of; what it does not tell is NaN.
fn summary(message: &MetricsMessage) -> Summary {
    let mut summary = NOTHING;
    for point in &message.statistics {
        match point.data_type {
            1 => summary.average = point.data,
            2 => summary.minimum = point.data,
            3 => summary.maximum = point.data,
            4 => summary.standard_deviation = point.data,
            5 => summary.sample_count = point.data as u64,
            _ => {}
        }
    }
    summary
}
