//! The topics of the graph, and what is measured of their messages.

use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    on_next_graph_change, publishers_of, FirstPeriod, IntoStatsSubscriptionOptions, Metric, NodeStatistics,
    NodeStatisticsOptions, StatisticsError, StatsSubscription, TopicStatisticsOptions, TopicStatisticsState,
    Totals, WindowStatistics,
};
use tokio::sync::watch::Receiver;

use crate::{
    pattern::Pattern,
    row::{now, Measured, Problem, Reading, Row, Sender},
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
}

/// The graph, as a node sees it.
pub struct Graph {
    node: Node,
    has_changed: Arc<AtomicBool>,
    last_look: Option<Instant>,
    next_change: Option<Promise<()>>,
}

impl Graph {
    /// It is looked at when it changes, and as often as this at most.
    const EVERY: Duration = Duration::from_secs(1);

    pub fn new(node: &Node) -> Self {
        Self { node: Arc::clone(node), has_changed: Arc::default(), last_look: None, next_change: None }
    }

    /// Returns whether it is time to look at it. To be called before a look, so that no change is missed.
    pub fn is_due(&mut self) -> bool {
        let is_early = self.last_look.is_some_and(|last| last.elapsed() < Self::EVERY);
        // A subscription of ours appears in the graph like any other, so at first it is looked at anyway.
        if is_early || !(self.has_changed.swap(false, Ordering::Relaxed) || self.last_look.is_none()) {
            return false;
        }
        self.last_look = Some(Instant::now());
        let has_changed = Arc::clone(&self.has_changed);
        let change = on_next_graph_change(&self.node, move || has_changed.store(true, Ordering::Relaxed));
        self.next_change = Some(change);
        true
    }
}

/// The topics, and their subscriptions.
pub struct Watch {
    node: Node,
    statistics: NodeStatistics,
    options: Options,
    graph: Graph,
    topics: BTreeMap<String, Topic>,
}

struct Topic {
    row: Row,
    /// A thread of its own. To take from a wait set costs with each message something for each subscription in it: with 22
    /// topics in one, twice the CPU time. And what fails on one topic does not silence the others. rclrs 0.8 does not end
    /// it before the executor, so that it is kept for subscriptions to come.
    worker: Option<Worker<()>>,
    heard: Option<Heard>,
    /// The type and QoS with which no subscription could be made.
    failed: Option<(String, Qos)>,
}

/// A subscription, and what was read of it.
struct Heard {
    subscription: StatsSubscription<DynamicMessage>,
    windows: Receiver<Option<Arc<WindowStatistics>>>,
    message_type: String,
    qos: Qos,
    /// When it was created, in nanoseconds since the epoch.
    since: i64,
    /// At the end of the last window.
    totals: Totals,
    /// Of subscriptions before this.
    before: Before,
}

#[derive(Clone, Copy, Default)]
struct Before {
    received: u64,
    lost: u64,
    out_of_order: u64,
}

/// What publishers offer, as far as it decides who hears whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    reliable: bool,
    transient_local: bool,
}

impl Qos {
    /// Returns what all of them can serve.
    pub fn that_hears<'a>(offered: impl Iterator<Item = &'a QoSProfile>) -> Self {
        let all = Self { reliable: true, transient_local: true };
        offered.fold(all, |all, one| Self {
            reliable: all.reliable && one.reliability != QoSReliabilityPolicy::BestEffort,
            transient_local: all.transient_local && one.durability == QoSDurabilityPolicy::TransientLocal,
        })
    }

    /// Returns whether a subscription with this hears all that one with the other hears.
    fn hears_all_of(self, other: Self) -> bool {
        (other.reliable || !self.reliable) && (other.transient_local || !self.transient_local)
    }

    pub fn profile(self, depth: u32) -> QoSProfile {
        let profile = QoSProfile::topics_default().keep_last(depth);
        let profile = if self.reliable { profile.reliable() } else { profile.best_effort() };
        if self.transient_local {
            profile.transient_local()
        } else {
            profile.volatile()
        }
    }

    pub fn text(self, depth: u32) -> String {
        let reliability = if self.reliable { "reliable" } else { "best effort" };
        let durability = if self.transient_local { "transient local" } else { "volatile" };
        format!("{reliability}, {durability}, depth {depth}")
    }
}

