// SPDX-License-Identifier: Apache-2.0

//! The judged process: every topic, with statistics; and what it creates and drops again.
//!
//! The control is the same process without statistics, with as many nodes, publishers and subscriptions.

use std::{
    collections::BTreeMap,
    io::BufRead,
    sync::{mpsc, Arc, Mutex},
    time::Duration,
};

use anyhow::{bail, Context as _, Result};
use rclrs::*;
use rclrs_topic_statistics::{
    IntoMeasuredOptions, MeasuredSubscription, Metric, NodeStatistics, SourceName, TopicStatisticsOptions,
    Totals,
};
use ros_env::{geometry_msgs::msg::PointStamped, statistics_msgs::msg::MetricsMessage};
use serde::{Deserialize, Serialize};
use test_support::Spinning;

use crate::{
    lock::lock,
    measured,
    talker::{topic, TOPICS},
    windows::{self, Windows},
};

/// The name of its node.
pub const LISTENER: &str = "listener";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The incarnation of a publisher with an incompatible QoS: none of its messages may arrive.
const INCOMPATIBLE: u64 = 0;

/// The messages of one publisher that were received.
#[derive(Clone, Copy)]
struct Heard {
    first: u64,
    last: u64,
}

/// The messages that a callback was called with, by the senders' own numbers.
#[derive(Clone, Default)]
struct Tally {
    received: u64,
    late: u64,
    heard: BTreeMap<u64, Heard>,
}

impl Tally {
    fn accept(&mut self, message: &PointStamped) {
        let (number, incarnation) = (message.point.x as u64, message.point.y as u64);
        self.received += 1;
        let heard = self.heard.entry(incarnation).or_insert(Heard { first: number, last: number });
        self.late += u64::from(number < heard.last);
        heard.last = heard.last.max(number);
    }

    /// Returns the messages that the senders have sent and that were not received.
    fn lost(&self) -> u64 {
        let sent: u64 = self.heard.values().map(|heard| heard.last - heard.first + 1).sum();
        sent - self.received
    }
}

/// The totals of the library, as far as they are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    pub received: u64,
    pub lost: Option<u64>,
    pub late: Option<u64>,
    pub duplicates: Option<u64>,
    pub publishers: Option<u64>,
}

impl From<Totals> for Counted {
    fn from(totals: Totals) -> Self {
        let Totals { received, lost, out_of_order, duplicates, publishers, .. } = totals;
        Counted { received, lost, late: out_of_order, duplicates, publishers }
    }
}

/// The listener's report of a subscription.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    /// By the senders' numbers.
    pub received: u64,
    pub lost: u64,
    pub late: u64,
    pub publishers: u64,
    /// By the library; None of the control.
    pub counted: Option<Counted>,
    pub windows: Windows,
    /// The last number of the incarnations that were asked for.
    pub last: Vec<(u64, u64)>,
}

/// The listener's answer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub rows: Vec<Row>,
    /// Bytes of the heap in use.
    pub heap: u64,
}

/// A subscription, with statistics or without.
#[derive(Clone)]
enum Subscribed {
    Measured(MeasuredSubscription<PointStamped>),
    Plain { _subscription: WorkerSubscription<PointStamped, Tallies> },
}

/// A tally for each place of a group.
type Tallies = Vec<Tally>;

/// A subscription of a group.
#[derive(Clone)]
struct Member {
    place: usize,
    name: String,
    subscribed: Subscribed,
    windows: Arc<Mutex<Windows>>,
}

/// A node, its statistics, and its subscriptions on one worker, so that no callback runs while they are compared.
struct Group {
    members: Vec<Member>,
    worker: Worker<Tallies>,
    statistics: Option<NodeStatistics>,
    /// What the library has in addition, created by the control itself.
    _publishers: Vec<Publisher<MetricsMessage>>,
    node: Node,
    _spinning: Spinning,
}

/// How a subscription differs from the others.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Matching,
    /// It requests more than the publishers offer.
    Incompatible,
}

impl Group {
    fn new(context: &Context, name: &str, places: usize, plain: bool, window: Duration) -> Result<Group> {
        let executor = context.create_basic_executor();
        let node = executor.create_node(name)?;
        let worker = node.create_worker(vec![Tally::default(); places]);
        let (mut statistics, mut publishers) = (None, vec![]);
        if plain {
            for topic in ["/statistics", "/events/plain"] {
                publishers.push(node.create_publisher(topic.keep_last(2000).reliable())?);
            }
        } else {
            let options = TopicStatisticsOptions::new().publish_period(window).metrics(METRICS);
            statistics = Some(NodeStatistics::with_options(&node, options)?);
        }
        let _spinning = Spinning::start(executor);
        Ok(Group { members: vec![], worker, statistics, _publishers: publishers, node, _spinning })
    }

