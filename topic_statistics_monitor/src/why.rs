// SPDX-License-Identifier: Apache-2.0

//! `--why`: analyses the whole ROS graph once, and reports why messages do not arrive.
//!
//! `gather` reads the graph and listens to topics. The result is a `snapshot`. `rules` and `transforms` are pure
//! functions of the `snapshot`.

mod gather;
mod rules;
mod transforms;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufWriter, Write},
    time::{Duration, Instant},
};

use clap::ValueEnum;
use rclrs::Node;
use serde_json::json;
use topic_statistics_core::{incompatible::MatchedQos, record::transport::Gid};
use topic_statistics_observe::{
    format::number_of, json::write_object, pattern::Pattern, ros::executor::Spinning,
};

use crate::{
    arguments::Arguments,
    process::{Failure, UNFULFILLED},
    signals::Interrupt,
    statistics::StatisticsReader,
    views::{DISCOVERY, TICK},
};
pub use gather::read;
use gather::Gatherer;
#[cfg(test)]
pub use rules::tests::graph;
use rules::{findings, Finding, Findings};
use transforms::Transforms;

/// How long the program listens to topics by default, and the shortest time with `--duration`.
const LISTENS: Duration = Duration::from_secs(5);
const LISTENS_LEAST: Duration = Duration::from_secs(2);
/// The longest default time from the start until the program starts to listen, even if the graph keeps changing.
const GRACE: Duration = Duration::from_secs(10);
/// How many times the program listens by default, at most. It listens again if new problems appear while it listens.
const ROUNDS: u32 = 3;
/// The graph counts as completely discovered if the graph has not changed for this time.
const SETTLED: Duration = Duration::from_secs(1);

/// The maximum number of findings that are reported. More findings would hide the cause.
const MAX_FINDINGS: usize = 100;

pub fn run(
    node: &Node,
    arguments: &Arguments,
    output: File,
    mut spinning: Spinning,
    interrupt: &Interrupt,
) -> Result<u8, Failure> {
    let started = Instant::now();
    let listens = arguments.duration.map_or(LISTENS, |duration| duration.saturating_sub(DISCOVERY + SETTLED));
    let listens = listens.max(LISTENS_LEAST);
    let grace = arguments.duration.map_or(GRACE, |duration| duration.saturating_sub(listens));
    let mut rounds = if arguments.duration.is_some() { 1 } else { ROUNDS };
    let listen = |graph| {
        let max_topics = arguments.max_topics.map(|max| max as usize);
        Gatherer::new(node, graph, arguments.topics.clone(), max_topics)
    };
    let mut reader = StatisticsReader::new(node, "/statistics", vec![], None);
    let (mut graph, mut read_at) = (Graph::default(), started);
    let mut gatherer: Option<Gatherer> = None;
    while !interrupt.is_set() {
        spinning.check()?;
        let elapsed = started.elapsed();
        if let Some(over) = gatherer.take_if(|gatherer| gatherer.started.elapsed() >= listens) {
            let snapshot = over.finish();
            let found = findings(&snapshot);
            rounds -= 1;
            if found.new_problems == 0 || rounds == 0 {
                return report(arguments, output, &snapshot, &found, started.elapsed());
            }
            gatherer = Some(listen(snapshot.graph));
        }
        match &mut gatherer {
            Some(gatherer) => {
                gatherer.poll();
                reader.poll_windows(|row| gatherer.add_window(row))?;
            }
            None if elapsed >= DISCOVERY && read_at.elapsed() >= SETTLED => {
                let before = std::mem::replace(&mut graph, read(node));
                read_at = Instant::now();
                let is_settled = !graph.nodes.is_empty() && graph == before;
                if is_settled || elapsed >= grace {
                    gatherer = Some(listen(std::mem::take(&mut graph)));
                }
            }
            None => reader.poll_windows(|_| {})?,
        }
        std::thread::sleep(TICK);
    }
    Ok(0)
}