impl Watch {
    /// How long a subscription takes to meet its publishers, in nanoseconds: a window that begins before is not whole.
    const MEETING: i64 = 500_000_000;

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
            options,
        })
    }

    /// Looks at the graph if that is due, and returns the names of the topics of which a whole window ended.
    pub fn poll(&mut self) -> Vec<String> {
        if self.graph.is_due() {
            self.look();
        }
        self.topics.values_mut().filter_map(|topic| topic.read().then(|| topic.row.name.clone())).collect()
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.topics.values().map(|topic| &topic.row)
    }

    fn look(&mut self) {
        let Ok(graph) = self.node.get_topic_names_and_types() else { return };
        for name in graph.keys() {
            if !self.topics.contains_key(name) && self.is_wanted(name) {
                let topic = Topic::new(Row::new(name));
                self.topics.insert(name.clone(), topic);
            }
        }
        let mut without = vec![];
        for (name, topic) in &mut self.topics {
            let publishers = publishers_of(&self.node, name).unwrap_or_default();
            if publishers.is_empty() && topic.heard.is_none() && !is_named(&self.options.patterns, name) {
                // It has subscriptions only: nothing to see yet.
                without.push(name.clone());
                continue;
            }
            let context = Context { statistics: &self.statistics, node: &self.node, options: &self.options };
            topic.look(publishers, graph.contains_key(name), &context);
        }
        without.iter().for_each(|name| drop(self.topics.remove(name)));
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

/// What a subscription is made of.
struct Context<'a> {
    statistics: &'a NodeStatistics,
    node: &'a Node,
    options: &'a Options,
}

impl Topic {
    fn new(row: Row) -> Self {
        Self { row, worker: None, heard: None, failed: None }
    }

    /// Takes in who publishes, and subscribes if nobody or not all can be heard.
    fn look(&mut self, publishers: Vec<TopicEndpointInfo>, is_there: bool, context: &Context) {
        self.row.publishers = Some(publishers.len());
        self.row.nodes = publishers
            .iter()
            .map(|of| format!("{}/{}", of.node_namespace.trim_end_matches('/'), of.node_name))
            .collect();
        let Some(first) = publishers.first() else {
            let name = &self.row.name;
            self.row.problem = Some(Problem::Waiting(if is_there || self.heard.is_some() {
                format!("{name} has no publisher; waiting for one")
            } else {
                format!("there is no topic {name} yet; waiting for it")
            }));
            return;
        };
        let is_offered = |wanted: &str| publishers.iter().any(|of| of.topic_type == wanted);
        // Of more types than one, the one that is heard already.
        let message_type = match &self.heard {
            Some(heard) if is_offered(&heard.message_type) => heard.message_type.clone(),
            _ => first.topic_type.clone(),
        };
        let of_type = publishers.iter().filter(|of| of.topic_type == message_type);
        let qos = Qos::that_hears(of_type.map(|of| &of.qos_profile));
        let is_heard = self
            .heard
            .as_ref()
            .is_some_and(|heard| heard.message_type == message_type && heard.qos.hears_all_of(qos));
        if !is_heard && self.failed.as_ref() != Some(&(message_type.clone(), qos)) {
            self.subscribe(&message_type, qos, context);
        }
        let is_failed = self.failed.is_some();
        if !is_failed {
            let other = publishers.iter().find(|of| of.topic_type != message_type);
            self.row.problem = other.map(|other| {
                Problem::Error(format!(
                    "{} publishes it as {} too, which is not shown; the types have to be the same",
                    other.node_name, other.topic_type
                ))
            });
        }
    }