    /// Adds a subscription; its place has a new tally.
    fn add(&mut self, place: usize, index: usize, kind: Kind, name: Option<&str>) -> Result<()> {
        self.on_worker(move |tallies| tallies[place] = Tally::default())?;
        let topic = topic(index);
        let mut options = topic.as_str().keep_last(10).reliable();
        if kind == Kind::Incompatible {
            options = options.transient_local();
        }
        let callback = move |tallies: &mut Tallies, message: PointStamped| tallies[place].accept(&message);
        let windows = Arc::<Mutex<Windows>>::default();
        let (subscribed, name) = match &self.statistics {
            None => {
                let _subscription = self.worker.create_subscription::<PointStamped, _>(options, callback)?;
                (Subscribed::Plain { _subscription }, topic.clone())
            }
            Some(statistics) => {
                let mut measured = TopicStatisticsOptions::new();
                if let Some(name) = name {
                    measured = measured.source_name(SourceName::Custom(name.to_owned()));
                }
                let subscription = statistics.create_worker_subscription::<PointStamped, _, _>(
                    &self.worker,
                    options.topic_statistics(measured),
                    callback,
                )?;
                let name = subscription.source_name().to_owned();
                windows::follow(subscription.watch(), &windows);
                (Subscribed::Measured(subscription), name)
            }
        };
        self.members.push(Member { place, name, subscribed, windows });
        Ok(())
    }

    /// Compares the subscriptions on the worker, between two callbacks.
    fn rows(&self, incarnations: &[u64]) -> Result<Vec<Row>> {
        let (members, incarnations) = (self.members.clone(), incarnations.to_vec());
        self.on_worker(move |tallies| {
            members.iter().map(|member| member.row(&tallies[member.place], &incarnations)).collect()
        })
    }

    fn on_worker<Out: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Tallies) -> Out + Send + 'static,
    ) -> Result<Out> {
        let (sender, receiver) = mpsc::channel();
        drop(self.worker.run(move |tallies| sender.send(job(tallies))));
        receiver
            .recv_timeout(PATIENCE)
            .with_context(|| format!("The worker of {} does not answer", self.node.fully_qualified_name()))
    }
}

/// The metrics: age and period, as by default, and losses.
const METRICS: [Metric; 3] = [Metric::MessageAge, Metric::MessagePeriod, Metric::PublicationSeqGap];

impl Member {
    fn counted(&self) -> Option<Counted> {
        match &self.subscribed {
            Subscribed::Measured(subscription) => Some(subscription.totals().into()),
            Subscribed::Plain { .. } => None,
        }
    }

    fn row(&self, tally: &Tally, incarnations: &[u64]) -> Row {
        let last = incarnations
            .iter()
            .filter_map(|incarnation| Some((*incarnation, tally.heard.get(incarnation)?.last)));
        Row {
            name: self.name.clone(),
            received: tally.received,
            lost: tally.lost(),
            late: tally.late,
            publishers: tally.heard.len() as u64,
            counted: self.counted(),
            windows: *lock(&self.windows),
            last: last.collect(),
        }
    }
}

/// The places of the listener's group: one for each topic, and two more.
const INCOMPATIBLE_PLACE: usize = TOPICS;
const CHURNED_PLACE: usize = TOPICS + 1;

/// Answers each line on standard input by one line, until its end.
pub fn run(plain: bool, window: Duration) -> Result<()> {
    let context = Context::default_from_env()?;
    let mut steady = Group::new(&context, LISTENER, TOPICS + 2, plain, window)?;
    for index in 0..TOPICS {
        steady.add(index, index, Kind::Matching, None)?;
    }
    let deaf = format!("/{LISTENER}:incompatible");
    steady.add(INCOMPATIBLE_PLACE, 0, Kind::Incompatible, Some(&deaf))?;
    let mut churned = None;
    let mut incompatible = None;
    let mut next = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (verb, arguments) = line.split_once(' ').unwrap_or((&line, ""));
        let mut report = Report::default();
        match verb {
            "create" => {
                next = (next + 7) % TOPICS;
                steady.add(CHURNED_PLACE, next, Kind::Matching, Some("churned"))?;
                let mut group = Group::new(&context, "churned", 3, plain, window)?;
                group.add(0, (next + 1) % TOPICS, Kind::Matching, None)?;
                group.add(1, (next + 2) % TOPICS, Kind::Matching, None)?;
                group.add(2, (next + 3) % TOPICS, Kind::Incompatible, None)?;
                let topic = topic((next + 4) % TOPICS);
                let options = topic.as_str().keep_last(10).best_effort();
                incompatible = Some(group.node.create_publisher::<PointStamped>(options)?);
                churned = Some(group);
            }
            "publish" => {
                for number in 1..=10 {
                    let mut message = PointStamped::default();
                    (message.point.x, message.point.y) = (f64::from(number), INCOMPATIBLE as f64);
                    if let Some(publisher) = &incompatible {
                        publisher.publish(&message)?;
                    }
                }
            }
            "drop" => {
                report.rows = churned.as_ref().map(|group| group.rows(&[])).transpose()?.unwrap_or_default();
                report.rows.extend(steady.rows(&[])?.drain(CHURNED_PLACE..));
                steady.members.truncate(CHURNED_PLACE);
                (churned, incompatible) = (None, None);
            }
            "stall" => {
                let time = Duration::from_millis(arguments.parse()?);
                steady.on_worker(move |_| std::thread::sleep(time))?;
            }
            "report" => {
                let incarnations: Vec<u64> =
                    arguments.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
                report.rows = steady.rows(&incarnations)?;
            }
            _ => bail!("The listener has no command {line:?}"),
        }
        report.heap = measured::heap();
        println!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}
