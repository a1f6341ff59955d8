// SPDX-License-Identifier: Apache-2.0

//! A topic that is watched: its subscription, and what is measured of its messages.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::watch::Receiver;
use rclrs_topic_statistics::{
    IntoStatsSubscriptionOptions, Metric, NodeStatistics, StatisticsError, StatsSubscription,
    TopicStatisticsOptions, TopicStatisticsState, Totals, WindowStatistics,
};

use crate::{
    format::name,
    graph::Qos,
    row::{Measured, Problem, Reading, Row, Sender},
};

/// A topic, and its subscription.
pub struct Topic {
    pub row: Row,
    /// Since when it has no publisher.
    pub gone_since: Option<Instant>,
    /// A thread of its own. To take from a wait set costs with each message something for each subscription in it: with 22
    /// topics in one, twice the CPU time. And what fails on one topic does not silence the others. rclrs 0.8 does not end
    /// it before the executor, so that it is kept for subscriptions to come.
    worker: Option<Worker<()>>,
    subscribed: Option<Subscribed>,
    /// The type and QoS with which no subscription could be made.
    failed: Option<(String, Qos)>,
}

/// What a subscription is made of.
pub struct Context<'a> {
    pub statistics: &'a NodeStatistics,
    pub node: &'a Node,
    pub period: Duration,
    pub depth: Option<u32>,
    /// Those that are free.
    pub workers: &'a mut Vec<Worker<()>>,
}

/// A subscription, and what was read of it.
struct Subscribed {
    subscription: StatsSubscription<DynamicMessage>,
    windows: Receiver<Option<Arc<WindowStatistics>>>,
    message_type: String,
    qos: Qos,
    since: Instant,
    /// When it was read last, and the publishers of it.
    last_read: Instant,
    publishers_read: Instant,
    /// The messages that it had received then.
    received: u64,
    /// At the end of the window that was read last.
    totals: Totals,
    /// Of subscriptions before this.
    before: Counts,
}

/// What a topic's subscriptions received; None is what is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    received: u64,
    lost: Option<u64>,
    out_of_order: Option<u64>,
}

impl Counts {
    const NONE: Self = Self { received: 0, lost: Some(0), out_of_order: Some(0) };

    fn plus(self, totals: &Totals) -> Self {
        if totals.received == 0 {
            return self; // what was not received is not known, and not lost either
        }
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        Self {
            received: self.received + totals.received,
            lost: sum(self.lost, totals.lost),
            out_of_order: sum(self.out_of_order, totals.out_of_order),
        }
    }
}

impl Topic {
    /// How long a subscription takes to meet its publishers: a window that begins before is not whole.
    const MEETING: Duration = Duration::from_millis(500);
    /// How often publishers are read, at least: so much may be wrong in how long ago one was heard.
    const PUBLISHERS_EVERY: Duration = Duration::from_millis(250);
    /// How many publishers' nodes are named.
    const NODES: usize = 256;

    pub fn new(row: Row) -> Self {
        Self { row, gone_since: None, worker: None, subscribed: None, failed: None }
    }

    /// Ends its subscription; returns the thread for another's.
    pub fn into_worker(self) -> Option<Worker<()>> {
        self.worker
    }

    /// Takes in who publishes, and subscribes if that serves nobody or not all yet.
    pub fn refresh(&mut self, publishers: Vec<TopicEndpointInfo>, is_there: bool, context: &mut Context) {
        self.row.publishers = Some(publishers.len());
        let nodes = publishers.iter().take(Self::NODES);
        self.row.nodes =
            nodes.map(|of| format!("{}/{}", of.node_namespace.trim_end_matches('/'), of.node_name)).collect();
        let Some(first) = publishers.first() else {
            self.gone_since.get_or_insert_with(Instant::now);
            let name = name(&self.row.name);
            self.row.problem = Some(Problem::Waiting(if is_there || self.subscribed.is_some() {
                format!("{name} has no publisher; waiting for one")
            } else {
                format!("there is no topic {name} yet; waiting for it")
            }));
            return;
        };
        self.gone_since = None;
        let is_offered = |wanted: &str| publishers.iter().any(|of| of.topic_type == wanted);
        // Of more types than one, the one that is subscribed already.
        let message_type = match &self.subscribed {
            Some(subscribed) if is_offered(&subscribed.message_type) => subscribed.message_type.clone(),
            _ => first.topic_type.clone(),
        };
        let of_type = publishers.iter().filter(|of| of.topic_type == message_type);
        let qos = Qos::of_all(of_type.map(|of| &of.qos_profile));
        let is_subscribed = self.subscribed.as_ref().is_some_and(|subscribed| {
            subscribed.message_type == message_type && subscribed.qos.receives_all_of(qos)
        });
        if !is_subscribed && self.failed.as_ref() != Some(&(message_type.clone(), qos)) {
            self.subscribe(&message_type, qos, context);
        }
        let is_failed = self.failed.is_some();
        if !is_failed {
            let other = publishers.iter().find(|of| of.topic_type != message_type);
            self.row.problem = other.map(|other| {
                Problem::Error(format!(
                    "{} publishes it as {} too, which is not shown; the types have to be the same",
                    name(&other.node_name),
                    name(&other.topic_type)
                ))
            });
        }
    }