fn report(
    arguments: &Arguments,
    output: File,
    snapshot: &Snapshot,
    Findings { found, new_problems }: &Findings,
    length: Duration,
) -> Result<u8, Failure> {
    let (is_json, shows_notes) = (arguments.json, arguments.all || !arguments.topics.is_empty());
    let to = &mut BufWriter::new(output);
    let problems = found.iter().filter(|finding| finding.is_problem).count();
    let shown = found.iter().filter(|finding| is_json || shows_notes || finding.is_problem);
    for finding in shown.take(MAX_FINDINGS) {
        let Finding { kind, is_problem, topic, nodes, text, .. } = finding;
        let level = if *is_problem { "problem" } else { "note" };
        let kind = kind.to_possible_value();
        match is_json {
            true => write_object(
                to,
                &json!({
                    "finding": kind.as_ref().map(|kind| kind.get_name()), "level": level, "topic": topic,
                    "nodes": nodes, "text": text,
                }),
            )?,
            false => writeln!(to, "{level}: {text}")?,
        }
    }
    let (nodes, topics, listened) =
        (snapshot.graph.nodes.len(), snapshot.graph.topics.len(), snapshot.flows.len());
    let (seconds, notes) = (length.as_secs_f64(), found.len() - problems);
    if is_json {
        write_object(
            to,
            &json!({ "looked_at": {
                "nodes": nodes, "topics": topics, "listened": listened, "seconds": seconds,
                "problems": problems, "new_problems": new_problems, "notes": notes,
            }}),
        )?;
    } else {
        let result = match problems {
            0 => "no problem".to_owned(),
            problems => number_of(problems as u64, "problem"),
        };
        let hidden = match (notes, shows_notes) {
            (0, _) | (_, true) => String::new(),
            (notes, false) => format!("; --all shows {}", number_of(notes as u64, "note")),
        };
        let new = match new_problems {
            0 => "",
            _ => "; something appeared at the end that may be a problem, so look again",
        };
        writeln!(
            to,
            "{result}: looked at {} and {} for {seconds:.1} s, and listened to {listened} of them{new}{hidden}",
            number_of(nodes as u64, "node"),
            number_of(topics as u64, "topic")
        )?;
    }
    to.flush()?;
    Ok(if problems > 0 { UNFULFILLED } else { 0 })
}

#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    pub node: String,
    /// The message type as `package/msg/Name`.
    pub message_type: String,
    pub qos: MatchedQos,
}

/// The publishers and subscriptions of a topic, without the endpoints of topic_monitor and of the `ros2` command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ends {
    pub publishers: Vec<Endpoint>,
    pub subscriptions: Vec<Endpoint>,
}

impl Ends {
    /// Returns whether all publishers keep their last messages for later subscriptions.
    pub fn is_latched(&self) -> bool {
        self.publishers.iter().all(|publisher| publisher.qos.is_transient_local == Some(true))
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    pub topics: BTreeMap<String, Ends>,
    /// The nodes, without topic_monitor and the `ros2` command.
    pub nodes: BTreeSet<String>,
    pub lifecycle: BTreeSet<String>,
}

/// The number of messages of a topic, by the GID of the publisher.
pub type Flows = BTreeMap<Gid, u64>;

/// The messages that a node received on a topic, by the statistics that the node publishes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    pub messages: u64,
    pub seconds: f64,
}

impl Received {
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.messages as f64 / self.seconds
        } else {
            0.0
        }
    }
}

/// The graph before and after listening, and the messages received meanwhile.
#[derive(Default)]
pub struct Snapshot {
    pub earlier: Graph,
    pub graph: Graph,
    pub listened: Duration,
    /// The number of messages of each topic that the program listened to, by the GID of the publisher.
    pub flows: BTreeMap<String, Flows>,
    /// Whether the first 12 bytes of a GID are the participant, which all publishers of a node share.
    pub has_participants: bool,
    /// For each logger, such as `robot.camera` of the node `/robot/camera`, the GID of its publisher of `/rosout`.
    pub loggers: BTreeMap<String, Gid>,
    pub transforms: Transforms,
    /// `use_sim_time` of each node that subscribes to `/clock`. `None` if a node did not answer with a boolean.
    pub sim_time: BTreeMap<String, Option<bool>>,
    /// The messages that nodes received, by node and topic.
    pub received: BTreeMap<(String, String), Received>,
    /// Whether the middleware matches publishers and subscriptions by QoS.
    pub matches_qos: bool,
    pub domain: usize,
    pub other_domains: Vec<usize>,
    /// The topics that the user asked about. Empty for all topics.
    pub asked: Vec<Pattern>,
    /// Sentences that say what could not be determined.
    pub unknown: Vec<String>,
}