    fn subscribe(&mut self, message_type: &str, qos: Qos, context: &Context) {
        let before = self.heard.take().map(|heard| heard.totals_so_far()).unwrap_or_default();
        self.row.message_type = Some(message_type.to_owned());
        self.failed = None;
        match self.try_subscribe(message_type, qos, before, context) {
            Ok(heard) => self.heard = Some(heard),
            Err(error) => {
                self.row.problem = Some(Problem::Error(error));
                self.failed = Some((message_type.to_owned(), qos));
            }
        }
    }

    fn try_subscribe(
        &mut self,
        message_type: &str,
        qos: Qos,
        before: Before,
        context: &Context,
    ) -> Result<Heard, String> {
        let topic = &self.row.name;
        let explain = |error: DynamicMessageError| unknown_type(topic, message_type, &error);
        let type_name = MessageTypeName::try_from(message_type).map_err(explain)?;
        let metadata = DynamicMessageMetadata::new(type_name.clone()).map_err(explain)?;
        let depth = context.options.depth.unwrap_or_else(|| depth_for(metadata.structure()));
        let mut options = SubscriptionOptions::new(topic);
        options.qos = qos.profile(depth);
        // A parameter of the node cannot turn off or stretch what the command line asks for.
        let own = TopicStatisticsOptions::new()
            .state(TopicStatisticsState::Enable)
            .publish_period(context.options.period);
        let worker = self.worker.get_or_insert_with(|| context.node.create_worker(()));
        let subscription = context.statistics.create_dynamic_worker_subscription(
            worker,
            type_name,
            options.topic_statistics(own),
            |_: &mut (), _, _| (),
        );
        let subscription = subscription.map_err(|error| match error {
            StatisticsError::CreateSubscription {
                source: RclrsError::DynamicMessageError { err }, ..
            } => explain(err),
            error => format!("{error}"),
        })?;
        self.row.qos = qos.text(depth);
        Ok(Heard {
            windows: subscription.watch(),
            subscription,
            message_type: message_type.to_owned(),
            qos,
            since: now(),
            totals: Totals::default(),
            before,
        })
    }

    /// Reads what there is new; returns whether a whole window ended.
    fn read(&mut self) -> bool {
        let Some(heard) = &mut self.heard else { return false };
        let totals = heard.subscription.totals();
        let so_far = heard.totals_so_far();
        let row = &mut self.row;
        row.received = so_far.received;
        row.lost = totals.lost.map(|_| so_far.lost);
        row.out_of_order = totals.out_of_order.map(|_| so_far.out_of_order);
        row.last_message = totals.last_message.or(row.last_message);
        row.mean_period = 1000.0 / totals.rate();
        if !heard.windows.has_changed().unwrap_or(false) {
            return false;
        }
        let Some(window) = heard.windows.borrow_and_update().clone() else { return false };
        row.senders = senders(&heard.subscription, &row.nodes);
        let is_whole = window.window.start >= heard.since + Watch::MEETING;
        let reading =
            reading(&window, &std::mem::replace(&mut heard.totals, window.totals.unwrap_or_default()));
        if is_whole {
            row.take(reading);
        }
        is_whole
    }
}

impl Heard {
    fn totals_so_far(&self) -> Before {
        let totals = self.subscription.totals();
        Before {
            received: self.before.received + totals.received,
            lost: self.before.lost + totals.lost.unwrap_or_default(),
            out_of_order: self.before.out_of_order + totals.out_of_order.unwrap_or_default(),
        }
    }
}

/// What a window came to, after one that ended with those totals.
fn reading(statistics: &WindowStatistics, before: &Totals) -> Reading {
    let (window, totals) = (statistics.window, statistics.totals.unwrap_or_default());
    let received = totals.received - before.received;
    let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or_default()));
    let seconds = (window.stop - window.start) as f64 / 1e9;
    let metrics = statistics.metrics.iter().map(|(metric, summary)| Measured {
        name: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        summary: *summary,
    });
    Reading {
        start: window.start,
        stop: window.stop,
        rate: if seconds > 0.0 { received as f64 / seconds } else { f64::NAN },
        received: Some(received),
        lost: since(totals.lost, before.lost),
        out_of_order: since(totals.out_of_order, before.out_of_order),
        metrics: metrics.collect(),
    }
}