    fn subscribe(&mut self, message_type: &str, qos: Qos, context: &mut Context) {
        let before = self.subscribed.take().map_or(Counts::NONE, |subscribed| subscribed.counts());
        self.row.message_type = Some(message_type.to_owned());
        self.failed = None;
        match self.try_subscribe(message_type, qos, before, context) {
            Ok(subscribed) => self.subscribed = Some(subscribed),
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
        before: Counts,
        context: &mut Context,
    ) -> Result<Subscribed, String> {
        let topic = &self.row.name;
        let explain = |error: DynamicMessageError| unknown_type(topic, message_type, &error);
        let type_name = MessageTypeName::try_from(message_type).map_err(explain)?;
        let metadata = DynamicMessageMetadata::new(type_name.clone()).map_err(explain)?;
        let depth = context.depth.unwrap_or_else(|| depth_for(metadata.structure()));
        let mut options = SubscriptionOptions::new(topic);
        options.qos = qos.profile(depth);
        // A parameter of the node cannot turn off or stretch what the command line asks for.
        let own =
            TopicStatisticsOptions::new().state(TopicStatisticsState::Enable).publish_period(context.period);
        let Context { node, workers, .. } = context;
        let worker =
            self.worker.get_or_insert_with(|| workers.pop().unwrap_or_else(|| node.create_worker(())));
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
            error => name(&error.to_string()),
        })?;
        self.row.qos = qos.text(depth);
        let now = Instant::now();
        Ok(Subscribed {
            windows: subscription.watch(),
            subscription,
            message_type: message_type.to_owned(),
            qos,
            since: now,
            last_read: now,
            publishers_read: now,
            received: 0,
            totals: Totals::default(),
            before,
        })
    }

    /// Reads what there is new; returns whether a whole window ended.
    pub fn read(&mut self, now: Instant) -> bool {
        let Some(subscribed) = &mut self.subscribed else { return false };
        let totals = subscribed.subscription.totals();
        let row = &mut self.row;
        let counts = subscribed.before.plus(&totals);
        (row.received, row.lost, row.out_of_order) = (counts.received, counts.lost, counts.out_of_order);
        row.mean_period = 1000.0 / totals.rate();
        let last_read = std::mem::replace(&mut subscribed.last_read, now);
        if let Some(last) = totals.last_message.filter(|_| totals.received != subscribed.received) {
            subscribed.received = totals.received;
            row.last_message = Some(between(last_read, now, age(last)));
        }
        let has_window = subscribed.windows.has_changed().unwrap_or(false);
        if has_window || now.saturating_duration_since(subscribed.publishers_read) >= Self::PUBLISHERS_EVERY {
            row.senders = subscribed.senders(&row.senders, &row.nodes, now);
        }
        if !has_window {
            return false;
        }
        let Some(window) = subscribed.windows.borrow_and_update().clone() else { return false };
        let ended = between(last_read, now, age(window.window.stop));
        let is_whole = ended.saturating_duration_since(subscribed.since) >= window.length + Self::MEETING;
        let before = std::mem::replace(&mut subscribed.totals, window.totals.unwrap_or_default());
        if is_whole {
            row.take(reading(&window, &before, ended));
        }
        is_whole
    }
}

impl Subscribed {
    /// Returns what the topic's subscriptions received so far.
    fn counts(&self) -> Counts {
        self.before.plus(&self.subscription.totals())
    }

