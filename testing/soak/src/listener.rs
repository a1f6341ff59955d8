// SPDX-License-Identifier: Apache-2.0

//! The process under test: it subscribes to every topic with statistics, and creates and drops further subscriptions.
//! The control is the same program without statistics, with equally many nodes, publishers and subscriptions.

use std::{
    collections::BTreeMap,
    io::BufRead,
    sync::{mpsc, Arc, Mutex},
    time::Duration,
};

use anyhow::{bail, Context as _, Result};
use rclrs::*;
use rclrs_topic_statistics::{
    IntoStatsOptions, Metric, NodeStatistics, SourceName, StatisticsOptions, StatsWorkerSubscription,
    WindowStatistics,
};
use ros_env::{geometry_msgs::msg::PointStamped, statistics_msgs::msg::MetricsMessage};
use serde::{Deserialize, Serialize};
use test_support::{on_each, Spinning, LIMIT};

use crate::{
    measured::{self, lock},
    talker::{topic, TOPICS},
};

pub const LISTENER: &str = "listener";
/// The metrics that the listener measures: the default metrics, and losses.
const METRICS: [Metric; 3] = [Metric::MessageAge, Metric::MessagePeriod, Metric::PublicationSeqGap];

/// The messages that a subscription's callback has received. The numbers in the messages show which messages are
/// missing.
#[derive(Clone, Default)]
struct Tally {
    received: u64,
    late: u64,
    /// For each sender, the first and the last number that was received.
    senders: BTreeMap<u64, [u64; 2]>,
}

type Tallies = Vec<Tally>;

impl Tally {
    fn count(&mut self, message: &PointStamped) {
        let (number, incarnation) = (message.point.x as u64, message.point.y as u64);
        self.received += 1;
        let [_, last] = self.senders.entry(incarnation).or_insert([number, number]);
        self.late += u64::from(number < *last);
        *last = number.max(*last);
    }

    /// Returns how many messages were received, lost, out of order and duplicated, and how many publishers there were,
    /// as the numbers in the messages show.
    fn totals(&self) -> [u64; 5] {
        let sent: u64 = self.senders.values().map(|[first, last]| last - first + 1).sum();
        [self.received, sent - self.received, self.late, 0, self.senders.len() as u64]
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Windows {
    pub windows: u64,
    /// The number of windows that did not start at the stop of the previous window, or whose message count differs from
    /// the increase of the totals.
    pub wrong: u64,
    /// The number of windows without ages: the clock was stepped, or messages were counted but not measured.
    pub without_ages: u64,
    /// Messages counted but not measured.
    pub unrecorded: u64,
    /// The number of messages received so far, from the totals in the last window.
    pub received: u64,
    /// The stop of the last window, in nanoseconds since the epoch; 0 before the first window.
    pub stop: i64,
}

impl Windows {
    fn count(&mut self, window: &WindowStatistics) {
        let received = window.totals.map_or(0, |totals| totals.received);
        let [start, stop] = [window.window.start, window.window.stop].map(|time| time.as_nanoseconds());
        let is_next = self.stop == start && self.received + window.count == received;
        self.wrong += u64::from(!is_next && self.windows > 0);
        self.without_ages += u64::from(window.unrecorded > 0 || window.clock_step.is_some());
        self.unrecorded += window.unrecorded;
        self.windows += 1;
        (self.received, self.stop) = (received, stop);
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    /// The figures of [`Tally::totals`], which the callback has counted.
    pub truth: [u64; 5],
    /// The library's totals, in the same order. `None` in the control, and if the library does not know a total.
    pub counted: [Option<u64>; 5],
    pub windows: Windows,
    /// For each incarnation of a talker, the number in the last received message.
    pub last: BTreeMap<u64, u64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub rows: Vec<Row>,
    /// The heap in use, in bytes.
    pub heap: u64,
}

#[derive(Clone)]
struct Member {
    place: usize,
    name: String,
    measured: Option<StatsWorkerSubscription<PointStamped, Tallies>>,
    _plain: Option<WorkerSubscription<PointStamped, Tallies>>,
    windows: Arc<Mutex<Windows>>,
}

/// A node, its statistics, and its subscriptions. All subscriptions are on one worker, so that no callback runs while
/// the totals are read.
struct Group {
    members: Vec<Member>,
    worker: Worker<Tallies>,
    statistics: Option<NodeStatistics>,
    /// In the control only: the publishers that the library would create.
    _publishers: Vec<Publisher<MetricsMessage>>,
    _spinning: Spinning,
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
            let options = StatisticsOptions::new().publish_period(window).metrics(METRICS);
            statistics = Some(NodeStatistics::with_options(&node, options)?);
        }
        let _spinning = Spinning::start(executor);
        Ok(Group { members: vec![], worker, statistics, _publishers: publishers, _spinning })
    }

    fn add(&mut self, place: usize, index: usize, name: Option<&str>) -> Result<()> {
        self.on_worker(move |tallies| tallies[place] = Tally::default())?;
        let topic = topic(index);
        let options = topic.as_str().keep_last(10).reliable();
        let callback = move |tallies: &mut Tallies, message: PointStamped| tallies[place].count(&message);
        let windows = Arc::<Mutex<Windows>>::default();
        let Some(statistics) = &self.statistics else {
            let _plain = Some(self.worker.create_subscription(options, callback)?);
            self.members.push(Member { place, name: topic.clone(), measured: None, _plain, windows });
            return Ok(());
        };
        let custom = name.map(|name| SourceName::Custom(name.to_owned()));
        let measured = StatisticsOptions::new().source_name(custom.unwrap_or_default());
        let options = options.statistics(measured);
        let subscription = statistics.create_worker_subscription(&self.worker, options, callback)?;
        let (name, to) = (subscription.statistics().source_name().to_owned(), Arc::clone(&windows));
        on_each(subscription.statistics().watch(), move |window| {
            window.iter().for_each(|window| lock(&to).count(window));
        });
        self.members.push(Member { place, name, measured: Some(subscription), _plain: None, windows });
        Ok(())
    }

    /// Returns the figures of each subscription, as read by the worker between two callbacks.
    fn rows(&self) -> Result<Vec<Row>> {
        let members = self.members.clone();
        self.on_worker(move |all| members.iter().map(|member| member.row(&all[member.place])).collect())
    }

    fn on_worker<Out: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Tallies) -> Out + Send + 'static,
    ) -> Result<Out> {
        let (sender, receiver) = mpsc::channel();
        drop(self.worker.run(move |tallies| sender.send(job(tallies))));
        receiver.recv_timeout(LIMIT).context("A worker does not answer")
    }
}