/// The publishers that were heard, those heard last first.
fn senders(subscription: &StatsSubscription<DynamicMessage>, nodes: &[String]) -> Vec<Sender> {
    let mut publishers = subscription.publishers();
    publishers.sort_by_key(|publisher| std::cmp::Reverse(publisher.last_message));
    // The graph of rclrs 0.8 does not tell whose a GID is: where all publishers are of one node, it is known all the same,
    // of as many as there are.
    let node = nodes.first().filter(|first| nodes.iter().all(|node| node == *first));
    let sender = |(index, publisher): (usize, &rclrs_topic_statistics::PublisherTotals)| Sender {
        gid: publisher.gid.iter().map(|byte| format!("{byte:02x}")).collect(),
        node: node.filter(|_| index < nodes.len()).cloned(),
        received: publisher.received,
        lost: publisher.lost,
        out_of_order: publisher.out_of_order,
        last_message: publisher.last_message,
    };
    publishers.iter().enumerate().map(sender).collect()
}

/// Returns a depth that loses nothing while the monitor is held up for a moment, and that does not hold gigabytes.
fn depth_for(structure: &MessageStructure) -> u32 {
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

/// Says why messages of a type cannot be taken, and what to do.
fn unknown_type(topic: &str, message_type: &str, error: &DynamicMessageError) -> String {
    let package = message_type.split('/').next().unwrap_or_default();
    match error {
        DynamicMessageError::InvalidMessageTypeSyntax { .. } => {
            format!("{topic} has the type {message_type}, which is no message type of ROS 2")
        }
        DynamicMessageError::InvalidMessageType => format!(
            "{topic} has the type {message_type}, which the package {package} here does not have: source the version of it \
             that the publisher has"
        ),
        error => format!(
            "{topic} has the type {message_type}, and the package {package} cannot be loaded ({error}): install \
             ros-{distro}-{debian}, or source the workspace that has {package}",
            distro = std::env::var("ROS_DISTRO").unwrap_or_else(|_| "$ROS_DISTRO".to_owned()),
            debian = package.replace('_', "-"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_qos_is_the_strongest_that_hears_all() {
        let (reliable, best_effort) = (QoSProfile::topics_default(), QoSProfile::sensor_data_default());
        let latched = reliable.transient_local();
        let of = |offered: &[QoSProfile]| Qos::that_hears(offered.iter());
        assert_eq!(of(&[reliable]), Qos { reliable: true, transient_local: false });
        assert_eq!(of(&[latched, latched]), Qos { reliable: true, transient_local: true });
        assert_eq!(of(&[latched, reliable]), Qos { reliable: true, transient_local: false });
        assert_eq!(of(&[latched, best_effort]), Qos { reliable: false, transient_local: false });
    }

    #[test]
    fn a_subscription_is_made_anew_only_if_it_misses_somebody() {
        let weak = Qos { reliable: false, transient_local: false };
        let strong = Qos { reliable: true, transient_local: true };
        assert!(weak.hears_all_of(strong) && weak.hears_all_of(weak) && strong.hears_all_of(strong));
        assert!(!strong.hears_all_of(weak));
        assert!(!strong.hears_all_of(Qos { transient_local: false, ..strong }));
    }

    #[test]
    fn big_messages_wait_in_shorter_queues() {
        let depth = |name: &str| {
            let metadata = DynamicMessageMetadata::new(name.try_into().unwrap()).unwrap();
            depth_for(metadata.structure())
        };
        assert_eq!(depth("sensor_msgs/msg/Image"), 100);
        assert_eq!(depth("sensor_msgs/msg/Imu"), 1000);
    }

    #[test]
    fn an_unknown_type_names_the_package() {
        let error = DynamicMessageError::RequiredPrefixNotSourced { package: "my_msgs".to_owned() };
        let text = unknown_type("/x", "my_msgs/msg/Foo", &error);
        assert!(
            text.contains("my_msgs/msg/Foo") && text.contains("-my-msgs, or source the workspace"),
            "{text}"
        );
    }
}