    /// Returns the publishers of which something was received, the last ones first.
    fn senders(&mut self, before: &[Sender], nodes: &[String], now: Instant) -> Vec<Sender> {
        let last_read = std::mem::replace(&mut self.publishers_read, now);
        // The graph of rclrs 0.8 does not tell whose a GID is: where all publishers are of one node, it is known all the same,
        // of as many as there are.
        let node = nodes.first().filter(|first| nodes.iter().all(|node| node == *first));
        let sender = |publisher: rclrs_topic_statistics::PublisherTotals| {
            let gid: String = publisher.gid.iter().map(|byte| format!("{byte:02x}")).collect();
            let same = before.iter().find(|of| of.gid == gid && of.received == publisher.received);
            let last_heard =
                same.map_or_else(|| between(last_read, now, age(publisher.last_message)), |of| of.last_heard);
            Sender {
                gid,
                node: None,
                received: publisher.received,
                lost: publisher.lost,
                out_of_order: publisher.out_of_order,
                last_message: publisher.last_message,
                last_heard,
            }
        };
        let mut senders: Vec<Sender> = self.subscription.publishers().into_iter().map(sender).collect();
        senders.sort_by_key(|sender| std::cmp::Reverse(sender.last_heard));
        senders.iter_mut().take(nodes.len()).for_each(|sender| sender.node = node.cloned());
        senders
    }
}

/// Returns how long ago a time of the system clock is by that clock, which may have been set since.
fn age(system_time: i64) -> Duration {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    Duration::from_nanos(now.saturating_sub(system_time).try_into().unwrap_or_default())
}

/// Returns when something happened that came to light between two times, and is so old by the system clock.
///
/// A step of that clock misleads by the time in between at most, which is a tick of the monitor.
fn between(earliest: Instant, now: Instant, age: Duration) -> Instant {
    now.checked_sub(age).map_or(earliest, |time| time.max(earliest))
}

/// What a window came to, after one that ended with those totals.
fn reading(window: &WindowStatistics, before: &Totals, ended: Instant) -> Reading {
    let totals = window.totals.unwrap_or_default();
    let since = totals.received.saturating_sub(before.received);
    let gap = window.get(Metric::PublicationSeqGap).filter(|gap| gap.sample_count > 0);
    let gaps = gap.map(|gap| (gap.average * gap.sample_count as f64).round() as u64);
    let metrics = window.metrics.iter().map(|(metric, summary)| Measured {
        name: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        summary: *summary,
    });
    Reading {
        start: window.window.start,
        stop: window.window.stop,
        clock_step: window.clock_step,
        ended,
        length: window.length,
        rate: window.rate(),
        received: Some(window.count),
        lost: in_window(totals.lost, before.lost, window.count, since, gaps),
        out_of_order: in_window(totals.out_of_order, before.out_of_order, window.count, since, None),
        metrics: metrics.collect(),
    }
}

/// Returns how many messages of a kind there were in a window of `received` messages, by totals at its end and at the end of the
/// window that was read last, after which `since` messages were received.
///
/// If those are more, there are windows in between, which were not read because nobody read what the monitor writes. What is
/// said is of the window alone then: what its metrics tell (`own`), or None.
fn in_window(
    total: Option<u64>,
    before: Option<u64>,
    received: u64,
    since: u64,
    own: Option<u64>,
) -> Option<u64> {
    let new = total?.saturating_sub(before.unwrap_or_default());
    match received {
        _ if since == received => Some(new),
        0 => Some(0),
        _ => own,
    }
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
    let (topic, message_type) = (name(topic), name(message_type));
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
    fn a_window_has_its_own_figures_where_others_were_not_read() {
        assert_eq!(in_window(Some(12), Some(10), 50, 50, Some(3)), Some(2), "one was made good");
        assert_eq!(in_window(Some(12), None, 50, 50, Some(12)), Some(12), "the first");
        assert_eq!(in_window(Some(612), Some(10), 50, 2450, Some(1)), Some(1));
        assert_eq!(in_window(Some(612), Some(10), 50, 2450, None), None);
        assert_eq!(in_window(Some(612), Some(10), 0, 2450, None), Some(0), "a silent one");
        assert_eq!(in_window(None, Some(10), 50, 50, None), None);
    }

    #[test]
    fn a_time_is_between_two_readings_whatever_the_system_clock_says() {
        let now = Instant::now();
        let (earliest, second) = (now - Duration::from_secs(2), Duration::from_secs(1));
        assert_eq!(between(earliest, now, second), now - second);
        assert_eq!(between(earliest, now, Duration::ZERO), now);
        assert_eq!(between(earliest, now, 3600 * second), earliest, "set forward by an hour");
        assert_eq!(between(earliest, now, Duration::MAX), earliest);
        assert_eq!(age(i64::MAX), Duration::ZERO, "set back");
        assert!(age(i64::MIN) > Duration::from_secs(200 * 365 * 86_400));
    }

    #[test]
    fn subscriptions_of_a_topic_add_up_and_what_is_not_known_of_one_is_not_known() {
        let counts = Counts { received: 3, lost: Some(2), out_of_order: None };
        assert_eq!(counts.plus(&Totals::default()), counts);
        assert_eq!(Counts::NONE.plus(&Totals::default()).lost, Some(0));
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