impl Member {
    fn row(&self, tally: &Tally) -> Row {
        let counted = self.measured.as_ref().map_or([None; 5], |subscription| {
            let all = subscription.statistics().totals().unwrap();
            [Some(all.received), all.lost, all.out_of_order, all.duplicates, all.publishers]
        });
        Row {
            name: self.name.clone(),
            truth: tally.totals(),
            counted,
            windows: *lock(&self.windows),
            last: tally.senders.iter().map(|(incarnation, [_, last])| (*incarnation, *last)).collect(),
        }
    }
}

/// Answers each line of standard input with one line, until standard input ends.
pub fn run(plain: bool, window: Duration) -> Result<()> {
    let context = Context::default_from_env()?;
    let mut steady = Group::new(&context, LISTENER, TOPICS + 1, plain, window)?;
    for index in 0..TOPICS {
        steady.add(index, index, None)?;
    }
    let mut churned = None;
    let mut next = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut report = Report::default();
        match line.as_str() {
            "create" => {
                next = (next + 7) % TOPICS;
                steady.add(TOPICS, next, Some("churned"))?;
                let mut group = Group::new(&context, "churned", 3, plain, window)?;
                for place in 0..3 {
                    group.add(place, (next + 1 + place) % TOPICS, None)?;
                }
                churned = Some(group);
            }
            "drop" => {
                report.rows = churned.as_ref().map(Group::rows).transpose()?.unwrap_or_default();
                report.rows.extend(steady.rows()?.drain(TOPICS..));
                steady.members.truncate(TOPICS);
                churned = None;
            }
            // The queue of a subscription holds the messages of 100 ms, so this stall of 300 ms loses messages.
            "stall" => steady.on_worker(move |_| std::thread::sleep(Duration::from_millis(300)))?,
            "report" => report.rows = steady.rows()?,
            _ => bail!("The listener has no command {line:?}"),
        }
        report.heap = measured::heap();
        println!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}
